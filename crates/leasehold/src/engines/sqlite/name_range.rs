//! Where a page of names begins.

use crate::engine::Page;
use crate::name::Name;

/// From a name on: one bound, because SQLite seeks by the first of two and reads
/// everything between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameRange<'a> {
    pub(super) from: &'a str,
    /// Whether the first one is shown too.
    inclusive: bool,
}

impl<'a> NameRange<'a> {
    /// What begins with `start` and comes after the page before.
    pub(super) fn new(start: &'a str, page: &'a Page) -> Self {
        match page.after.as_ref().map(Name::as_str) {
            Some(after) if after >= start => Self { from: after, inclusive: false },
            _ => Self { from: start, inclusive: true },
        }
    }

    /// Reads these columns of a table: 1 namespace, 2 the bound.
    pub(super) fn sql(self, columns: &str, table: &str) -> String {
        let bound = if self.inclusive { ">=" } else { ">" };
        format!(
            "SELECT {columns} FROM {table} WHERE namespace = ?1 AND name {bound} ?2 ORDER BY name"
        )
    }
}
