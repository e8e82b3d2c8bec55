//! The handle, for threads.

use std::sync::Arc;
use std::time::Duration;

use super::all::All;
use super::call::block_on;
use super::connection::ConnectionEvents;
use super::mutex::Mutex;
use super::rwlock::RwLock;
use super::semaphore::Semaphore;
use crate::claim::Owner;
use crate::clock::{Clock, TestClock};
use crate::engine::{Engine, Evicted, Eviction, Finding, Listing, Page, Profile, Status};
use crate::error::Result;
use crate::fence::Sequencer;
use crate::name::Name;
use crate::open::Opening;
use crate::recipes::request_builder::RequestBuilder;

/// Opens the engine that `url` names; see [`crate::open`] for what it may be,
/// and [`Opening::blocking`] to demand promises of it.
///
/// ```
/// let locks = leasehold::blocking::open("memory:?namespace=shop")?;
/// # Ok::<(), leasehold::Error>(())
/// ```
///
/// # Errors
///
/// `Invalid` for a bad URL, or inside an async runtime; the engine's error if
/// it cannot be reached.
pub fn open(url: impl Into<String>) -> Result<Locks> {
    crate::open(url).blocking()
}

impl Opening {
    /// Opens it for threads, and blocks meanwhile.
    ///
    /// ```
    /// use leasehold::engine::profile::Reach;
    ///
    /// let error = leasehold::open("memory:").require(Reach::Host).blocking().unwrap_err();
    /// assert!(error.to_string().contains("Host"));
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`blocking::open`](open), and `Unsupported` if it does not
    /// promise what was demanded.
    pub fn blocking(self) -> Result<Locks> {
        block_on(self.into_future()).map(Locks)
    }
}

/// The handle on an engine, for threads; see [`crate::Locks`]. Cheap to clone.
///
/// ```
/// use leasehold::blocking::Locks;
///
/// let locks = Locks::memory();
/// let guard = locks.mutex("order/42").lock()?;
/// let other = std::thread::spawn({
///     let order = locks.mutex("order/42");
///     move || order.lock().map(|guard| guard.fence())
/// });
/// let fence = guard.fence();
/// drop(guard);
/// assert!(other.join().unwrap()? > fence);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Locks(crate::Locks);

impl From<crate::Locks> for Locks {
    /// The same client: async and blocking calls share its connections, and
    /// their guards exclude each other.
    fn from(locks: crate::Locks) -> Self {
        Self(locks)
    }
}

impl Locks {
    /// Locks among the threads and tasks of this process.
    ///
    /// # Panics
    ///
    /// If the operating system gives no thread.
    #[must_use]
    pub fn memory() -> Self {
        Self(crate::Locks::memory())
    }

    /// Like [`Locks::memory`], on a clock that a test moves by hand.
    ///
    /// # Panics
    ///
    /// If the operating system gives no thread.
    #[must_use]
    pub fn memory_on(clock: TestClock) -> Self {
        Self(crate::Locks::memory_on(clock))
    }

    /// Locks on an engine of your own.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the library's thread cannot be started.
    pub fn on(engine: Arc<dyn Engine>, clock: impl Into<Clock>) -> Result<Self> {
        crate::Locks::on(engine, clock).map(Self)
    }

    /// The same client, for tasks.
    #[must_use]
    pub const fn as_async(&self) -> &crate::Locks {
        &self.0
    }

    /// The same engine, with names of another namespace.
    ///
    /// # Errors
    ///
    /// `Invalid` if it has other characters than `a-z A-Z 0-9 . _ -`.
    pub fn namespace(&self, namespace: impl Into<Arc<str>>) -> Result<Self> {
        self.0.namespace(namespace).map(Self)
    }

    /// The same engine, with another label for what is asked for from here on.
    #[must_use]
    pub fn label(&self, label: impl Into<Arc<str>>) -> Self {
        Self(self.0.label(label))
    }

    /// The same engine, where `owner` may take what it already holds, from
    /// whatever thread; see [`crate::Locks::owned_by`]. `.reentrant()` on a
    /// recipe makes the thread the owner instead.
    #[must_use]
    pub fn owned_by(&self, owner: &Owner) -> Self {
        Self(self.0.owned_by(owner))
    }

    /// Sends names that start with `prefix` to other locks; see
    /// [`crate::Locks::route`].
    #[must_use]
    pub fn route(&self, prefix: impl Into<Arc<str>>, to: &Self) -> Self {
        Self(self.0.route(prefix, &to.0))
    }

    /// The same engine, where waiting ends after `limit` unless a recipe says
    /// otherwise.
    #[must_use]
    pub fn wait_limit(&self, limit: Duration) -> Self {
        Self(self.0.wait_limit(limit))
    }

    /// What the opened engine promises and costs.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        self.0.profile()
    }

    /// A name of this handle's namespace.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is none.
    pub fn name(&self, text: &str) -> Result<Name> {
        self.0.name(text)
    }

    /// The connection to the engine as it comes and goes, from now on.
    #[must_use]
    pub fn events(&self) -> ConnectionEvents {
        ConnectionEvents::new(self.0.events())
    }

    /// A mutex on `name`: one holder at a time.
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(RequestBuilder::new(&self.0, name.as_ref()))
    }

    /// A read-write lock on `name`: many readers or one writer.
    #[must_use]
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(RequestBuilder::new(&self.0, name.as_ref()))
    }

    /// A semaphore of `permits` on `name`.
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore::new(RequestBuilder::new(&self.0, name.as_ref()), permits)
    }

    /// The mutexes of all these names together; a name given twice counts once.
    #[must_use]
    pub fn all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> All {
        All::new(self.0.all(names))
    }
}

/// What the engine is asked for: errors are those of the async call, and
/// `Invalid` inside an async runtime.
macro_rules! forward {
    ($($(#[$doc:meta])* $call:ident($($arg:ident: $of:ty),*) -> $answer:ty;)*) => {
        impl Locks {$(
            $(#[$doc])*
            ///
            /// # Errors
            ///
            /// Those of the async call; `Invalid` inside an async runtime.
            pub fn $call(&self, $($arg: $of),*) -> Result<$answer> {
                block_on(self.0.$call($($arg),*))
            }
        )*}
    };
}

forward! {
    /// Who holds and who waits for `name`.
    status(name: impl AsRef<str>) -> Status;
    /// Asks the engine whether the holder that `sequencer` speaks of still
    /// holds; see [`crate::Locks::check_sequencer`].
    check_sequencer(sequencer: &Sequencer) -> ();
    /// One page of the names that start with `prefix`, held or remembered.
    list(prefix: impl Into<Arc<str>>, page: Page) -> Listing;
    /// Takes leases away from their holders.
    evict(eviction: Eviction) -> Evicted;
    /// What an operator should know about the server behind the engine.
    examine() -> Vec<Finding>;
    /// Gives everything back and lets go of the engine: the polite end. What
    /// could not be released within `limit` ends with its ttl.
    shutdown(limit: Duration) -> ();
}
