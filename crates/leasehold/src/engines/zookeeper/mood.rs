//! Tells of sessions that lose their connection, get it back, or end.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::engine::{Bus, Event};

#[derive(Debug, Default)]
pub(super) struct Moods {
    bus: Bus,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Which sessions there are, and whether each has a connection.
    up: BTreeMap<u64, bool>,
    mood: Mood,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mood {
    #[default]
    Fine,
    Suspended,
    Disconnected,
}

impl Moods {
    pub(super) const fn bus(&self) -> &Bus {
        &self.bus
    }

    /// A session has a connection, or none.
    pub(super) fn set(&self, session: u64, up: bool) {
        self.change(|all| _ = all.insert(session, up));
    }

    /// A session is over.
    pub(super) fn over(&self, session: u64) {
        self.change(|all| _ = all.remove(&session));
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<u64, bool>)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state.up);
        let mood = mood(&state.up);
        let before = std::mem::replace(&mut state.mood, mood);
        if let Some(event) = event(before, mood) {
            self.bus.publish(&event);
        }
    }
}

fn mood(up: &BTreeMap<u64, bool>) -> Mood {
    match up.values().all(|up| *up) {
        _ if up.is_empty() => Mood::Disconnected,
        true => Mood::Fine,
        false => Mood::Suspended,
    }
}

fn event(before: Mood, now: Mood) -> Option<Event> {
    match (before, now) {
        (Mood::Fine, Mood::Suspended) => Some(Event::Suspended),
        (Mood::Suspended | Mood::Disconnected, Mood::Fine) => Some(Event::Reconnected),
        (Mood::Fine | Mood::Suspended, Mood::Disconnected) => Some(Event::Disconnected),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_session_to_end_takes_all_with_it() {
        let moods = Moods::default();
        let mut events = moods.bus().subscribe();
        let steps: [fn(&Moods); 8] = [
            |moods| moods.set(1, true),
            |moods| moods.set(2, true),
            |moods| moods.set(1, false),
            |moods| moods.set(2, false),
            |moods| moods.over(1),
            |moods| moods.set(2, true),
            |moods| moods.over(2),
            |moods| moods.set(3, true),
        ];
        steps.iter().for_each(|step| step(&moods));
        moods.bus().close();
        let mut seen = Vec::new();
        while let Some(event) = events.next().await {
            seen.push(format!("{event:?}"));
        }
        assert_eq!(seen, ["Suspended", "Reconnected", "Disconnected", "Reconnected"]);
    }
}
