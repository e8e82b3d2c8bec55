//! A bystander, who locks and releases a name that nobody else wants.

use std::time::{Duration, Instant};

use leasehold::Locks;
use leasehold_testkit::contest::Checked;
use tokio::time::sleep;

/// What its pairs took so far, in milliseconds.
#[derive(Debug)]
pub(crate) struct Probe<'a> {
    locks: &'a Locks,
    pairs: Vec<f64>,
}

/// So that the bystander is no crowd.
const PAUSE: Duration = Duration::from_millis(10);

impl<'a> Probe<'a> {
    pub(crate) const fn new(locks: &'a Locks) -> Self {
        Self { locks, pairs: Vec::new() }
    }

    /// Pair after pair for this long, one at least.
    pub(crate) async fn go_on(&mut self, span: Duration) -> Checked {
        let (mutex, end) = (self.locks.mutex("/bystander"), Instant::now() + span);
        while self.pairs.is_empty() || Instant::now() < end {
            let start = Instant::now();
            mutex.lock().await?.release().await?;
            self.pairs.push(start.elapsed().as_secs_f64() * 1e3);
            sleep(PAUSE).await;
        }
        self.pairs.sort_by(f64::total_cmp);
        Ok(())
    }

    pub(crate) fn median(&self) -> f64 {
        self.pairs.get(self.pairs.len() / 2).copied().unwrap_or_default()
    }

    /// The worst of all the time that it went on.
    pub(crate) fn worst(&self) -> f64 {
        self.pairs.last().copied().unwrap_or_default()
    }
}
