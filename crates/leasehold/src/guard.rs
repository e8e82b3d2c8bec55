//! The guard: the user's handle on a held lease.

use std::sync::Arc;
use std::time::Duration;

use crate::acquire::Releaser;
#[cfg(any(feature = "once", feature = "ids"))]
use crate::claim::RawRecord;
#[cfg(feature = "once")]
use crate::claim::Store;
#[cfg(feature = "records")]
use crate::claim::Ticket;
use crate::claim::{Mode, Predecessor, Released, Renewal};
use crate::client::Client;
use crate::clock::Moment;
use crate::core::Core;
use crate::detached::Detached;
use crate::engine::Loss;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::fence::Sequencer;
use crate::hold::{Hold, Standing};
use crate::keeper::{self, settle};
use crate::layers::guardrail::{check_ttl, no_answer};
use crate::mutant::{self, Mutant};
use crate::name::Name;

/// A held lease. It is renewed in the background until it is released,
/// dropped or lost.
///
/// A guard is proof of a lease, not of the lease's future: the machine may be
/// suspended or cut off at any moment. Work that must not happen twice checks
/// [`Guard::check`] before each step, or hands [`Guard::fence`] to the resource,
/// which refuses older ones.
///
/// Dropping it gives the lease back in the background; [`Guard::release`] does
/// so and says what was found.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// use leasehold::{Locks, Released};
///
/// let locks = Locks::memory();
/// let guard = locks.mutex("order/42").lock().await?;
/// guard.check()?;
/// println!("write with fence {}", guard.fence());
/// assert_eq!(guard.release().await?, Released::Released);
/// # Ok(()) }
/// ```
#[must_use = "the lease is given back when the guard is dropped"]
#[derive(Debug)]
pub struct Guard {
    // Dropped first: the lease is on its way back before the client may end.
    releaser: Releaser,
    _client: Arc<Client>,
}

impl Guard {
    pub(crate) fn new(releaser: Releaser, client: Arc<Client>) -> Self {
        releaser.hold.show();
        Self { releaser, _client: client }
    }

