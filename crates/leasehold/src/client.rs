//! What the user's handles and guards keep alive together.

use std::sync::Arc;
#[cfg(feature = "records")]
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::clock::Clock;
use crate::core::Core;
use crate::detached::run_apart;
use crate::engine::Engine;
use crate::engine::profile::Reach;
use crate::error::Result;
use crate::home::Home;
use crate::keeper;
use crate::layers::guardrail::Guardrail;

/// How long the last handle waits for releases that are on their way, and once
/// more for the engine to let go.
const FAREWELL: Duration = Duration::from_secs(1);

/// What the user's handles and guards share; its end is the end of the client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) core: Arc<Core>,
    home: Arc<Home>,
    /// Whether the engine is in this process.
    is_local: bool,
}

impl Client {
    pub(crate) fn start(engine: Arc<dyn Engine>, clock: Clock) -> Result<Self> {
        let home = Home::find()?;
        let (events, is_local) = (engine.events(), engine.profile().reach == Reach::Process);
        let engine = Arc::new(Guardrail(engine));
        let core = Arc::new(Core::new(engine, clock, home.handle().clone()));
        home.handle().spawn(keeper::run(Arc::clone(&core)));
        home.handle().spawn(keeper::listen(Arc::clone(&core), events));
        Ok(Self { core, home, is_local })
    }

    /// Refuses to go on after a fork or a shutdown. What an engine in this
    /// process answers at once needs no home; to ask for the process would cost
    /// a good part of it. A copy of such an engine is one of its own, and its
    /// leases end after their ttl, because nobody there renews them.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.is_local {
            self.check_home()?;
        }
        self.core.check_open()
    }

    /// Whether this thread may wait for what happens on home. In a simulation nobody
    /// else could go on meanwhile.
    fn may_block(&self) -> bool {
        cfg!(not(leasehold_sim)) && !self.home.is_this_thread()
    }

    /// Waits for what is under way, where that is possible.
    fn take_leave(&self) {
        if self.may_block() {
            self.core.tasks.block_until_done(FAREWELL);
        }
    }

    /// Waits until a task on home has ended, which then drops the other side; not for
    /// long, and not at all where nobody may wait.
    #[cfg(feature = "records")]
    pub(crate) fn wait_for(&self, ended: &Receiver<()>) {
        if self.may_block() {
            // Nothing is ever sent.
            let _ = ended.recv_timeout(FAREWELL);
        }
    }

    /// The end of a client whose last handle was in a task on home.
    fn end_at_home(&self) {
        let (core, home) = (Arc::clone(&self.core), Arc::clone(&self.home));
        let end = async move {
            let until = core.clock.now().after(FAREWELL);
            tokio::select! {
                () = core.tasks.done() => {}
                () = core.clock.sleep_until(until) => {}
            }
            // There is nobody left to tell; what remains ends with its ttl.
            let _ = core.close_engine().await;
            let _ = core.left_behind();
            drop(home);
        };
        self.home.handle().spawn(end);
    }

    /// Refuses to leave anything to a home that a fork has left behind.
    pub(crate) fn check_home(&self) -> Result<()> {
        self.home.check_pid()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // In a forked child nobody carries out tasks.
        if self.home.check_pid().is_err() || self.core.is_closed() {
            return;
        }
        if cfg!(not(leasehold_sim)) && self.home.is_this_thread() {
            return self.end_at_home();
        }
        self.take_leave();
        let counted = self.core.tasks.begin();
        let closing = self.core.close_engine();
        let task = async move {
            // There is nobody left to tell; what remains ends with its ttl.
            let _ = closing.await;
            drop(counted);
        };
        run_apart(self.home.handle(), Box::pin(task));
        self.take_leave();
        // Whoever wants to wait for longer, or to hear of it, shuts down.
        let _ = self.core.left_behind();
    }
}
