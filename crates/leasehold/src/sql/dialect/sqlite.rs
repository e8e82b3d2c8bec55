//! How SQLite writes its SQL.

use super::meaning::{BUSY, LATE_TEXT, OTHER, REFUSED, RIGHTS};
#[cfg(feature = "once")]
use super::syntax::OnceSyntax;
use super::syntax::{GuardTrigger, Seek, Syntax};
use crate::error::ErrorKind;

/// SQLite's.
pub(super) struct SqliteSyntax;

impl Syntax for SqliteSyntax {
    fn word(&self) -> &'static str {
        "sqlite"
    }

    fn quoted(&self, name: &str) -> String {
        format!("\"{name}\"")
    }

    fn place(&self, at: usize) -> String {
        format!("?{at}")
    }

    fn counts_places(&self) -> bool {
        true
    }

    /// It locks whole files.
    fn locks_rows(&self) -> bool {
        false
    }

    fn wait_limit(&self, millis: u128, _: u64) -> String {
        format!("PRAGMA busy_timeout = {millis}")
    }

    fn told(&self) -> (&'static str, &'static str) {
        ("", "")
    }

    fn names_schema(&self, _: &str) -> String {
        String::new()
    }

    fn seek(&self) -> Option<Seek> {
        None
    }

    fn explain(&self) -> &'static str {
        "EXPLAIN QUERY PLAN"
    }

    fn scans(&self, plan: &str) -> bool {
        plan.contains("SCAN")
    }

    fn scan_cost(&self) -> &'static str {
        ""
    }

    fn not(&self, fine: &str) -> String {
        format!("NOT COALESCE({fine}, 0)")
    }

    /// It looks for the table where the trigger is.
    fn trigger(&self, trigger: &GuardTrigger<'_>) -> String {
        let GuardTrigger { name, table_alone: table, late, why, .. } = trigger;
        format!(
            "CREATE TRIGGER {name} BEFORE UPDATE ON {table} FOR EACH ROW WHEN {late}\n\
             BEGIN\n    \
                 SELECT RAISE(ABORT, '{why}');\n\
             END;\n"
        )
    }

    /// The low byte is the code, the rest says more about it.
    fn meaning(&self, code: &str, said: &str) -> (ErrorKind, &'static str) {
        match code.parse::<u32>().map(|code| code & 0xff) {
            Ok(5 | 6) => (ErrorKind::TimedOut, BUSY),
            Ok(19) if said.contains(REFUSED) => (ErrorKind::Lost, LATE_TEXT),
            Ok(8 | 23) => (ErrorKind::Denied, RIGHTS),
            _ => (ErrorKind::Unexpected, OTHER),
        }
    }

    #[cfg(feature = "once")]
    fn once(&self) -> Option<&'static dyn OnceSyntax> {
        None
    }
}
