//! A task that comes back as long as there is something to sweep.

use std::time::Duration;

use tokio::task::{JoinHandle, yield_now};

use crate::clock::{Clock, Moment};
use crate::home::Handle;

/// How often it sweeps at the most, and at the least: what is over is gone so much
/// later.
const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(10);

/// The task, if there is one; dropping it ends it.
#[derive(Debug, Default)]
pub(super) struct Sweeper(Option<JoinHandle<()>>);

impl Sweeper {
    /// Does `sweep` from now on, until it says that nothing is left. It says when
    /// the next thing is over, perhaps by now.
    pub(super) fn start<F>(&mut self, clock: Clock, mut sweep: F)
    where
        F: FnMut(Moment) -> Option<Moment> + Send + 'static,
    {
        // The servers of a simulation have no tasks, and tests may have no home.
        if self.0.is_some() || cfg!(leasehold_sim) {
            return;
        }
        let task = async move {
            let mut now = clock.now();
            while let Some(next) = sweep(now) {
                if next > now {
                    clock.sleep_until(next.max(now.after(OFTEN)).min(now.after(SELDOM))).await;
                } else {
                    yield_now().await;
                }
                now = clock.now();
            }
        };
        self.0 = Handle::try_current().map(|home| home.spawn(task));
    }

    /// It has said that nothing is left, or shall not go on.
    pub(super) fn stop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.stop();
    }
}
