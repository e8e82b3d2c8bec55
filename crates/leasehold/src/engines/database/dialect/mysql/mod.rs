//! MySQL and MariaDB.

mod advisory;
mod table;
mod unique;

use super::family::Family;
use crate::sql::Dialect;

/// MySQL or MariaDB, and what says that it is.
#[derive(Debug)]
pub(super) struct MysqlFamily;

impl Family for MysqlFamily {
    fn dialect(&self) -> Dialect {
        Dialect::Mysql
    }

    fn port(&self) -> u16 {
        3306
    }

    fn is_pipelined(&self) -> bool {
        false
    }

    fn listen(&self, _: &str) -> Option<String> {
        None
    }

    fn facts(&self) -> &'static str {
        FACTS
    }

    fn clock(&self) -> &'static str {
        "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
    }

    fn oldest(&self, version: &str) -> (&'static str, (u32, u32)) {
        if version.contains("MariaDB") { ("MariaDB 10.6", (10, 6)) } else { ("MySQL 8.0", (8, 0)) }
    }

    fn finds_table(&self) -> &'static str {
        "SELECT 1 FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?"
    }
}

const FACTS: &str = "\
SELECT 'server_version', CONVERT(@@version USING utf8mb4) \
UNION ALL SELECT 'max_connections', CONVERT(@@global.max_connections, CHAR) \
UNION ALL SELECT 'wait_timeout', CONVERT(@@global.wait_timeout, CHAR) \
UNION ALL SELECT 'flush', CONVERT(@@global.innodb_flush_log_at_trx_commit, CHAR) \
UNION ALL SELECT 'used', CONVERT(COUNT(*), CHAR) FROM information_schema.processlist \
WHERE command NOT IN ('Daemon', 'Binlog Dump', 'Binlog Dump GTID') \
UNION ALL SELECT 'copies', CONVERT(COUNT(*), CHAR) FROM information_schema.processlist \
WHERE command IN ('Binlog Dump', 'Binlog Dump GTID')";
