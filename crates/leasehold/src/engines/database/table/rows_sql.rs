//! One statement that asks for many rows by their keys.

use super::names::TableNames;
use super::text::SqlText;
use crate::engines::database::drivers::Value;

/// How many rows one statement asks for: the smallest of these that will do.
const ROWS: [usize; 3] = [1, 8, ROWS_MAX];
pub(super) const ROWS_MAX: usize = 64;

/// The same statement for a few keys and for many.
#[derive(Debug)]
pub(super) struct RowsSql([(usize, SqlText); 3]);

impl RowsSql {
    /// `begin` ends before the list of keys, each of which has `width` columns.
    pub(super) fn new(names: &TableNames, begin: &str, width: usize) -> Self {
        let key = |at: usize| {
            let columns: Vec<_> = (1..=width).map(|it| format!("${}", at * width + it)).collect();
            format!("({})", columns.join(", "))
        };
        Self(ROWS.map(|size| {
            let keys: Vec<_> = (0..size).map(key).collect();
            (size, SqlText::new(names, &format!("{begin} ({})", keys.join(", "))))
        }))
    }

    /// The statement for at most [`ROWS_MAX`] keys, and its values.
    pub(super) fn of(&self, keys: &[Vec<Value>]) -> (&SqlText, Vec<Value>) {
        let fits = self.0.iter().find(|(size, _)| *size >= keys.len());
        let (size, text) = fits.unwrap_or(&self.0[2]);
        // The last one fills the places that are left.
        let filled = (0..*size).filter_map(|at| keys.get(at).or(keys.last()));
        (text, filled.flatten().cloned().collect())
    }
}
