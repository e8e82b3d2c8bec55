//! What every task of one client shares.

mod task_tracker;

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use self::task_tracker::TaskTracker;
use crate::claim::{Ending, Place, Released, Store};
use crate::clock::{Clock, Moment};
use crate::connection::{ConnectionEvents, ConnectionState};
use crate::detached::{Detached, at_once, here, run_apart};
#[cfg(any(feature = "records", feature = "ids"))]
use crate::engine::RecordStore;
use crate::engine::{BoxFuture, Bus, Engine, Event, Loss};
use crate::error::{Error, ErrorKind, Result};
use crate::gate::Gate;
use crate::hold::{Hold, PriorStanding};
use crate::home::Handle;
use crate::losses::Losses;
use crate::observe::Observer;
use crate::owners::Owners;
use crate::schedule::Schedule;
#[cfg(feature = "records")]
use crate::watches::SharedWatches;

/// The pause between two tries to release what could not be released.
const RELEASE_AGAIN: Duration = Duration::from_millis(200);

/// Engine, clock, schedule and gate of one client. Tasks on home own it; the
/// user's handles own the client around it, so that the last handle can wait
/// for the tasks.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: Clock,
    pub(crate) home: Handle,
    pub(crate) schedule: Schedule,
    pub(crate) gate: Gate,
    pub(crate) owners: Owners,
    pub(crate) losses: Losses,
    pub(crate) tasks: TaskTracker,
    pub(crate) observer: Observer,
    #[cfg(feature = "records")]
    pub(crate) watches: Arc<SharedWatches>,
    connection: Mutex<ConnectionState>,
    /// Tells users of the connection, and of nothing else: one who does not listen
    /// must not pile up the losses of a hundred thousand leases.
    changes: Bus,
    closed: AtomicBool,
    closing: Notify,
    engine_closed: AtomicBool,
}

impl Core {
    pub(crate) fn new(engine: Arc<dyn Engine>, clock: Clock, home: Handle) -> Self {
        Self {
            observer: Observer::new(engine.profile().scheme),
            // It was opened, so it is there until it says otherwise.
            connection: Mutex::new(ConnectionState::Connected),
            changes: Bus::new(clock.clone()),
            engine,
            clock,
            home,
            schedule: Schedule::new(),
            gate: Gate::default(),
            owners: Owners::default(),
            losses: Losses::default(),
            tasks: TaskTracker::default(),
            #[cfg(feature = "records")]
            watches: Arc::default(),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
            engine_closed: AtomicBool::new(false),
        }
    }

