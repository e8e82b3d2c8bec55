//! The tenure: how long this process may make ids as these workers.
//!
//! Ids are made up to a bound that was written to the engine before, and that
//! is never later than the leases are certainly ours. So a process that was
//! stopped, cut off or overtaken makes no id that another one could make: its
//! bound stays where it is. The bound is moved on while ids are made, not while
//! they are not.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::layout::Layout;
use super::ticks::Ticks;
use super::worker::Mark;
use crate::clock::Clock;
use crate::clock::wall::WallClock;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::guard::lost;
use crate::hold::{Hold, Standing};

/// The pause after a mark could not be written, doubled each time.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What generator and background share.
#[derive(Debug)]
pub(super) struct Tenure {
    ticks: Arc<Ticks>,
    state: Mutex<TenureState>,
    changed: Notify,
    asked: Notify,
}

#[derive(Debug, Default)]
struct TenureState {
    /// The first millisecond, by the layout, that is not ours.
    until: u64,
    /// Whether more was asked for.
    asked: bool,
    failures: u64,
    failure: Option<Error>,
    /// Why there is no more.
    end: Option<Error>,
}

impl Tenure {
    pub(super) fn new(ticks: Arc<Ticks>) -> Self {
        Self { ticks, state: Mutex::default(), changed: Notify::new(), asked: Notify::new() }
    }

    /// Someone has reached the mark: may this slot be handed out? False to wait.
    pub(super) fn look(&self, slot: u64) -> Result<bool> {
        let mut state = self.state();
        if let Some(end) = &state.end {
            return Err(end.clone());
        }
        if !std::mem::replace(&mut state.asked, true) {
            self.asked.notify_one();
        }
        let end = self.ticks.first(state.until);
        self.ticks.set_mark(end);
        Ok(slot < end)
    }

    /// Ids may be made before the millisecond `until`; from `mark` on someone
    /// looks whether that can be moved.
    pub(super) fn allow(&self, mark: u64, until: u64) {
        let mut state = self.state();
        if state.end.is_some() {
            return;
        }
        (state.until, state.asked) = (until, false);
        self.ticks.set_mark(self.ticks.first(mark.min(until)));
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ends it, for this reason if there was none before.
    pub(super) fn end(&self, why: Error) {
        let mut state = self.state();
        state.end.get_or_insert(why);
        self.ticks.set_mark(0);
        drop(state);
        self.asked.notify_one();
        self.changed.notify_waiters();
    }

    fn fail(&self, error: Error) {
        let mut state = self.state();
        state.failures += 1;
        state.failure = Some(error);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits until `ready` is; fails with a renewal that fails meanwhile.
    pub(super) async fn wait(&self, ready: impl Fn() -> Result<bool>) -> Result<()> {
        let failures = self.state().failures;
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if ready()? {
                return Ok(());
            }
            if let Some(error) = self.state().failed_since(failures) {
                return Err(error);
            }
            changed.await;
        }
    }

    fn is_over(&self) -> bool {
        self.state().end.is_some()
    }

    fn state(&self) -> MutexGuard<'_, TenureState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TenureState {
    fn failed_since(&self, failures: u64) -> Option<Error> {
        self.failure.clone().filter(|_| self.failures != failures)
    }
}

/// What moves the bound: one task on home for each generator.
#[derive(Debug)]
pub(super) struct Renewer {
    pub(super) core: Arc<Core>,
    pub(super) tenure: Arc<Tenure>,
    pub(super) holds: Vec<Arc<Hold>>,
    pub(super) marks: Arc<tokio::sync::Mutex<Vec<Mark>>>,
    pub(super) wall: WallClock,
    pub(super) layout: Layout,
}

impl Renewer {
    /// Moves the bound whenever it is asked to, until the tenure is over.
    pub(super) async fn run(self) {
        loop {
            self.tenure.asked.notified().await;
            let mut pause = PAUSE;
            while !self.tenure.is_over()
                && let Err(error) = self.renew().await
            {
                if error.is_lost() {
                    self.tenure.end(error);
                    break;
                }
                self.core.observer.ids_not_filled(&self.holds[0].name, &error);
                self.tenure.fail(error);
                Clock::System.sleep_until(Clock::System.now().after(pause)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            if self.tenure.is_over() {
                return;
            }
        }
    }

    async fn renew(&self) -> Result<()> {
        let left = self.left()?;
        let now = self.wall.millis();
        let mut marks = self.marks.lock().await;
        for mark in marks.iter_mut() {
            mark.raise(&self.core, now + left).await?;
        }
        self.allow(now, left);
        Ok(())
    }

    /// Begins with what was written when the numbers were claimed.
    pub(super) fn begin(&self, written: u64) {
        let now = self.wall.millis();
        let left = self.left().unwrap_or_default().min(written.saturating_sub(now));
        self.allow(now, left);
    }

    /// Takes in that everything until `left` after `now` was written.
    fn allow(&self, now: u64, left: u64) {
        let now = now.saturating_sub(self.layout.since());
        let until = (now + left).min(self.layout.millis());
        self.tenure.allow(now + left / 2, until);
    }

    /// How many milliseconds all leases are certainly still ours.
    fn left(&self) -> Result<u64> {
        self.holds.iter().try_for_each(|hold| standing(hold))?;
        let least = self.holds.iter().map(|hold| hold.remaining()).min().unwrap_or_default();
        Ok(least.as_millis() as u64)
    }
}

/// Ends the tenure with the lease.
pub(super) async fn end_with(hold: Arc<Hold>, tenure: Arc<Tenure>) {
    hold.ended().await;
    if let Err(error) = standing(&hold) {
        tenure.end(error);
    }
}

fn standing(hold: &Hold) -> Result<()> {
    match hold.standing() {
        Standing::Lost(loss) => Err(lost(&hold.name, &loss)),
        Standing::Held | Standing::Jeopardy | Standing::Released => Ok(()),
    }
}
