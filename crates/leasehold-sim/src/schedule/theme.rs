//! Themes: what faults of one kind have needed together.
//!
//! A swarm that takes a little of everything meets such a combination rarely.
//! Half of all schedules have a theme, which also says how long things take: a
//! fault that is found by nobody else gets a theme of its own, and its siblings
//! are found beside it.

use super::FaultKind::{self, Curb, Deaf, Drift, Freeze, LatePush, Mute, Pause};
use super::FaultKind::{Poison, Refuse, Rush, Stall};
use super::draw::{Habit, Topic};

/// What the spans of faults are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spans {
    /// From half a timeout to three ttls.
    Any,
    /// Around the patience of a request.
    Timeouts,
    /// Around a ttl.
    Ttls,
}

/// A recipe for schedules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub(super) topics: &'static [Topic],
    pub(super) habits: &'static [Habit],
    /// All of them, where the stage can bear them.
    pub(super) troubles: &'static [FaultKind],
    /// How many faults there are, at most.
    pub(super) faults: usize,
    pub(super) spans: Spans,
    /// At most so many hundredths of a ttl a lease is kept after the last deed.
    pub(super) keep: u64,
    /// At most so many hundredths of a ttl a user waits.
    pub(super) wait: u64,
    /// Users of one client act at the same time, so that what they ask for
    /// travels together.
    pub(super) in_step: bool,
    /// Many clients want one name, and wait for it.
    pub(super) crowded: bool,
}

const PLAIN: Theme = Theme {
    topics: &[Topic::Mutex],
    habits: &[],
    troubles: &[],
    faults: 8,
    spans: Spans::Any,
    keep: 100,
    wait: 400,
    in_step: false,
    crowded: false,
};

const LATE: Theme =
    Theme { faults: 16, spans: Spans::Ttls, keep: 60, wait: 900, crowded: true, ..PLAIN };

/// All of them.
pub(super) const THEMES: &[Theme] = &[
    // Servers answer a little too late, and what was asked for twice comes twice.
    Theme {
        topics: &[Topic::Mutex, Topic::Shared],
        troubles: &[Stall],
        faults: 20,
        spans: Spans::Timeouts,
        crowded: true,
        ..PLAIN
    },
    // Answers are late, and grants that nobody asked for any more are not.
    Theme { troubles: &[Deaf, LatePush], ..LATE },
    Theme { troubles: &[Mute, LatePush], ..LATE },
    Theme { troubles: &[Mute, Deaf, LatePush], ..LATE },
    // Less is confirmed than before, and then the holder is cut off.
    Theme {
        habits: &[Habit::Fixed, Habit::Extend],
        troubles: &[Curb, Mute],
        spans: Spans::Ttls,
        keep: 400,
        ..PLAIN
    },
    // A lease is made longer or shorter, and then the holder is cut off.
    Theme {
        topics: &[Topic::Mutex, Topic::Shared],
        habits: &[Habit::Fixed, Habit::Extend],
        troubles: &[Mute, Deaf],
        spans: Spans::Ttls,
        keep: 400,
        ..PLAIN
    },
    // A lease is made longer and then shorter, and its holder does not hear of it.
    Theme {
        habits: &[Habit::Fixed, Habit::Extend],
        troubles: &[Deaf],
        faults: 12,
        spans: Spans::Ttls,
        keep: 400,
        ..PLAIN
    },
    // Clocks differ while long leases run.
    Theme {
        topics: &[Topic::Mutex, Topic::Shared],
        habits: &[Habit::Fixed, Habit::Extend],
        troubles: &[Drift, Rush],
        faults: 4,
        keep: 1200,
        ..PLAIN
    },
    // A writer becomes a reader, and does not hear of it.
    Theme {
        topics: &[Topic::Shared],
        habits: &[Habit::Convert],
        troubles: &[Deaf],
        faults: 12,
        ..PLAIN
    },
    // So does one of several servers, and another refuses.
    Theme {
        topics: &[Topic::Shared],
        habits: &[Habit::Convert],
        troubles: &[Stall, Refuse],
        faults: 16,
        spans: Spans::Ttls,
        crowded: true,
        ..PLAIN
    },
    // One request of a call is a bad one.
    Theme { topics: &[Topic::Count], troubles: &[Poison], faults: 2, in_step: true, ..PLAIN },
    Theme { troubles: &[Poison, Freeze], faults: 4, keep: 20, in_step: true, ..PLAIN },
    // Work takes longer than its lease.
    Theme { topics: &[Topic::Once], troubles: &[Mute, Pause, Stall], spans: Spans::Ttls, ..PLAIN },
    Theme { topics: &[Topic::Once], ..PLAIN },
    // A release is applied, and its reply is lost.
    Theme { troubles: &[Deaf], faults: 12, spans: Spans::Timeouts, keep: 20, ..PLAIN },
    // An extension of a fixed lease is refused.
    Theme {
        habits: &[Habit::Fixed, Habit::Extend],
        troubles: &[Refuse],
        faults: 20,
        spans: Spans::Timeouts,
        keep: 300,
        ..PLAIN
    },
    // The same thing is done very often.
    Theme { habits: &[Habit::Beat], ..PLAIN },
];
