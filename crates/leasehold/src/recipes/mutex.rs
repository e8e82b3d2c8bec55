//! The mutex: one holder at a time.

use std::sync::Arc;
use std::time::Duration;

use crate::acquire::{Effort, Request};
use crate::claim::{Mode, Owner};
use crate::engine::{BoxFuture, Status};
use crate::error::{Error, Result};
use crate::guard::{Guard, lost};
use crate::hold::{Standing, Terms};
use crate::locks::Locks;
use crate::name::Name;

/// The ttl if none is given.
const TTL: Duration = Duration::from_secs(30);

/// A lock that one holder at a time can have.
///
/// A value of this type holds nothing yet: it is a name with options. Making
/// one costs no request, and clones are the same lock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// use std::time::Duration;
/// use leasehold::Locks;
///
/// let locks = Locks::memory();
/// let order = locks.mutex("order/42").ttl(Duration::from_secs(10));
///
/// let guard = order.lock().await?;
/// assert!(order.try_lock().await?.is_none(), "held: an answer, not an error");
/// drop(guard);
///
/// let guard = order.lock().within(Duration::from_secs(3)).await?;
/// # drop(guard);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Mutex {
    locks: Locks,
    name: Result<Name>,
    owner: Owner,
    terms: Terms,
    meta: Option<Arc<str>>,
    fair: bool,
}

impl Locks {
    /// A mutex on `name`: one holder at a time.
    ///
    /// A name that is not valid is an error of the first call that uses it.
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(self.clone(), name.as_ref())
    }
}

impl Mutex {
    fn new(locks: Locks, name: &str) -> Self {
        let terms = Terms {
            ttl: TTL,
            lock_delay: Duration::ZERO,
            renewed: true,
            max_hold: None,
            hold_at_least: Duration::ZERO,
        };
        let (name, owner) = (locks.name(name), Owner::new(locks.own_label()));
        Self { locks, name, owner, terms, meta: None, fair: false }
    }

    /// Free at most this long after the holder's last sign of life: 30 s unless
    /// set. It is renewed every third of it.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.terms.ttl = ttl;
        self
    }

    /// Whether the lease is renewed; a fixed lease ends after its ttl, or after
    /// [`Guard::extend`].
    #[must_use]
    pub const fn renew(mut self, renew: bool) -> Self {
        self.terms.renewed = renew;
        self
    }

    /// The longest time to hold; then the lease is lost, although its holder
    /// lives. For work that may hang.
    #[must_use]
    pub const fn max_hold(mut self, most: Duration) -> Self {
        self.terms.max_hold = Some(most);
        self
    }

    /// Demands exact arrival order over all processes. Without it tasks of one
    /// process share one place in the queue.
    #[must_use]
    pub const fn fair(mut self) -> Self {
        self.fair = true;
        self
    }

    /// What others see as the holder: by default host, process and thread.
    #[must_use]
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.owner = Owner::new(label);
        self
    }

    /// A remark for people, shown by `leasehold show`; at most 1 KiB.
    #[must_use]
    pub fn meta(mut self, meta: impl Into<Arc<str>>) -> Self {
        self.meta = Some(meta.into());
        self
    }

    /// Keeps an expired (not a released) name closed for this much longer, so
    /// that late writes of a dead holder cannot meet its successor's.
    #[must_use]
    pub const fn lock_delay(mut self, delay: Duration) -> Self {
        self.terms.lock_delay = delay;
        self
    }

    /// Keeps the name closed for this long from the grant on, even if it is
    /// released earlier: for short jobs on hosts whose clocks differ.
    #[must_use]
    pub const fn hold_at_least(mut self, least: Duration) -> Self {
        self.terms.hold_at_least = least;
        self
    }

    /// Waits until the mutex is ours; see [`Lock`] for limits.
    ///
    /// # Errors
    ///
    /// `TimedOut` after a wait limit; `Invalid` for a bad name or option; the
    /// engine's error if it cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind. Its place in the queue is lost.
    ///
    /// # Fencing
    ///
    /// The guard's fence is larger than that of every holder before.
    pub fn lock(&self) -> Lock {
        Lock { mutex: self.clone(), limit: self.locks.own_wait_limit(), attempts: None }
    }

    /// Takes the mutex if it is free, and never waits: contention is `None`.
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad name or option; the engine's error if it cannot be
    /// reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind.
    pub async fn try_lock(&self) -> Result<Option<Guard>> {
        self.locks.acquire(self.request(Effort::Try)?).await
    }

    /// Locks, runs `work`, and releases. If the lease is lost meanwhile, the
    /// work is dropped at its next await point and the result is `Lost`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// let fence = locks.mutex("report").run(async |guard| guard.fence()).await?;
    /// # assert!(fence > 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`], and `Lost`.
    #[expect(clippy::future_not_send, reason = "as Send as the work it is given")]
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T> {
        let guard = self.lock().await?;
        let done = tokio::select! {
            biased;
            standing = guard.lost() => Err(standing),
            done = work(&guard) => Ok(done),
        };
        match done {
            Ok(done) => guard.release().await.map(|_| done),
            Err(Standing::Lost(loss)) => Err(lost(guard.name(), &loss)),
            Err(_) => guard.check().and_then(|()| Err(Error::invalid("shut down while running"))),
        }
    }

    /// Who holds it and who waits.
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad name; the engine's error if it cannot be reached.
    pub async fn status(&self) -> Result<Status> {
        self.locks.status(self.name.clone()?.as_str()).await
    }

    fn request(&self, effort: Effort) -> Result<Request> {
        Ok(Request {
            name: self.name.clone()?,
            mode: Mode::Exclusive,
            owner: self.owner.clone(),
            terms: self.terms,
            meta: self.meta.clone(),
            fair: self.fair,
            effort,
        })
    }
}

/// A lock to be awaited.
#[must_use = "does nothing unless awaited"]
#[derive(Debug)]
pub struct Lock {
    mutex: Mutex,
    limit: Option<Duration>,
    attempts: Option<(u32, Duration)>,
}

impl Lock {
    /// Waits at most this long; then the error `TimedOut` says who held it.
    pub const fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Does not queue, but tries this many times; see [`Lock::every`].
    pub const fn attempts(mut self, count: u32) -> Self {
        let pause = match self.attempts {
            Some((_, pause)) => pause,
            None => Duration::from_millis(100),
        };
        self.attempts = Some((count, pause));
        self
    }

    /// The pause between two attempts: 100 ms unless set.
    pub const fn every(mut self, pause: Duration) -> Self {
        let count = match self.attempts {
            Some((count, _)) => count,
            None => u32::MAX,
        };
        self.attempts = Some((count, pause));
        self
    }

    fn effort(&self) -> Effort {
        if let Some((count, every)) = self.attempts {
            return Effort::Attempts { count, every };
        }
        let since = self.mutex.locks.clock().now();
        let until = self.limit.map_or(crate::clock::Moment::NEVER, |limit| since.after(limit));
        Effort::Wait { since, until }
    }

    async fn wait(self) -> Result<Guard> {
        let request = self.mutex.request(self.effort())?;
        match self.mutex.locks.acquire(request).await? {
            Some(guard) => Ok(guard),
            None => Err(Error::invalid("a wait ended without an answer")),
        }
    }
}

impl IntoFuture for Lock {
    type Output = Result<Guard>;
    type IntoFuture = BoxFuture<Result<Guard>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.wait())
    }
}
