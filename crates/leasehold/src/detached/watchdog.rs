//! The watchdog: tasks that were left with the user's future are orphans when it
//! is not polled any more, and home adopts them.

use std::sync::Weak;
#[cfg(not(leasehold_sim))]
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::home::Handle;

/// How long a task may be left alone before home takes it over.
const PATIENCE: Duration = Duration::from_millis(25);

/// What home can take over.
pub(super) trait Orphan: Send + Sync {
    /// Goes on at home; false if it is being polled where it is.
    fn adopt(&self, home: &Handle) -> bool;
}

/// One for each task that is not at home, all homes together.
#[cfg(not(leasehold_sim))]
static REGISTER: Mutex<Register> =
    Mutex::new(Register { entries: Vec::new(), free: Vec::new(), watched: false });

#[derive(Default)]
struct Register {
    entries: Vec<Option<RegisterEntry>>,
    free: Vec<usize>,
    /// Whether somebody looks after it.
    watched: bool,
}

struct RegisterEntry {
    since: Moment,
    task: Weak<dyn Orphan>,
    home: Handle,
}

/// A task, and the home that shall go on with it.
type Away = (Weak<dyn Orphan>, Handle);

/// An entry of the register; taken out on drop.
pub(super) struct Registration(usize);

impl Registration {
    pub(super) fn new(task: Weak<dyn Orphan>, home: &Handle) -> Self {
        let entry = RegisterEntry { since: Clock::System.now(), task, home: home.clone() };
        let (at, watched) = in_register(|register: &mut Register| register.add(entry));
        if !watched {
            drop(home.spawn(Watchdog { is_done: false }.keep()));
        }
        Self(at)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Its task is dropped without the lock: it may be the last to know it.
        drop(in_register(|register: &mut Register| {
            register.free.push(self.0);
            register.entries[self.0].take()
        }));
    }
}

impl Register {
    /// Where it is, and whether somebody looks after it already.
    fn add(&mut self, entry: RegisterEntry) -> (usize, bool) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[at] = Some(entry);
        (at, std::mem::replace(&mut self.watched, true))
    }

    /// Those that have been left alone for too long; whether none is left.
    fn left_alone(&mut self, now: Moment) -> (Vec<Away>, bool) {
        let all = self.entries.iter().flatten();
        let old = all.filter(|entry| now.since(entry.since) >= PATIENCE);
        let old = old.map(|entry| (Weak::clone(&entry.task), entry.home.clone())).collect();
        let is_empty = self.entries.len() == self.free.len();
        self.watched = !is_empty;
        (old, is_empty)
    }
}

#[cfg(leasehold_sim)]
fn in_register<T>(work: impl FnOnce(&mut Register) -> T) -> T {
    crate::sim::with_static(work)
}

#[cfg(not(leasehold_sim))]
fn in_register<T>(work: impl FnOnce(&mut Register) -> T) -> T {
    work(&mut REGISTER.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Looks after the register until it is empty.
struct Watchdog {
    is_done: bool,
}

impl Watchdog {
    async fn keep(mut self) {
        while !self.is_done {
            Clock::System.sleep_until(Clock::System.now().after(PATIENCE)).await;
            for (task, home) in self.left_alone() {
                // One that is polled at this moment is looked at next time.
                let _ = task.upgrade().is_none_or(|task| task.adopt(&home));
            }
        }
    }

    /// Those that have been left alone for too long.
    fn left_alone(&mut self) -> Vec<Away> {
        let now = Clock::System.now();
        let (old, is_empty) = in_register(|register: &mut Register| register.left_alone(now));
        self.is_done = is_empty;
        old
    }
}

impl Drop for Watchdog {
    /// Home has ended while there was something to look after.
    fn drop(&mut self) {
        if !self.is_done {
            in_register(|register| register.watched = false);
        }
    }
}
