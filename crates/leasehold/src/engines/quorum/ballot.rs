//! The ballot: what the answers of some nodes mean. Pure, because the model
//! checker runs this very file.

/// How many nodes of `count` are more than half.
pub(crate) const fn majority(count: usize) -> usize {
    count / 2 + 1
}

/// The number that a node gave to a lease. On one node, later leases of a name
/// have larger numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vote {
    pub(crate) node: usize,
    pub(crate) value: u64,
}

/// What follows from the votes so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Too few.
    Open,
    /// A majority gave the same number: it is the fence.
    Fence(u64),
    /// This will be the fence, once every node of `lagging` has raised its
    /// number to it. All of them must: each owns a part of the proof.
    Raise { fence: u64, lagging: Vec<Vote> },
}

/// Decides as soon as it can be decided.
///
/// In the nodes behind a fence, its lease owns that very number, with no other
/// lease of the name between its lock and the number. Two fences share a node,
/// and numbers on one node only grow; so fences are distinct and in order.
pub(crate) fn decide(votes: &[Vote], majority: usize) -> Decision {
    if votes.len() < majority {
        return Decision::Open;
    }
    let sharing = |value| votes.iter().filter(|vote| vote.value == value).count();
    if let Some(vote) = votes.iter().find(|vote| sharing(vote.value) >= majority) {
        return Decision::Fence(vote.value);
    }
    // The largest numbers have the fewest nodes below the fence.
    let mut best = votes.to_vec();
    best.sort_by_key(|vote| (std::cmp::Reverse(vote.value), vote.node));
    best.truncate(majority);
    let fence = best[0].value;
    best.retain(|vote| vote.value < fence);
    Decision::Raise { fence, lagging: best }
}

/// How long a majority keeps a lease, by how long some nodes keep it: whoever
/// else wants one needs a node that keeps it at least so long.
pub(crate) fn kept<T: Ord + Copy>(spans: &[T], majority: usize) -> Option<T> {
    let mut spans = spans.to_vec();
    spans.sort_unstable_by(|one, two| two.cmp(one));
    spans.get(majority - 1).copied()
}

/// Yes and no of some nodes to one question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VoteTally {
    pub(crate) yes: usize,
    pub(crate) no: usize,
}

impl VoteTally {
    /// What a majority of `count` nodes said, once one has.
    pub(crate) const fn verdict(self, count: usize) -> Option<bool> {
        if self.yes >= majority(count) {
            Some(true)
        } else if self.no >= majority(count) {
            Some(false)
        } else {
            None
        }
    }

    pub(crate) const fn count(&mut self, said: bool) {
        if said { self.yes += 1 } else { self.no += 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn votes(values: &[u64]) -> Vec<Vote> {
        values.iter().enumerate().map(|(node, &value)| Vote { node, value }).collect()
    }

    #[test]
    fn a_number_shared_by_a_majority_is_the_fence() {
        assert_eq!(decide(&votes(&[7, 7]), 2), Decision::Fence(7));
        assert_eq!(decide(&votes(&[9, 7, 7]), 2), Decision::Fence(7));
        assert_eq!(decide(&votes(&[5, 9, 5, 9, 5]), 3), Decision::Fence(5));
    }

    #[test]
    fn too_few_votes_decide_nothing() {
        assert_eq!(decide(&[], 2), Decision::Open);
        assert_eq!(decide(&votes(&[7, 7]), 3), Decision::Open);
    }

    #[test]
    fn otherwise_the_laggards_of_the_best_majority_are_raised_to_the_largest() {
        let lagging = vec![Vote { node: 0, value: 6 }];
        assert_eq!(decide(&votes(&[6, 8]), 2), Decision::Raise { fence: 8, lagging });
        let lagging = vec![Vote { node: 2, value: 6 }];
        assert_eq!(decide(&votes(&[5, 8, 6]), 2), Decision::Raise { fence: 8, lagging });
        let lagging = vec![Vote { node: 3, value: 5 }];
        assert_eq!(decide(&votes(&[8, 8, 4, 5]), 3), Decision::Raise { fence: 8, lagging });
    }

    #[test]
    fn a_lease_is_kept_as_long_as_most_nodes_keep_it() {
        assert_eq!(kept(&[3, 9, 5], 2), Some(5));
        assert_eq!(kept(&[9, 1, 2, 9, 3], 3), Some(3));
        assert_eq!(kept(&[9], 2), None);
    }

    #[test]
    fn more_than_half_is_a_majority() {
        assert_eq!([1, 2, 3, 4, 5].map(majority), [1, 2, 2, 3, 3]);
        assert_eq!(VoteTally { yes: 2, no: 1 }.verdict(3), Some(true));
        assert_eq!(VoteTally { yes: 1, no: 3 }.verdict(5), Some(false));
        assert_eq!(VoteTally { yes: 2, no: 2 }.verdict(5), None);
    }
}
