//! What servers say when something goes wrong.

use super::dialect::Dialect;
use crate::error::{Error, ErrorKind};

/// What a server's error code means to whoever wanted a lock.
///
/// `code` is the SQLSTATE on PostgreSQL (`55P03`) and the error number on MySQL
/// and SQLite (`1205`); `said` is the server's own text.
///
/// - `TimedOut`: someone else has the row; it was not given to you.
/// - `Unavailable`: a deadlock, a conflict of transactions, a server that goes
///   down. Roll back and run the *whole* transaction again.
/// - `Lost`: a [`guard`](super::guard) refused a writer that came late.
/// - `Denied`, `Invalid`, `Unexpected`: another try would end the same way.
///
/// On PostgreSQL every error ends the transaction; on MySQL `TimedOut` undoes
/// one statement and `Unavailable` the transaction.
///
/// ```
/// use leasehold::ErrorKind;
/// use leasehold::sql::{self, Dialect};
///
/// let error = sql::error(Dialect::Postgres, "55P03", "could not obtain lock on row");
/// assert_eq!(error.kind(), ErrorKind::TimedOut);
/// let error = sql::error(Dialect::Mysql, "1213", "Deadlock found when trying to get lock");
/// assert_eq!(error.kind(), ErrorKind::Unavailable);
/// ```
#[must_use]
pub fn error(dialect: Dialect, code: &str, said: &str) -> Error {
    let (kind, text) = match dialect {
        Dialect::Postgres => postgres(code),
        Dialect::Mysql => mysql(code, said),
        Dialect::Sqlite => sqlite(code, said),
    };
    Error::new(kind, text).with("code", code).caused_by(said)
}

/// The SQLSTATE that a guard raises on PostgreSQL.
pub(super) const LATE: &str = "LH001";
/// What a guard's message begins with.
pub(super) const REFUSED: &str = "leasehold refuses";

const BUSY: &str = "someone else has the lock";
const AGAIN: &str = "the server undid the transaction; run all of it again";
const CANCELLED: &str = "the statement was stopped, by a time limit or by an operator";
const AWAY: &str = "the server cannot serve now; try again";
const LATE_TEXT: &str = "a later holder has written; this one comes too late";
const RIGHTS: &str = "the server refuses this user; grant it what the statement needs";
const MISSING: &str = "there is no such table or column; `leasehold schema` prints what is needed";
const OTHER: &str = "the server answered with an error";

fn postgres(code: &str) -> (ErrorKind, &'static str) {
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

fn mysql(code: &str, said: &str) -> (ErrorKind, &'static str) {
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

fn sqlite(code: &str, said: &str) -> (ErrorKind, &'static str) {
    // The low byte is the code, the rest says more about it.
    match code.parse::<u32>().map(|code| code & 0xff) {
        Ok(5 | 6) => (ErrorKind::TimedOut, BUSY),
        Ok(19) if said.contains(REFUSED) => (ErrorKind::Lost, LATE_TEXT),
        Ok(8 | 23) => (ErrorKind::Denied, RIGHTS),
        _ => (ErrorKind::Unexpected, OTHER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(dialect: Dialect, code: &str) -> ErrorKind {
        error(dialect, code, "").kind()
    }

    #[test]
    fn both_families_say_the_same_in_other_words() {
        for (kind_meant, codes_pg, codes_my) in [
            (ErrorKind::TimedOut, &["55P03", "57014"][..], &["1205", "3572", "1969", "3024"][..]),
            (ErrorKind::Unavailable, &["40001", "40P01", "57P01", "53300"], &["1213", "1040"]),
            (ErrorKind::Denied, &["28P01", "42501"], &["1045", "1142"]),
            (ErrorKind::Invalid, &["42P01"], &["1146"]),
            (ErrorKind::Unexpected, &["22003"], &["1264"]),
        ] {
            codes_pg.iter().for_each(|code| assert_eq!(kind(Dialect::Postgres, code), kind_meant));
            codes_my.iter().for_each(|code| assert_eq!(kind(Dialect::Mysql, code), kind_meant));
        }
    }

    #[test]
    fn a_signal_that_is_not_ours_is_no_loss() {
        assert_eq!(kind(Dialect::Mysql, "1644"), ErrorKind::Unexpected);
        let ours = format!("{REFUSED} fence 3");
        assert!(error(Dialect::Mysql, "1644", &ours).is_lost());
        assert!(error(Dialect::Sqlite, "1811", &ours).is_lost());
    }
}
