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
    /// These columns of the rows `w` of a table, by the columns of a key of it.
    pub(super) fn new(names: &TableNames, columns: &str, table: &str, key: &[&str]) -> Self {
        let statement = |size| names.family.rows_by_key(columns, table, key, size);
        Self(ROWS.map(|size| (size, SqlText::new(names, &statement(size)))))
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
