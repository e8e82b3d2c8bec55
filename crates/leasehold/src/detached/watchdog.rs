//! The watchdog: tasks that were left with the user's future are orphans when it
//! is not polled any more, and home adopts them.

use std::collections::BTreeMap;
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
    Mutex::new(Register { entries: BTreeMap::new(), next: 0, watched: false });

#[derive(Default)]
struct Register {
    /// In the order in which they came.
    entries: BTreeMap<u64, RegisterEntry>,
    next: u64,
    /// Whether somebody looks after it.
    watched: bool,
}

struct RegisterEntry {
    since: Moment,
    task: Weak<dyn Orphan>,
    home: Handle,
}

/// An entry of the register; taken out on drop.
pub(super) struct Registration(u64);

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
        drop(in_register(|register: &mut Register| register.entries.remove(&self.0)));
    }
}

impl Register {
    /// Its number, and whether somebody looks after it already.
    fn add(&mut self, entry: RegisterEntry) -> (u64, bool) {
        let at = self.next;
        self.next += 1;
        self.entries.insert(at, entry);
        (at, std::mem::replace(&mut self.watched, true))
    }

    /// Takes out those that have been left alone for too long. Home goes on with
    /// them, however long that takes, and nobody need look at them again.
    fn take_old(&mut self, now: Moment) -> Vec<(u64, RegisterEntry)> {
        let mut old = Vec::new();
        while let Some(first) = self.entries.first_entry()
            && now.since(first.get().since) >= PATIENCE
        {
            old.push(first.remove_entry());
        }
        old
    }

    /// These are looked at next time; whether there is anything to look after.
    fn put_back(&mut self, busy: Vec<(u64, RegisterEntry)>) -> bool {
        self.entries.extend(busy);
        self.watched = !self.entries.is_empty();
        self.watched
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
            let now = Clock::System.now();
            let mut old = in_register(|register: &mut Register| register.take_old(now));
            // One that is polled at this moment is looked at next time. The others
            // are dropped without the lock.
            old.retain(|(_, RegisterEntry { task, home, .. })| {
                task.upgrade().is_some_and(|task| !task.adopt(home))
            });
            self.is_done = !in_register(|register: &mut Register| register.put_back(old));
        }
    }
}

impl Drop for Watchdog {
    /// Home has ended while there was something to look after.
    fn drop(&mut self) {
        if !self.is_done {
            in_register(|register: &mut Register| register.watched = false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Polled where it is, or not.
    struct Busy(AtomicBool);

    impl Orphan for Busy {
        fn adopt(&self, _: &Handle) -> bool {
            !self.0.load(Ordering::SeqCst)
        }
    }

    #[tokio::test]
    async fn only_what_is_old_is_looked_at_and_what_was_adopted_not_again() {
        let home = Handle::try_current().unwrap();
        let mut register = Register::default();
        let task = Arc::new(Busy(AtomicBool::new(true)));
        let orphan: Weak<Busy> = Arc::downgrade(&task);
        let then = Clock::System.now();
        for age in [0, 0, 1] {
            let since = then.after(age * PATIENCE);
            let task: Weak<dyn Orphan> = Weak::<Busy>::clone(&orphan);
            register.add(RegisterEntry { since, task, home: home.clone() });
        }
        let old = register.take_old(then.after(PATIENCE));
        assert_eq!(old.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1]);
        assert!(register.put_back(old.into_iter().take(1).collect()), "one was adopted");
        let old = register.take_old(then.after(2 * PATIENCE));
        assert_eq!(old.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 2]);
        assert!(!register.put_back(Vec::new()) && register.entries.is_empty());
        assert!(!register.watched, "the next one starts a watchdog");
    }
}
