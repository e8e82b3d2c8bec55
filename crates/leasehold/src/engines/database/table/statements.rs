//! Every statement about leases, for one place and one family.

use super::names::TableNames;
use super::text::SqlText;
use crate::engines::database::dialect::Dialect;

/// All of them; made once.
#[derive(Debug)]
pub(super) struct LeaseSql {
    /// 1 namespace, 2 name, 3 a session or 0.
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
    /// 13 a session that must live, or 0; PostgreSQL: 14 who to tell what.
    pub(super) swap: SqlText,
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
        let postgres = names.dialect == Dialect::Postgres;
        let pick = |pg: &str, my: &str| text(if postgres { pg } else { my });
        Self {
            load: pick(LOAD_POSTGRES, LOAD_MYSQL),
            take: pick(TAKE_POSTGRES, TAKE_MYSQL),
            take_new: pick(&unless_found(TAKE_POSTGRES), &unless_found(TAKE_MYSQL)),
            free: text(FREE),
            swap: text(&if postgres { telling(SWAP) } else { SWAP.to_owned() }),
            enter: if postgres {
                text(&telling(&format!("{ENTER} ON CONFLICT DO NOTHING")))
            } else {
                text(&ENTER.replacen("INSERT", "INSERT IGNORE", 1))
            },
            begin: text(BEGIN),
            extend: text(EXTEND),
            dead: text(&dead()),
            end_fixed: text("DELETE FROM {sessions} WHERE id = $1 AND fixed = 1"),
            end: text("UPDATE {sessions} SET expires = {now} WHERE id = $1 AND expires > {now}"),
            losses: text("SELECT lease, why FROM {losses} WHERE client = $1"),
            heard: text("DELETE FROM {losses} WHERE client = $1 AND lease = $2"),
            lose: text(&lose(postgres)),
            clock: pick(
                "SELECT {now} FROM json_array_elements_text('[1]') j",
                "SELECT {now} FROM JSON_TABLE('[1]', '$[*]' COLUMNS (id BIGINT PATH '$')) j",
            ),
        }
    }
}

/// The clock, the floor, our session's end, the row, and who keeps it alive.
const LOAD_POSTGRES: &str = "\
SELECT {then}, coalesce(f.floor, 0), \
 (SELECT s.expires FROM {sessions} s WHERE s.id = $3), \
 n.version, n.fence, n.updated, n.state, \
 (SELECT json_object_agg(s.id, json_build_array(s.expires, s.client))::text \
  FROM json_array_elements_text(n.sessions::json) j JOIN {sessions} s ON s.id = j::bigint) \
FROM (SELECT 1 AS one) k \
LEFT JOIN {namespaces} f ON f.namespace = $1 \
LEFT JOIN {names} n ON n.namespace = $1 AND n.name = $2";

const LOAD_MYSQL: &str = "\
SELECT {then}, COALESCE(f.floor, 0), \
 (SELECT s.expires FROM {sessions} s WHERE s.id = $3), \
 n.version, n.fence, n.updated, n.state, \
 (SELECT JSON_OBJECTAGG(s.id, JSON_ARRAY(s.expires, s.client)) \
  FROM JSON_TABLE(n.sessions, '$[*]' COLUMNS (id BIGINT PATH '$')) j \
  STRAIGHT_JOIN {sessions} s FORCE INDEX (PRIMARY) ON s.id = j.id) \
FROM (SELECT 1 AS one) k \
LEFT JOIN {namespaces} f ON f.namespace = $1 \
LEFT JOIN {names} n ON n.namespace = $1 AND n.name = $2";

