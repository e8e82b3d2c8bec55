//! One who waits for a latch: what it has seen of it, and what that means.

use std::sync::Arc;
use std::time::Duration;

use super::closed::{ClosedLatch, FoundLatch, look};
use crate::clock::Clock;
use crate::core::Core;
use crate::engine::{RecordEvent, Scope};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;
use crate::recipes::versioned::{Versioned, decode};

/// The first pause before an engine that is away is asked again, which doubles, and
/// the longest.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// One who waits.
#[derive(Debug)]
pub(super) struct LatchWatch {
    core: Arc<Core>,
    name: Name,
}

/// The latch that one waits for, as it was seen last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SeenLatch {
    round: u64,
    version: u64,
}

impl SeenLatch {
    const fn new(latch: &Versioned<ClosedLatch>) -> Self {
        Self { round: latch.value.round, version: latch.version }
    }

    /// Whether what was heard of means that it is open: another one has its name by
    /// now. What is older than what was seen says nothing.
    const fn is_followed_by(&mut self, latch: &Versioned<ClosedLatch>) -> bool {
        if latch.version <= self.version {
            return false;
        }
        self.version = latch.version;
        latch.value.round != self.round
    }

    /// Whether a record that ended with this version was it.
    const fn ended_with(self, version: u64) -> bool {
        version > self.version
    }
}

impl LatchWatch {
    pub(super) fn new(core: &Arc<Core>, name: &Name) -> Self {
        Self { core: Arc::clone(core), name: name.clone() }
    }

    /// Resolves once the latch is open, or the client was shut down.
    pub(super) async fn opening(self) -> Result<()> {
        tokio::select! {
            biased;
            error = self.core.closing() => Err(error),
            opened = self.follow() => opened,
        }
    }

    /// It listens before it looks, so that it misses nothing; what it then hears may
    /// be older than what it has seen.
    async fn follow(&self) -> Result<()> {
        let scope = Scope::name(&self.name);
        let mut events = self.core.record_store()?.watch(scope).await?;
        let Some(latch) = look(&self.core, &self.name).await? else { return Ok(()) };
        let mut seen = SeenLatch::new(&latch);
        while let Some(event) = events.next().await {
            if self.opens(&mut seen, event).await? {
                return Ok(());
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "the engine tells of no more changes"))
    }

    async fn opens(&self, seen: &mut SeenLatch, event: RecordEvent) -> Result<bool> {
        Ok(match event {
            RecordEvent::Stored(name, record) => seen.is_followed_by(&decode(&name, &record)?),
            RecordEvent::Deleted(_, version) => seen.ended_with(version),
            RecordEvent::Resync => match self.look_until_told().await? {
                Some(latch) => seen.is_followed_by(&latch),
                None => true,
            },
        })
    }

    /// Something was missed, perhaps because the engine was away; it may still be. On
    /// the host's clock: there is no deadline in it for a test to move.
    async fn look_until_told(&self) -> Result<FoundLatch> {
        let mut pause = PAUSE;
        loop {
            match look(&self.core, &self.name).await {
                Err(error) if error.is_retryable() => {}
                told => return told,
            }
            Clock::System.sleep_until(Clock::System.now().after(pause)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latch(round: u64, version: u64) -> Versioned<ClosedLatch> {
        let text = format!("{{\"left\":1,\"round\":{round}}}");
        Versioned { value: serde_json::from_str(&text).unwrap(), version }
    }

    #[test]
    fn what_is_older_than_what_was_seen_opens_nothing() {
        let mut seen = SeenLatch::new(&latch(2, 20));
        assert!(!seen.ended_with(19), "the latch before it has ended");
        assert!(!seen.is_followed_by(&latch(1, 10)) && !seen.is_followed_by(&latch(2, 20)));
        assert!(!seen.is_followed_by(&latch(2, 30)), "it was counted down");
        assert!(!seen.ended_with(25) && seen.ended_with(31));
        assert!(seen.is_followed_by(&latch(3, 40)), "another one is set");
    }
}
