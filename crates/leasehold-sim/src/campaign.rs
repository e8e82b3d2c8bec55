//! A campaign: schedule after schedule until the time is over.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::ledger::Broken;
use crate::play::{Outcome, play};
use crate::schedule::draw::{draw, suits};
use crate::schedule::{FaultKind, Schedule, Stage};

thread_local! {
    /// What a task of this thread panicked with.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What came of many schedules.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    /// How many there were.
    pub schedules: u64,
    /// Guards that users have had.
    pub grants: u64,
    /// Requests that servers have had.
    pub requests: u64,
    /// How often each kind of fault has bitten.
    pub bites: BTreeMap<&'static str, u64>,
    /// The first seed that broke each promise.
    pub broken: BTreeMap<&'static str, (u64, Broken)>,
    /// How many schedules broke one.
    pub failures: u64,
}

impl Sum {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.schedules += 1;
        self.grants += outcome.grants;
        self.requests += outcome.requests;
        for (word, count) in outcome.bites {
            *self.bites.entry(word).or_default() += count;
        }
        self.failures += u64::from(!outcome.broken.is_empty());
        for broken in outcome.broken {
            self.broken.entry(broken.rule).or_insert((seed, broken));
        }
    }

    /// The kinds of fault that should have bitten and never did: I10.
    #[must_use]
    pub fn toothless(&self, stage: Stage) -> Vec<&'static str> {
        let kinds = FaultKind::ALL.iter().filter(|kind| suits(**kind, stage));
        let words = kinds.map(|kind| kind.counted_as(stage));
        words.filter(|word| !self.bites.contains_key(word)).collect()
    }
}

/// How long a campaign lasts.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// It ends then,
    pub until: Instant,
    /// or after so many schedules.
    pub schedules: u64,
    /// Whether it ends with the first promise that is broken.
    pub stops: bool,
}

/// Plays the schedules of one seed after the other on several threads.
#[must_use]
pub fn explore(stage: Stage, first: u64, budget: Budget, threads: usize) -> Sum {
    let next = AtomicU64::new(first);
    let sum = Mutex::new(Sum::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let over = seed - first >= budget.schedules || Instant::now() >= budget.until;
            if over || (budget.stops && lock(&sum).failures > 0) {
                return;
            }
            let outcome = attempt(&draw(seed, stage), false);
            lock(&sum).add(seed, outcome);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn lock(sum: &Mutex<Sum>) -> std::sync::MutexGuard<'_, Sum> {
    sum.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Plays a schedule. A panic, in whatever task, is a broken promise.
#[must_use]
pub fn attempt(schedule: &Schedule, tells: bool) -> Outcome {
    PANIC.set(None);
    let played = panic::catch_unwind(AssertUnwindSafe(|| play(schedule, tells)));
    let mut outcome = played.unwrap_or_default();
    if let Some(how) = PANIC.take() {
        outcome.broken.insert(0, Broken { rule: "panic", how });
    }
    outcome
}

/// Panics are noted, not printed: a shrinker meets the same one a hundred times.
pub fn note_panics() {
    panic::set_hook(Box::new(|info| PANIC.set(Some(info.to_string().replace('\n', " ")))));
}
