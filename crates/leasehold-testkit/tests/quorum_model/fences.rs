//! Fences: distinct and in order, whatever the clocks do.
//!
//! An attempt is one round of one ticket: rounds of one ticket are leases of
//! their own, so a second one is like one of another client. That it takes the
//! place of an earlier one is an expiry. What is left out is subsumed: a
//! release or a clean-up is an expiry, which may strike any node at any time; a
//! lost message, a pause and a crash of a client are a step that is never
//! taken; a clock jump is an expiry too. A client sees any part of the answers.
//!
//! Runs are bounded where the numbers could grow without end: by the largest
//! number of a node (`cap`), and by how often a counter moves for other
//! reasons, such as another name or the clock (`drift`).

use stateright::{HasDiscoveries, Model, Property};

use crate::ballot::{Decision, Vote, decide};
use crate::{MAJORITY, NODES, ORDERS, Set, explore};

/// What a node does, and how it may be wrong.
#[derive(Clone, Copy, Debug)]
struct Rules {
    attempts: usize,
    /// Locks and raises may be delivered any number of times.
    duplicates: bool,
    /// The largest number.
    cap: u8,
    /// How often a counter may jump by one because of others.
    drift: u8,
    draw: Draw,
    second_phase: bool,
    compare: Compare,
    late: Late,
    /// A raise that finds the fence already there says yes.
    fence_is_fine: bool,
    restart: Restart,
    /// Lock and raise are several requests, as on an engine with records.
    composed: bool,
}

/// When a number is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Draw {
    /// With the lock.
    AtLock,
    /// With the raise: a lock only looks at the counter, the fence is one more.
    Never,
}

/// What a raise looks at before it writes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Compare {
    LeaseAndNumber,
    Lease,
    Nothing,
}

/// What a vote is worth that arrives after the decision.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Late {
    Nothing,
    /// It stands in for a raise that fails.
    Vote,
}

/// What a node that has lost its memory does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Restart {
    Never,
    VotesAtOnce,
    /// Votes again once every lock of every node has ended.
    WaitsForLeases,
    /// Starts above every number so far.
    AboveAll,
    /// Starts one below the largest number so far.
    OneBehind,
}

