//! Locks of sessions on PostgreSQL.

use super::PostgresFamily;
use crate::engines::database::dialect::advisory::{
    AdvisoryFamily, AdvisorySql, FenceSequence, IdleLimit,
};

/// The key of a lock; a database has its own.
const KEY: &str = "hashtextextended($1 COLLATE \"C\", 0)";
const NOW: &str = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)";

/// The most milliseconds that a setting takes, in seconds.
const LONGEST: u64 = 2_147_483;
/// The longest time between two questions that a system takes, in seconds.
const PROBE_MAX: u64 = 32_767;

impl AdvisoryFamily for PostgresFamily {
    fn advisory(&self, sequence: Option<&str>) -> AdvisorySql {
        // A name in a text: quoted twice.
        let next = sequence.map(|it| format!("nextval('{it}')"));
        let fence = next.as_deref().unwrap_or(NOW);
        AdvisorySql {
            session: "SELECT pg_backend_pid()",
            // A client that died must not stay in the line.
            prepare: Some("SET client_connection_check_interval = 1000"),
            take: format!("SELECT CASE WHEN pg_try_advisory_lock({KEY}) THEN {fence} END"),
            block: format!("SELECT pg_advisory_lock({KEY})"),
            has_limit: false,
            says_no: false,
            fence: format!("SELECT {fence}"),
            release: format!("SELECT pg_advisory_unlock({KEY})"),
            look: format!(
                "SELECT CAST(l.pid AS BIGINT), CASE WHEN l.granted THEN 1 ELSE 0 END, \
                 CAST(a.application_name AS TEXT) \
                 FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
                 WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.database = \
                 (SELECT oid FROM pg_database WHERE datname = current_database()) \
                 AND ((CAST(l.classid AS BIGINT) << 32) | CAST(l.objid AS BIGINT)) = {KEY} \
                 ORDER BY l.waitstart NULLS FIRST"
            ),
            check: "SELECT 1",
            spare: IdleLimit { text: spare, longest: LONGEST },
            end: |session| format!("SELECT pg_terminate_backend({session})"),
        }
    }

    fn fence_sequence(&self) -> Option<FenceSequence> {
        let make = |quoted: &str, start| {
            format!("CREATE SEQUENCE IF NOT EXISTS {quoted} START WITH {start}")
        };
        Some(FenceSequence { look: SEQUENCE, make })
    }
}

const SEQUENCE: &str = "\
SELECT CASE WHEN to_regclass($1) IS NOT NULL THEN \
CASE WHEN has_sequence_privilege(CAST(to_regclass($1) AS oid), 'USAGE') THEN 2 ELSE 0 END \
WHEN has_schema_privilege(COALESCE(NULLIF($2, ''), current_schema()), 'CREATE') THEN 1 \
ELSE 0 END";

/// PostgreSQL leaves it to the system: the keepalives, or what an answer that
/// nobody takes in may take. Only what this version knows is set.
fn spare(seconds: u64) -> String {
    let interval = seconds.div_ceil(10).clamp(2, PROBE_MAX);
    let count = seconds.div_ceil(interval);
    format!(
        "SELECT set_config(name, wanted.value, false) FROM pg_catalog.pg_settings JOIN (VALUES \
         ('tcp_keepalives_interval', '{interval}'), ('tcp_keepalives_count', '{count}'), \
         ('tcp_user_timeout', '{seconds}s')) AS wanted (name, value) USING (name)"
    )
}
