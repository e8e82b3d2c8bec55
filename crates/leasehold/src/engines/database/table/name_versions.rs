//! Whether names are as they were, without reading all of them.

use super::names::TableNames;
use super::text::SqlText;

/// How many names one statement asks for: the smallest of these that will do.
const NAMES: [usize; 3] = [1, 8, NAMES_MAX];
pub(super) const NAMES_MAX: usize = 64;

/// How to read the marks of some names.
#[derive(Debug)]
pub(super) struct NameVersions([(usize, SqlText); 3]);

/// What tells whether a name is as it was, without reading all of it.
#[derive(Debug)]
pub(super) struct NameVersion {
    pub(super) version: i64,
    /// Who holds it alone.
    pub(super) lease: Option<String>,
}

impl NameVersions {
    pub(super) fn new(names: &TableNames) -> Self {
        Self(NAMES.map(|size| (size, marks(names, size))))
    }

    pub(super) fn of(&self, count: usize) -> &(usize, SqlText) {
        self.0.iter().find(|(size, _)| *size >= count).unwrap_or(&self.0[2])
    }
}

fn marks(names: &TableNames, size: usize) -> SqlText {
    let pairs: Vec<_> = (0..size).map(|at| format!("(${}, ${})", 2 * at + 1, 2 * at + 2)).collect();
    let sql = format!(
        "SELECT namespace, name, version, lease FROM {{names}} WHERE (namespace, name) IN ({})",
        pairs.join(", ")
    );
    SqlText::new(names, &sql)
}
