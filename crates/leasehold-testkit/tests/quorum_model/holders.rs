//! Holders: at most one at a time, and none for longer than a majority keeps
//! its lease.
//!
//! Two tickets, each in several rounds: one that gives up a round opens the
//! next, while locks and clean-ups of the earlier ones are still under way.
//! Each message arrives at any later time or never, locks and unlocks any
//! number of times, whatever has become of their round. Time passes in steps
//! for everyone at once: clocks that differ are the drift, which is taken off
//! elsewhere, and nodes that forget are the quarantine's.
//!
//! A round counts answers until it decides; a renewal counts how long nodes
//! keep the lease, as the library does. Numbers are left out: `fences` has them.

use stateright::{HasDiscoveries, Model, Property};

use crate::ballot::{Decision, Vote, VoteTally, decide, kept};
use crate::{MAJORITY, NODES, ORDERS, Set, explore};

const TICKETS: usize = 2;
/// The most renewals of a ticket; extensions are renewals too.
const RENEWALS: usize = 2;

/// What nodes and clients do, and how they may be wrong.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// How many rounds each ticket may open.
    rounds: [u8; TICKETS],
    /// How often each may be renewed, and for how long.
    renewals: [u8; TICKETS],
    spans: &'static [u8],
    /// How long a lock is granted.
    ttl: u8,
    named: Named,
    /// A lock of an earlier round takes the place of a later one.
    any_round_ousts: bool,
    /// A node sets the time that a renewal asks for, even if it is less.
    nodes_shorten: bool,
    deadline: Deadline,
}

/// What a lease is called on the nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Named {
    ByRound,
    ByTicket,
}

/// What a confirmation does to a deadline.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deadline {
    /// It says how long a majority keeps the lease, and that is the deadline.
    Follows,
    /// It says what was asked for, and a deadline never goes back.
    Grows,
    /// It says what was asked for, and that is the deadline.
    IsAsked,
}

const SOUND: Rules = Rules {
    rounds: [2, 1],
    renewals: [0, 0],
    spans: &[1, 3],
    ttl: 2,
    named: Named::ByRound,
    any_round_ousts: false,
    nodes_shorten: false,
    deadline: Deadline::Follows,
};

/// As little time as it takes for one renewal to be shorter than another.
const RENEWED: Rules = Rules { rounds: [1, 1], renewals: [2, 0], spans: &[1, 2], ttl: 1, ..SOUND };

