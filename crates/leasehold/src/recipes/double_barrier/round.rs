//! The rounds of a double barrier. Pure: who begins together.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::mutant::{Mutant, lives};

/// Some who began together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BarrierRound {
    /// The number of the round; zero before the first.
    pub(super) number: u64,
    /// Who began in it, by the marks of their records; of an earlier round, those who
    /// were still here when the last one was decided.
    pub(super) members: Vec<Arc<str>>,
}

/// The rounds that were decided, as they are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BarrierRounds {
    pub(super) last: BarrierRound,
    /// Those before it that not all have left: a member that looks late finds itself
    /// there.
    pub(super) earlier: Vec<BarrierRound>,
}

impl BarrierRounds {
    fn all(&self) -> impl Iterator<Item = &BarrierRound> {
        self.earlier.iter().chain([&self.last])
    }

    /// The round that this member began in.
    pub(super) fn of(&self, mark: &str) -> Option<&BarrierRound> {
        self.all().find(|round| round.members.iter().any(|member| **member == *mark))
    }

    /// Who of those that are here has not begun yet, in the order of arrival.
    pub(super) fn waiting(&self, here: &[Arc<str>]) -> Vec<Arc<str>> {
        let begun = self.all().filter(|_| !lives(Mutant::InsideIsWaiting));
        let begun: BTreeSet<&Arc<str>> = begun.flat_map(|round| &round.members).collect();
        here.iter().filter(|mark| !begun.contains(mark)).cloned().collect()
    }

    /// With the next round, if so many wait. `here` are all who are here, in the order
    /// of arrival.
    pub(super) fn next(&self, here: &[Arc<str>], size: usize) -> Option<Self> {
        let mut members = self.waiting(here);
        if members.len() < size {
            return None;
        }
        members.truncate(size);
        let present: BTreeSet<&Arc<str>> = here.iter().collect();
        let earlier = self.all().map(|round| round.of_these(&present));
        let kept = |round: &BarrierRound| {
            !round.members.is_empty() && !lives(Mutant::EarlierRoundsForgotten)
        };
        let earlier = earlier.filter(kept).collect();
        Some(Self { last: BarrierRound { number: self.last.number + 1, members }, earlier })
    }
}

impl BarrierRound {
    fn of_these(&self, present: &BTreeSet<&Arc<str>>) -> Self {
        let members = self.members.iter().filter(|mark| present.contains(mark)).cloned();
        Self { number: self.number, members: members.collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::mutant::each_is_found;

    #[test]
    fn each_fault_of_the_rules_is_found() {
        let faults = [Mutant::EarlierRoundsForgotten, Mutant::InsideIsWaiting];
        each_is_found(&faults, who_came_first_begins_first);
    }

    proptest! {
        /// Members come and go as they like, and each decision is made from what was
        /// there at that moment: nobody begins twice, nobody who is not there begins,
        /// and each round has its size.
        #[test]
        fn each_begins_once_with_so_many_others(
            steps in prop::collection::vec((0_u8..3, 0_usize..40), 1..120),
            size in 1_usize..5,
        ) {
            let (mut rounds, mut here) = (BarrierRounds::default(), Vec::<Arc<str>>::new());
            let mut begun: BTreeMap<Arc<str>, u64> = BTreeMap::new();
            for (at, (verb, which)) in steps.into_iter().enumerate() {
                match verb {
                    0 => here.push(format!("m{at}").into()),
                    1 if !here.is_empty() => drop(here.remove(which % here.len())),
                    _ => {
                        let Some(next) = rounds.next(&here, size) else {
                            prop_assert!(rounds.waiting(&here).len() < size);
                            continue;
                        };
                        let last = &next.last;
                        prop_assert_eq!(last.members.len(), size);
                        prop_assert_eq!(last.number, rounds.last.number + 1);
                        for member in &last.members {
                            prop_assert!(here.contains(member), "{} is not here", member);
                            prop_assert!(begun.insert(Arc::clone(member), last.number).is_none());
                        }
                        rounds = next;
                    }
                }
                for mark in &here {
                    // However late it looks.
                    let round = rounds.of(mark).map(|round| round.number);
                    prop_assert_eq!(round, begun.get(mark).copied());
                }
            }
        }
    }

    #[test]
    fn who_came_first_begins_first() {
        let here: Vec<Arc<str>> = ["c", "a", "b"].map(Arc::from).to_vec();
        let next = BarrierRounds::default().next(&here, 2).unwrap();
        assert_eq!(next.last.members, here[..2]);
        assert!(next.next(&here, 2).is_none());
        assert_eq!(next.next(&here, 1).unwrap().earlier, [next.last]);
    }
}
