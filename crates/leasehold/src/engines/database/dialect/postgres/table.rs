//! The lease table on PostgreSQL.

use super::PostgresFamily;
use crate::engines::database::dialect::table::{TableDraft, TableFamily, WINDOW, rows_of_values};

/// PostgreSQL sets the time of a statement once more after it has looked, that
/// of a transaction never.
const THEN: &str = "(extract(epoch FROM transaction_timestamp()) * 1000000)::bigint";

const KEEPERS: &str = "\
(SELECT json_object_agg(s.id, json_build_array(s.expires, s.client))::text \
 FROM json_array_elements_text(n.sessions::json) j JOIN {sessions} s ON s.id = j::bigint)";

/// Who is dead is left out: it waits no more, and goes with the front or a sweep.
/// One that is asked about is here in any case, because its row may have to go.
const LINE: &str = "\
CASE WHEN n.front IS NOT NULL THEN (SELECT json_agg(json_build_array(\
 q.front, q.place, q.lease, q.session, q.seat, s.expires, s.client))::text FROM (\
 (SELECT 1 AS front, w.place, w.lease, w.session, w.seat FROM {seats} w \
  JOIN {sessions} e ON e.id = w.session AND e.expires > {then} \
  WHERE w.namespace = $1 AND w.name = $2 AND w.place >= n.front ORDER BY w.place LIMIT WINDOW) \
 UNION ALL (SELECT 0, o.place, o.lease, o.session, o.seat FROM {seats} o \
  WHERE o.namespace = $1 AND o.name = $2 AND o.lease = $4) \
 UNION ALL (SELECT 0, b.place, b.lease, b.session, b.seat FROM {seats} b \
  JOIN {sessions} e ON e.id = b.session AND e.expires > {then} \
  WHERE b.namespace = $1 AND b.name = $2 AND b.place < coalesce((SELECT p.place FROM {seats} p \
   WHERE p.namespace = $1 AND p.name = $2 AND p.lease = $4), 9223372036854775807) \
  ORDER BY b.place DESC LIMIT 1)) q LEFT JOIN {sessions} s ON s.id = q.session) END";

const TOLD: &str = "\
SELECT (SELECT count(pg_notify(t->>0, t->>1)) FROM json_array_elements($15::text::json) t) FROM made";

/// Whoever goes unread must not have come back to life since: an extension changes no
/// name. Range by range: joined with all ranges at once, the whole line may be read.
const ALL_DEAD: &str = "\
NOT EXISTS (SELECT 1 FROM json_array_elements($20::text::json) t CROSS JOIN LATERAL (\
 SELECT 1 FROM {seats} w JOIN {sessions} s ON s.id = w.session AND s.expires > {then} \
 WHERE w.namespace = $1 AND w.name = $2 \
 AND w.place >= (t->>0)::bigint AND w.place < (t->>1)::bigint LIMIT 1) alive)";

/// Seats go before others come: a lease may be among both.
const WITH_LINE: &str = "\
passed AS (DELETE FROM {seats} WHERE namespace = $1 AND name = $2 \
 AND place >= $16::bigint AND place < $17::bigint AND EXISTS (SELECT 1 FROM made) RETURNING 1), \
left_it AS (DELETE FROM {seats} WHERE namespace = $1 AND name = $2 \
 AND place = ANY($18::text::bigint[]) AND EXISTS (SELECT 1 FROM made) RETURNING 1), \
joined AS (INSERT INTO {seats} (namespace, name, place, lease, session, seat) \
 SELECT $1::text, $2::text, (t->>0)::bigint, t->>1, (t->>2)::bigint, t->>3 \
 FROM json_array_elements($19::text::json) t WHERE EXISTS (SELECT 1 FROM made) \
 AND (SELECT count(*) FROM passed) + (SELECT count(*) FROM left_it) >= 0)";

impl TableFamily for PostgresFamily {
    fn now(&self) -> &'static str {
        "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    }