    /// What is held.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.hold().name
    }

    /// How it is held.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.hold().mode()
    }

    /// The fencing token: larger than that of every earlier conflicting grant.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.hold().fence()
    }

    /// Name, mode and fence as one text, for a server that checks it.
    #[must_use]
    pub fn sequencer(&self) -> Sequencer {
        Sequencer::new(self.mode(), self.fence(), self.name().as_str())
    }

    /// How the holder before ended. After `Expired` or `Evicted` the protected
    /// state may be half changed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// use leasehold::Predecessor;
    ///
    /// let order = locks.mutex("order/42");
    /// order.lock().await?.release().await?;
    ///
    /// let guard = order.lock().await?;
    /// if let Predecessor::Expired | Predecessor::Evicted = guard.predecessor() {
    ///     // Whoever had it before may have stopped half way: look what is there.
    /// #   panic!("it was released");
    /// }
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn predecessor(&self) -> Predecessor {
        self.hold().predecessor()
    }

    /// How long it is certainly still ours, if nothing more is heard.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold().remaining()
    }

    /// When it stops being certainly ours, on [`Guard::remaining`]'s clock.
    #[must_use]
    pub fn deadline(&self) -> Moment {
        self.hold().deadline()
    }

    /// How the lease stands now.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.hold().standing()
    }

    /// Still ours? Costs no request: it looks at the clock.
    ///
    /// # Errors
    ///
    /// `Lost`, with the reason.
    pub fn check(&self) -> Result<()> {
        check(self.hold())
    }

    /// Resolves when the lease is not ours any more; tells why.
    ///
    /// The future owns what it needs and can outlive the guard. It then ends
    /// when the guard does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// # async fn build_report() {}
    /// let guard = locks.mutex("report").lock().await?;
    /// tokio::select! {
    ///     standing = guard.lost() => println!("stop: {standing:?}"),
    ///     () = build_report() => guard.check()?,
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time, and asked for again.
    pub fn lost(&self) -> impl Future<Output = Standing> + Send + 'static {
        let hold = Arc::clone(self.hold());
        async move {
            hold.ended().await;
            hold.standing()
        }
    }

    /// Resolves when somebody asks the holder to let go, with an
    /// [`Eviction::asking`](crate::engine::Eviction::asking) or as Curator does. The
    /// holder may take its time, or not listen at all. The future can be dropped at
    /// any time, and asked for again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// use leasehold::Locks;
    /// use leasehold::engine::{Eviction, Target};
    ///
    /// let locks = Locks::memory();
    /// let guard = locks.mutex("report").lock().await?;
    /// let ask = Eviction::new(locks.name("report")?, Target::All, "ann", "a fix is waiting")?;
    /// locks.evict(ask.asking()).await?;
    ///
    /// guard.revocation().await;
    /// assert!(guard.is_revocation_asked());
    /// guard.check()?; // still ours, until we let go
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn revocation(&self) -> impl Future<Output = ()> + Send + 'static {
        let hold = Arc::clone(self.hold());
        async move { hold.wanted().await }
    }

    /// Whether somebody has asked the holder to let go.
    #[must_use]
    pub fn is_revocation_asked(&self) -> bool {
        self.hold().is_wanted()
    }

    /// What `task` comes to, or `None` once `limit` has passed on the clock that leases run on.
    pub(crate) fn within<T: Send + 'static>(
        &self,
        limit: Duration,
        task: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send + 'static {
        let core = &self.releaser.core;
        core.until(core.clock.now().after(limit), task)
    }

    /// Runs `work` under this lease, then releases it. If the lease is lost
    /// meanwhile, the work is dropped at its next await point.
    ///
    /// # Errors
    ///
    /// `Lost` if the lease ended before the work.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, then gives the lease back.
    pub async fn run<T>(self, work: impl AsyncFnOnce(&Self) -> T) -> Result<T> {
        let done = tokio::select! {
            biased;
            _ = self.lost() => None,
            done = work(&self) => Some(done),
        };
        match done {
            Some(done) => self.release_as_held().await.map(|()| done),
            None => self.check().and_then(|()| Err(lost(self.name(), &Loss::Gone))),
        }
    }

    /// Makes the lease run for at least `ttl` from now: for fixed leases. One
    /// that fails leaves everything as it was.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// use std::time::Duration;
    ///
    /// let minute = Duration::from_secs(60);
    /// let guard = locks.mutex("import").renew(false).ttl(minute).lock().await?;
    /// guard.extend(10 * minute).await?;
    /// assert!(guard.remaining() > 9 * minute);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// `Invalid` for a ttl that the engine would refuse in a claim; `Lost` if the
    /// lease has ended; the engine's error if it cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have extended the lease.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        self.check()?;
        let core = Arc::clone(&self.releaser.core);
        if !mutant::lives(Mutant::ExtendPassesLimits) {
            check_ttl(ttl, core.engine.profile())?;
        }
        let hold = Arc::clone(self.hold());
        let home = core.home.clone();
        Detached::of(home, async move { extend(&core, &hold, ttl).await }).await
    }

    /// Turns a write lease into a read lease without letting go; waiting
    /// readers come in.
    ///
    /// # Errors
    ///
    /// `Invalid` for any other change of mode: two readers that both want to
    /// write would wait for each other for ever. `Lost` if the lease has ended;
    /// the engine's error if it cannot be reached. With the effect `Unknown`
    /// readers may stand beside it: it is a read lease from then on, and the
    /// conversion is repeated in the background until it is known.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have converted the lease.
    pub async fn convert(&mut self, to: Mode) -> Result<()> {
        self.check()?;
        let core = Arc::clone(&self.releaser.core);
        let hold = Arc::clone(self.hold());
        let home = core.home.clone();
        Detached::of(home, async move { convert(&core, &hold, to).await }).await
    }

    /// Gives the lease back and says what was found. One of several guards of
    /// an owner gives back its share; the lease ends with the last.
    ///
    /// # Errors
    ///
    /// The engine's error if it cannot be reached; the release is then tried
    /// again in the background.
    ///
    /// # Cancel safety
    ///
    /// The lease is given back even if the future is dropped.
    pub async fn release(mut self) -> Result<Released> {
        self.releaser.released = true;
        self.releaser.core.end(self.hold()).await
    }

    /// Releases, and takes it for an error if there was nothing to release:
    /// the work may have gone on after the lease.
    pub(crate) async fn release_as_held(self) -> Result<()> {
        let name = self.name().clone();
        match self.release().await? {
            Released::Released => Ok(()),
            Released::AlreadyLost => Err(lost(&name, &Loss::Expired)),
        }
    }

    /// Gives the lease back and leaves a record, in one request, if the lease is
    /// still ours. One that cannot be reached is tried again in the background.
    #[cfg(feature = "once")]
    pub(crate) async fn release_storing(mut self, store: &Store) -> Result<Released> {
        self.releaser.released = true;
        self.releaser.core.end_storing(self.hold(), Some(store)).await
    }

    /// Ends the lease as that of a holder who died: its successor is told.
    #[cfg(feature = "once")]
    pub(crate) fn cut_off(mut self) {
        self.releaser.released = true;
        self.releaser.core.cut_off(Arc::clone(self.hold()));
    }

    /// The record that came with the grant; `None` if it has to be loaded.
    #[cfg(any(feature = "once", feature = "ids"))]
    pub(crate) const fn take_loaded(&mut self) -> Option<Option<RawRecord>> {
        self.releaser.loaded.take()
    }

    /// Why it is not ours any more, for whoever has heard so.
    #[cfg(feature = "records")]
    pub(crate) fn why_lost(&self) -> Error {
        self.check().err().unwrap_or_else(|| lost(self.name(), &Loss::Gone))
    }

    /// What the holder of a guard may look at without having it.
    #[cfg(feature = "records")]
    pub(crate) fn watched(&self) -> Arc<Hold> {
        Arc::clone(self.hold())
    }

    /// Lease id, name and mode, for what is bound to the lease.
    #[cfg(feature = "records")]
    pub(crate) fn ticket(&self) -> Ticket {
        self.hold().ticket()
    }

    /// Whether it was made by this client.
    #[cfg(feature = "records")]
    pub(crate) fn is_of(&self, client: &Arc<Client>) -> bool {
        Arc::ptr_eq(&self._client, client)
    }

    /// What is known of the lease, for a task that must not keep it alive.
    #[cfg(feature = "ids")]
    pub(crate) fn known(&self) -> Arc<Hold> {
        Arc::clone(self.hold())
    }

    const fn hold(&self) -> &Arc<Hold> {
        &self.releaser.hold
    }
}

