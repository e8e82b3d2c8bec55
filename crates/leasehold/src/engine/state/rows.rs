//! What an engine needs that keeps those who wait in rows of their own.
//!
//! It loads the name, and of its line the front and whoever is asked about;
//! takes the step; loads more while the line [lacks](State::lacks_from) some and
//! lets time pass again; then writes what has [changed](State::seat_changes).

use super::seat::Seat;
use super::whole::State;
use super::words::SessionId;
use crate::claim::LeaseId;

/// One who waits, as a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeatRow {
    pub(crate) place: u64,
    pub(crate) lease: LeaseId,
    pub(crate) session: SessionId,
    pub(crate) text: String,
}

/// What became of the rows since they were loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeatChanges {
    /// The places of rows to delete.
    pub(crate) gone: Vec<u64>,
    /// Rows to insert.
    pub(crate) new: Vec<SeatRow>,
}

impl State {
    /// Whether anybody waits, here or in any row.
    #[cfg(feature = "sqlite")]
    pub(crate) fn has_waiters(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The place from which on more rows have to be loaded: nobody can be served
    /// before.
    pub(crate) fn lacks_from(&self) -> Option<u64> {
        self.queue.lacks_from()
    }

    /// The place of whoever comes next; nobody stands behind it.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn next_place(&self) -> u64 {
        self.queue.next_place()
    }

    /// Takes in rows, each with its place. All below `whole_below` are here then;
    /// `None` says that there are no others at all.
    pub(crate) fn load_seats<'a>(
        &mut self,
        rows: impl IntoIterator<Item = (u64, &'a str)>,
        whole_below: Option<u64>,
    ) -> serde_json::Result<()> {
        let read = |(place, text)| serde_json::from_str(text).map(|seat: Seat| (place, seat));
        let seats = rows.into_iter().map(read).collect::<serde_json::Result<Vec<_>>>()?;
        self.queue.load(seats, whole_below);
        Ok(())
    }

    /// What has to be written besides the name.
    pub(crate) fn seat_changes(&self) -> serde_json::Result<SeatChanges> {
        let row = |(place, seat): (u64, &Seat)| {
            let text = serde_json::to_string(seat)?;
            Ok(SeatRow { place, lease: seat.id, session: seat.session, text })
        };
        let new = self.queue.new_seats().map(row).collect::<serde_json::Result<_>>()?;
        Ok(SeatChanges { gone: self.queue.gone().collect(), new })
    }

    /// Lets everybody go who waits, whose rows are deleted together.
    #[cfg(feature = "sqlite")]
    pub(crate) fn clear_queue(&mut self) {
        self.queue = super::queue::Queue::default();
    }
}
