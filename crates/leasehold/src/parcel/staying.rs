//! Tasks that were left with the user's future, and whether it takes care.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::clock::{Clock, Moment};

/// How long a task may be left alone before home takes it over.
const PATIENCE: Duration = Duration::from_millis(25);

/// What home can take over.
pub(super) trait Stay: Send + Sync {
    /// Goes on at home; false if it is being polled where it is.
    fn leave_for(&self, home: &Handle) -> bool;
}

/// One for each task that is not at home, all homes together.
static ROOM: Mutex<Room> = Mutex::new(Room { seats: Vec::new(), free: Vec::new(), watched: false });

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

/// A place in the room; given back on drop.
pub(super) struct Seat(usize);

impl Seat {
    pub(super) fn take(task: Weak<dyn Stay>, home: &Handle) -> Self {
        let stayer = Stayer { since: Clock::System.now(), task, home: home.clone() };
        let mut room = room();
        let at = room.free.pop().unwrap_or_else(|| {
            room.seats.push(None);
            room.seats.len() - 1
        });
        room.seats[at] = Some(stayer);
        if !room.watched {
            room.watched = true;
            let watch = Watch { is_done: false };
            drop(home.spawn(watch.keep()));
        }
        Self(at)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut room = room();
        // Its task is dropped without the lock: it may be the last to know it.
        let stayer = room.seats[self.0].take();
        room.free.push(self.0);
        drop(room);
        drop(stayer);
    }
}

fn room() -> MutexGuard<'static, Room> {
    ROOM.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn left_alone(&mut self) -> Vec<(Weak<dyn Stay>, Handle)> {
        let now = Clock::System.now();
        let mut room = room();
        let all = room.seats.iter().flatten();
        let old = all.filter(|stayer| now.since(stayer.since) >= PATIENCE);
        let old = old.map(|stayer| (Weak::clone(&stayer.task), stayer.home.clone())).collect();
        self.is_done = room.seats.len() == room.free.len();
        room.watched = !self.is_done;
        old
    }
}

impl Drop for Watch {
    /// Home has ended while there was something to look after.
    fn drop(&mut self) {
        if !self.is_done {
            room().watched = false;
        }
    }
}
