//! How PostgreSQL writes its SQL.

use super::meaning::{AGAIN, AWAY, BUSY, CANCELLED, LATE, LATE_TEXT, MISSING, OTHER, RIGHTS};
#[cfg(feature = "once")]
use super::syntax::OnceSyntax;
use super::syntax::{GuardTrigger, Seek, Syntax};
use crate::error::ErrorKind;

/// PostgreSQL's.
pub(super) struct PostgresSyntax;

impl Syntax for PostgresSyntax {
    fn word(&self) -> &'static str {
        "postgres"
    }

    fn quoted(&self, name: &str) -> String {
        format!("\"{name}\"")
    }

    fn place(&self, at: usize) -> String {
        format!("${at}")
    }

    fn counts_places(&self) -> bool {
        true
    }

    fn locks_rows(&self) -> bool {
        true
    }

    fn wait_limit(&self, millis: u128, _: u64) -> String {
        format!("SET LOCAL lock_timeout = {millis}")
    }

    fn told(&self) -> (&'static str, &'static str) {
        ("", "")
    }

    /// Names are compared byte by byte: no case, no accents, no padding.
    fn names_schema(&self, table: &str) -> String {
        format!("CREATE TABLE IF NOT EXISTS {table} (name TEXT COLLATE \"C\" PRIMARY KEY);\n")
    }

    /// It reads a small table as a whole though it has an index.
    fn seek(&self) -> Option<Seek> {
        Some(Seek {
            before: "SELECT current_setting('enable_seqscan')",
            set: "SELECT set_config('enable_seqscan', 'off', true)",
            back: "SELECT set_config('enable_seqscan', $1, true)",
        })
    }

    fn explain(&self) -> &'static str {
        "EXPLAIN"
    }

    fn scans(&self, plan: &str) -> bool {
        plan.contains("Seq Scan on")
    }

    fn scan_cost(&self) -> &'static str {
        ""
    }

    fn not(&self, fine: &str) -> String {
        format!("({fine}) IS NOT TRUE")
    }

    /// In place of one that is there, in one statement: at no moment there is
    /// none. PostgreSQL has a word for that only since 14.
    fn trigger(&self, trigger: &GuardTrigger<'_>) -> String {
        let GuardTrigger { name: function, name_alone: trigger, table, late, why, .. } = trigger;
        format!(
            "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $guard$\n\
             BEGIN\n    \
                 IF {late} THEN\n        \
                     RAISE EXCEPTION '{why}' USING ERRCODE = '{LATE}';\n    \
                 END IF;\n    \
                 RETURN NEW;\n\
             END\n\
             $guard$;\n\
             DO $guard$\n\
             BEGIN\n    \
                 DROP TRIGGER IF EXISTS {trigger} ON {table};\n    \
                 CREATE TRIGGER {trigger} BEFORE UPDATE ON {table}\n        \
                     FOR EACH ROW EXECUTE FUNCTION {function}();\n\
             END\n\
             $guard$;\n"
        )
    }

    fn meaning(&self, code: &str, _: &str) -> (ErrorKind, &'static str) {
        match code {
            "55P03" => (ErrorKind::TimedOut, BUSY),
            "57014" => (ErrorKind::TimedOut, CANCELLED),
            "40001" | "40P01" | "25P04" => (ErrorKind::Unavailable, AGAIN),
            LATE => (ErrorKind::Lost, LATE_TEXT),
            "42P01" | "42703" => (ErrorKind::Invalid, MISSING),
            _ if code.starts_with("28") || code == "42501" => (ErrorKind::Denied, RIGHTS),
            _ if ["08", "53", "57"].iter().any(|class| code.starts_with(class)) => {
                (ErrorKind::Unavailable, AWAY)
            }
            _ => (ErrorKind::Unexpected, OTHER),
        }
    }

    #[cfg(feature = "once")]
    fn once(&self) -> Option<&'static dyn OnceSyntax> {
        Some(&Self)
    }
}

/// The server's clock, in milliseconds.
#[cfg(feature = "once")]
pub(in crate::sql) const NOW: &str = "(extract(epoch from clock_timestamp()) * 1000)::bigint";

#[cfg(feature = "once")]
impl OnceSyntax for PostgresSyntax {
    fn schema(&self, table: &str, index: &str) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n    \
             name TEXT COLLATE \"C\" PRIMARY KEY,\n    \
             run TEXT NOT NULL,\n    \
             about TEXT NOT NULL,\n    \
             at BIGINT NOT NULL,\n    \
             until BIGINT NOT NULL,\n    \
             outcome BYTEA\n);\n\
             CREATE INDEX IF NOT EXISTS {index} ON {table} (until);\n"
        )
    }

    fn sweep(&self, table: &str) -> String {
        format!(
            "DELETE FROM {table} WHERE name IN (SELECT name FROM {table} \
             WHERE until <= {NOW} ORDER BY until LIMIT 1000 FOR UPDATE SKIP LOCKED)"
        )
    }

    /// Whoever works before it writes has the turn; we take it as well.
    fn insert(&self, table: &str) -> String {
        format!(
            "WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock($5::text::bigint)) \
             INSERT INTO {table} AS t (name, run, about, at, until) \
             SELECT $1, $2, $3, {NOW}, {NOW} + $4::text::bigint FROM turn \
             ON CONFLICT (name) DO UPDATE SET run = excluded.run, about = excluded.about, \
             at = excluded.at, until = excluded.until, outcome = NULL \
             WHERE t.until <= excluded.at RETURNING run"
        )
    }

    fn insert_values(&self) -> usize {
        5
    }

    fn tells_insert(&self) -> bool {
        true
    }

    fn select(&self, table: &str) -> String {
        format!(
            "SELECT concat_ws(' ', run, about, {NOW} - at, encode(outcome, 'hex') || '.') \
             FROM {table} WHERE name = $1"
        )
    }

    fn fill(&self, table: &str) -> String {
        format!("UPDATE {table} SET outcome = decode($3, 'hex') WHERE name = $1 AND run = $2")
    }

    fn fill_values<'a>(&self, name: &'a str, run: &'a str, outcome: &'a str) -> [&'a str; 3] {
        [name, run, outcome]
    }
}
