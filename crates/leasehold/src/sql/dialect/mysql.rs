//! How MySQL and MariaDB write their SQL.

use super::meaning::{AGAIN, AWAY, BUSY, CANCELLED, LATE_TEXT, MISSING, OTHER, REFUSED, RIGHTS};
#[cfg(feature = "once")]
use super::syntax::OnceSyntax;
use super::syntax::{GuardTrigger, Seek, Syntax};
use crate::error::ErrorKind;

/// MySQL's.
pub(super) struct MysqlSyntax;

impl Syntax for MysqlSyntax {
    fn word(&self) -> &'static str {
        "mysql"
    }

    fn quoted(&self, name: &str) -> String {
        format!("`{name}`")
    }

    fn place(&self, _: usize) -> String {
        "?".into()
    }

    fn counts_places(&self) -> bool {
        false
    }

    fn locks_rows(&self) -> bool {
        true
    }

    fn wait_limit(&self, _: u128, seconds: u64) -> String {
        format!("SET SESSION innodb_lock_wait_timeout = {seconds}")
    }

    fn told(&self) -> (&'static str, &'static str) {
        ("LAST_INSERT_ID(", ")")
    }

    /// Names are compared byte by byte: no case, no accents, no padding.
    fn names_schema(&self, table: &str) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {table} (name VARBINARY(255) PRIMARY KEY) \
             ENGINE = InnoDB;\n"
        )
    }

    fn seek(&self) -> Option<Seek> {
        None
    }

    fn explain(&self) -> &'static str {
        "EXPLAIN FORMAT=JSON"
    }

    /// It reads a small table as a whole, too, but says which keys it could have
    /// used.
    fn scans(&self, plan: &str) -> bool {
        let all = ["\"ALL\"", "\"index\""].iter().any(|word| plan.contains(word));
        all && !plan.contains("\"possible_keys\"")
    }

    fn scan_cost(&self) -> &'static str {
        ", and locks every row on its way"
    }

    fn not(&self, fine: &str) -> String {
        format!("NOT COALESCE({fine}, 0)")
    }

    fn trigger(&self, trigger: &GuardTrigger<'_>) -> String {
        let GuardTrigger { name, table, late, why, .. } = trigger;
        format!(
            "CREATE TRIGGER {name} BEFORE UPDATE ON {table} FOR EACH ROW\n\
             IF {late} THEN\n    \
                 SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{why}';\n\
             END IF"
        )
    }

    fn meaning(&self, code: &str, said: &str) -> (ErrorKind, &'static str) {
        match code {
            // MariaDB answers NOWAIT with 1205, MySQL with 3572.
            "1205" | "3572" => (ErrorKind::TimedOut, BUSY),
            // Time limits of a statement, and KILL QUERY.
            "1969" | "3024" | "1317" => (ErrorKind::TimedOut, CANCELLED),
            "1213" | "1020" | "3058" => (ErrorKind::Unavailable, AGAIN),
            "1644" if said.contains(REFUSED) => (ErrorKind::Lost, LATE_TEXT),
            "1044" | "1045" | "1142" | "1143" | "1227" => (ErrorKind::Denied, RIGHTS),
            "1146" | "1054" => (ErrorKind::Invalid, MISSING),
            "1040" | "1053" | "1203" | "1290" | "1836" | "1927" => (ErrorKind::Unavailable, AWAY),
            _ => (ErrorKind::Unexpected, OTHER),
        }
    }

    #[cfg(feature = "once")]
    fn once(&self) -> Option<&'static dyn OnceSyntax> {
        Some(&Self)
    }
}

/// The server's clock, in milliseconds, as the statement began: what it reads later comes in the zone of the session,
/// where an hour may come twice.
#[cfg(feature = "once")]
const NOW: &str = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)";

#[cfg(feature = "once")]
impl OnceSyntax for MysqlSyntax {
    fn schema(&self, table: &str, index: &str) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n    \
             name VARBINARY(400) PRIMARY KEY,\n    \
             run VARBINARY(32) NOT NULL,\n    \
             about VARBINARY(32) NOT NULL,\n    \
             at BIGINT NOT NULL,\n    \
             until BIGINT NOT NULL,\n    \
             outcome MEDIUMBLOB,\n    \
             KEY {index} (until)\n) ENGINE = InnoDB;\n"
        )
    }

    fn sweep(&self, table: &str) -> String {
        format!("DELETE FROM {table} WHERE until <= {NOW} ORDER BY until LIMIT 1000")
    }

    /// Left to right: once `run` is the new one, the rest follows. Any other row
    /// is left locked.
    fn insert(&self, table: &str) -> String {
        format!(
            "INSERT INTO {table} (name, run, about, at, until) VALUES (?, ?, ?, {NOW}, {NOW} + ?) \
             ON DUPLICATE KEY UPDATE run = IF(until <= VALUES(at), VALUES(run), run), \
             about = IF(run = VALUES(run), VALUES(about), about), \
             outcome = IF(run = VALUES(run), NULL, outcome), \
             at = IF(run = VALUES(run), VALUES(at), at), \
             until = IF(run = VALUES(run), VALUES(until), until)"
        )
    }

    fn insert_values(&self) -> usize {
        4
    }

    fn tells_insert(&self) -> bool {
        false
    }

    fn select(&self, table: &str) -> String {
        format!(
            "SELECT CONCAT_WS(' ', run, about, {NOW} - at, CONCAT(HEX(outcome), '.')) \
             FROM {table} WHERE name = ? FOR UPDATE"
        )
    }

    fn fill(&self, table: &str) -> String {
        format!("UPDATE {table} SET outcome = UNHEX(?) WHERE name = ? AND run = ?")
    }

    fn fill_values<'a>(&self, name: &'a str, run: &'a str, outcome: &'a str) -> [&'a str; 3] {
        [outcome, name, run]
    }
}
