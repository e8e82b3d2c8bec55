//! `Locks`: the one handle.

#[cfg(feature = "records")]
mod presences;
#[cfg(all(test, feature = "records"))]
mod tests;

use std::sync::Arc;
#[cfg(feature = "records")]
use std::sync::mpsc::Receiver;
use std::time::Duration;

use tokio::task::{JoinError, yield_now};

#[cfg(feature = "records")]
use self::presences::Presences;
use crate::acquire::{self, LockRequest, Sought};
#[cfg(feature = "records")]
use crate::claim::Ticket;
use crate::claim::{Owner, rounded};
use crate::client::Client;
#[cfg(feature = "records")]
use crate::clock::Moment;
use crate::clock::{Clock, TestClock};
use crate::connection::ConnectionEvents;
use crate::core::Core;
#[cfg(any(feature = "records", feature = "ids"))]
use crate::detached::run_apart;
use crate::detached::{Detached, at_once, here};
#[cfg(any(feature = "records", feature = "ids"))]
use crate::engine::RecordStore;
use crate::engine::{
    BoxFuture, Engine, Evicted, Eviction, Finding, Held, Listing, Page, Profile, Selector, Status,
};
use crate::engines::memory::Memory;
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Sequencer;
use crate::guard::Guard;
#[cfg(feature = "records")]
use crate::home::Handle;
use crate::name::{Name, Namespace};

/// How many leases are given back in one go.
const SOME: usize = 1000;

/// The handle on an engine; cheap to clone, makes everything else.
///
/// When the last handle and the last guard have gone, releases that are still
/// on their way are waited for (normally one round trip), so that a guard dropped
/// as `main` ends does not block the next run. That wait is bounded: a second, and
/// one more for the engine to let go. What an engine cannot take back in that time,
/// such as a hundred thousand guards dropped at once, is left to end with its ttl,
/// and an event and a metric say how many leases that are (`left to expire` with the
/// feature `trace`, `leasehold_left_to_expire_total` with `metrics`).
/// [`Locks::shutdown`] waits for as long as you like, and tells you.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// let locks = leasehold::open("memory:").await?;
/// let guard = locks.mutex("order/42").lock().await?;
/// # drop(guard);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Locks {
    client: Arc<Client>,
    namespace: Namespace,
    label: Option<Arc<str>>,
    owner: Option<Owner>,
    routes: Arc<[(Arc<str>, Self)]>,
    wait_limit: Option<Duration>,
    #[cfg(feature = "records")]
    presences: Presences,
}

impl Locks {
    /// Locks among the tasks and threads of this process.
    ///
    /// # Panics
    ///
    /// If the operating system gives no thread.
    #[must_use]
    pub fn memory() -> Self {
        Self::with_memory(Clock::System)
    }

    /// Like [`Locks::memory`], on a clock that a test moves by hand.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// use std::time::Duration;
    /// use leasehold::{Locks, TestClock};
    ///
    /// let clock = TestClock::new();
    /// let locks = Locks::memory_on(clock.clone());
    /// let guard = locks.mutex("order/42").ttl(Duration::from_secs(30)).lock().await?;
    /// guard.check()?;
    ///
    /// clock.advance(Duration::from_secs(31));
    /// assert!(guard.check().unwrap_err().is_lost(), "the machine has slept for too long");
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    ///
    /// If the operating system gives no thread.
    #[must_use]
    pub fn memory_on(clock: TestClock) -> Self {
        Self::with_memory(clock.into())
    }

    fn with_memory(clock: Clock) -> Self {
        let engine = Arc::new(Memory::new(clock.clone()));
        Self::on(engine, clock).expect("the operating system gives no thread")
    }

    /// Locks on an engine of your own.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the library's thread cannot be started.
    pub fn on(engine: Arc<dyn Engine>, clock: impl Into<Clock>) -> Result<Self> {
        let client = Arc::new(Client::start(engine, clock.into())?);
        Ok(Self {
            client,
            namespace: Namespace::default(),
            label: None,
            owner: None,
            routes: Arc::new([]),
            wait_limit: None,
            #[cfg(feature = "records")]
            presences: Presences::default(),
        })
    }

    /// The same engine, with names of another namespace.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// let (shop, forum) = (locks.namespace("shop")?, locks.namespace("forum")?);
    /// let guard = shop.mutex("user/7").lock().await?;
    /// assert!(forum.mutex("user/7").try_lock().await?.is_some(), "another name");
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// `Invalid` if it has other characters than `a-z A-Z 0-9 . _ -`.
    pub fn namespace(&self, namespace: impl Into<Arc<str>>) -> Result<Self> {
        Ok(Self { namespace: Namespace::new(namespace)?, ..self.clone() })
    }

