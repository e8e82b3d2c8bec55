//! A closed latch: what is stored of it, and what a count makes of that.

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::claim::id::random_bits;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::name::Name;
use crate::recipes::versioned::{Versioned, decode};

/// How many arrivals a latch remembers.
const ARRIVALS_MAX: usize = 1_000;

/// A latch that is closed. One that is open is not stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClosedLatch {
    /// The count that is left.
    pub(super) left: NonZeroU64,
    /// Which of all latches of this name it is. 53 bits, so that every reader of
    /// JSON can tell it.
    pub(super) round: u64,
    /// Who has arrived.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    arrived: BTreeSet<String>,
}

/// What a closed latch is after one more count.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// The same: whoever counts has counted before.
    Before,
    Closed(ClosedLatch),
    Open,
}

impl ClosedLatch {
    pub(super) fn new(left: NonZeroU64) -> Self {
        let round = (random_bits() >> (u128::BITS - 53)) as u64;
        Self { left, round, arrived: BTreeSet::new() }
    }

    /// Counts for `id`, or for nobody by name.
    pub(super) fn count(&self, id: Option<&str>) -> Result<Counted> {
        if id.is_some_and(|id| self.arrived.contains(id)) {
            return Ok(Counted::Before);
        }
        let Some(left) = NonZeroU64::new(self.left.get() - 1) else { return Ok(Counted::Open) };
        if id.is_some() && self.arrived.len() >= ARRIVALS_MAX {
            return Err(Error::invalid(format!(
                "a latch remembers {ARRIVALS_MAX} arrivals; count the others down without an id"
            )));
        }
        let mut next = Self { left, ..self.clone() };
        next.arrived.extend(id.map(str::to_owned));
        Ok(Counted::Closed(next))
    }
}

/// A latch as it was found; none if it is open.
pub(super) type FoundLatch = Option<Versioned<ClosedLatch>>;

pub(super) async fn look(core: &Core, name: &Name) -> Result<FoundLatch> {
    let found = core.record_store()?.load(name.clone()).await?;
    found.map(|record| decode(name, &record)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latch(count: u64) -> ClosedLatch {
        ClosedLatch::new(NonZeroU64::new(count).unwrap())
    }

    fn after(latch: &ClosedLatch, id: Option<&str>) -> ClosedLatch {
        match latch.count(id).unwrap() {
            Counted::Closed(next) => next,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_id_counts_once_and_nobody_counts_each_time() {
        let first = after(&latch(4), Some("a"));
        assert_eq!(first.count(Some("a")).unwrap(), Counted::Before);
        let second = after(&first, None);
        let third = after(&second, None);
        assert_eq!(third.left.get(), 1);
        assert_eq!(third.count(Some("a")).unwrap(), Counted::Before, "not even as the last");
        assert_eq!(third.count(Some("b")).unwrap(), Counted::Open);
    }

    #[test]
    fn more_arrivals_than_it_remembers_are_refused() {
        let mut full = latch(5_000);
        for id in 0..ARRIVALS_MAX {
            full = after(&full, Some(&id.to_string()));
        }
        assert!(full.count(Some("one more")).unwrap_err().to_string().contains("1000 arrivals"));
        assert_eq!(full.count(Some("7")).unwrap(), Counted::Before);
        assert_eq!(after(&full, None).left.get(), 3_999);
    }

    #[test]
    fn what_is_stored_comes_back_and_a_count_of_zero_is_no_latch() {
        for latch in [latch(3), after(&latch(3), Some("a"))] {
            let text = serde_json::to_string(&latch).unwrap();
            assert_eq!(serde_json::from_str::<ClosedLatch>(&text).unwrap(), latch, "{text}");
        }
        assert!(serde_json::from_str::<ClosedLatch>("{\"left\":0,\"round\":1}").is_err());
    }
}
