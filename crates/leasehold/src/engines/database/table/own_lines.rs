//! Which of our tickets wait for which name, in the order of their places.
//!
//! One look at a name serves all of them, and only the first of them looks by
//! itself: the others have nothing to look for before it had its chance.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::claim::{LeaseId, Ticket};
use crate::clock::Moment;
use crate::mutant::{self, Mutant};
use crate::name::Name;

/// Those of all names.
#[derive(Debug, Default)]
pub(super) struct OwnLines(Mutex<LineIndex>);

#[derive(Debug, Default)]
struct LineIndex {
    lines: HashMap<Name, OwnLine>,
    places: HashMap<LeaseId, (Name, u64)>,
}

/// Those of one name.
#[derive(Debug)]
struct OwnLine {
    waiting: BTreeMap<(u64, LeaseId), Ticket>,
    /// The version of the name when somebody looked for all of them.
    version: Option<i64>,
    /// When the name may open although its version stays.
    look_at: Moment,
}

impl LineIndex {
    fn leave(&mut self, id: LeaseId) {
        let Some((name, place)) = self.places.remove(&id) else { return };
        if let Some(line) = self.lines.get_mut(&name) {
            line.waiting.remove(&(place, id));
            if line.waiting.is_empty() {
                self.lines.remove(&name);
            }
        }
    }
}

impl OwnLines {
    fn index(&self) -> MutexGuard<'_, LineIndex> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ticket has this place in a name of this version. Whoever has looked for all
    /// has seen another: what became of this one since may be missed, so somebody
    /// looks once more.
    pub(super) fn join(&self, ticket: &Ticket, place: u64, version: Option<i64>, look_at: Moment) {
        let mut index = self.index();
        index.leave(ticket.id);
        index.places.insert(ticket.id, (ticket.name.clone(), place));
        let new = || OwnLine { waiting: BTreeMap::new(), version, look_at };
        let line = index.lines.entry(ticket.name.clone()).or_insert_with(new);
        line.waiting.insert((place, ticket.id), ticket.clone());
        if line.version != version && !mutant::lives(Mutant::JoinsUnseen) {
            line.look_at = Moment::default();
        }
    }

    pub(super) fn leave(&self, id: LeaseId) {
        self.index().leave(id);
    }

    /// Whether no other of our tickets comes before.
    pub(super) fn is_first(&self, id: LeaseId) -> bool {
        let index = self.index();
        let line = index.places.get(&id).and_then(|(name, _)| index.lines.get(name));
        let first = line.and_then(|line| line.waiting.first_key_value());
        first.is_none_or(|((_, first), _)| *first == id)
    }

    /// Our first of a name.
    pub(super) fn first(&self, name: &Name) -> Option<Ticket> {
        let index = self.index();
        let line = &index.lines.get(name)?.waiting;
        let (_, ticket) = if mutant::lives(Mutant::LooksForTheLast) {
            line.last_key_value()?
        } else {
            line.first_key_value()?
        };
        Some(ticket.clone())
    }

    /// Our tickets that had places before this one.
    pub(super) fn before(&self, name: &Name, place: u64) -> Vec<LeaseId> {
        let index = self.index();
        let line = index.lines.get(name).map(|line| &line.waiting);
        let keys = line.into_iter().flat_map(|line| line.keys());
        keys.take_while(|(at, _)| *at < place).map(|(_, id)| *id).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.index().lines.is_empty()
    }

    pub(super) fn names(&self) -> Vec<Name> {
        self.index().lines.keys().cloned().collect()
    }

    /// Whether there is reason to look at a name that has this version.
    pub(super) fn is_due(&self, name: &Name, version: Option<i64>, now: Moment) -> bool {
        let index = self.index();
        index.lines.get(name).is_some_and(|line| line.version != version || line.look_at <= now)
    }

    /// Somebody has looked for all of a name; true if it has changed since the last
    /// time, or nobody waits any more.
    pub(super) fn looked(&self, name: &Name, version: Option<i64>, look_at: Moment) -> bool {
        let mut index = self.index();
        let Some(line) = index.lines.get_mut(name) else { return true };
        let before = std::mem::replace(&mut line.version, version);
        line.look_at = look_at;
        before != version
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Mode;
    use crate::mutant::each_is_found;
    use crate::name::Namespace;

    fn ticket() -> Ticket {
        Ticket::new(Name::new(&Namespace::default(), "n").unwrap(), Mode::Exclusive)
    }

    #[test]
    fn the_first_is_whoever_has_the_lowest_place_now() {
        let (lines, one, two) = (OwnLines::default(), ticket(), ticket());
        lines.join(&two, 7, Some(1), Moment::NEVER);
        lines.join(&one, 3, Some(2), Moment::NEVER);
        assert!(lines.is_first(one.id) && !lines.is_first(two.id));
        assert_eq!(lines.before(&one.name, 7), [one.id]);
        lines.join(&one, 9, Some(3), Moment::NEVER);
        assert!(lines.is_first(two.id) && lines.first(&one.name).unwrap().id == two.id);
        lines.leave(two.id);
        lines.leave(one.id);
        assert!(lines.is_empty() && lines.names().is_empty());
    }

    #[test]
    fn a_look_is_due_when_the_name_has_changed_or_may_open() {
        let (lines, one, at) = (OwnLines::default(), ticket(), Moment::from_nanos);
        lines.join(&one, 0, Some(1), at(50));
        let due = |version, now| lines.is_due(&one.name, version, at(now));
        assert!(!due(Some(1), 49) && due(Some(2), 49) && due(None, 49) && due(Some(1), 50));
        lines.looked(&one.name, Some(2), at(90));
        assert!(!due(Some(2), 60));
    }

    #[test]
    fn whoever_joins_with_what_was_read_before_the_last_look_is_looked_for() {
        let (lines, one, two) = (OwnLines::default(), ticket(), ticket());
        let two = Ticket { name: one.name.clone(), ..two };
        lines.join(&one, 0, Some(2), Moment::NEVER);
        lines.join(&two, 1, Some(2), Moment::NEVER);
        assert!(!lines.is_due(&one.name, Some(2), Moment::default()));
        lines.join(&two, 1, Some(1), Moment::NEVER);
        assert!(lines.is_due(&one.name, Some(2), Moment::default()));
    }

    #[test]
    fn looks_that_leave_somebody_out_are_found() {
        let the_first = the_first_is_whoever_has_the_lowest_place_now;
        each_is_found(&[Mutant::LooksForTheLast], the_first);
        let late = whoever_joins_with_what_was_read_before_the_last_look_is_looked_for;
        each_is_found(&[Mutant::JoinsUnseen], late);
    }
}
