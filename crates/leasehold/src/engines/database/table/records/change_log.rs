//! The log of changes, as one client keeps it, and every statement about it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::super::names::TableNames;
use super::super::text::SqlText;
use crate::name::Namespace;

/// Every statement about watching.
#[derive(Debug)]
pub(super) struct WatchSql {
    /// 1 id, 2 client, 3 namespace, 4 for how long.
    pub(super) enter: SqlText,
    /// 1 id, 2 for how long.
    pub(super) show: SqlText,
    /// 1 id.
    pub(super) leave: SqlText,
    /// 1 namespace, 2 the last version read, 3 id, 4 how many.
    pub(super) read: SqlText,
    /// 1 namespace, 2 how many are kept.
    pub(super) oldest: SqlText,
    /// 1 namespace, 2 version.
    pub(super) cut: SqlText,
    pub(super) forget: SqlText,
}

impl WatchSql {
    fn new(names: &TableNames) -> Self {
        let text = |template: &str| SqlText::new(names, template);
        Self {
            enter: text(
                "INSERT INTO {watchers} (id, client, namespace, expires) \
                 VALUES ($1::bigint, $2::bigint, $3::text, {now} + $4::bigint)",
            ),
            show: text(
                "UPDATE {watchers} SET expires = {now} + $2::bigint \
                 WHERE id = $1 AND expires > {now}",
            ),
            leave: text("DELETE FROM {watchers} WHERE id = $1"),
            read: text(
                "SELECT d.version, d.cut, \
                 (SELECT count(*) FROM {watchers} w WHERE w.id = $3 AND w.expires > {now}), \
                 c.version, c.name, c.value FROM {namespaces} d \
                 LEFT JOIN {changes} c ON c.namespace = d.namespace AND c.version > $2 \
                 WHERE d.namespace = $1 ORDER BY c.version LIMIT $4",
            ),
            oldest: text(
                "SELECT version FROM {changes} WHERE namespace = $1 \
                 ORDER BY version DESC LIMIT 1 OFFSET $2",
            ),
            cut: text(
                "UPDATE {namespaces} SET cut = greatest(cut, $2::bigint) WHERE namespace = $1",
            ),
            forget: text("DELETE FROM {changes} WHERE namespace = $1 AND version <= $2"),
        }
    }
}

/// The log of changes, as one client keeps it.
#[derive(Debug)]
pub(in super::super) struct ChangeLog {
    pub(super) statements: WatchSql,
    /// How often this client has written to a namespace.
    writes: Mutex<HashMap<Namespace, u64>>,
}

impl ChangeLog {
    pub(in super::super) fn new(names: &TableNames) -> Self {
        Self { statements: WatchSql::new(names), writes: Mutex::default() }
    }

    pub(super) fn count(&self, space: &Namespace) -> u64 {
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let writes = writes.entry(space.clone()).or_default();
        *writes += 1;
        *writes
    }
}
