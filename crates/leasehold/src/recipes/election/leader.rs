//! Who leads, as others see it. Pure: what an observer may say after what.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::engine::RawRecord;
use crate::error::{Error, ErrorKind, Result};
use crate::mutant::{Mutant, lives};
use crate::name::Name;

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Leader {
    /// The fence of its reign: larger than that of every leader before.
    pub fence: u64,
    /// What it says about itself.
    pub value: Arc<str>,
    /// Its label: host, process and thread unless it has chosen another.
    pub label: Arc<str>,
}

impl Leader {
    pub(super) fn new(fence: u64, value: &str, label: &str) -> Self {
        Self { fence, value: value.into(), label: label.into() }
    }

    /// As others read it.
    pub(super) fn written(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn read(name: &Name, record: &RawRecord) -> Result<Self> {
        serde_json::from_slice(&record.value).map_err(|cause| {
            let text = "the record of this election was written by something else: elections and \
                        records share their names, so give one of them another";
            Error::new(ErrorKind::Unexpected, text).with("election", name).caused_by(cause)
        })
    }
}

/// What an observer sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Observed {
    /// Somebody leads.
    Leader(Leader),
    /// Nobody leads, or nobody has said so yet.
    Nobody,
    /// The connection is gone: whoever led may not lead any more.
    Unsure,
}

/// What an observer has said, and may say next: never a leader from before.
#[derive(Debug, Default)]
pub(super) struct Observations {
    /// The largest fence that was seen.
    newest: u64,
    last: Option<Observed>,
}

impl Observations {
    /// What is news of what was found; a leader with a smaller fence is none: its
    /// successor has been seen.
    pub(super) fn see(&mut self, found: Option<Leader>) -> Option<Observed> {
        let found = match found {
            Some(leader) if leader.fence < self.newest && !lives(Mutant::OlderLeaderIsNews) => {
                return None;
            }
            Some(leader) => Observed::Leader(leader),
            None => Observed::Nobody,
        };
        if let Observed::Leader(leader) = &found {
            self.newest = leader.fence;
        }
        self.tell(found)
    }

    /// The connection is gone.
    pub(super) fn doubt(&mut self) -> Option<Observed> {
        self.tell(Observed::Unsure)
    }

    fn tell(&mut self, what: Observed) -> Option<Observed> {
        if self.last.as_ref() == Some(&what) {
            return None;
        }
        self.last = Some(what.clone());
        Some(what)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mutant::each_is_found;

    proptest! {
        #[test]
        fn no_smaller_fence_and_nothing_twice(found in prop::collection::vec(0_u64..6, 0..40)) {
            let (mut observations, mut told) = (Observations::default(), Vec::new());
            for fence in found {
                let news = match fence {
                    0 => observations.see(None),
                    1 => observations.doubt(),
                    fence => observations.see(Some(Leader::new(fence, "v", "l"))),
                };
                told.extend(news);
            }
            prop_assert!(told.windows(2).all(|two| two[0] != two[1]));
            let fences: Vec<u64> = told.iter().filter_map(|it| match it {
                Observed::Leader(leader) => Some(leader.fence),
                _ => None,
            }).collect();
            prop_assert!(fences.is_sorted());
        }
    }

    #[test]
    fn each_fault_of_the_rules_is_found() {
        each_is_found(&[Mutant::OlderLeaderIsNews], a_late_word_of_the_leader_before_is_no_news);
    }

    #[test]
    fn a_late_word_of_the_leader_before_is_no_news() {
        let mut observations = Observations::default();
        let leader = |fence| Some(Leader::new(fence, "v", "l"));
        assert!(observations.see(leader(7)).is_some());
        assert_eq!(observations.see(leader(6)), None);
        assert_eq!(observations.see(None), Some(Observed::Nobody));
        assert_eq!(observations.see(leader(6)), None, "it has led already");
    }
}
