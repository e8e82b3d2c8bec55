//! The lease table on MySQL and MariaDB.

use super::MysqlFamily;
use crate::engines::database::dialect::table::{TableDraft, TableFamily, WINDOW, rows_of_values};

/// That of the statement's start.
const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

const KEEPERS: &str = "\
(SELECT JSON_OBJECTAGG(s.id, JSON_ARRAY(s.expires, s.client)) \
 FROM JSON_TABLE(n.sessions, '$[*]' COLUMNS (id BIGINT PATH '$')) j \
 STRAIGHT_JOIN {sessions} s FORCE INDEX (PRIMARY) ON s.id = j.id)";

/// Who is dead is left out: it waits no more, and goes with the front or a sweep.
/// One that is asked about is here in any case, because its row may have to go.
const LINE: &str = "\
CASE WHEN n.front IS NOT NULL THEN (SELECT JSON_ARRAYAGG(JSON_ARRAY(\
 q.front, q.place, q.lease, q.session, q.seat, s.expires, s.client)) FROM (\
 (SELECT 1 AS front, w.place, w.lease, w.session, w.seat FROM {seats} w FORCE INDEX (PRIMARY) \
  STRAIGHT_JOIN {sessions} e FORCE INDEX (PRIMARY) ON e.id = w.session AND e.expires > {then} \
  WHERE w.namespace = $1 AND w.name = $2 AND w.place >= \
   (SELECT m.front FROM {names} m WHERE m.namespace = $1 AND m.name = $2) \
  ORDER BY w.place LIMIT WINDOW) \
 UNION ALL (SELECT 0, o.place, o.lease, o.session, o.seat FROM {seats} o \
  WHERE o.namespace = $1 AND o.name = $2 AND o.lease = $4) \
 UNION ALL (SELECT 0, b.place, b.lease, b.session, b.seat FROM {seats} b FORCE INDEX (PRIMARY) \
  STRAIGHT_JOIN {sessions} e FORCE INDEX (PRIMARY) ON e.id = b.session AND e.expires > {then} \
  WHERE b.namespace = $1 AND b.name = $2 AND b.place < COALESCE((SELECT p.place FROM {seats} p \
   WHERE p.namespace = $1 AND p.name = $2 AND p.lease = $4), 9223372036854775807) \
  ORDER BY b.place DESC LIMIT 1)) q LEFT JOIN {sessions} s ON s.id = q.session) END";

