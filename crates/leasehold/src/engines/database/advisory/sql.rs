//! The statements, in both dialects.
//!
//! The server makes the key from `namespace:name`, so that anybody at a prompt
//! can take the same lock (docs/guide/database-locks.md).

use crate::engines::database::dialect::Dialect;

/// Everything that is said to the server.
#[derive(Debug)]
pub(super) struct AdvisorySql {
    /// A number that says who we are.
    pub(super) session: &'static str,
    /// Prepares a session that will wait.
    pub(super) prepare: Option<&'static str>,
    /// A fence if it was free, else 0 or nothing.
    pub(super) take: String,
    /// Waits until it is ours: 1 or nothing; 0 if the time is up.
    pub(super) block: String,
    /// A fence, for a lock that is ours.
    pub(super) fence: String,
    /// 1 if it was ours.
    pub(super) release: String,
    /// Sessions that hold it (1) or wait for it (0), and what they are called.
    pub(super) look: String,
    /// Whether a connection answers.
    pub(super) check: &'static str,
    /// Says for how long a session may rest, or its client be silent.
    pub(super) spare: IdleLimit,
}

/// How long a server waits for a client of which it hears nothing.
#[derive(Debug)]
pub(super) struct IdleLimit {
    /// Has it wait for so many seconds.
    pub(super) text: fn(u64) -> String,
    /// The most seconds that it takes.
    pub(super) longest: u64,
}

/// The most milliseconds that a setting takes, in seconds.
const PG_LONGEST: u64 = 2_147_483;
/// A year.
const MY_LONGEST: u64 = 31_536_000;
/// The longest time between two questions that a system takes, in seconds.
const PROBE_MAX: u64 = 32_767;

/// The key of a lock; a database has its own.
const PG_KEY: &str = "hashtextextended($1 COLLATE \"C\", 0)";
/// 64 characters of ASCII: no more fit, and MySQL tells no cases apart. The locks
/// are the server's, so the database is part of it.
const MY_KEY: &str = "CONCAT('leasehold:', LEFT(SHA2(CONCAT(CAST(DATABASE() AS BINARY), ':', \
                      CAST(? AS BINARY)), 256), 54))";

const PG_NOW: &str = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)";
const MY_NOW: &str = "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)";

impl AdvisorySql {
    /// Fences come from `sequence`, or else from the server's clock.
    pub(super) fn new(dialect: Dialect, sequence: Option<&str>) -> Self {
        match dialect {
            Dialect::Postgres => {
                // A name in a text: quoted twice.
                let next = sequence.map(|it| format!("nextval('{it}')"));
                Self::postgres(&next.unwrap_or_else(|| PG_NOW.to_owned()))
            }
            Dialect::Mysql => Self::mysql(),
        }
    }

    fn postgres(fence: &str) -> Self {
        Self {
            session: "SELECT pg_backend_pid()",
            // A client that died must not stay in the line.
            prepare: Some("SET client_connection_check_interval = 1000"),
            take: format!("SELECT CASE WHEN pg_try_advisory_lock({PG_KEY}) THEN {fence} END"),
            block: format!("SELECT pg_advisory_lock({PG_KEY})"),
            fence: format!("SELECT {fence}"),
            release: format!("SELECT pg_advisory_unlock({PG_KEY})"),
            look: format!(
                "SELECT CAST(l.pid AS BIGINT), CASE WHEN l.granted THEN 1 ELSE 0 END, \
                 CAST(a.application_name AS TEXT) \
                 FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
                 WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.database = \
                 (SELECT oid FROM pg_database WHERE datname = current_database()) \
                 AND ((CAST(l.classid AS BIGINT) << 32) | CAST(l.objid AS BIGINT)) = {PG_KEY} \
                 ORDER BY l.waitstart NULLS FIRST"
            ),
            check: "SELECT 1",
            spare: IdleLimit { text: spare_postgres, longest: PG_LONGEST },
        }
    }

    fn mysql() -> Self {
        Self {
            session: "SELECT CONNECTION_ID()",
            prepare: None,
            // An error is neither granted nor denied: nothing, not 0.
            take: format!(
                "SELECT CASE GET_LOCK({MY_KEY}, 0) WHEN 1 THEN {MY_NOW} WHEN 0 THEN 0 END"
            ),
            block: format!("SELECT GET_LOCK({MY_KEY}, ?)"),
            fence: format!("SELECT {MY_NOW}"),
            release: format!("SELECT RELEASE_LOCK({MY_KEY})"),
            look: format!(
                "SELECT id, 1, NULL FROM (SELECT IS_USED_LOCK({MY_KEY}) AS id) AS used \
                 WHERE id IS NOT NULL"
            ),
            check: "SELECT 1",
            spare: IdleLimit { text: spare_mysql, longest: MY_LONGEST },
        }
    }
}

/// PostgreSQL leaves it to the system: the keepalives, or what an answer that
/// nobody takes in may take. Only what this version knows is set.
fn spare_postgres(seconds: u64) -> String {
    let interval = seconds.div_ceil(10).clamp(2, PROBE_MAX);
    let count = seconds.div_ceil(interval);
    format!(
        "SELECT set_config(name, wanted.value, false) FROM pg_catalog.pg_settings JOIN (VALUES \
         ('tcp_keepalives_interval', '{interval}'), ('tcp_keepalives_count', '{count}'), \
         ('tcp_user_timeout', '{seconds}s')) AS wanted (name, value) USING (name)"
    )
}

/// MySQL ends sessions that rest.
fn spare_mysql(seconds: u64) -> String {
    format!("SET SESSION wait_timeout = {seconds}")
}
