//! Mutants: faults that the library once had are put back, one at a time, and two that
//! the script of renewals never had are put in; the simulator has to find each.

use std::time::{Duration, Instant};

use leasehold::mutant::{Mutant, revive};

use crate::campaign::attempt;
use crate::redis::{Patch, patch};
use crate::schedule::Stage;
use crate::schedule::draw::draw;

/// A fault that is put back: in the code, or in the text of a script.
#[derive(Clone, Copy, Debug)]
pub enum Revived {
    /// In the code.
    Code(Mutant),
    /// In scripts: its name, where they run; what stands there now, and what stood
    /// there.
    Script(&'static str, Stage, &'static [(&'static str, &'static str)]),
}

impl Revived {
    /// What people call it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Code(mutant) => format!("{mutant:?}"),
            Self::Script(name, ..) => (*name).to_owned(),
        }
    }

    /// Where to look for it.
    fn stages(&self) -> &[Stage] {
        match self {
            Self::Script(_, stage, _) => std::slice::from_ref(stage),
            Self::Code(Mutant::VerbsSentTwice | Mutant::EndlessSpans) => &[Stage::Redis],
            Self::Code(Mutant::StaleCleanUp | Mutant::RefusedByOne) => {
                &[Stage::Members(3), Stage::Redlock(3)]
            }
            Self::Code(Mutant::StaleHandOver | Mutant::CutOffIsRefused | Mutant::MarkIsOutcome) => {
                &[Stage::Contract, Stage::Redis]
            }
            Self::Code(_) => &[Stage::Contract, Stage::Members(3)],
        }
    }

    fn put_back(&self) {
        match self {
            Self::Code(mutant) => revive(Some(*mutant)),
            Self::Script(_, _, lines) => {
                let line = |(from, to): &(&str, &str)| Patch {
                    from: (*from).to_owned(),
                    to: (*to).to_owned(),
                };
                patch(lines.iter().map(line).collect());
            }
        }
    }
}

/// Puts nothing back any more.
fn mend() {
    revive(None);
    patch(Vec::new());
}

/// Does something with this fault put back.
pub fn with<T>(revived: Option<&Revived>, work: impl FnOnce() -> T) -> T {
    if let Some(revived) = revived {
        revived.put_back();
    }
    let done = work();
    mend();
    done
}

/// What it took to find a mutant.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where.
    pub stage: Stage,
    /// So many schedules.
    pub schedules: u64,
    /// The seed of the last one.
    pub seed: u64,
    /// The promise that it broke, and how.
    pub broken: String,
}

/// Every mutant that the simulator can meet.
#[must_use]
pub fn all() -> Vec<Revived> {
    let code = Mutant::FROM_LIFE.iter().copied().filter(|mutant| elsewhere(*mutant).is_none());
    code.map(Revived::Code).chain(SCRIPTS.iter().copied()).collect()
}

/// What finds a mutant that lives where no schedule goes.
#[must_use]
pub fn elsewhere(mutant: Mutant) -> Option<&'static str> {
    match mutant {
        Mutant::DeafChannels | Mutant::SlowestServer => Some("the fault tests of a Redis cluster"),
        Mutant::KeysBeside => Some("the tests of borrowed layouts"),
        Mutant::ChannelPerNamespace => Some("the tests that count subscriptions"),
        Mutant::OldNewsEndLater => Some("the tests of a hold"),
        Mutant::ToldBeforeSaved => Some("the tests of damaged rows"),
        Mutant::SweepsTheLiving => Some("the tests of the lease table"),
        _ => None,
    }
}

/// Lines of scripts, as they were; those of renewals as they might have been.
const SCRIPTS: &[Revived] = &[
    Revived::Script(
        "an extension makes a mutex shorter (C3)",
        Stage::Redlock(3),
        &[(
            "if redis.call('PTTL', KEYS[1]) < ttl then redis.call('PEXPIRE', KEYS[1], ttl) end\n  return redis.call('PTTL', KEYS[1])",
            "redis.call('PEXPIRE', KEYS[1], ttl)\n  return ttl",
        )],
    ),
    Revived::Script(
        "an extension makes the lease of a reader or a writer shorter (C3)",
        Stage::Redlock(3),
        &[(
            "mine.ends = digits(math.max(tonumber(mine.ends), now + ttl))\nsettle",
            "mine.ends = digits(now + ttl)\nsettle",
        )],
    ),
    Revived::Script(
        "a call that fails forgets the numbers of what it has granted (C8)",
        Stage::Redis,
        &[
            ("if count > before and count >= micros then\n    try(", "if false then\n    try("),
            (
                "  settle()\nend\n\nlocal function take_key",
                "  settle()\n  redis.call('SET', KEYS[1], text(count))\nend\n\nlocal function take_key",
            ),
            (
                "if not rest then return answers end",
                "if not rest then\n  call('SET', KEYS[1], string.format('%.0f', count))\n  return answers\nend",
            ),
            ("outcome(pcall(take, ARGV[rest[at]]))", "take(ARGV[rest[at]])"),
        ],
    ),
    Revived::Script(
        "a record is bound once more with each write (C13)",
        Stage::Redis,
        &[("if not is_among(seat[BOUND], verb[3]) then", "if true then")],
    ),
    Revived::Script(
        "a renewal among many asks nobody whose the name is",
        Stage::Redis,
        &[(
            "(form == P or form == Q) and sub(name, 42, 57) == sub(asked, from, from + 15)",
            "form == P or form == Q",
        )],
    ),
    Revived::Script(
        "a renewal among many gives less time than it says",
        Stage::Redis,
        &[(
            "expires, terms = bytes('>I8', till), nil",
            "expires, terms = bytes('>I8', now + 1), nil",
        )],
    ),
];

/// Looks for a mutant, one schedule of each of its stages after the other. A
/// schedule that breaks a promise without the mutant finds nothing.
#[must_use]
pub fn hunt(revived: &Revived, most: u64, limit: Duration) -> Option<Found> {
    let until = Instant::now() + limit;
    let (stages, mut schedules) = (revived.stages(), 0);
    for seed in 0..most {
        for stage in stages {
            schedules += 1;
            let schedule = draw(seed, *stage);
            let broken = with(Some(revived), || attempt(&schedule, false).broken);
            if let Some(broken) = broken.first()
                && attempt(&schedule, false).broken.is_empty()
            {
                let broken = broken.to_string();
                return Some(Found { stage: *stage, schedules, seed, broken });
            }
        }
        if Instant::now() > until {
            break;
        }
    }
    None
}
