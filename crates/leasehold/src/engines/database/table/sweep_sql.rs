//! The statements of a sweep.

use super::names::TableNames;
use super::text::SqlText;
use crate::mutant::{self, Mutant};

/// Every statement of a sweep.
#[derive(Debug)]
pub(super) struct SweepSql {
    /// 1 how long it rests.
    pub(super) turn: SqlText,
    /// 1 how many.
    pub(super) idle: SqlText,
    /// 1 namespace, 2 fence.
    pub(super) floor: SqlText,
    /// 1 namespace, 2 fence.
    pub(super) forget: SqlText,
    /// 1 how many.
    pub(super) dead: SqlText,
    pub(super) dead_seats: SqlText,
    /// 1 namespace, 2 name, 3 session, 4 how many; it may have been extended since.
    pub(super) end_seats: SqlText,
    /// 1 how many.
    pub(super) retired: SqlText,
    /// 1 session.
    pub(super) retire: SqlText,
    /// 1 how old, 2 how many.
    pub(super) changes: SqlText,
    /// 1 namespace, 2 version.
    pub(super) cut: SqlText,
    pub(super) drop_changes: SqlText,
    /// 1 how old.
    pub(super) watchers: SqlText,
    /// 1 how old, 2 how old if its time was up.
    pub(super) losses: SqlText,
}

impl SweepSql {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |template: &str| SqlText::new(names, template);
        Self {
            turn: text(
                "UPDATE {meta} SET value = {now} WHERE word = 'swept' \
                 AND value < {now} - $1::bigint",
            ),
            idle: text(
                "SELECT namespace, fence FROM {names} \
                 WHERE forget_at <= {then} ORDER BY forget_at LIMIT $1",
            ),
            floor: text(names.family.raise_floor()),
            forget: text(
                "DELETE FROM {names} WHERE namespace = $1 AND fence <= $2::bigint \
                 AND forget_at <= {then}",
            ),
            dead: text(
                "SELECT n.namespace, n.name FROM {sessions} s JOIN {names} n ON n.watch = s.id \
                 WHERE s.expires <= {then} LIMIT $1",
            ),
            dead_seats: text(
                "SELECT q.namespace, q.name, q.session FROM {sessions} s \
                 JOIN {seats} q ON q.session = s.id WHERE s.expires <= {then} \
                 GROUP BY q.namespace, q.name, q.session LIMIT $1",
            ),
            end_seats: text(&names.family.delete_some("{seats}", &ended_seats())),
            retired: text(
                "SELECT s.id FROM {sessions} s \
                 WHERE s.expires <= {then} AND s.expires + s.delay <= {then} \
                 AND NOT EXISTS (SELECT 1 FROM {names} n WHERE n.watch = s.id) \
                 AND NOT EXISTS (SELECT 1 FROM {seats} q WHERE q.session = s.id) \
                 AND NOT EXISTS (SELECT 1 FROM {records} r WHERE r.session = s.id) LIMIT $1",
            ),
            retire: text("DELETE FROM {sessions} WHERE id = $1 AND expires <= {then}"),
            changes: text(
                "SELECT namespace, version FROM {changes} WHERE at <= {then} - $1::bigint \
                 ORDER BY at LIMIT $2",
            ),
            cut: text(
                "UPDATE {namespaces} SET cut = greatest(cut, $2::bigint) WHERE namespace = $1",
            ),
            drop_changes: text("DELETE FROM {changes} WHERE namespace = $1 AND version <= $2"),
            watchers: text("DELETE FROM {watchers} WHERE expires <= {then} - $1::bigint"),
            losses: text(
                "DELETE FROM {losses} WHERE at <= {then} - $1::bigint \
                 OR (length(why) <= 20 AND at <= {then} - $2::bigint)",
            ),
        }
    }
}

/// Seats of a session that has ended.
fn ended_seats() -> String {
    let ended = "AND EXISTS \
         (SELECT 1 FROM {sessions} s WHERE s.id = $3 AND s.expires <= {then})";
    let ended = if mutant::lives(Mutant::SweepsTheLiving) { "" } else { ended };
    format!("WHERE namespace = $1 AND name = $2 AND session = $3 {ended} LIMIT $4")
}