    /// The same engine, with another label for what is asked for from here on.
    #[must_use]
    pub fn label(&self, label: impl Into<Arc<str>>) -> Self {
        Self { label: Some(label.into()), ..self.clone() }
    }

    /// The same engine, where `owner` may take what it already holds, within
    /// this process. Counting is local: an inner guard costs no request and has
    /// the same fence; the longest ttl counts; a reader cannot enter as a writer;
    /// the lease ends with the last guard. Permits are not re-entered.
    #[must_use]
    pub fn owned_by(&self, owner: &Owner) -> Self {
        Self { owner: Some(owner.clone()), ..self.clone() }
    }

    /// Sends names that start with `prefix` to other locks, whose options they
    /// then have: orders on an engine that must not fail, caches on a fast one.
    /// The longest prefix wins. [`Locks::list`] shows one engine at a time.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # use leasehold::Locks;
    /// let (safe, fast) = (Locks::memory(), Locks::memory());
    /// let locks = safe.route("cache/", &fast);
    /// let guard = locks.mutex("cache/42").lock().await?;
    /// assert!(fast.mutex("cache/42").try_lock().await?.is_none());
    /// assert!(safe.mutex("cache/42").try_lock().await?.is_some());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn route(&self, prefix: impl Into<Arc<str>>, to: &Self) -> Self {
        let mut routes = self.routes.to_vec();
        routes.push((prefix.into(), to.clone()));
        routes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Self { routes: routes.into(), ..self.clone() }
    }

    /// The locks that a name is sent to.
    pub(crate) fn routed(&self, name: &str) -> &Self {
        let found = self.routes.iter().find(|(prefix, _)| name.starts_with(&**prefix));
        found.map_or(self, |(_, to)| to.routed(name))
    }

    /// The same engine, where waiting ends after `limit` unless a call says
    /// otherwise.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// use std::time::Duration;
    ///
    /// let hasty = locks.wait_limit(Duration::from_millis(10));
    /// let guard = hasty.mutex("order/42").lock().await?;
    /// assert!(hasty.mutex("order/42").lock().await.unwrap_err().is_timed_out());
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn wait_limit(&self, limit: Duration) -> Self {
        Self { wait_limit: Some(limit), ..self.clone() }
    }

    /// What the opened engine promises and costs.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// use leasehold::engine::profile::{Order, Reach};
    ///
    /// let profile = locks.profile();
    /// assert_eq!((profile.scheme, profile.order), ("memory", Order::Fifo));
    /// assert!(profile.reach < Reach::Host, "no other process sees these locks");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn profile(&self) -> &Profile {
        self.client.core.engine.profile()
    }

    /// The engine behind these locks: for a layer around it, and for tests of
    /// its contract.
    #[must_use]
    pub fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.client.core.engine)
    }

    /// Who holds and who waits for `name`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// let guard = locks.mutex("order/42").label("checkout").lock().await?;
    /// let status = locks.status("order/42").await?;
    /// assert_eq!(&*status.holders[0].label, "checkout");
    /// assert_eq!(status.holders[0].fence, Some(guard.fence()));
    /// assert!(status.waiters.is_empty());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad name; the engine's error if it cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped call has changed nothing.
    pub async fn status(&self, name: impl AsRef<str>) -> Result<Status> {
        let locks = self.routed(name.as_ref());
        let name = locks.name(name.as_ref())?;
        let engine = &locks.client.core.engine;
        let which = Selector::Name(name.clone());
        let found = locks.at_home(|| engine.inspect(which, Page::default())).await?;
        Ok(found.names.into_iter().next().unwrap_or_else(|| Status::new(name)))
    }

    /// Asks the engine whether the holder that `sequencer` speaks of still
    /// holds: for a server that keeps no mark of its own.
    ///
    /// The answer may be old when it arrives. A server that can store a fence
    /// compares fences instead; see [`Fenced`](crate::Fenced).
    ///
    /// # Errors
    ///
    /// `Lost` if it does not hold any more; `Invalid` for a bad name; the
    /// engine's error if it cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped call has changed nothing.
    pub async fn check_sequencer(&self, sequencer: &Sequencer) -> Result<()> {
        let status = self.status(&sequencer.name).await?;
        let holds =
            |held: &Held| held.fence == Some(sequencer.fence) && held.mode == sequencer.mode;
        if status.holders.iter().any(holds) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Lost, format!("{sequencer} is not held any more")))
    }

    /// One page of the names that start with `prefix`, held or remembered.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// use leasehold::engine::Page;
    ///
    /// let one = locks.mutex("order/1").lock().await?;
    /// let two = locks.mutex("order/2").lock().await?;
    ///
    /// let found = locks.list("order/", Page::default()).await?;
    /// let busy: Vec<_> = found.names.iter().filter(|status| status.is_busy()).collect();
    /// assert_eq!(busy.len(), 2);
    /// assert!(!found.more, "this is the last page");
    /// # drop((one, two));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The engine's error if it cannot list or cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped call has changed nothing.
    pub async fn list(&self, prefix: impl Into<Arc<str>>, page: Page) -> Result<Listing> {
        let selector = Selector::Prefix(self.namespace.clone(), prefix.into());
        self.at_home(|| self.client.core.engine.inspect(selector, page)).await
    }

    /// Takes leases away from their holders, or asks them to let go.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// use leasehold::engine::{Eviction, Target};
    ///
    /// let guard = locks.mutex("report").lock().await?;
    /// let hung = Eviction::new(locks.name("report")?, Target::All, "ann", "it hangs")?;
    /// assert_eq!(locks.evict(hung).await?.leases.len(), 1);
    ///
    /// guard.lost().await;
    /// assert!(guard.check().unwrap_err().to_string().contains("evicted by ann: it hangs"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The engine's error if it cannot be reached; `Unsupported` if it cannot ask.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have taken leases away, or asked for them.
    pub async fn evict(&self, mut eviction: Eviction) -> Result<Evicted> {
        let locks = self.routed(eviction.name.as_str());
        if !std::ptr::eq(locks, self) {
            eviction.name = locks.name(eviction.name.as_str())?;
        }
        locks.at_home(|| locks.client.core.engine.evict(eviction)).await
    }

    /// What an operator should know about the server behind the engine.
    ///
    /// # Errors
    ///
    /// The engine's error if it cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped call has changed nothing.
    pub async fn examine(&self) -> Result<Vec<Finding>> {
        self.at_home(|| self.client.core.engine.examine()).await
    }

    /// The connection to the engine as it comes and goes, from now on: for a
    /// service that pauses its work or says so on a page.
    ///
    /// What becomes of single leases is told by their guards.
    #[must_use]
    pub fn events(&self) -> ConnectionEvents {
        self.client.core.events()
    }

    /// A name of this handle's namespace.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is none.
    pub fn name(&self, text: &str) -> Result<Name> {
        Name::new(&self.namespace, text)
    }

    /// Gives everything back and lets go of the engine: the polite end.
    ///
    /// Stops renewing, releases what is still held and waits for it, `limit`
    /// at most. What could not be released ends with its ttl, and the error says
    /// how many leases that are and when the last of them has ended; connections
    /// are closed in any case.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// use std::time::Duration;
    ///
    /// let guard = locks.mutex("order/42").lock().await?;
    /// locks.shutdown(Duration::from_secs(5)).await?;
    /// assert!(guard.check().is_err(), "it was given back");
    /// assert!(locks.mutex("order/42").lock().await.is_err(), "nothing is locked any more");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// `TimedOut` if something was still on its way.
    ///
    /// # Cancel safety
    ///
    /// Once it has begun it goes on in the background, even if the future is
    /// dropped.
    pub async fn shutdown(&self, limit: Duration) -> Result<()> {
        let core = Arc::clone(&self.client.core);
        Detached::of(core.home.clone(), async move { shut_down(&core, limit).await }).await
    }

    /// The owner of this handle, or a fresh one with its label: host, process
    /// and thread unless set.
    pub(crate) fn owner(&self) -> Owner {
        if let Some(owner) = &self.owner {
            return owner.clone();
        }
        self.label.as_ref().map_or_else(Owner::of_this_thread, Owner::new)
    }

    /// Whether what is asked for may be re-entered.
    pub(crate) const fn is_owned(&self) -> bool {
        self.owner.is_some()
    }

    /// Whether someone has said who asks.
    pub(crate) const fn is_labelled(&self) -> bool {
        self.label.is_some() || self.owner.is_some()
    }

    pub(crate) const fn own_wait_limit(&self) -> Option<Duration> {
        self.wait_limit
    }

    /// Where names without one live.
    #[cfg(feature = "records")]
    pub(crate) const fn own_namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The leases that stand for this client.
    #[cfg(feature = "records")]
    pub(crate) const fn presences(&self) -> &Presences {
        &self.presences
    }

    /// The engine's records, if it has them.
    #[cfg(any(feature = "records", feature = "ids"))]
    pub(crate) fn record_store(&self) -> Result<&dyn RecordStore> {
        self.client.core.record_store()
    }

    /// The way to home.
    #[cfg(feature = "records")]
    pub(crate) fn home(&self) -> &Handle {
        &self.client.core.home
    }

    /// Runs a task on home until it ends by itself.
    #[cfg(any(feature = "records", feature = "ids"))]
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.client.core.home.spawn(task);
    }

    /// Runs a task that the end of the client waits for, a second at most.
    #[cfg(any(feature = "records", feature = "ids"))]
    pub(crate) fn finish(&self, task: impl Future<Output = ()> + Send + 'static) {
        let counted = self.client.core.tasks.begin();
        let task = async move {
            task.await;
            drop(counted);
        };
        run_apart(&self.client.core.home, Box::pin(task));
    }

    /// Waits until a task on home has ended; see [`Client::wait_for`].
    #[cfg(feature = "records")]
    pub(crate) fn wait_for(&self, ended: &Receiver<()>) {
        self.client.wait_for(ended);
    }

    /// What becomes of the client, for those who look on.
    #[cfg(any(feature = "records", feature = "ids"))]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.client.core
    }

    /// What binds a record to the lease of a guard.
    #[cfg(feature = "records")]
    pub(crate) fn ticket_of(&self, guard: &Guard) -> Result<Ticket> {
        if guard.is_of(&self.client) {
            return Ok(guard.ticket());
        }
        let text = "a record can only be bound to a lease on its own engine";
        Err(Error::invalid(text).with("lease", guard.name()))
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.client.core.clock
    }

    /// Waits a while, wherever the caller is polled.
    #[cfg(feature = "records")]
    pub(crate) async fn rest(&self, span: Duration) -> Result<()> {
        let clock = self.clock().clone();
        let until = clock.now().after(span);
        let rest = async move {
            clock.sleep_until(until).await;
            Ok(())
        };
        self.at_home(|| Box::pin(rest)).await
    }

    /// What `task` comes to, or `None` if `until` comes first.
    #[cfg(feature = "records")]
    pub(crate) async fn until<T: Send + 'static>(
        &self,
        until: Moment,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.client.core.until(until, task).await
    }

    /// Carries out a request.
    pub(crate) async fn acquire(&self, request: &LockRequest) -> Result<Sought<Guard>> {
        let client = &self.client;
        client.check()?;
        let sought = acquire::acquire(&client.core, request, || client.check_home()).await?;
        Ok(sought.map(|releaser| Guard::new(releaser, Arc::clone(client))))
    }

    /// Runs an engine's future where its runtime is.
    pub(crate) async fn at_home<T: Send + 'static>(
        &self,
        ask: impl FnOnce() -> BoxFuture<Result<T>>,
    ) -> Result<T> {
        // Before it is asked for: what has left may have taken effect.
        self.client.check()?;
        let home = &self.client.core.home;
        match here(|cx| at_once(home, cx, ask)).await {
            Ok(done) => done,
            Err(under_way) => Detached::of(home.clone(), under_way).await,
        }
    }
}

