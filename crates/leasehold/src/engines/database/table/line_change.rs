//! What becomes of the rows of a line with one swap.

use super::columns::{int, key};
use crate::engine::state::{SeatChanges, SeatRow};
use crate::engines::database::drivers::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::mutant::{self, Mutant};

/// Which seats go and which come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LineChange {
    /// Whoever has a place from here on, and before the next, goes: those who got
    /// their turn, and the dead among them, whom nobody has read.
    pub(super) from: i64,
    pub(super) to: i64,
    /// Others that go.
    pub(super) gone: Vec<u64>,
    pub(super) new: Vec<SeatRow>,
}

impl LineChange {
    /// The front was at one place and is at another; `None`: none of those who were
    /// there is left, dead ones included, and their places may be given again.
    pub(super) fn new(was: Option<i64>, is: Option<i64>, changes: SeatChanges) -> Self {
        let (from, to) = match (was, is) {
            (Some(_), _) if mutant::lives(Mutant::KeepsRows) => (0, 0),
            (Some(was), is) => (was, is.unwrap_or(i64::MAX)),
            (None, _) => (0, 0),
        };
        let SeatChanges { mut gone, mut new } = changes;
        gone.retain(|place| !(from..to).contains(&int(*place)));
        gone.retain(|_| !mutant::lives(Mutant::KeepsRows));
        new.retain(|_| !mutant::lives(Mutant::SavesNoRows));
        Self { from, to, gone, new }
    }

    pub(super) const fn passes_any(&self) -> bool {
        self.from < self.to
    }

    pub(super) const fn is_none(&self) -> bool {
        !self.passes_any() && self.gone.is_empty() && self.new.is_empty()
    }

    /// As values of the swap that does it all.
    pub(super) fn values(&self) -> Result<[Value; 4]> {
        let gone: Vec<_> = self.gone.iter().map(u64::to_string).collect();
        let row = |row: &SeatRow| (row.place, key(row.lease), row.session, row.text.clone());
        let new: Vec<_> = self.new.iter().map(row).collect();
        let new = serde_json::to_string(&new).map_err(|cause| {
            Error::new(ErrorKind::Unexpected, "a seat cannot be written").caused_by(cause)
        })?;
        let gone = format!("{{{}}}", gone.join(","));
        Ok([self.from.into(), self.to.into(), gone.into(), new.into()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(was: Option<i64>, is: Option<i64>, gone: &[u64]) -> (i64, i64, Vec<u64>) {
        let changes = SeatChanges { gone: gone.to_vec(), new: Vec::new() };
        let change = LineChange::new(was, is, changes);
        (change.from, change.to, change.gone)
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
        let change = |is| LineChange::new(Some(3), is, SeatChanges::default());
        assert!(change(Some(3)).is_none() && !change(Some(4)).is_none() && !change(None).is_none());
    }
}
