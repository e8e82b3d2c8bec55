//! The lease table on PostgreSQL.

use super::PostgresFamily;
use crate::engines::database::dialect::table::{TableDraft, TableFamily};

/// PostgreSQL sets the time of a statement once more after it has looked, that
/// of a transaction never.
const THEN: &str = "(extract(epoch FROM transaction_timestamp()) * 1000000)::bigint";

const KEEPERS: &str = "\
(SELECT json_object_agg(s.id, json_build_array(s.expires, s.client))::text \
 FROM json_array_elements_text(n.sessions::json) j JOIN {sessions} s ON s.id = j::bigint)";

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
        format!(
            "SELECT {{then}}, coalesce(f.floor, 0), \
             (SELECT s.expires FROM {{sessions}} s WHERE s.id = $3), \
             n.version, n.fence, n.updated, n.state, \
             {KEEPERS} \
             FROM (SELECT 1 AS one) k \
             LEFT JOIN {{namespaces}} f ON f.namespace = $1 \
             LEFT JOIN {{names}} n ON n.namespace = $1 AND n.name = $2"
        )
    }

    fn take(&self) -> &'static str {
        TAKE
    }

    fn telling(&self, change: &str) -> String {
        format!(
            "WITH made AS ({change} RETURNING 1) SELECT (SELECT count(pg_notify(t->>0, t->>1)) \
             FROM json_array_elements($14::text::json) t) FROM made"
        )
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
        "encode(value, 'escape') !~ '[^0-9]'"
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
