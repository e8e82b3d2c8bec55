//! The fenced quorum, every interleaving of it: three nodes, a few rounds.
//!
//! What the answers mean is the library's own code (`ballot.rs`); the nodes are
//! modelled. `fences` is about numbers and knows no time; `holders` is about
//! who believes to hold, and for how long.

mod fences;
mod holders;

#[path = "../../../leasehold/src/engines/quorum/ballot.rs"]
#[allow(dead_code, unreachable_pub, reason = "the model needs a part of it")]
mod ballot;

use std::hash::Hash;
use std::io::Write;

use stateright::{Checker, HasDiscoveries, Model};

const NODES: usize = 3;
const MAJORITY: usize = ballot::majority(NODES);
/// All ways to name the nodes.
const ORDERS: [[usize; NODES]; 6] =
    [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// Some of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
struct Set(u8);

impl Set {
    const fn has(self, node: usize) -> bool {
        self.0 >> node & 1 == 1
    }

    const fn with(self, node: usize) -> Self {
        Self(self.0 | 1 << node)
    }

    const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    fn of(nodes: impl IntoIterator<Item = usize>) -> Self {
        nodes.into_iter().fold(Self(0), Self::with)
    }
}

/// Runs to the end, or until enough properties are known to be violated; says
/// which.
fn explore<M>(what: &str, rules: M, enough: HasDiscoveries) -> Vec<&'static str>
where
    M: Model + Send + Sync + 'static,
    M::State: Hash + Send + Sync,
    M::Action: std::fmt::Debug + Clone + PartialEq,
{
    let checker = rules.checker().threads(2).finish_when(enough).spawn_bfs().join();
    let mut violated: Vec<_> = checker.discoveries().keys().copied().collect();
    violated.sort_unstable();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    let found: Vec<_> = checker
        .discoveries()
        .into_iter()
        .map(|(name, path)| format!("{} in {} steps", &name[..2], path.into_actions().len()))
        .collect();
    let line = format!("{what}: {states} states, depth {depth}, violated: {found:?}\n");
    std::io::stdout().write_all(line.as_bytes()).expect("a place to print");
    violated
}
