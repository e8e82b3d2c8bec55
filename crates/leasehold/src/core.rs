//! What every task of one client shares.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::claim::{Ending, Released};
use crate::clock::Clock;
use crate::engine::{Engine, Loss};
use crate::error::Result;
use crate::gate::Gate;
use crate::hold::Hold;
use crate::keeper::Keeper;
use crate::parcel::run_apart;

/// The pause between two tries to release what could not be released.
const RELEASE_AGAIN: Duration = Duration::from_millis(200);

/// Engine, clock, keeper and gate of one client. Tasks on home own it; the
/// user's handles own the client around it, so that the last handle can wait
/// for the tasks.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: Clock,
    pub(crate) home: Handle,
    pub(crate) keeper: Keeper,
    pub(crate) gate: Gate,
    pub(crate) errands: Tally,
}

impl Core {
    pub(crate) fn new(engine: Arc<dyn Engine>, clock: Clock, home: Handle) -> Self {
        let (keeper, gate, errands) = (Keeper::new(), Gate::default(), Tally::default());
        Self { engine, clock, home, keeper, gate, errands }
    }

    /// What to take off a granted ttl because clocks differ.
    pub(crate) fn drift(&self, ttl: Duration) -> Duration {
        self.engine.profile().drift(ttl)
    }

    /// The lease is lost. The engine may not know it yet, so it is told.
    pub(crate) fn lose(self: &Arc<Self>, hold: &Arc<Hold>, loss: Loss) {
        let told = !matches!(loss, Loss::Expired | Loss::MaxHold);
        let first = hold.lose(loss);
        self.keeper.forget(hold);
        if first && !told {
            self.spawn_release(Arc::clone(hold), Ending::new());
        }
    }

    /// Gives a hold back and says what was found.
    pub(crate) async fn end(self: Arc<Self>, hold: Arc<Hold>) -> Result<Released> {
        let Some(ending) = self.let_go(&hold) else { return Ok(Released::AlreadyLost) };
        let released = self.release(&hold, ending.clone()).await;
        if released.is_err() {
            self.spawn_release(hold, ending);
        }
        released
    }

    /// Gives a hold back without anyone waiting for it.
    pub(crate) fn end_apart(self: &Arc<Self>, hold: Arc<Hold>) {
        if let Some(ending) = self.let_go(&hold) {
            self.spawn_release(hold, ending);
        }
    }

    /// Stops looking after a hold; `None` if it had ended by itself.
    fn let_go(&self, hold: &Arc<Hold>) -> Option<Ending> {
        let keep_closed = hold.is_held().then(|| hold.keep_closed()).flatten();
        let ours = hold.give_back();
        self.keeper.forget(hold);
        ours.then(|| keep_closed.map_or_else(Ending::new, Ending::closed_for))
    }

    async fn release(&self, hold: &Hold, ending: Ending) -> Result<Released> {
        hold.turn().await;
        let released = self.engine.release(hold.ticket.clone(), ending).await;
        hold.end_turn();
        released
    }

    /// Releases until the engine confirms it, or has surely forgotten it.
    fn spawn_release(self: &Arc<Self>, hold: Arc<Hold>, ending: Ending) {
        let core = Arc::clone(self);
        let counted = self.errands.begin();
        let task = async move {
            let _counted = counted;
            let give_up = core.clock.now().after(hold.terms.ttl + hold.terms.lock_delay);
            while core.release(&hold, ending.clone()).await.is_err() {
                if core.clock.now() >= give_up {
                    return;
                }
                core.clock.sleep_until(core.clock.now().after(RELEASE_AGAIN)).await;
            }
        };
        run_apart(&self.home, Box::pin(task));
    }
}

/// How many errands are under way, for those who have to wait for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    open: Mutex<usize>,
    blocked: Condvar,
    waiting: Notify,
}

/// One errand under way.
#[derive(Debug)]
pub(crate) struct Counted(Tally);

impl Tally {
    pub(crate) fn begin(&self) -> Counted {
        *self.open() += 1;
        Counted(self.clone())
    }

    /// Blocks this thread until no errand is under way, `limit` at most.
    pub(crate) fn block_until_done(&self, limit: Duration) -> bool {
        let wait = self.0.blocked.wait_timeout_while(self.open(), limit, |open| *open > 0);
        *wait.unwrap_or_else(PoisonError::into_inner).0 == 0
    }

    /// Resolves when no errand is under way.
    pub(crate) async fn done(&self) {
        loop {
            let mut change = std::pin::pin!(self.0.waiting.notified());
            change.as_mut().enable();
            if *self.open() == 0 {
                return;
            }
            change.await;
        }
    }

    fn open(&self) -> MutexGuard<'_, usize> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.0.open();
        *open -= 1;
        if *open == 0 {
            self.0.0.blocked.notify_all();
            self.0.0.waiting.notify_waiters();
        }
    }
}
