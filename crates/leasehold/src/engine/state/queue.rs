//! The line of those who wait for a name.
//!
//! No step looks at all of it: what a step needs is found by place, by lease or
//! by expiry, so it costs the same with ten waiters and with ten thousand. For
//! the same reason an engine may keep the seats in rows and load a part: the
//! front, and whoever is asked about with the one before. What is not here is
//! never served, see [`Queue::lacks_from`].

use std::collections::{BTreeMap, BTreeSet};

use super::seat::Seat;
use crate::claim::LeaseId;
use crate::clock::Moment;

/// Those who wait, by place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Queue {
    seats: BTreeMap<u64, Seat>,
    places: BTreeMap<LeaseId, u64>,
    ends: BTreeSet<(Moment, u64)>,
    /// The place of whoever comes next.
    next: u64,
    /// Every seat below this place is here.
    whole_below: u64,
    /// The places of those who have come from rows.
    stored: BTreeSet<u64>,
}

impl Queue {
    /// Whether nobody waits, here or in any row.
    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty() && self.is_whole()
    }

    const fn is_whole(&self) -> bool {
        self.whole_below >= self.next
    }

    /// Whose turn it is, if that is known.
    pub(super) fn head(&self) -> Option<&Seat> {
        let (place, seat) = self.seats.first_key_value()?;
        (*place < self.whole_below).then_some(seat)
    }

    pub(super) fn pop_head(&mut self) -> Option<Seat> {
        let id = self.head()?.id;
        self.remove(id)
    }

    pub(super) fn push(&mut self, seat: Seat) {
        let (place, whole) = (self.next, self.is_whole());
        self.next += 1;
        if whole {
            self.whole_below = self.next;
        }
        self.put(place, seat);
    }

    fn put(&mut self, place: u64, seat: Seat) {
        self.places.insert(seat.id, place);
        self.ends.insert((seat.expires, place));
        self.seats.insert(place, seat);
    }

    pub(super) fn find(&self, id: LeaseId) -> Option<&Seat> {
        self.seats.get(self.places.get(&id)?)
    }

    /// Keeps a place until `expires`, if it would end before.
    pub(super) fn extend(&mut self, id: LeaseId, expires: Moment) -> Option<&Seat> {
        let place = *self.places.get(&id)?;
        let seat = self.seats.get_mut(&place)?;
        self.ends.remove(&(seat.expires, place));
        seat.expires = seat.expires.max(expires);
        self.ends.insert((seat.expires, place));
        Some(seat)
    }

    pub(super) fn remove(&mut self, id: LeaseId) -> Option<Seat> {
        let place = self.places.remove(&id)?;
        let seat = self.seats.remove(&place)?;
        self.ends.remove(&(seat.expires, place));
        self.forget_places();
        Some(seat)
    }

    /// An empty line begins anew, so that nothing is left to remember of it.
    fn forget_places(&mut self) {
        // The row of a place must have gone before the place is given again.
        if self.is_empty() && self.stored.is_empty() {
            (self.next, self.whole_below) = (0, 0);
        }
    }

    pub(super) fn expire(&mut self, now: Moment) {
        while let Some(&(_, place)) = self.ends.first().filter(|(expires, _)| *expires <= now) {
            match self.seats.get(&place).map(|seat| seat.id) {
                Some(id) => drop(self.remove(id)),
                None => drop(self.ends.pop_first()),
            }
        }
    }

    /// The one right before this lease's place, or the last if it has none.
    pub(super) fn before(&self, id: LeaseId) -> Option<&Seat> {
        let place = self.places.get(&id).copied().unwrap_or(u64::MAX);
        self.seats.range(..place).next_back().map(|(_, seat)| seat)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Seat> {
        self.seats.values()
    }
}

/// For engines that keep seats in rows.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
impl Queue {
    /// The place from which on more has to be loaded: whose turn it is stands
    /// in a row that is not here.
    pub(super) fn lacks_from(&self) -> Option<u64> {
        (self.head().is_none() && !self.is_whole()).then_some(self.whole_below)
    }

    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(super) const fn next_place(&self) -> u64 {
        self.next
    }

    /// Takes in seats from their rows. All below `whole_below` are here then;
    /// `None` says that there are no others.
    pub(super) fn load(
        &mut self,
        seats: impl IntoIterator<Item = (u64, Seat)>,
        whole_below: Option<u64>,
    ) {
        for (place, seat) in seats {
            // What was here before may have gone since; its row has not yet.
            if self.stored.insert(place) {
                self.put(place, seat);
            }
        }
        self.whole_below = whole_below.unwrap_or(self.next).max(self.whole_below);
        self.forget_places();
    }

    /// Those who have come since, and have no rows yet.
    pub(super) fn new_seats(&self) -> impl Iterator<Item = (u64, &Seat)> {
        let new = self.seats.iter().filter(|(place, _)| !self.stored.contains(place));
        new.map(|(place, seat)| (*place, seat))
    }

    /// The places of the rows whose seats have gone.
    pub(super) fn gone(&self) -> impl Iterator<Item = u64> {
        self.stored.iter().copied().filter(|place| !self.seats.contains_key(place))
    }
}

/// For engines that keep the expiry of seats elsewhere.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", test))]
impl Queue {
    /// Changes every seat that is here.
    pub(super) fn update(&mut self, change: impl Fn(&mut Seat)) {
        self.seats.values_mut().for_each(change);
        self.ends = self.seats.iter().map(|(place, seat)| (seat.expires, *place)).collect();
    }
}

/// The seats lie elsewhere: what is stored with the name is from which place on
/// they are to be looked for, and the next place.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
impl serde::Serialize for Queue {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let first = self.seats.first_key_value().map_or(u64::MAX, |(place, _)| *place);
        (first.min(self.whole_below), self.next).serialize(to)
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
impl<'de> serde::Deserialize<'de> for Queue {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (whole_below, next) = <(u64, u64)>::deserialize(from)?;
        Ok(Self { next, whole_below, ..Self::default() })
    }
}
