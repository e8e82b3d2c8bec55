//! The errors of MySQL and MariaDB, by number.

use mysql_async::Error as Cause;

use super::{Meaning, SqlFault, refusal};
use crate::error::{Error, ErrorKind};
use ErrorKind::{Denied, Invalid, Unavailable};

const DENIED: &str = "this user may not do that; grant what the engine's page lists";
const CONFLICT: &str = "another was in the way; try again";
const READ_ONLY: &str = "the server takes no writes: it is a replica or was set read-only";
const FULL: &str =
    "the server has no connection left; raise max_connections or lower \"connections\"";
const SLOW: &str = "the statement took too long and was stopped";

static CODES: [(&[u16], Meaning); 15] = [
    (&[1045, 1698, 3118], (Denied, "the server refuses this user or password")),
    (&[1130], (Denied, "the server lets nobody in from this host")),
    (&[1044, 1142, 1143, 1227, 1370], (Denied, DENIED)),
    (&[1049], (Invalid, "the server has no such database; create it or correct the URL")),
    (&[1146], (Invalid, "a table is missing; run what `leasehold schema mysql` prints")),
    (&[1054], (Invalid, "a column is missing; run what `leasehold schema mysql` prints")),
    (&[1290, 1792, 1836], (Unavailable, READ_ONLY)),
    (&[1020, 1213], (Unavailable, CONFLICT)),
    (&[1205], (Unavailable, "another held the row for too long; try again")),
    (&[1969, 3024], (Unavailable, SLOW)),
    (&[1317], (Unavailable, "the statement was stopped by an operator")),
    (&[1053], (Unavailable, "the server is stopping; try again soon")),
    (&[1927, 4031], (Unavailable, "the server ended the connection: an operator or a time-out")),
    (&[1040, 1203, 1226], (Unavailable, FULL)),
    (&[1021, 1114], (Unavailable, "the server's disk or table is full")),
];

/// Another was in the way; in autocommit all of the statement is undone, and a
/// transaction is rolled back by us.
const fn again(code: u16) -> bool {
    matches!(code, 1020 | 1205 | 1213)
}

/// The connection leads nowhere any more, or to the wrong server.
const fn broken(code: u16) -> bool {
    matches!(code, 1053 | 1290 | 1836 | 1927 | 4031)
}

/// A server that ends the connection may have done a commit just before.
const fn in_doubt(code: u16) -> bool {
    matches!(code, 1053 | 1927 | 4031)
}

/// A statement failed.
pub(in super::super) fn of(cause: &Cause) -> SqlFault {
    let Cause::Server(said) = cause else { return SqlFault::unanswered(cause) };
    let error = refused(said);
    let error = if in_doubt(said.code) { error.unknown() } else { error };
    SqlFault { error, again: again(said.code), broken: broken(said.code) }
}

/// No connection came about, so nothing was done.
pub(in super::super) fn at_door(cause: &Cause) -> Error {
    match cause {
        Cause::Server(said) => refused(said),
        _ => Error::new(Unavailable, "cannot connect").caused_by(cause),
    }
}

fn refused(said: &mysql_async::ServerError) -> Error {
    let known = CODES.iter().find(|row| row.0.contains(&said.code)).map(|row| row.1);
    // These repeat the value, which may be a token.
    let words = if matches!(said.code, 1062 | 1292 | 1366 | 1406) { "" } else { &said.message };
    refusal(known, said.code, words)
}
