//! What becomes of the rows of a line with one swap.

use super::columns::{int, key};
use crate::engine::state::{SeatChanges, SeatRow};
use crate::engines::database::drivers::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::mutant::{self, Mutant};

/// A line as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineRead<'a> {
    /// From which place on somebody may stand; `None` if nobody waited.
    pub(super) front: Option<i64>,
    /// No place from here on was given to anybody.
    pub(super) next: i64,
    /// The places that were read.
    pub(super) places: &'a [i64],
}

/// Which seats go and which come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LineChange {
    /// Whoever has a place from here on, and before the next, goes: those who got
    /// their turn, and the dead among them, whom nobody has read.
    pub(super) from: i64,
    pub(super) to: i64,
    /// Where in between nobody has read: who stands there must be dead.
    pub(super) unread: Vec<(i64, i64)>,
    /// Others that go.
    pub(super) gone: Vec<u64>,
    pub(super) new: Vec<SeatRow>,
}

impl LineChange {
    /// `first` is the place of the first one who stays; `None`: none of those who were
    /// there is left, dead ones included, and their places may be given again.
    pub(super) fn new(read: LineRead<'_>, first: Option<i64>, changes: SeatChanges) -> Self {
        let (from, to) = match (read.front, first) {
            (Some(_), _) if mutant::lives(Mutant::KeepsRows) => (0, 0),
            (Some(front), first) => (front, first.unwrap_or(i64::MAX)),
            (None, _) => (0, 0),
        };
        let SeatChanges { mut gone, mut new } = changes;
        gone.retain(|place| !(from..to).contains(&int(*place)));
        gone.retain(|_| !mutant::lives(Mutant::KeepsRows));
        new.retain(|_| !mutant::lives(Mutant::SavesNoRows));
        let unread = gaps(from, to.min(read.next), read.places);
        Self { from, to, unread, gone, new }
    }

    /// Whether none of the rows stays.
    pub(super) const fn empties(&self) -> bool {
        self.passes_any() && self.to == i64::MAX
    }

    pub(super) const fn passes_any(&self) -> bool {
        self.from < self.to
    }

    pub(super) const fn is_none(&self) -> bool {
        !self.passes_any() && self.gone.is_empty() && self.new.is_empty()
    }

    /// As values of the swap that does it all.
    pub(super) fn values(&self) -> Result<[Value; 5]> {
        let gone: Vec<_> = self.gone.iter().map(u64::to_string).collect();
        let row = |row: &SeatRow| (row.place, key(row.lease), row.session, row.text.clone());
        let new: Vec<_> = self.new.iter().map(row).collect();
        let gone = format!("{{{}}}", gone.join(","));
        let (new, unread) = (text(&new)?, text(&self.unread)?);
        Ok([self.from.into(), self.to.into(), gone.into(), new.into(), unread.into()])
    }
}

fn text(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|cause| {
        Error::new(ErrorKind::Unexpected, "a seat cannot be written").caused_by(cause)
    })
}

/// What of a range none of these places is in.
fn gaps(mut from: i64, to: i64, places: &[i64]) -> Vec<(i64, i64)> {
    let within = places.iter().copied().filter(|place| (from..to).contains(place));
    let mut ends: Vec<_> = within.chain([to]).collect();
    ends.sort_unstable();
    let mut gaps = Vec::new();
    for end in ends {
        if from < end {
            gaps.push((from, end));
        }
        from = end.saturating_add(1);
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(front: Option<i64>, places: &[i64]) -> LineRead<'_> {
        LineRead { front, next: 10, places }
    }

    fn change(was: Option<i64>, is: Option<i64>, gone: &[u64]) -> (i64, i64, Vec<u64>) {
        let changes = SeatChanges { gone: gone.to_vec(), new: Vec::new() };
        let change = LineChange::new(line(was, &[]), is, changes);
        (change.from, change.to, change.gone)
    }

    #[test]
    fn what_is_passed_and_was_not_read_is_known() {
        let unread = |is, places: &[i64]| {
            LineChange::new(line(Some(3), places), is, SeatChanges::default()).unread
        };
        assert_eq!(unread(Some(3), &[3]), []);
        assert_eq!(unread(Some(5), &[5, 3, 4, 3]), []);
        assert_eq!(unread(Some(8), &[4, 5, 8]), [(3, 4), (6, 8)]);
        assert_eq!(unread(None, &[3, 4]), [(5, 10)], "those who came later have died");
        assert_eq!(unread(None, &[3, 4, 5, 6, 7, 8, 9]), []);
    }

    #[test]
    fn what_the_front_has_passed_goes_whether_it_was_read_or_not() {
        assert_eq!(change(None, Some(0), &[]), (0, 0, vec![]), "the first one joins");
        assert_eq!(change(Some(3), Some(3), &[7]), (3, 3, vec![7]), "one in the middle leaves");
        assert_eq!(change(Some(3), Some(6), &[3, 5, 9]), (3, 6, vec![9]));
        assert_eq!(change(Some(3), None, &[3]), (3, i64::MAX, vec![]));
    }

    #[test]
    fn nothing_is_written_where_nothing_has_changed() {
        let change = |is| LineChange::new(line(Some(3), &[]), is, SeatChanges::default());
        assert!(change(Some(3)).is_none() && !change(Some(4)).is_none() && !change(None).is_none());
    }
}
