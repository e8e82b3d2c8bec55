//! The rounds of a double barrier. Pure: who begins together.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The last round that was decided, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Round {
    /// The number of the round; zero before the first.
    pub(super) number: u64,
    /// Who began together, by the marks of their records.
    pub(super) members: Vec<Arc<str>>,
    /// Who began in earlier rounds, and was inside when this one was decided.
    pub(super) inside: Vec<Arc<str>>,
}

impl Round {
    /// Whether this member began in it.
    pub(super) fn names(&self, mark: &str) -> bool {
        self.members.iter().any(|member| **member == *mark)
    }

    /// Who of those that are here has not begun yet, in the order of arrival.
    pub(super) fn waiting<'a>(
        &'a self,
        here: impl IntoIterator<Item = &'a Arc<str>>,
    ) -> Vec<Arc<str>> {
        let begun: BTreeSet<&Arc<str>> = self.members.iter().chain(&self.inside).collect();
        here.into_iter().filter(|mark| !begun.contains(mark)).cloned().collect()
    }

    /// The next round, if so many wait. `here` are all who are here, in the order of
    /// arrival.
    pub(super) fn next(&self, here: &[Arc<str>], size: usize) -> Option<Self> {
        let mut members = self.waiting(here);
        if members.len() < size {
            return None;
        }
        members.truncate(size);
        let present: BTreeSet<&Arc<str>> = here.iter().collect();
        let begun = self.members.iter().chain(&self.inside);
        let inside = begun.filter(|mark| present.contains(mark)).cloned().collect();
        Some(Self { number: self.number + 1, members, inside })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Members come and go as they like, and each decision is made from what was
        /// there at that moment: nobody begins twice, nobody who is not there begins,
        /// and each round has its size.
        #[test]
        fn each_begins_once_with_so_many_others(
            steps in prop::collection::vec((0_u8..3, 0_usize..40), 1..120),
            size in 1_usize..5,
        ) {
            let (mut round, mut here) = (Round::default(), Vec::<Arc<str>>::new());
            let mut begun: BTreeMap<Arc<str>, u64> = BTreeMap::new();
            for (at, (verb, which)) in steps.into_iter().enumerate() {
                match verb {
                    0 => here.push(format!("m{at}").into()),
                    1 if !here.is_empty() => drop(here.remove(which % here.len())),
                    _ => {
                        let Some(next) = round.next(&here, size) else {
                            prop_assert!(round.waiting(&here).len() < size);
                            continue;
                        };
                        prop_assert_eq!(next.members.len(), size);
                        prop_assert_eq!(next.number, round.number + 1);
                        for member in &next.members {
                            prop_assert!(here.contains(member), "{} is not here", member);
                            prop_assert!(begun.insert(Arc::clone(member), next.number).is_none());
                        }
                        round = next;
                    }
                }
                for mark in round.waiting(&here) {
                    prop_assert!(!begun.contains_key(&mark), "{} waits inside", mark);
                }
            }
        }
    }

    #[test]
    fn who_came_first_begins_first() {
        let here: Vec<Arc<str>> = ["c", "a", "b"].map(Arc::from).to_vec();
        let next = Round::default().next(&here, 2).unwrap();
        assert_eq!(next.members, here[..2]);
        assert!(next.next(&here, 2).is_none());
        assert_eq!(next.next(&here, 1).unwrap().inside.len(), 2);
    }
}
