//! Those who wait, each in a row: a step reads and writes the rows it concerns,
//! however long the line is.

use rusqlite::{OptionalExtension, Row, params};

use super::fault::{StoreFault, Trial};
use super::schema::{at, int, lease_key, read_name};
use super::transaction::{BROOM, LoadedName, StoreTransaction};
use crate::claim::LeaseId;
use crate::engine::state::SeatRow;
use crate::error::{Error, ErrorKind};
use crate::mutant::{self, Mutant};
use crate::name::Name;

/// How many of the front are loaded at a time; so few in tests that lines are longer.
pub(super) const WINDOW: usize = if cfg!(test) { 2 } else { 16 };

/// A row: its place, and the seat as text.
type PlacedSeat = (u64, String);

impl StoreTransaction<'_> {
    /// Loads what a step needs of the line: the front, and whoever is asked
    /// about with the one right before.
    pub(super) fn load_line(&self, loaded: &mut LoadedName, asked: Option<LeaseId>) -> Trial<()> {
        let Some(from) = loaded.state.lacks_from() else { return Ok(()) };
        let whole = self.load_front(loaded, from, WINDOW)?;
        match asked.filter(|_| !whole) {
            Some(_) if mutant::lives(Mutant::ForgetsWhoAsks) => Ok(()),
            Some(lease) => self.load_beside(loaded, lease),
            None => Ok(()),
        }
    }

    /// Loads all who wait, for somebody who wants to see them.
    pub(super) fn load_whole_line(&self, loaded: &mut LoadedName) -> Trial<()> {
        self.load_front(loaded, 0, usize::MAX).map(drop)
    }

    /// Loads more of the front; true if that is the whole line.
    pub(super) fn load_front(
        &self,
        loaded: &mut LoadedName,
        from: u64,
        most: usize,
    ) -> Trial<bool> {
        const FRONT: &str = "SELECT place, seat FROM seats \
             WHERE namespace = ?1 AND name = ?2 AND place >= ?3 ORDER BY place LIMIT ?4";
        let (space, text) = (loaded.name.namespace().as_str(), loaded.name.as_str());
        let mut front = self.db.prepare_cached(FRONT)?;
        let rows = front.query_map(params![space, text, int(from), int(most as u64)], read_seat)?;
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let more = rows.len() == most && !mutant::lives(Mutant::EndsAtTheWindow);
        let below = rows.last().filter(|_| more).map(|(place, _)| place + 1);
        take_in(loaded, &rows, below)?;
        Ok(below.is_none())
    }

    fn load_beside(&self, loaded: &mut LoadedName, lease: LeaseId) -> Trial<()> {
        const BEFORE: &str = "SELECT place, seat FROM seats \
             WHERE namespace = ?1 AND name = ?2 AND place < ?3 ORDER BY place DESC LIMIT 1";
        let own = self.seat_of(&loaded.name, lease)?;
        let place = own.as_ref().map_or(i64::MAX, |(place, _)| int(*place));
        let (space, text) = (loaded.name.namespace().as_str(), loaded.name.as_str());
        let mut before = self.db.prepare_cached(BEFORE)?;
        let before = before.query_row(params![space, text, place], read_seat).optional()?;
        let beside: Vec<_> = before.into_iter().chain(own).collect();
        take_in(loaded, &beside, Some(0))
    }

    /// The place of a lease that waits.
    pub(super) fn seat_of(&self, name: &Name, lease: LeaseId) -> Trial<Option<PlacedSeat>> {
        const OWN: &str = "SELECT place, seat FROM seats \
             WHERE namespace = ?1 AND name = ?2 AND lease = ?3";
        let mut own = self.db.prepare_cached(OWN)?;
        let row = params![name.namespace().as_str(), name.as_str(), lease_key(lease)];
        Ok(own.query_row(row, read_seat).optional()?)
    }

    /// Writes down who has come and who has gone.
    pub(super) fn save_line(&self, loaded: &LoadedName) -> Trial<()> {
        let changes = loaded.state.seat_changes().map_err(|cause| unwritten().caused_by(cause))?;
        let gone = changes.gone.iter().filter(|_| !mutant::lives(Mutant::KeepsRows));
        gone.copied().try_for_each(|place| self.unseat(&loaded.name, place))?;
        let mut new = changes.new.iter().filter(|_| !mutant::lives(Mutant::SavesNoRows));
        new.try_for_each(|row| self.seat(&loaded.name, row))
    }

    fn unseat(&self, name: &Name, place: u64) -> Trial<()> {
        const CUT: &str = "DELETE FROM seats WHERE namespace = ?1 AND name = ?2 AND place = ?3";
        let row = params![name.namespace().as_str(), name.as_str(), int(place)];
        self.db.prepare_cached(CUT)?.execute(row)?;
        Ok(())
    }

    fn seat(&self, name: &Name, row: &SeatRow) -> Trial<()> {
        const PUT: &str = "INSERT INTO seats (namespace, name, place, lease, session, seat) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let (space, text) = (name.namespace().as_str(), name.as_str());
        let (place, session) = (int(row.place), int(row.session));
        let row = params![space, text, place, lease_key(row.lease), session, row.text];
        self.db.prepare_cached(PUT)?.execute(row)?;
        Ok(())
    }

    /// Removes some who waited and whose sessions have ended, wherever they stand
    /// in line.
    pub(super) fn end_dead_seats(&mut self) -> Trial<usize> {
        const FIND: &str = "SELECT seats.namespace, seats.name, seats.place FROM sessions \
             JOIN seats ON seats.session = sessions.id WHERE sessions.expires <= ?1 LIMIT ?2";
        let mut find = self.db.prepare_cached(FIND)?;
        let read = |row: &Row<'_>| Ok((read_name(row)?, row.get::<_, i64>(2)?.unsigned_abs()));
        let rows = find.query_map(params![at(self.now), int(BROOM)], read)?;
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let mut names = Vec::new();
        for (name, place) in &rows {
            let Ok(name) = name else { continue };
            self.unseat(name, *place)?;
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        for name in &names {
            match self.tick(name) {
                // Left to its finder; those who waited for it are gone already.
                Err(StoreFault::Refused(_)) => {}
                other => other?,
            }
        }
        Ok(rows.len())
    }
}

fn take_in(loaded: &mut LoadedName, rows: &[PlacedSeat], below: Option<u64>) -> Trial<()> {
    let seats = rows.iter().map(|(place, text)| (*place, text.as_str()));
    let taken = loaded.state.load_seats(seats, below);
    taken.map_err(|cause| {
        let message = "the row of a waiter is damaged: stop all users of the store and move it \
             away";
        let error = Error::new(ErrorKind::Unexpected, message).with("name", &loaded.name);
        StoreFault::Refused(error.caused_by(cause))
    })
}

fn read_seat(row: &Row<'_>) -> rusqlite::Result<PlacedSeat> {
    Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?))
}

fn unwritten() -> Error {
    Error::new(ErrorKind::Unexpected, "a place in line cannot be written")
}
