//! What servers say when something goes wrong.

use super::dialect::Dialect;
use crate::error::Error;

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
    let (kind, text) = dialect.syntax().meaning(code, said);
    Error::new(kind, text).with("code", code).caused_by(said)
}

#[cfg(test)]
mod tests {
    use super::super::dialect::meaning::REFUSED;
    use super::*;
    use crate::error::ErrorKind;

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
