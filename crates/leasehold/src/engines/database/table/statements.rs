//! Every statement about leases, for one place and one family.

use super::names::TableNames;
use super::text::SqlText;
use crate::mutant::{self, Mutant};

/// All of them; made once.
#[derive(Debug)]
pub(super) struct LeaseSql {
    /// 1 namespace, 2 name, 3 a session or 0, 4 a lease or nothing.
    pub(super) load: SqlText,
    /// 1 namespace, 2 name, 3 lease or null, 4 session, 5 sessions, 6 owner,
    /// 7 description, 8 state, 9 good until.
    pub(super) take: SqlText,
    /// The same, if there is no record of that name.
    pub(super) take_new: SqlText,
    /// 1 namespace, 2 name, 3 lease, 4 how long it is remembered.
    pub(super) free: SqlText,
    /// 1 namespace, 2 name, 3 version, 4 state, 5 fence, 6 lease, 7 watch,
    /// 8 sessions, 9 forget_at, 10 owner, 11 description, 12 good until,
    /// 13 a session that must live, or 0, 14 front; PostgreSQL: 15 who to tell what.
    pub(super) swap: SqlText,
    /// The same with the change of the line, where one statement will do: 16 the
    /// front that was, 17 up to where seats go, 18 what else goes, 19 who comes,
    /// 20 where nobody may live.
    pub(super) swap_with_line: Option<SqlText>,
    /// The same for a name that is not there; 3 is its first version.
    pub(super) enter: SqlText,
    /// 1 id, 2 client, 3 ttl, 4 delay, 5 fixed.
    pub(super) begin: SqlText,
    /// 1 id, 2 ttl, 3 delay.
    pub(super) extend: SqlText,
    /// [`DEAD`] ids of sessions, which may be the same: a row if all have ended.
    pub(super) dead: SqlText,
    /// 1 id; only if it is that of a fixed lease.
    pub(super) end_fixed: SqlText,
    /// 1 id.
    pub(super) end: SqlText,
    /// 1 client.
    pub(super) losses: SqlText,
    /// 1 client, 2 lease.
    pub(super) heard: SqlText,
    /// 1 client, 2 lease, 3 why.
    pub(super) lose: SqlText,
    /// The clock, by way of what only newer servers have.
    pub(super) clock: SqlText,
}

impl LeaseSql {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |template: &str| SqlText::new(names, template);
        let family = names.family;
        let enter = family.telling(&family.insert_new(ENTER));
        let swap = swap();
        let lose = family.upsert(LOSE, "client, lease", &["why"]);
        Self {
            load: text(&family.load()),
            take: text(family.take()),
            take_new: text(&unless_found(family.take())),
            free: text(FREE),
            swap: text(&family.telling(&swap)),
            swap_with_line: family.telling_with_line(&swap).as_deref().map(text),
            enter: text(&enter),
            begin: text(BEGIN),
            extend: text(EXTEND),
            dead: text(&dead()),
            end_fixed: text("DELETE FROM {sessions} WHERE id = $1 AND fixed = 1"),
            end: text("UPDATE {sessions} SET expires = {now} WHERE id = $1 AND expires > {now}"),
            losses: text("SELECT lease, why FROM {losses} WHERE client = $1"),
            heard: text("DELETE FROM {losses} WHERE client = $1 AND lease = $2"),
            lose: text(&lose),
            clock: text(family.clock_of_new_servers()),
        }
    }
}

/// A record that has come to stand after this looked is found by whoever reads it
/// next, under the lease.
fn unless_found(take: &str) -> String {
    let absent =
        "AND NOT EXISTS (SELECT 1 FROM {records} r WHERE r.namespace = $1 AND r.name = $2) ON ";
    take.replacen("ON ", absent, 1)
}

/// Gives back what somebody holds alone, unless it has run out.
const FREE: &str = "\
UPDATE {names} SET version = version + 1, forget_at = {now} + $4::bigint, updated = {now}, \
 lease = NULL, watch = NULL, sessions = NULL, state = NULL \
WHERE namespace = $1 AND name = $2 AND lease = $3 \
 AND EXISTS (SELECT 1 FROM {sessions} s WHERE s.id = watch AND s.expires > {now})";

/// Puts a new state in the place of the one that was read. A guess that is too
/// old does nothing: its client was paused, and its fence may be stale.
const SWAP: &str = "\
UPDATE {names} SET version = version + 1, state = $4::text, fence = $5::bigint, \
 lease = $6::text, watch = $7::bigint, sessions = $8::text, forget_at = $9::bigint, \
 owner = coalesce($10::text, owner), description = $11::text, updated = {now}, \
 front = $14::bigint \
WHERE namespace = $1 AND name = $2 AND version = $3 AND {now} < $12::bigint \
 AND ($13::bigint = 0 OR EXISTS \
  (SELECT 1 FROM {sessions} s WHERE s.id = $13::bigint AND s.expires > {now}))";

/// The same, as statements have it.
fn swap() -> String {
    if mutant::lives(Mutant::VersionGuardsNothing) {
        return SWAP.replace("version = $3", "(version = $3 OR $3 > 0)");
    }
    SWAP.to_owned()
}

const ENTER: &str = "\
INSERT INTO {names} (namespace, name, version, state, fence, lease, watch, sessions, forget_at, \
 owner, description, created, updated, front) \
SELECT $1::text, $2::text, $3::bigint, $4::text, $5::bigint, $6::text, $7::bigint, $8::text, \
 $9::bigint, $10::text, $11::text, {now}, {now}, $14::bigint FROM (SELECT 1 AS one) k \
WHERE {now} < $12::bigint AND ($13::bigint = 0 OR EXISTS \
 (SELECT 1 FROM {sessions} s WHERE s.id = $13::bigint AND s.expires > {now}))";

const BEGIN: &str = "\
INSERT INTO {sessions} (id, client, ttl, delay, expires, fixed) \
VALUES ($1::bigint, $2::bigint, $3::bigint, $4::bigint, {now} + $3::bigint, $5::bigint)";

/// A session that has ended never lives again.
const EXTEND: &str = "\
UPDATE {sessions} SET expires = greatest(expires, {now} + $2::bigint), \
 delay = greatest(delay, $3::bigint) WHERE id = $1 AND expires > {now}";

/// How many sessions are looked at with one statement.
pub(super) const DEAD: usize = 8;

/// Goes with a swap that takes something away from sessions which have ended:
/// an extension changes no name, so the swap alone would not notice one that
/// came after the look. It waits for nobody.
fn dead() -> String {
    let ids: Vec<_> = (1..=DEAD).map(|at| format!("${at}")).collect();
    format!(
        "SELECT 1 FROM (SELECT 1 AS one) k WHERE NOT EXISTS \
         (SELECT 1 FROM {{sessions}} s WHERE s.id IN ({}) AND s.expires > {{then}})",
        ids.join(", ")
    )
}

const LOSE: &str = "\
INSERT INTO {losses} (client, lease, at, why) VALUES ($1::bigint, $2::text, {now}, $3::text)";
