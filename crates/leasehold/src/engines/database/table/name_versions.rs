//! Whether names are as they were, without reading all of them.

use super::names::TableNames;
use super::rows_sql::RowsSql;

/// The statement that asks for them, by names.
pub(super) fn versions(names: &TableNames) -> RowsSql {
    RowsSql::new(
        names,
        "w.namespace, w.name, w.version, w.lease",
        "{names}",
        &["namespace", "name"],
    )
}

/// What tells whether a name is as it was, without reading all of it.
#[derive(Debug)]
pub(super) struct NameVersion {
    pub(super) version: i64,
    /// Who holds it alone.
    pub(super) lease: Option<String>,
}