async fn extend(core: &Arc<Core>, hold: &Arc<Hold>, ttl: Duration) -> Result<()> {
    hold.turn().await;
    let ends = hold.end_after(ttl);
    if mutant::lives(Mutant::ExtendMovesFirst) {
        hold.extend(ends);
    }
    match ask_to_extend(core, hold, ttl).await {
        Err(error) => {
            hold.end_turn();
            core.schedule.keep(hold);
            Err(error.with("name", &hold.name))
        }
        Ok(answer) => {
            if let Renewal::Held { .. } = answer {
                hold.extend(ends);
            }
            conclude(core, hold, answer)
        }
    }
}

/// Asks for more time, in the mode that the engine has.
async fn ask_to_extend(core: &Core, hold: &Hold, ttl: Duration) -> Result<Renewal> {
    if hold.mode_before().is_some() {
        keeper::convert(core, hold, hold.mode()).await?;
    }
    match core.engine.renew(vec![hold.refresh_for(ttl)]).await.pop().unwrap_or_else(no_answer) {
        Renewal::Unknown(error) => Err(error),
        answer => Ok(answer),
    }
}

async fn convert(core: &Arc<Core>, hold: &Arc<Hold>, to: Mode) -> Result<()> {
    hold.turn().await;
    match keeper::convert(core, hold, to).await {
        // Refused, not failed: the lease is as it was.
        Err(error) if error.effect() == Effect::NotApplied => {
            hold.end_turn();
            core.schedule.keep(hold);
            Err(error)
        }
        answer => conclude(core, hold, answer.unwrap_or_else(Renewal::Unknown)),
    }
}

/// Takes in the answer to a verb of the user's, and says how it went.
fn conclude(core: &Arc<Core>, hold: &Arc<Hold>, answer: Renewal) -> Result<()> {
    let failed = if let Renewal::Unknown(error) = &answer { Some(error.clone()) } else { None };
    settle(core, hold, answer);
    hold.end_turn();
    core.schedule.keep(hold);
    match (failed, hold.standing()) {
        (Some(error), _) => Err(error.with("name", &hold.name)),
        (None, Standing::Lost(loss)) => Err(lost(&hold.name, &loss)),
        (None, _) => Ok(()),
    }
}

/// Still ours?
pub(crate) fn check(hold: &Hold) -> Result<()> {
    match hold.standing() {
        Standing::Held | Standing::Jeopardy => Ok(()),
        Standing::Lost(loss) => Err(lost(&hold.name, &loss)),
        Standing::Released => Err(not_held(&hold.name)),
    }
}

pub(crate) fn lost(name: &Name, loss: &Loss) -> Error {
    let why = match loss {
        Loss::Expired => "it was not renewed in time".into(),
        Loss::Evicted { actor, reason } => format!("evicted by {actor}: {reason}"),
        Loss::Disconnected => "the connection was away for too long".into(),
        Loss::MaxHold => "it was held for as long as max_hold allows".into(),
        Loss::Gone => "the engine does not know it any more".into(),
    };
    Error::new(ErrorKind::Lost, format!("the lease on {:?} is lost: {why}", name.as_str()))
}

fn not_held(name: &Name) -> Error {
    let text = format!("the lease on {:?} has been given back", name.as_str());
    Error::new(ErrorKind::NotHeld, text)
}