async fn shut_down(core: &Arc<Core>, limit: Duration) -> Result<()> {
    core.close();
    let until = core.clock.now().after(limit);
    tokio::select! {
        biased;
        closed = close(core) => closed,
        () = core.clock.sleep_until(until) => {
            core.schedule.all().into_iter().for_each(|hold| core.end_apart(hold));
            // Whoever has no more time to wait wants its connections back, too.
            core.home.spawn(core.close_engine());
            Err(Error::new(ErrorKind::TimedOut, unfinished(core.left_behind())))
        }
    }
}

/// What was still on its way when the time was up.
fn unfinished(left: Option<(usize, Duration)>) -> String {
    match left {
        Some((leases, within)) => format!(
            "{leases} leases could not be given back in time; they end by themselves, the last \
             within {:?}",
            rounded(within)
        ),
        None => "not all that was under way came to its end in time".into(),
    }
}

/// Gives everything back, and closes the engine once nothing is on its way. To
/// close takes its time, and goes on if nobody waits for it.
async fn close(core: &Arc<Core>) -> Result<()> {
    for some in core.schedule.all().chunks(SOME) {
        some.iter().for_each(|hold| core.end_apart(Arc::clone(hold)));
        // Home is one thread, and the engine works there, too.
        yield_now().await;
    }
    core.tasks.done().await;
    let died = |died: JoinError| Err(Error::new(ErrorKind::Unexpected, died.to_string()));
    core.home.spawn(core.close_engine()).await.unwrap_or_else(died)
}