const SOUND: Rules = Rules {
    attempts: 2,
    duplicates: false,
    cap: 4,
    drift: 0,
    draw: Draw::AtLock,
    second_phase: true,
    compare: Compare::LeaseAndNumber,
    late: Late::Nothing,
    fence_is_fine: false,
    restart: Restart::Never,
    composed: false,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
struct Node {
    counter: u8,
    lock: Option<Lock>,
    /// How many leases it has had: the order of locks on this node.
    turn: u8,
    silent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Lock {
    attempt: u8,
    /// 0 while the lease has no number yet (composed locks only).
    number: u8,
    turn: u8,
}

/// What a client knows of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
struct Seen {
    asked: bool,
    vote: Option<(u8, u8)>,
    /// A number drawn but not yet written beside the lease.
    drawn: u8,
    /// The counter was lifted for the raise under way.
    lifted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
enum Phase {
    #[default]
    Voting,
    Raising {
        fence: u8,
        /// The quorum, and those of it that have the number.
        of: Set,
        done: Set,
    },
    Granted {
        fence: u8,
        of: Set,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
struct Attempt {
    /// The largest fence that was reported before it began.
    after: Option<u8>,
    seen: [Seen; NODES],
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct State {
    nodes: [Node; NODES],
    attempts: Vec<Attempt>,
    drifted: u8,
    restarted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// A lock arrives; whether the client takes this answer or keeps an older.
    Lock {
        attempt: usize,
        node: usize,
        heard: bool,
    },
    /// The second and third request of a composed lock.
    Draw {
        attempt: usize,
        node: usize,
    },
    Bind {
        attempt: usize,
        node: usize,
    },
    Decide {
        attempt: usize,
        votes: Set,
    },
    /// The first request of a composed raise.
    Lift {
        attempt: usize,
        node: usize,
    },
    Raise {
        attempt: usize,
        node: usize,
    },
    Expire {
        node: usize,
    },
    Drift {
        node: usize,
    },
    Restart {
        node: usize,
    },
    Return {
        node: usize,
    },
}

impl Rules {
    fn lock(self, state: &mut State, attempt: usize, node: usize, heard: bool) -> Option<()> {
        let before = state.fences().max().unwrap_or(0);
        let (mine, it) = (&mut state.attempts[attempt], &mut state.nodes[node]);
        let again = mine.seen[node].asked;
        if it.silent || (again && !self.duplicates) {
            return None;
        }
        mine.after.get_or_insert(before);
        mine.seen[node].asked = true;
        if it.lock.is_none() {
            it.turn += 1;
            it.lock = Some(Lock { attempt: small(attempt), number: 0, turn: it.turn });
            if !self.composed {
                it.counter += u8::from(self.draw == Draw::AtLock);
                it.lock.as_mut()?.number = it.counter;
            }
        }
        let lock = it.lock.filter(|lock| usize::from(lock.attempt) == attempt);
        let listens = match mine.phase {
            Phase::Voting => true,
            Phase::Raising { of, .. } => self.late == Late::Vote && !of.has(node),
            Phase::Granted { .. } => false,
        };
        if let Some(lock) = lock.filter(|_| heard && listens && !self.composed) {
            mine.seen[node].vote = Some((lock.number, lock.turn));
            self.count_late(mine, node);
        }
        Some(())
    }

    /// The mistake of taking any late yes for a raise.
    fn count_late(self, mine: &mut Attempt, node: usize) {
        if let Phase::Raising { fence, of, done } = mine.phase {
            mine.phase = Phase::Raising { fence, of: of.with(node), done: done.with(node) };
            grant_if_done(mine);
        }
    }

    fn draw(self, state: &mut State, attempt: usize, node: usize) -> Option<()> {
        let (mine, it) = (&mut state.attempts[attempt].seen[node], &mut state.nodes[node]);
        // Whoever asked believes that it has the lease; it may be wrong by now.
        if !self.composed || !mine.asked || mine.drawn != 0 {
            return None;
        }
        it.counter += 1;
        mine.drawn = it.counter;
        Some(())
    }

    fn bind(self, state: &mut State, attempt: usize, node: usize) -> Option<()> {
        let (mine, it) = (&mut state.attempts[attempt].seen[node], &mut state.nodes[node]);
        let lock = it.lock.as_mut()?;
        if mine.drawn == 0 || usize::from(lock.attempt) != attempt || lock.number != 0 {
            return None;
        }
        lock.number = std::mem::take(&mut mine.drawn);
        mine.vote = Some((lock.number, lock.turn));
        Some(())
    }

    fn decide(self, mine: &mut Attempt, chosen: Set) -> Option<()> {
        let vote = |node: usize| {
            let (value, _) = mine.seen[node].vote?;
            Some(Vote { node, value: u64::from(value) })
        };
        let votes: Vec<Vote> =
            (0..NODES).filter(|node| chosen.has(*node)).map(vote).collect::<Option<_>>()?;
        let of = |value: u64| votes.iter().filter(move |v| v.value == value).map(|v| v.node);
        let all = Set::of(votes.iter().map(|vote| vote.node));
        let largest = votes.iter().map(|vote| vote.value).max()?;
        mine.phase = match decide(&votes, MAJORITY) {
            Decision::Open => return None,
            _ if self.draw == Draw::Never => Phase::Granted { fence: narrow(largest + 1), of: all },
            _ if !self.second_phase => Phase::Granted { fence: narrow(largest), of: all },
            Decision::Fence(fence) => {
                Phase::Granted { fence: narrow(fence), of: Set::of(of(fence)) }
            }
            Decision::Raise { fence, lagging } => {
                let done = Set::of(of(fence));
                let quorum = lagging.iter().fold(done, |set, vote| set.with(vote.node));
                Phase::Raising { fence: narrow(fence), of: quorum, done }
            }
        };
        Some(())
    }

    fn lift(self, state: &mut State, attempt: usize, node: usize) -> Option<()> {
        let (mine, it) = (&mut state.attempts[attempt], &mut state.nodes[node]);
        let Phase::Raising { fence, of, done } = mine.phase else { return None };
        if !self.composed || !of.has(node) || done.has(node) || mine.seen[node].lifted {
            return None;
        }
        it.counter = it.counter.max(fence);
        mine.seen[node].lifted = true;
        Some(())
    }

    fn raise(self, state: &mut State, attempt: usize, node: usize) -> Option<()> {
        let (mine, it) = (&mut state.attempts[attempt], &mut state.nodes[node]);
        let (fence, of) = match mine.phase {
            Phase::Raising { fence, of, .. } => (fence, of),
            Phase::Granted { fence, of } if self.duplicates => (fence, of),
            _ => return None,
        };
        let (number, _) = mine.seen[node].vote.filter(|_| of.has(node))?;
        if it.silent || number >= fence || (self.composed && !mine.seen[node].lifted) {
            return None;
        }
        if !self.accepts(it, attempt, number, fence) {
            return None;
        }
        it.counter = it.counter.max(fence);
        if let Some(lock) = it.lock.as_mut().filter(|lock| usize::from(lock.attempt) == attempt) {
            lock.number = fence;
        }
        if let Phase::Raising { done, .. } = &mut mine.phase {
            *done = done.with(node);
        }
        grant_if_done(mine);
        Some(())
    }

    fn accepts(self, it: &Node, attempt: usize, number: u8, fence: u8) -> bool {
        let mine = it.lock.filter(|lock| usize::from(lock.attempt) == attempt);
        match self.compare {
            Compare::Nothing => true,
            Compare::Lease => mine.is_some(),
            Compare::LeaseAndNumber if self.fence_is_fine => {
                mine.is_some_and(|lock| lock.number == number || lock.number == fence)
            }
            Compare::LeaseAndNumber => mine.is_some_and(|lock| lock.number == number),
        }
    }

    fn restart(self, state: &mut State, node: usize) -> Option<()> {
        if self.restart == Restart::Never || state.restarted {
            return None;
        }
        let fences = state.attempts.iter().filter_map(Attempt::promised);
        let top = state.nodes.iter().map(|it| it.counter).chain(fences).max()?;
        state.restarted = true;
        let it = &mut state.nodes[node];
        // The turns are the model's own; no node forgets them.
        *it = Node { turn: it.turn, ..Node::default() };
        it.silent = self.restart == Restart::WaitsForLeases;
        it.counter = match self.restart {
            Restart::AboveAll => top,
            Restart::OneBehind => top.saturating_sub(1),
            _ => 0,
        };
        Some(())
    }

    fn come_back(state: &mut State, node: usize) -> Option<()> {
        let free = state.nodes.iter().all(|it| it.lock.is_none());
        let it = &mut state.nodes[node];
        (it.silent && free).then(|| it.silent = false)
    }

    fn drift(self, state: &mut State, node: usize) -> Option<()> {
        (state.drifted < self.drift).then(|| {
            state.drifted += 1;
            state.nodes[node].counter += 1;
        })
    }
}

fn grant_if_done(mine: &mut Attempt) {
    if let Phase::Raising { fence, of, done } = mine.phase
        && (of == done || done.len() >= MAJORITY)
    {
        mine.phase = Phase::Granted { fence, of: done };
    }
}

const fn small(index: usize) -> u8 {
    index as u8
}

const fn narrow(value: u64) -> u8 {
    value as u8
}

impl Attempt {
    /// The fence it has, or is about to have.
    const fn promised(&self) -> Option<u8> {
        match self.phase {
            Phase::Voting => None,
            Phase::Raising { fence, .. } | Phase::Granted { fence, .. } => Some(fence),
        }
    }

    const fn fence(&self) -> Option<u8> {
        match self.phase {
            Phase::Granted { fence, .. } => Some(fence),
            _ => None,
        }
    }

    fn turn(&self, node: usize) -> Option<u8> {
        match self.phase {
            Phase::Granted { of, .. } if of.has(node) => Some(self.seen[node].vote?.1),
            _ => None,
        }
    }
}

impl State {
    fn fences(&self) -> impl Iterator<Item = u8> {
        self.attempts.iter().filter_map(Attempt::fence)
    }

    /// Every two grants.
    fn pairs(&self) -> impl Iterator<Item = (&Attempt, &Attempt)> {
        let granted = || self.attempts.iter().filter(|it| it.fence().is_some());
        granted()
            .enumerate()
            .flat_map(move |(n, one)| granted().skip(n + 1).map(move |it| (one, it)))
    }

    /// The same state with its nodes and attempts named in another order.
    fn renamed(&self, nodes: &[usize; NODES], attempts: &[usize]) -> Self {
        let set = |set: Set| Set::of((0..NODES).filter(|node| set.has(nodes[*node])));
        let mut to = self.clone();
        for (n, node) in to.nodes.iter_mut().enumerate() {
            *node = self.nodes[nodes[n]];
            if let Some(lock) = &mut node.lock {
                let place = attempts.iter().position(|it| *it == usize::from(lock.attempt));
                lock.attempt = small(place.expect("an attempt"));
            }
        }
        for (n, attempt) in to.attempts.iter_mut().enumerate() {
            let from = &self.attempts[attempts[n]];
            *attempt = *from;
            attempt.seen = std::array::from_fn(|node| from.seen[nodes[node]]);
            attempt.phase = match from.phase {
                Phase::Voting => Phase::Voting,
                Phase::Raising { fence, of, done } => {
                    Phase::Raising { fence, of: set(of), done: set(done) }
                }
                Phase::Granted { fence, of } => Phase::Granted { fence, of: set(of) },
            };
        }
        to
    }

    /// One state for all that differ by names only.
    fn canonical(self) -> Self {
        let count = self.attempts.len();
        let attempts: Vec<&[usize]> = match count {
            2 => vec![&[0, 1], &[1, 0]],
            _ => ORDERS.iter().map(<[usize; NODES]>::as_slice).collect(),
        };
        let all = ORDERS.iter().flat_map(|nodes| attempts.iter().map(move |them| (nodes, *them)));
        all.map(|(nodes, them)| self.renamed(nodes, them)).min().expect("an order")
    }
}

impl Model for Rules {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let attempts = vec![Attempt::default(); self.attempts];
        vec![State { nodes: Default::default(), attempts, drifted: 0, restarted: false }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for node in 0..NODES {
            steps.extend([Step::Expire { node }, Step::Drift { node }]);
            steps.extend([Step::Restart { node }, Step::Return { node }]);
            for attempt in 0..self.attempts {
                steps.push(Step::Lock { attempt, node, heard: true });
                steps.push(Step::Raise { attempt, node });
                if self.duplicates {
                    steps.push(Step::Lock { attempt, node, heard: false });
                }
                if self.composed {
                    steps.extend([Step::Draw { attempt, node }, Step::Bind { attempt, node }]);
                    steps.push(Step::Lift { attempt, node });
                }
            }
        }
        for (attempt, mine) in state.attempts.iter().enumerate() {
            if mine.phase == Phase::Voting {
                steps.extend([3, 5, 6, 7].map(|set| Step::Decide { attempt, votes: Set(set) }));
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        let to = &mut state;
        match step {
            Step::Lock { attempt, node, heard } => self.lock(to, attempt, node, heard)?,
            Step::Draw { attempt, node } => self.draw(to, attempt, node)?,
            Step::Bind { attempt, node } => self.bind(to, attempt, node)?,
            Step::Decide { attempt, votes } => self.decide(&mut to.attempts[attempt], votes)?,
            Step::Lift { attempt, node } => self.lift(to, attempt, node)?,
            Step::Raise { attempt, node } => self.raise(to, attempt, node)?,
            Step::Expire { node } => drop(to.nodes[node].lock.take()?),
            Step::Drift { node } => self.drift(to, node)?,
            Step::Restart { node } => self.restart(to, node)?,
            Step::Return { node } => Self::come_back(to, node)?,
        }
        let low = state.nodes.iter().all(|node| node.counter <= self.cap);
        (low && state != *last).then(|| state.canonical())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("A1: fences are distinct", |_, state: &State| {
                state.pairs().all(|(one, two)| one.fence() != two.fence())
            }),
            Property::always(
                "A2: what begins after a grant has a larger fence",
                |_, state: &State| {
                    state.attempts.iter().all(|it| it.fence().is_none_or(|f| Some(f) > it.after))
                },
            ),
            Property::always(
                "B: fences are in the order of the locks of each node",
                |_, state: &State| {
                    let agree = |(one, two): (&Attempt, &Attempt)| {
                        (0..NODES).all(|node| match (one.turn(node), two.turn(node)) {
                            (Some(a), Some(b)) => (a < b) == (one.fence() < two.fence()),
                            _ => true,
                        })
                    };
                    state.pairs().all(agree)
                },
            ),
        ]
    }
}

/// Nothing is violated, and something could have been: grants do happen.
fn holds(what: &str, rules: Rules) {
    assert_eq!(explore(what, rules, HasDiscoveries::AnyFailures), [""; 0], "{what}");
}

fn breaks(what: &str, rules: Rules) {
    assert_ne!(
        explore(what, rules, HasDiscoveries::AnyFailures),
        [""; 0],
        "{what}: no violation was found"
    );
}

#[test]
fn two_attempts_with_duplicates_hold() {
    holds("two attempts, duplicates", Rules { duplicates: true, ..SOUND });
}

#[test]
fn three_attempts_hold() {
    holds("three attempts", Rules { attempts: 3, cap: 9, ..SOUND });
}

#[test]
fn counters_shared_with_other_names_and_moved_by_clocks_hold() {
    holds("two attempts, others draw", Rules { drift: 3, cap: 9, ..SOUND });
    holds(
        "two attempts, duplicates, others draw",
        Rules { drift: 1, cap: 3, duplicates: true, ..SOUND },
    );
}

#[test]
fn a_node_made_of_a_lease_and_records_holds() {
    holds("two attempts, composed nodes", Rules { composed: true, cap: 3, ..SOUND });
}

#[test]
fn a_node_that_starts_above_all_numbers_holds() {
    let rules = Rules { restart: Restart::AboveAll, cap: 6, ..SOUND };
    holds("restart above all", rules);
    holds("restart above all, duplicates", Rules { duplicates: true, cap: 3, ..rules });
}

#[test]
fn without_a_draw_at_the_lock_and_without_a_second_phase_it_breaks() {
    breaks("no phase 2", Rules { draw: Draw::Never, ..SOUND });
}

#[test]
fn in_a_single_phase_it_breaks() {
    breaks("single phase", Rules { second_phase: false, drift: 1, ..SOUND });
}

#[test]
fn a_raise_that_compares_nothing_breaks_it() {
    breaks("raise without compare", Rules { compare: Compare::Nothing, drift: 1, ..SOUND });
}

#[test]
fn a_raise_that_compares_the_lease_alone_breaks_it_under_duplicates() {
    let rules = Rules { compare: Compare::Lease, duplicates: true, drift: 1, ..SOUND };
    breaks("raise compares the lease", rules);
}

#[test]
fn a_late_yes_that_is_taken_for_a_raise_breaks_it() {
    breaks("late ok counted blindly", Rules { late: Late::Vote, drift: 1, ..SOUND });
}

#[test]
fn a_repeated_raise_that_is_taken_for_a_success_breaks_it() {
    let rules = Rules { fence_is_fine: true, duplicates: true, drift: 1, ..SOUND };
    breaks("c == fence is fine", rules);
}

#[test]
fn a_node_that_forgets_and_votes_at_once_breaks_it() {
    breaks("restart votes at once", Rules { restart: Restart::VotesAtOnce, ..SOUND });
}

#[test]
fn a_node_that_forgets_and_waits_for_all_leases_breaks_it() {
    breaks("restart waits for leases", Rules { restart: Restart::WaitsForLeases, ..SOUND });
}

#[test]
fn a_node_that_starts_one_behind_breaks_it() {
    breaks("restart one behind", Rules { restart: Restart::OneBehind, ..SOUND });
}
