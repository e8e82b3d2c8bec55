//! PostgreSQL.

mod advisory;
mod table;
mod unique;

use super::family::Family;
use crate::sql::Dialect;

/// PostgreSQL, and what says that it is.
#[derive(Debug)]
pub(super) struct PostgresFamily;

impl Family for PostgresFamily {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn port(&self) -> u16 {
        5432
    }

    fn is_pipelined(&self) -> bool {
        true
    }

    fn listen(&self, channel: &str) -> Option<String> {
        Some(format!("LISTEN \"{}\"", channel.replace('"', "\"\"")))
    }

    fn facts(&self) -> &'static str {
        FACTS
    }

    fn clock(&self) -> &'static str {
        "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
    }

    fn oldest(&self, _: &str) -> (&'static str, (u32, u32)) {
        ("PostgreSQL 12", (12, 0))
    }

    fn finds_table(&self) -> &'static str {
        "SELECT 1 WHERE to_regclass($1) IS NOT NULL"
    }
}

const FACTS: &str = "\
SELECT name, COALESCE(reset_val, '') FROM pg_catalog.pg_settings WHERE name IN (\
'server_version_num', 'server_version', 'max_connections', 'fsync', 'synchronous_commit', \
'synchronous_standby_names', 'idle_session_timeout', 'default_transaction_isolation') \
UNION ALL SELECT 'used', CAST(count(*) AS text) FROM pg_catalog.pg_stat_activity \
WHERE backend_type = 'client backend' \
UNION ALL SELECT 'copies', CAST(count(*) AS text) FROM pg_catalog.pg_stat_replication";