/// Takes a free name. A new row's fence is drawn before the row is won, which
/// is safe because rows linger for much longer than a statement can take; that
/// of a row that is there is raised under its lock.
///
/// The session must live. A statement that was on its way for too long does
/// nothing: its client has given the ticket back since.
const TAKE_POSTGRES: &str = "\
INSERT INTO {names} AS n (namespace, name, version, fence, lease, watch, sessions, owner, \
 description, created, updated, state) \
SELECT $1::text, $2::text, {now}, \
 greatest({now}, (SELECT f.floor + 1 FROM {namespaces} f WHERE f.namespace = $1)), \
 $3::text, s.id, $5::text, $6::text, $7::text, {now}, {now}, $8::text \
FROM {sessions} s WHERE s.id = $4 AND s.expires > {now} AND $9::bigint > {now} \
ON CONFLICT (namespace, name) DO UPDATE SET \
 version = n.version + 1, fence = greatest(n.fence + 1, excluded.fence), lease = excluded.lease, \
 watch = excluded.watch, sessions = excluded.sessions, owner = excluded.owner, \
 description = excluded.description, updated = excluded.updated, forget_at = NULL, \
 state = excluded.state \
WHERE n.state IS NULL \
RETURNING fence";

/// As above. MySQL assigns from left to right, so `state` comes last; the fence
/// comes back as the number of the last insert, and is 0 for whoever was late.
const TAKE_MYSQL: &str = "\
INSERT INTO {names} (namespace, name, version, fence, lease, watch, sessions, owner, \
 description, created, updated, state) \
SELECT $1, $2, {now}, LAST_INSERT_ID(GREATEST({now}, \
 COALESCE((SELECT f.floor + 1 FROM {namespaces} f WHERE f.namespace = $1), 0))), \
 $3, s.id, $5, $6, $7, {now}, {now}, $8 \
FROM {sessions} s WHERE s.id = $4 AND s.expires > {now} AND $9 > {now} \
ON DUPLICATE KEY UPDATE \
 version = {names}.version + IF({names}.state IS NULL, 1, 0), \
 fence = IF({names}.state IS NULL, \
  LAST_INSERT_ID(GREATEST({names}.fence + 1, VALUES(fence))), \
  {names}.fence + LAST_INSERT_ID(0)), \
 lease = IF({names}.state IS NULL, VALUES(lease), {names}.lease), \
 watch = IF({names}.state IS NULL, VALUES(watch), {names}.watch), \
 sessions = IF({names}.state IS NULL, VALUES(sessions), {names}.sessions), \
 owner = IF({names}.state IS NULL, VALUES(owner), {names}.owner), \
 description = IF({names}.state IS NULL, VALUES(description), {names}.description), \
 updated = IF({names}.state IS NULL, VALUES(updated), {names}.updated), \
 forget_at = IF({names}.state IS NULL, NULL, {names}.forget_at), \
 state = IF({names}.state IS NULL, VALUES(state), {names}.state)";

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
 owner = coalesce($10::text, owner), description = $11::text, updated = {now} \
WHERE namespace = $1 AND name = $2 AND version = $3 AND {now} < $12::bigint \
 AND ($13::bigint = 0 OR EXISTS \
  (SELECT 1 FROM {sessions} s WHERE s.id = $13::bigint AND s.expires > {now}))";

const ENTER: &str = "\
INSERT INTO {names} (namespace, name, version, state, fence, lease, watch, sessions, forget_at, \
 owner, description, created, updated) \
SELECT $1::text, $2::text, $3::bigint, $4::text, $5::bigint, $6::text, $7::bigint, $8::text, \
 $9::bigint, $10::text, $11::text, {now}, {now} FROM (SELECT 1 AS one) k \
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

/// A change that tells others in the same breath: they hear of it when it
/// stands, and not otherwise. Answers with one row if it was made.
fn telling(change: &str) -> String {
    format!(
        "WITH made AS ({change} RETURNING 1) SELECT (SELECT count(pg_notify(t->>0, t->>1)) \
         FROM json_array_elements($14::text::json) t) FROM made"
    )
}

fn lose(postgres: bool) -> String {
    let insert = "INSERT INTO {losses} (client, lease, at, why) \
         VALUES ($1::bigint, $2::text, {now}, $3::text)";
    let again = if postgres {
        "ON CONFLICT (client, lease) DO UPDATE SET why = excluded.why"
    } else {
        "ON DUPLICATE KEY UPDATE why = VALUES(why)"
    };
    format!("{insert} {again}")
}
