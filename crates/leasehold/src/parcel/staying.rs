//! Tasks that were left with the user's future, and whether it takes care.

use std::sync::Weak;
#[cfg(not(leasehold_sim))]
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::home::Handle;

/// How long a task may be left alone before home takes it over.
const PATIENCE: Duration = Duration::from_millis(25);

/// What home can take over.
pub(super) trait Stay: Send + Sync {
    /// Goes on at home; false if it is being polled where it is.
    fn leave_for(&self, home: &Handle) -> bool;
}

/// One for each task that is not at home, all homes together.
#[cfg(not(leasehold_sim))]
static ROOM: Mutex<Room> = Mutex::new(Room { seats: Vec::new(), free: Vec::new(), watched: false });

#[derive(Default)]
struct Room {
    seats: Vec<Option<Stayer>>,
    free: Vec<usize>,
    /// Whether somebody looks after it.
    watched: bool,
}

struct Stayer {
    since: Moment,
    task: Weak<dyn Stay>,
    home: Handle,
}

/// A task, and the home that shall go on with it.
type Away = (Weak<dyn Stay>, Handle);

/// A place in the room; given back on drop.
pub(super) struct Seat(usize);

impl Seat {
    pub(super) fn take(task: Weak<dyn Stay>, home: &Handle) -> Self {
        let stayer = Stayer { since: Clock::System.now(), task, home: home.clone() };
        let (at, watched) = in_room(|room: &mut Room| room.seat(stayer));
        if !watched {
            drop(home.spawn(Watch { is_done: false }.keep()));
        }
        Self(at)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Its task is dropped without the lock: it may be the last to know it.
        drop(in_room(|room: &mut Room| {
            room.free.push(self.0);
            room.seats[self.0].take()
        }));
    }
}

impl Room {
    /// Where it sits, and whether somebody looks after it already.
    fn seat(&mut self, stayer: Stayer) -> (usize, bool) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.seats.push(None);
            self.seats.len() - 1
        });
        self.seats[at] = Some(stayer);
        (at, std::mem::replace(&mut self.watched, true))
    }

    /// Those who have been here for too long; whether nobody is left.
    fn left_alone(&mut self, now: Moment) -> (Vec<Away>, bool) {
        let all = self.seats.iter().flatten();
        let old = all.filter(|stayer| now.since(stayer.since) >= PATIENCE);
        let old = old.map(|stayer| (Weak::clone(&stayer.task), stayer.home.clone())).collect();
        let is_empty = self.seats.len() == self.free.len();
        self.watched = !is_empty;
        (old, is_empty)
    }
}

#[cfg(leasehold_sim)]
fn in_room<T>(work: impl FnOnce(&mut Room) -> T) -> T {
    crate::sim::with_static(work)
}

#[cfg(not(leasehold_sim))]
fn in_room<T>(work: impl FnOnce(&mut Room) -> T) -> T {
    work(&mut ROOM.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Looks after the room until nobody is in it.
struct Watch {
    is_done: bool,
}

impl Watch {
    async fn keep(mut self) {
        while !self.is_done {
            Clock::System.sleep_until(Clock::System.now().after(PATIENCE)).await;
            for (task, home) in self.left_alone() {
                // One that is polled at this moment is looked at next time.
                let _ = task.upgrade().is_none_or(|task| task.leave_for(&home));
            }
        }
    }

    /// Those who have been here for too long.
    fn left_alone(&mut self) -> Vec<Away> {
        let now = Clock::System.now();
        let (old, is_empty) = in_room(|room: &mut Room| room.left_alone(now));
        self.is_done = is_empty;
        old
    }
}

impl Drop for Watch {
    /// Home has ended while there was something to look after.
    fn drop(&mut self) {
        if !self.is_done {
            in_room(|room| room.watched = false);
        }
    }
}
