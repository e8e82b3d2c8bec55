//! The story of a run: what happened, in order, for a person to read; and a
//! number that is the same only for the same story.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// What is told of a run.
#[derive(Debug)]
pub struct Story {
    begun: Instant,
    keep: bool,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    lines: Vec<String>,
    trace: DefaultHasher,
    events: u64,
}

impl Story {
    /// A story that begins now; without `keep` only its trace stays.
    #[must_use]
    pub fn new(keep: bool) -> Self {
        Self { begun: Instant::now(), keep, told: Mutex::default() }
    }

    /// Tells what happened.
    pub fn tell(&self, line: impl FnOnce() -> String) {
        self.hear(line(), self.keep);
    }

    /// Counts for the trace, and is nothing to read.
    pub fn mumble(&self, line: impl FnOnce() -> String) {
        self.hear(line(), false);
    }

    fn hear(&self, line: String, keep: bool) {
        let at = self.begun.elapsed().as_millis();
        let mut told = self.told();
        (at, &line).hash(&mut told.trace);
        told.events += 1;
        if keep {
            told.lines.push(format!("{at:>7} ms  {line}"));
        }
    }

    /// The same for the same story only.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.told().trace.finish()
    }

    /// How much has happened.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.told().events
    }

    /// The lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.told().lines.clone()
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