/// With more time there are more ways to break it, and they are found sooner.
const EXTENDED: Rules = Rules { rounds: [1, 1], renewals: [2, 0], ..SOUND };

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Lock {
    ticket: u8,
    round: u8,
    left: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
enum Phase {
    /// Nothing is meant: before the first round, between rounds, at the end.
    #[default]
    Idle,
    Voting {
        age: u8,
        votes: Set,
    },
    /// Believed, for so long.
    Held {
        left: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
struct Ticket {
    /// The last round; 0 before the first.
    round: u8,
    phase: Phase,
    /// The last one is under way, the others are late.
    renewals: [Renewal; RENEWALS],
    renewed: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
struct Renewal {
    round: u8,
    span: u8,
    age: u8,
    /// What nodes have said: not yet, not there, so long.
    said: [Option<Option<u8>>; NODES],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
struct State {
    nodes: [Option<Lock>; NODES],
    tickets: [Ticket; TICKETS],
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// A ticket opens its next round.
    Open(usize),
    GiveUp(usize),
    Decide(usize),
    /// A holder lets go.
    Release(usize),
    Lock {
        ticket: usize,
        round: u8,
        node: usize,
    },
    /// A clean-up of a round that was given up, or of one that has ended.
    Unlock {
        ticket: usize,
        round: u8,
        node: usize,
    },
    Renew {
        ticket: usize,
        span: u8,
    },
    Extend {
        ticket: usize,
        renewal: usize,
        node: usize,
    },
    Confirm(usize),
    /// Time passes.
    Tick,
}

impl Rules {
    /// What nodes call this round.
    const fn name(self, round: u8) -> u8 {
        match self.named {
            Named::ByRound => round,
            Named::ByTicket => 0,
        }
    }

    fn open(self, state: &mut State, ticket: usize) -> Option<()> {
        let mine = &mut state.tickets[ticket];
        (mine.phase == Phase::Idle && mine.round < self.rounds[ticket]).then(|| {
            mine.round += 1;
            mine.phase = Phase::Voting { age: 0, votes: Set::default() };
        })
    }

    fn lock(self, state: &mut State, ticket: usize, round: u8, node: usize) -> Option<()> {
        let (mine, it) = (&mut state.tickets[ticket], &mut state.nodes[node]);
        if round == 0 || round > mine.round {
            return None;
        }
        let (who, name) = (ticket as u8, self.name(round));
        let new = Lock { ticket: who, round: name, left: self.ttl };
        let ousts = |lock: &Lock| lock.ticket == who && (lock.round < name || self.any_round_ousts);
        match it {
            Some(lock) if lock.ticket == who && lock.round == name => {
                lock.left = lock.left.max(self.ttl);
            }
            Some(lock) if !ousts(lock) => return None,
            _ => *it = Some(new),
        }
        if let Phase::Voting { votes, .. } = &mut mine.phase
            && round == mine.round
        {
            *votes = votes.with(node);
        }
        Some(())
    }

    fn unlock(self, state: &mut State, ticket: usize, round: u8, node: usize) -> Option<()> {
        let mine = &state.tickets[ticket];
        let ended = round < mine.round || (round == mine.round && mine.phase == Phase::Idle);
        let it = &mut state.nodes[node];
        let lock = it.filter(|_| ended && round > 0)?;
        (usize::from(lock.ticket) == ticket && lock.round <= self.name(round)).then(|| *it = None)
    }

    /// The votes of this round, by the rule of the library. Numbers are equal.
    fn decide(self, mine: &mut Ticket) -> Option<()> {
        let Phase::Voting { age, votes } = mine.phase else { return None };
        let votes: Vec<Vote> = (0..NODES)
            .filter(|node| votes.has(*node))
            .map(|node| Vote { node, value: 1 })
            .collect();
        let granted = decide(&votes, MAJORITY) != Decision::Open && age < self.ttl;
        granted.then(|| mine.phase = Phase::Held { left: self.ttl - age })
    }

    fn renew(self, state: &mut State, ticket: usize, span: u8) -> Option<()> {
        let mine = &mut state.tickets[ticket];
        let held = matches!(mine.phase, Phase::Held { .. });
        (held && mine.renewed < self.renewals[ticket]).then(|| {
            let new = Renewal { round: mine.round, span, ..Renewal::default() };
            mine.renewals[usize::from(mine.renewed)] = new;
            mine.renewed += 1;
        })
    }

    fn extend(self, state: &mut State, ticket: usize, n: usize, node: usize) -> Option<()> {
        let (mine, it) = (&mut state.tickets[ticket], &mut state.nodes[node]);
        let renewal = &mut mine.renewals[n];
        if n >= usize::from(mine.renewed) || renewal.said[node].is_some() {
            return None;
        }
        let name = self.name(renewal.round);
        let ours = |lock: &&mut Lock| usize::from(lock.ticket) == ticket && lock.round == name;
        renewal.said[node] = Some(it.as_mut().filter(ours).map(|lock| {
            lock.left = if self.nodes_shorten { renewal.span } else { lock.left.max(renewal.span) };
            if self.deadline == Deadline::Follows { lock.left } else { renewal.span }
        }));
        // One that was extended for nothing is free.
        *it = it.filter(|lock| lock.left > 0);
        Some(())
    }

    /// The answers to the renewal under way, by the rules of the library.
    fn confirm(self, mine: &mut Ticket) -> Option<()> {
        let Phase::Held { left } = mine.phase else { return None };
        let renewal = mine.renewals[usize::from(mine.renewed).checked_sub(1)?];
        let mut tally = VoteTally::default();
        renewal.said.iter().flatten().for_each(|said| tally.count(said.is_some()));
        if renewal.round != mine.round {
            return None;
        }
        let spans: Vec<u8> = renewal.said.iter().flatten().copied().flatten().collect();
        let now = match tally.verdict(NODES)? {
            true => kept(&spans, MAJORITY)?.saturating_sub(renewal.age),
            false => 0,
        };
        let grows = self.deadline == Deadline::Grows && tally.verdict(NODES) == Some(true);
        mine.phase = match if grows { now.max(left) } else { now } {
            0 => Phase::Idle,
            left => Phase::Held { left },
        };
        Some(())
    }

    fn tick(self, state: &mut State) -> Option<()> {
        for it in &mut state.nodes {
            *it = it.map(|lock| Lock { left: lock.left - 1, ..lock }).filter(|lock| lock.left > 0);
        }
        for mine in &mut state.tickets {
            let longest = self.spans.iter().copied().max().unwrap_or(0).max(self.ttl);
            for renewal in &mut mine.renewals[..usize::from(mine.renewed)] {
                renewal.age = (renewal.age + 1).min(longest);
            }
            mine.phase = match mine.phase {
                Phase::Voting { age, votes } => {
                    Phase::Voting { age: (age + 1).min(self.ttl), votes }
                }
                Phase::Held { left: 1 } | Phase::Idle => Phase::Idle,
                Phase::Held { left } => Phase::Held { left: left - 1 },
            };
        }
        Some(())
    }

    /// Whether a majority keeps what a ticket believes to hold, for as long.
    fn stands(self, state: &State, ticket: usize) -> bool {
        let mine = &state.tickets[ticket];
        let Phase::Held { left } = mine.phase else { return true };
        let keeps = |lock: &&Lock| {
            usize::from(lock.ticket) == ticket
                && lock.round == self.name(mine.round)
                && lock.left >= left
        };
        state.nodes.iter().flatten().filter(keeps).count() >= MAJORITY
    }
}

impl State {
    /// One state for all that differ by the names of nodes only.
    fn canonical(self) -> Self {
        ORDERS.iter().map(|order| self.renamed(order)).min().expect("an order")
    }

    fn renamed(&self, order: &[usize; NODES]) -> Self {
        let mut to = self.clone();
        to.nodes = order.map(|node| self.nodes[node]);
        for (to, from) in to.tickets.iter_mut().zip(&self.tickets) {
            if let Phase::Voting { votes, .. } = &mut to.phase {
                let old = *votes;
                *votes = Set::of((0..NODES).filter(|node| old.has(order[*node])));
            }
            for (to, from) in to.renewals.iter_mut().zip(&from.renewals) {
                to.said = order.map(|node| from.said[node]);
            }
        }
        to
    }
}

/// What believes ends: nothing more is meant by it.
fn end(mine: &mut Ticket, is: impl Fn(Phase) -> bool) -> Option<()> {
    is(mine.phase).then(|| mine.phase = Phase::Idle)
}

impl Model for Rules {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        steps.push(Step::Tick);
        for ticket in 0..TICKETS {
            steps.extend([Step::Open(ticket), Step::GiveUp(ticket), Step::Decide(ticket)]);
            steps.extend([Step::Release(ticket), Step::Confirm(ticket)]);
            steps.extend(self.spans.iter().map(|span| Step::Renew { ticket, span: *span }));
            for node in 0..NODES {
                for round in 1..=state.tickets[ticket].round {
                    steps.push(Step::Lock { ticket, round, node });
                    steps.push(Step::Unlock { ticket, round, node });
                }
                let renewals = 0..RENEWALS;
                steps.extend(renewals.map(|renewal| Step::Extend { ticket, renewal, node }));
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        let to = &mut state;
        match step {
            Step::Open(ticket) => self.open(to, ticket)?,
            Step::GiveUp(ticket) => {
                end(&mut to.tickets[ticket], |phase| matches!(phase, Phase::Voting { .. }))?;
            }
            Step::Release(ticket) => {
                end(&mut to.tickets[ticket], |phase| matches!(phase, Phase::Held { .. }))?;
            }
            Step::Decide(ticket) => self.decide(&mut to.tickets[ticket])?,
            Step::Lock { ticket, round, node } => self.lock(to, ticket, round, node)?,
            Step::Unlock { ticket, round, node } => self.unlock(to, ticket, round, node)?,
            Step::Renew { ticket, span } => self.renew(to, ticket, span)?,
            Step::Extend { ticket, renewal, node } => self.extend(to, ticket, renewal, node)?,
            Step::Confirm(ticket) => self.confirm(&mut to.tickets[ticket])?,
            Step::Tick => self.tick(to)?,
        }
        (state != *last).then(|| state.canonical())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("I1: at most one believes to hold", |_, state: &State| {
                let held = |it: &&Ticket| matches!(it.phase, Phase::Held { .. });
                state.tickets.iter().filter(held).count() <= 1
            }),
            Property::always(
                "I6: nobody believes for longer than a majority keeps it",
                |rules: &Self, state: &State| (0..TICKETS).all(|it| rules.stands(state, it)),
            ),
        ]
    }
}

fn holds(what: &str, rules: Rules) {
    assert_eq!(explore(what, rules, HasDiscoveries::AnyFailures), [""; 0], "{what}");
}

/// There are two holders at once.
fn breaks(what: &str, rules: Rules) {
    let violated = explore(what, rules, HasDiscoveries::AllFailures);
    assert!(violated.iter().any(|it| it.starts_with("I1")), "{what}: {violated:?}");
}

#[test]
fn a_second_and_third_round_of_a_ticket_hold() {
    holds("three rounds beside one", Rules { rounds: [3, 1], ..SOUND });
    holds("two rounds beside two", Rules { rounds: [2, 2], ..SOUND });
}

#[test]
fn renewals_and_extensions_hold() {
    holds("two renewals of one round", RENEWED);
    let rounds = [2, 1];
    holds("a renewal in either of two rounds", Rules { rounds, renewals: [1, 0], ..RENEWED });
}

#[test]
fn a_clean_up_that_names_the_ticket_alone_breaks_it() {
    breaks("unlock by ticket", Rules { named: Named::ByTicket, ..SOUND });
}

#[test]
fn a_late_lock_that_takes_the_place_of_a_later_round_breaks_it() {
    breaks("any round ousts", Rules { any_round_ousts: true, ..SOUND });
}

#[test]
fn a_node_that_shortens_under_a_deadline_that_only_grows_breaks_it() {
    let deadline = Deadline::Grows;
    breaks("renewals shorten", Rules { nodes_shorten: true, deadline, ..EXTENDED });
    let spans = &[0];
    breaks("extended by nothing", Rules { nodes_shorten: true, deadline, spans, ..EXTENDED });
}

/// The late renewal of the two sets the shorter time.
#[test]
fn a_node_that_shortens_breaks_it_even_if_the_deadline_follows() {
    breaks("renewals shorten, late", Rules { nodes_shorten: true, ..EXTENDED });
    let deadline = Deadline::IsAsked;
    breaks("the same, as asked", Rules { nodes_shorten: true, deadline, ..EXTENDED });
}

#[test]
fn nodes_that_never_shorten_hold_even_if_the_deadline_only_grows() {
    holds("a deadline that grows", Rules { deadline: Deadline::Grows, ..RENEWED });
}