    fn then(&self) -> &'static str {
        THEN
    }

    fn written(&self, filled: String) -> (String, Vec<usize>) {
        (filled, Vec::new())
    }

    fn names_are_bytes(&self) -> bool {
        false
    }

    fn tells(&self) -> bool {
        true
    }

    fn insert_new(&self, insert: &str) -> String {
        format!("{insert} ON CONFLICT DO NOTHING")
    }

    fn upsert(&self, insert: &str, key: &str, columns: &[&str]) -> String {
        let set: Vec<_> = columns.iter().map(|it| format!("{it} = excluded.{it}")).collect();
        format!("{insert} ON CONFLICT ({key}) DO UPDATE SET {}", set.join(", "))
    }

    fn delete_some(&self, table: &str, which: &str) -> String {
        format!(
            "DELETE FROM {table} WHERE ctid = ANY(ARRAY(\
             SELECT ctid FROM {table} {which} FOR UPDATE SKIP LOCKED))"
        )
    }

    fn load(&self) -> String {
        let line = LINE.replace("WINDOW", &WINDOW.to_string());
        format!(
            "SELECT {{then}}, coalesce(f.floor, 0), \
             (SELECT s.expires FROM {{sessions}} s WHERE s.id = $3), \
             n.version, n.fence, n.updated, n.state, \
             {KEEPERS}, n.front, {line} \
             FROM (SELECT 1 AS one) k \
             LEFT JOIN {{namespaces}} f ON f.namespace = $1 \
             LEFT JOIN {{names}} n ON n.namespace = $1 AND n.name = $2"
        )
    }

    fn take(&self) -> &'static str {
        TAKE
    }

    fn telling(&self, change: &str) -> String {
        format!("WITH made AS ({change} RETURNING 1) {TOLD}")
    }

    fn telling_with_line(&self, change: &str) -> Option<String> {
        Some(format!("WITH made AS ({change} AND {ALL_DEAD} RETURNING 1), {WITH_LINE} {TOLD}"))
    }

    fn telling_watchers(&self, log: &str, news: &str) -> String {
        format!(
            "WITH made AS ({log} RETURNING 1) SELECT count(pg_notify(w.channel, {news}::text)) \
             FROM (SELECT DISTINCT 'leasehold_' || lpad(to_hex(client), 16, '0') AS channel \
             FROM {{watchers}} WHERE namespace = $1 AND expires > {{then}}) w \
             WHERE EXISTS (SELECT 1 FROM made)"
        )
    }

    fn keepers(&self) -> &'static str {
        KEEPERS
    }

    /// A list of keys is read row by row of a whole line, or of a whole namespace, by
    /// a server that takes the table for small: it was empty when it last looked. One
    /// row at a time is found by its key.
    fn rows_by_key(&self, columns: &str, table: &str, key: &[&str], many: usize) -> String {
        let values = rows_of_values(key.len(), many);
        let same: Vec<_> = key.iter().map(|it| format!("t.{it} = k.{it}")).collect();
        let (key, same) = (key.join(", "), same.join(" AND "));
        format!(
            "SELECT {columns} FROM (VALUES {values}) k ({key}) \
             CROSS JOIN LATERAL (SELECT * FROM {table} t WHERE {same} LIMIT 1) w"
        )
    }

    fn seats_by_place(&self) -> &'static str {
        "{seats} w JOIN {sessions} s"
    }

    fn raise_floor(&self) -> &'static str {
        "INSERT INTO {namespaces} AS d (namespace, floor, version, cut) \
         VALUES ($1, $2::bigint, 0, 0) ON CONFLICT (namespace) \
         DO UPDATE SET floor = greatest(d.floor, excluded.floor)"
    }

    fn clock_of_new_servers(&self) -> &'static str {
        "SELECT {now} FROM json_array_elements_text('[1]') j"
    }

    fn draw(&self) -> &'static str {
        "UPDATE {namespaces} SET version = greatest(version + 1, {now}) \
         WHERE namespace = $1 RETURNING version"
    }

    fn sum(&self) -> &'static str {
        "convert_to((encode(value, 'escape')::bigint + $3::bigint)::text, 'UTF8')"
    }

    fn digits(&self) -> &'static str {
        "encode(value, 'escape') !~ '[^-0-9]|[-0-9]-' AND encode(value, 'escape') ~ '[0-9]'"
    }

    fn kinds(&self) -> [(&'static str, &'static str); 6] {
        [
            (" WORD", " TEXT COLLATE \"C\""),
            (" KEY NOT", " TEXT COLLATE \"C\" NOT"),
            (" LABEL", " TEXT"),
            (" REMARK", " TEXT"),
            (" LONG", " TEXT"),
            (" BLOB", " BYTEA"),
        ]
    }

    fn table(&self, draft: &TableDraft<'_>) -> String {
        let TableDraft { create, word, name, indexed, prefix } = draft;
        let index = |column: &&str| {
            format!(
                "CREATE INDEX IF NOT EXISTS {prefix}{word}_{column} ON {name} ({column}) \
                 WHERE {column} IS NOT NULL;\n"
            )
        };
        format!("{create};\n{}", indexed.iter().map(index).collect::<String>())
    }

    fn counts_table(&self) -> &'static str {
        "SELECT (to_regclass($1::text) IS NOT NULL)::int::bigint"
    }

    /// `IF NOT EXISTS` alone does not stop two who create at the same time.
    fn making(&self, word: &str, schema: &str) -> Vec<String> {
        vec![format!(
            "BEGIN; SET LOCAL client_min_messages = warning; \
             SELECT pg_advisory_xact_lock(hashtextextended('leasehold {word}', 0));\n{schema}COMMIT;"
        )]
    }
}

const TAKE: &str = "\
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