impl TableFamily for MysqlFamily {
    fn now(&self) -> &'static str {
        NOW
    }

    fn then(&self) -> &'static str {
        NOW
    }

    fn written(&self, filled: String) -> (String, Vec<usize>) {
        without_numbers(&without_casts(&filled))
    }

    fn names_are_bytes(&self) -> bool {
        true
    }

    fn tells(&self) -> bool {
        false
    }

    fn insert_new(&self, insert: &str) -> String {
        insert.replacen("INSERT", "INSERT IGNORE", 1)
    }

    fn upsert(&self, insert: &str, _: &str, columns: &[&str]) -> String {
        let set: Vec<_> = columns.iter().map(|it| format!("{it} = VALUES({it})")).collect();
        format!("{insert} ON DUPLICATE KEY UPDATE {}", set.join(", "))
    }

    fn delete_some(&self, table: &str, which: &str) -> String {
        format!("DELETE FROM {table} {which}")
    }

    fn load(&self) -> String {
        let line = LINE.replace("WINDOW", &WINDOW.to_string());
        format!(
            "SELECT {{then}}, COALESCE(f.floor, 0), \
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
        change.to_owned()
    }

    fn telling_with_line(&self, _: &str) -> Option<String> {
        None
    }

    fn telling_watchers(&self, log: &str, _: &str) -> String {
        log.to_owned()
    }

    fn keepers(&self) -> &'static str {
        KEEPERS
    }

    fn rows_by_key(&self, columns: &str, table: &str, key: &[&str], many: usize) -> String {
        let values = rows_of_values(key.len(), many);
        format!("SELECT {columns} FROM {table} w WHERE ({}) IN ({values})", key.join(", "))
    }

    fn seats_by_place(&self) -> &'static str {
        "{seats} w FORCE INDEX (PRIMARY) STRAIGHT_JOIN {sessions} s FORCE INDEX (PRIMARY)"
    }

    fn raise_floor(&self) -> &'static str {
        "INSERT INTO {namespaces} (namespace, floor, version, cut) VALUES ($1, $2, 0, 0) \
         ON DUPLICATE KEY UPDATE floor = GREATEST(floor, VALUES(floor))"
    }

    fn clock_of_new_servers(&self) -> &'static str {
        "SELECT {now} FROM JSON_TABLE('[1]', '$[*]' COLUMNS (id BIGINT PATH '$')) j"
    }

    fn draw(&self) -> &'static str {
        "UPDATE {namespaces} SET version = LAST_INSERT_ID(GREATEST(version + 1, {now})) \
         WHERE namespace = $1"
    }

    fn sum(&self) -> &'static str {
        "CAST(CAST(CONVERT(value USING latin1) AS SIGNED) + $3 AS CHAR)"
    }

    fn digits(&self) -> &'static str {
        "CONVERT(value USING latin1) NOT REGEXP '[^-0-9]|[-0-9]-' \
         AND CONVERT(value USING latin1) REGEXP '[0-9]'"
    }

    /// Names in bytes: every collation but the newest pads with blanks.
    fn kinds(&self) -> [(&'static str, &'static str); 6] {
        [
            (" WORD", " VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin"),
            (" KEY NOT", " VARBINARY(255) NOT"),
            (" LABEL", " VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
            (" REMARK", " VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
            (" LONG", " LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
            (" BLOB", " LONGBLOB"),
        ]
    }

    fn table(&self, draft: &TableDraft<'_>) -> String {
        let TableDraft { create, indexed, prefix, .. } = draft;
        let body = create.trim_end_matches(')').trim_end();
        let index = |column: &&str| format!("\n    , INDEX {prefix}{column} ({column})");
        let indexes: String = indexed.iter().map(index).collect();
        format!("{body}{indexes}\n) ENGINE = InnoDB;\n")
    }

    fn counts_table(&self) -> &'static str {
        "SELECT COUNT(*) FROM information_schema.tables \
         WHERE CONCAT(table_schema, '.', table_name) = IF(LOCATE('.', $1), $1, \
         CONCAT(DATABASE(), '.', $1))"
    }

    /// Its statements about tables queue by themselves, one at a time.
    fn making(&self, _: &str, schema: &str) -> Vec<String> {
        let statements = schema.split(";\n").filter(|it| !it.trim().is_empty());
        statements.map(str::to_owned).collect()
    }
}

/// MySQL assigns from left to right, so `state` comes last; the fence comes back
/// as the number of the last insert, and is 0 for whoever was late.
const TAKE: &str = "\
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

fn without_casts(sql: &str) -> String {
    ["::bigint", "::text", "::bytea"].iter().fold(sql.to_owned(), |sql, cast| sql.replace(cast, ""))
}

/// `$2 .. $1` becomes `? .. ?` and the order 1, 0.
fn without_numbers(sql: &str) -> (String, Vec<usize>) {
    let mut parts = sql.split('$');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    let mut order = Vec::new();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        match part[..digits].parse::<usize>() {
            Ok(number) if number > 0 => {
                order.push(number - 1);
                plain.push('?');
                plain.push_str(&part[digits..]);
            }
            // A path into a JSON text.
            _ => {
                plain.push('$');
                plain.push_str(part);
            }
        }
    }
    (plain, order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_into_json_are_left_alone() {
        assert_eq!(without_numbers("'$[*]' $1 '$'"), ("'$[*]' ? '$'".into(), vec![0]));
    }
}
