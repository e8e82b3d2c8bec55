//! Locks of sessions on MySQL and MariaDB.

use super::MysqlFamily;
use crate::engines::database::dialect::advisory::{
    AdvisoryFamily, AdvisorySql, FenceSequence, IdleLimit,
};

/// 64 characters of ASCII: no more fit, and MySQL tells no cases apart. The locks
/// are the server's, so the database is part of it.
const KEY: &str = "CONCAT('leasehold:', LEFT(SHA2(CONCAT(CAST(DATABASE() AS BINARY), ':', \
                   CAST(? AS BINARY)), 256), 54))";
const NOW: &str = "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)";

/// A year.
const LONGEST: u64 = 31_536_000;

impl AdvisoryFamily for MysqlFamily {
    fn advisory(&self, _: Option<&str>) -> AdvisorySql {
        AdvisorySql {
            session: "SELECT CONNECTION_ID()",
            prepare: None,
            // An error is neither granted nor denied: nothing, not 0.
            take: format!("SELECT CASE GET_LOCK({KEY}, 0) WHEN 1 THEN {NOW} WHEN 0 THEN 0 END"),
            block: format!("SELECT GET_LOCK({KEY}, ?)"),
            has_limit: true,
            says_no: true,
            fence: format!("SELECT {NOW}"),
            release: format!("SELECT RELEASE_LOCK({KEY})"),
            look: format!(
                "SELECT id, 1, NULL FROM (SELECT IS_USED_LOCK({KEY}) AS id) AS used \
                 WHERE id IS NOT NULL"
            ),
            check: "SELECT 1",
            spare: IdleLimit { text: spare, longest: LONGEST },
            end: |session| format!("KILL {session}"),
        }
    }

    fn fence_sequence(&self) -> Option<FenceSequence> {
        None
    }
}

/// MySQL ends sessions that rest.
fn spare(seconds: u64) -> String {
    format!("SET SESSION wait_timeout = {seconds}")
}
