//! Every statement about records, for one place and one family.

use super::super::names::TableNames;
use super::super::text::SqlText;
use crate::engines::database::drivers::Reply;
use crate::error::{Error, ErrorKind, Result};

/// All of them; made once.
#[derive(Debug)]
pub(in super::super) struct RecordSql {
    /// 1 namespace.
    pub(super) space: SqlText,
    /// 1 namespace; gives the version.
    pub(super) draw: SqlText,
    /// 1 namespace, 2 name.
    pub(super) load: SqlText,
    /// 1 namespace, 2 name, 3 ttl, 4 lease, 5 session, 6 value.
    pub(super) upsert: SqlText,
    pub(super) insert: SqlText,
    /// The same, and 7 the version before.
    pub(super) replace: SqlText,
    /// 1 namespace, 2 name, 3 value, 4 the version before.
    pub(super) revalue: SqlText,
    /// 1 namespace, 2 name, 3 a number: adds it to a number of up to 18 digits,
    /// or a sign and 17, that nothing but its time keeps.
    pub(super) add: SqlText,
    /// 1 namespace, 2 name, 3 the version before.
    pub(super) delete: SqlText,
    /// 1 namespace, 2 name.
    pub(super) delete_any: SqlText,
    /// 1 namespace, 2 name, 3 value or null; 4 what watchers are told.
    pub(super) log: SqlText,
    /// The same, if the record is there.
    pub(super) log_there: SqlText,
    /// 1 namespace, 2 name; 3 what watchers are told. The value is what is there.
    pub(super) log_sum: SqlText,
    /// 1 lease: its records are over.
    pub(in super::super) orphan: SqlText,
    /// 1 lease.
    pub(super) bound: SqlText,
    /// 1 how many: those whose time is up and whom nobody watches; those whose
    /// time is up; those whose session is.
    pub(super) unseen: SqlText,
    pub(super) lapsed: SqlText,
    pub(super) unbound: SqlText,
    /// 1 namespace, 2 first name, 3 the name before, 4 how many.
    pub(super) list: SqlText,
}

const LOAD: &str = "\
SELECT {then}, r.version, r.value, r.expires, r.session, s.expires FROM (SELECT 1 AS one) k \
LEFT JOIN {records} r ON r.namespace = $1 AND r.name = $2 \
LEFT JOIN {sessions} s ON s.id = r.session";

const LIST: &str = "\
SELECT {then}, r.version, r.value, r.expires, r.session, s.expires, r.name FROM {records} r \
LEFT JOIN {sessions} s ON s.id = r.session \
WHERE r.namespace = $1 AND r.name >= $2 AND r.name > $3 ORDER BY r.name LIMIT $4";

const PUT: &str = "\
INSERT INTO {records} (namespace, name, version, expires, bound, session, value) \
SELECT $1::text, $2::text, d.version, {now} + $3::bigint, $4::text, $5::bigint, $6::bytea \
FROM {namespaces} d WHERE d.namespace = $1";

const REPLACE: &str = "\
UPDATE {records} SET version = (SELECT d.version FROM {namespaces} d WHERE d.namespace = $1), \
 expires = {now} + $3::bigint, bound = $4::text, session = $5::bigint, value = $6::bytea \
WHERE namespace = $1 AND name = $2 AND version = $7";

const REVALUE: &str = "\
UPDATE {records} SET version = (SELECT d.version FROM {namespaces} d WHERE d.namespace = $1), \
 value = $3::bytea WHERE namespace = $1 AND name = $2 AND version = $4";

/// The row of the namespace is ours by now, so nobody can be faster.
const ADD: &str = "\
UPDATE {records} SET version = (SELECT d.version FROM {namespaces} d WHERE d.namespace = $1), \
 value = SUM WHERE namespace = $1 AND name = $2 AND session IS NULL \
 AND (expires IS NULL OR expires > {now}) AND length(value) BETWEEN 1 AND 18 AND DIGITS";

/// A change is written down only if somebody watches.
const LOG: &str = "\
INSERT INTO {changes} (namespace, version, name, at, value) \
SELECT $1::text, d.version, $2::text, {now}, $3::bytea FROM {namespaces} d \
WHERE d.namespace = $1 AND EXISTS \
 (SELECT 1 FROM {watchers} w WHERE w.namespace = $1 AND w.expires > {then})";

const THERE: &str =
    " AND EXISTS (SELECT 1 FROM {records} r WHERE r.namespace = $1 AND r.name = $2)";

/// What is there now.
const VALUE: &str = "(SELECT r.value FROM {records} r WHERE r.namespace = $1 AND r.name = $2)";

/// A record that nobody watches goes without a word: nobody has seen it since
/// its time was up, and whoever begins to watch does not see it any more.
const UNSEEN: &str = "\
WHERE expires <= {then} AND namespace NOT IN \
 (SELECT w.namespace FROM {watchers} w WHERE w.expires > {then}) LIMIT $1";

impl RecordSql {
    pub(in super::super) fn new(names: &TableNames) -> Self {
        let text = |template: &str| SqlText::new(names, template);
        let family = names.family;
        let log = |log: &str| text(&family.telling_watchers(log, "$4"));
        let columns = ["version", "expires", "bound", "session", "value"];
        Self {
            space: text(&family.insert_new("INSERT INTO {namespaces} VALUES ($1, 0, 0, 0)")),
            draw: text(family.draw()),
            load: text(LOAD),
            upsert: text(&family.upsert(PUT, "namespace, name", &columns)),
            insert: text(&family.insert_new(PUT)),
            replace: text(REPLACE),
            revalue: text(REVALUE),
            add: text(&ADD.replace("SUM", family.sum()).replace("DIGITS", family.digits())),
            delete: text(
                "DELETE FROM {records} WHERE namespace = $1 AND name = $2 AND version = $3",
            ),
            delete_any: text("DELETE FROM {records} WHERE namespace = $1 AND name = $2"),
            log: log(LOG),
            log_there: log(&format!("{LOG}{THERE}")),
            log_sum: text(&family.telling_watchers(&LOG.replace("$3::bytea", VALUE), "$3")),
            orphan: text("UPDATE {records} SET expires = 0, session = NULL WHERE bound = $1"),
            bound: text("SELECT namespace, name, version FROM {records} WHERE bound = $1"),
            unseen: text(&family.delete_some("{records}", UNSEEN)),
            lapsed: text(
                "SELECT namespace, name, version FROM {records} WHERE expires <= {then} LIMIT $1",
            ),
            unbound: text(
                "SELECT r.namespace, r.name, r.version FROM {sessions} s \
                 JOIN {records} r ON r.session = s.id WHERE s.expires <= {then} LIMIT $1",
            ),
            list: text(LIST),
        }
    }
}

/// The version that a draw gave.
pub(super) fn drawn(reply: Option<&Reply>) -> Result<u64> {
    let missing = || Error::new(ErrorKind::Unexpected, "no version was drawn").unknown();
    let reply = reply.ok_or_else(missing)?;
    match reply.rows.first() {
        Some(row) => Ok(row.int(0)?.unsigned_abs()),
        None => Ok(reply.last_id),
    }
}