    /// Refuses everything and ends every wait from now on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.closing.notify_waiters();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() { Err(shut_down()) } else { Ok(()) }
    }

    /// Resolves when the client is shut down; says so.
    pub(crate) async fn closing(&self) -> Error {
        let mut closing = std::pin::pin!(self.closing.notified());
        closing.as_mut().enable();
        if !self.is_closed() {
            closing.await;
        }
        shut_down()
    }

    /// The engine's records, if it has them.
    #[cfg(any(feature = "records", feature = "ids"))]
    pub(crate) fn record_store(&self) -> Result<&dyn RecordStore> {
        self.engine.records().ok_or_else(|| {
            let scheme = self.engine.profile().scheme;
            let text = format!("the {scheme} engine keeps no records; use one that does");
            Error::new(ErrorKind::Unsupported, text)
        })
    }

    /// Lets go of the engine for good, whatever is still on its way. What comes
    /// back is to be driven to its end.
    pub(crate) fn close_engine(&self) -> BoxFuture<Result<()>> {
        self.schedule.close();
        if self.engine_closed.swap(true, Ordering::AcqRel) {
            return Box::pin(ready(Ok(())));
        }
        self.engine.close()
    }

    fn is_engine_closed(&self) -> bool {
        self.engine_closed.load(Ordering::Acquire)
    }

    /// Looks after a hold whose lease or place was just told. Less may be kept of
    /// it by now, and that may have been told first.
    pub(crate) fn look_after(&self, hold: &Arc<Hold>) {
        self.schedule.keep(hold);
        let less = |place: &Place| place.sent_at.after(place.ttl) < hold.deadline();
        if let Some(place) = self.losses.cut(hold.id).filter(less) {
            self.shorten(hold, place);
        }
    }

    /// Takes on what was granted just now; false if it was lost meanwhile. From
    /// here on news reach it. What came before is remembered, and looked up
    /// afterwards, so that nothing falls between.
    pub(crate) fn take_on(self: &Arc<Self>, hold: &Arc<Hold>, asked_at: Moment) -> bool {
        self.look_after(hold);
        let lost = self.losses.concern(hold.id, asked_at);
        if lost {
            self.lose(hold, Loss::Gone);
        }
        !lost
    }

    /// The engine keeps less than it has said, of a lease or of a place.
    pub(crate) fn shorten(&self, hold: &Arc<Hold>, place: Place) {
        let drift = self.drift(place.ttl);
        hold.renewed(place.sent_at, place.ttl, drift);
        hold.placed(place, drift);
        self.schedule.keep(hold);
    }

    /// What to take off a granted ttl because clocks differ.
    pub(crate) fn drift(&self, ttl: Duration) -> Duration {
        self.engine.profile().drift(ttl)
    }

    /// The lease is lost. The engine may not know it yet, so it is told. A
    /// waiter that lost its place asks again.
    pub(crate) fn lose(self: &Arc<Self>, hold: &Arc<Hold>, loss: Loss) {
        self.lose_as_told(hold, loss, Moment::NEVER);
    }

    /// The engine told then that it is lost.
    pub(crate) fn lose_as_told(self: &Arc<Self>, hold: &Arc<Hold>, loss: Loss, told: Moment) {
        let untold = matches!(loss, Loss::Expired | Loss::MaxHold);
        if !hold.lose(loss.clone(), told) {
            return hold.nudge();
        }
        self.observer.lost(hold, &loss);
        self.schedule.forget(hold);
        self.owners.leave(hold);
        if untold {
            self.spawn_release(Arc::clone(hold), Ending::cut_off());
        }
    }

    /// The last renewal failed, or the next one would.
    pub(crate) fn jeopardize(&self, hold: &Hold) {
        if hold.jeopardize() {
            self.observer.jeopardy(hold);
        }
    }

    /// The connection to the engine has changed.
    pub(crate) fn note(&self, state: ConnectionState, event: &Event) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.changes.publish(event);
        self.observer.connection(state);
    }

    /// The engine tells nothing any more.
    pub(crate) fn no_more_news(&self) {
        self.changes.close();
    }

    /// What becomes of the connection from now on.
    pub(crate) fn events(&self) -> ConnectionEvents {
        let events = self.changes.subscribe();
        // A closed engine has nothing to say, and no end to tell either.
        if self.is_closed() {
            return ConnectionEvents::ended();
        }
        let present = *self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        ConnectionEvents::new(events, present)
    }

    /// Gives a hold back and says what was found; one that is shared goes on.
    pub(crate) async fn end(self: &Arc<Self>, hold: &Arc<Hold>) -> Result<Released> {
        if !hold.unshare() {
            return Ok(if hold.is_held() { Released::Released } else { Released::AlreadyLost });
        }
        self.end_storing(hold, None).await
    }

    /// Gives a hold back, and leaves a record if there is one to leave. What has
    /// to wait is detached: it is carried out even if this future is dropped.
    pub(crate) async fn end_storing(
        self: &Arc<Self>,
        hold: &Arc<Hold>,
        store: Option<&Store>,
    ) -> Result<Released> {
        let Some(keep_closed) = self.let_go(hold).map(|ending| ending.keep_closed) else {
            return Ok(Released::AlreadyLost);
        };
        let sure_until = Some(hold.deadline());
        let ending = || Ending { keep_closed, store: store.cloned(), sure_until, ..Ending::new() };
        let mut under_way = None;
        if hold.mode_before().is_none() && hold.try_turn() {
            let ask = || self.engine.release(hold.ticket(), ending());
            match here(|cx| at_once(&self.home, cx, ask)).await {
                Ok(released) => return self.ended(hold, ending, released),
                Err(answer) => under_way = Some(answer),
            }
        }
        let rest = Arc::clone(self).rest_of_end(Arc::clone(hold), ending(), under_way);
        Detached::of(self.home.clone(), rest).await
    }

    /// The rest of a release that has to wait, for its turn or for its answer.
    fn rest_of_end(
        self: Arc<Self>,
        hold: Arc<Hold>,
        ending: Ending,
        under_way: Option<BoxFuture<Result<Released>>>,
    ) -> impl Future<Output = Result<Released>> + Send + 'static {
        let counted = self.tasks.begin_return(hold.forgotten_at());
        async move {
            let _counted = counted;
            let released = match under_way {
                Some(answer) => answer.await,
                None => {
                    hold.turn().await;
                    self.ask_to_release(&hold, ending.clone()).await
                }
            };
            self.ended(&hold, || ending, released)
        }
    }

    /// Takes in the answer to a release; one that failed is tried again.
    fn ended(
        self: &Arc<Self>,
        hold: &Arc<Hold>,
        ending: impl FnOnce() -> Ending,
        released: Result<Released>,
    ) -> Result<Released> {
        hold.end_turn();
        if released.as_ref().is_err_and(may_pass) {
            self.spawn_release(Arc::clone(hold), ending());
        }
        released
    }

    /// Gives a hold back without anyone waiting for it.
    pub(crate) fn end_apart(self: &Arc<Self>, hold: Arc<Hold>) {
        if let Some(ending) = self.let_go(&hold) {
            self.spawn_release(hold, ending);
        }
    }

    /// Takes a hold from someone who did not let go of it: its successor hears
    /// of it.
    #[cfg(feature = "once")]
    pub(crate) fn cut_off(self: &Arc<Self>, hold: Arc<Hold>) {
        if self.let_go(&hold).is_some() {
            self.spawn_release(hold, Ending::cut_off());
        }
    }

    /// What `task` comes to, or `None` if `until` comes first.
    pub(crate) fn until<T: Send + 'static>(
        &self,
        until: Moment,
        task: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send + 'static {
        let clock = self.clock.clone();
        Detached::new(self.home.clone(), move |handoff| async move {
            let done = tokio::select! {
                biased;
                done = task => Some(done),
                () = clock.sleep_until(until) => None,
                () = handoff.abandoned() => None,
            };
            handoff.put(done);
        })
    }

    /// Stops looking after a hold; `None` if it had ended by itself.
    fn let_go(&self, hold: &Arc<Hold>) -> Option<Ending> {
        let keep_closed = hold.is_held().then(|| hold.keep_closed()).flatten();
        let before = hold.give_back();
        self.schedule.forget(hold);
        self.owners.leave(hold);
        match before {
            PriorStanding::Held => self.observer.released(hold),
            PriorStanding::Overdue => self.observer.lost(hold, &Loss::Expired),
            PriorStanding::Asked | PriorStanding::Ended => {}
        }
        matches!(before, PriorStanding::Asked | PriorStanding::Held)
            .then(|| keep_closed.map_or_else(Ending::new, Ending::closed_for))
    }

    async fn release(&self, hold: &Hold, ending: Ending) -> Result<Released> {
        hold.turn().await;
        let ending = Ending { unseen: !hold.is_seen(), ..ending };
        let released = self.ask_to_release(hold, ending).await;
        hold.end_turn();
        released
    }

    /// Asks the engine to release. What was to be converted may be there in
    /// either mode, and an engine may look for it by its mode.
    async fn ask_to_release(&self, hold: &Hold, ending: Ending) -> Result<Released> {
        let ticket = hold.ticket();
        let released = self.engine.release(ticket.clone(), ending.clone()).await?;
        match hold.mode_before() {
            Some(before) if released == Released::AlreadyLost => {
                self.engine.release(ticket.in_mode(before), ending).await
            }
            _ => Ok(released),
        }
    }

    /// Releases until the engine confirms it, or has surely forgotten it.
    fn spawn_release(self: &Arc<Self>, hold: Arc<Hold>, ending: Ending) {
        let core = Arc::clone(self);
        let counted = self.tasks.begin_return(hold.forgotten_at());
        let task = async move {
            let released = core.release(&hold, ending.clone()).await;
            let again = released.is_err_and(|error| may_pass(&error));
            if again && !core.release_again(&hold, ending).await {
                counted.give_up();
            }
        };
        run_apart(&self.home, Box::pin(task));
    }

    /// False if the engine was closed before it had heard of it.
    async fn release_again(&self, hold: &Hold, ending: Ending) -> bool {
        let give_up = hold.forgotten_at();
        while self.clock.now() < give_up && !self.is_engine_closed() {
            self.clock.sleep_until(self.clock.now().after(RELEASE_AGAIN)).await;
            if !self.release(hold, ending.clone()).await.is_err_and(|error| may_pass(&error)) {
                return true;
            }
        }
        self.clock.now() >= give_up
    }

    /// Leases that could not be given back in time are left to end by themselves:
    /// says how many, and within which time. `None` if there are none.
    pub(crate) fn left_behind(&self) -> Option<(usize, Duration)> {
        let (leases, end) = self.tasks.unreturned();
        let within = end.since(self.clock.now());
        let left = (leases > 0).then_some((leases, within));
        if left.is_some() {
            self.observer.left_behind(leases, within);
        }
        left
    }
}

/// Whether asking again may help. What is refused for what it is stays refused.
fn may_pass(error: &Error) -> bool {
    !matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported)
}

pub(crate) fn shut_down() -> Error {
    Error::invalid("these locks were shut down; open them anew")
}
