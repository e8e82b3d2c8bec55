//! One cell of the tables.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::facts::Facts;
use crate::work::{Rounds, Work};

/// What was measured with one engine and one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) engine: String,
    pub(crate) work: Work,
    pub(crate) size: usize,
    pub(crate) ending: Ending,
    /// Of several rounds the one that [`Rounds`] says.
    pub(crate) figures: BTreeMap<String, f64>,
    pub(crate) rounds: u32,
    /// What the last round took.
    pub(crate) seconds: f64,
    /// The limit that it had, in seconds.
    pub(crate) limit: u64,
    /// What is behind the engine.
    pub(crate) server: String,
    pub(crate) facts: Facts,
}

/// How a measurement ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ending {
    Done,
    /// The limit came first.
    Cut,
    Failed(String),
    /// A smaller one was cut, or failed.
    Untried,
}

impl Cell {
    pub(crate) fn is(&self, engine: &str, work: Work, size: usize) -> bool {
        self.engine == engine && self.work == work && self.size == size
    }

    /// One round more: a cost is that of the best one, what went wrong that of the
    /// worst, and memory that of the first, which found the server empty.
    pub(crate) fn merge(&mut self, other: Self) {
        for (key, value) in other.figures {
            let rounds = self.work.rounds(&key);
            let kept = self.figures.entry(key).or_insert(value);
            *kept = rounds.keep(*kept, value);
        }
        self.rounds += 1;
        self.seconds = other.seconds;
        self.ending = other.ending;
    }
}

impl Rounds {
    const fn keep(self, before: f64, now: f64) -> f64 {
        match self {
            Self::Best => before.min(now),
            Self::Worst => before.max(now),
            Self::First => before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rounds;
    use crate::work::Work;

    #[test]
    fn only_costs_are_the_best_of_rounds() {
        for (work, key, kept) in [
            (Work::Held, "take_us", 1.0),
            (Work::Held, "worst_ms", 3.0),
            (Work::Held, "lost", 3.0),
            (Work::Waiters, "beside_worst_ms", 3.0),
            (Work::Held, "client_bytes", 2.0),
            (Work::Names, "server_bytes", 2.0),
            (Work::Loss, "take_us", 1.0),
        ] {
            let rounds: Rounds = work.rounds(key);
            assert_eq!([3.0, 1.0].into_iter().fold(2.0, |a, b| rounds.keep(a, b)), kept, "{key}");
        }
    }
}
