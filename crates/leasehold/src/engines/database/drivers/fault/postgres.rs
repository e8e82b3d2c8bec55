//! The errors of PostgreSQL, by SQLSTATE.

use std::error::Error as StdError;

use tokio_postgres::Error as Cause;
use tokio_postgres::error::{DbError, Severity};

use super::{Meaning, SqlFault, refusal};
use crate::error::{Error, ErrorKind};
use ErrorKind::{Denied, Invalid, Unavailable};

static CODES: [(&str, Meaning); 23] = [
    ("28P01", (Denied, "the server refuses this user or password")),
    ("28000", (Denied, "the server lets this user not in from here; see its pg_hba.conf")),
    ("42501", (Denied, "this user may not do that; grant what the engine's page lists")),
    ("3D000", (Invalid, "the server has no such database; create it or correct the URL")),
    ("3F000", (Invalid, "the database has no such schema; create it or correct the URL")),
    ("42P01", (Invalid, "a table is missing; run what `leasehold schema postgres` prints")),
    ("42703", (Invalid, "a column is missing; run what `leasehold schema postgres` prints")),
    ("25006", (Unavailable, "the server takes no writes: it is a standby or was set read-only")),
    ("40001", (Unavailable, "another was in the way; try again")),
    ("40P01", (Unavailable, "another was in the way; try again")),
    ("55P03", (Unavailable, "another held the row for too long; try again")),
    ("57014", (Unavailable, "the statement took too long and was stopped")),
    ("57P01", (Unavailable, "the server ended the connection: an operator or a shutdown")),
    ("57P02", (Unavailable, "the server crashed and recovers; try again soon")),
    ("57P03", (Unavailable, "the server is starting or stopping; try again soon")),
    ("57P05", (Unavailable, "the server ended a connection that rested (idle_session_timeout)")),
    ("25P03", (Unavailable, "this process paused inside a transaction, which was undone")),
    (
        "53300",
        (
            Unavailable,
            "the server has no connection left; raise max_connections or lower \"connections\"",
        ),
    ),
    ("53100", (Unavailable, "the server's disk is full")),
    ("53200", (Unavailable, "the server is out of memory")),
    (
        "26000",
        (Unavailable, "a prepared statement is gone: a pooler stands in between; add pooler=true"),
    ),
    (
        "42P05",
        (
            Unavailable,
            "a prepared statement is in the way: a pooler stands in between; add pooler=true",
        ),
    ),
    ("08P01", (Unavailable, "the server or the pooler in between refuses what was sent")),
];

/// What may be repeated: conflicts, locks, and what was prepared and is stale.
fn again(said: &DbError) -> bool {
    let stale = said.code().code() == "0A000" && said.message().starts_with("cached plan");
    stale || matches!(said.code().code(), "40001" | "40P01" | "55P03" | "26000" | "42P05")
}

/// The connection leads nowhere any more, or to the wrong server.
fn broken(said: &DbError) -> bool {
    let ended = matches!(said.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
    ended || said.code().code() == "25006"
}

/// A server that ends the connection has ended what it did for it, except that
/// a commit may have been done just before.
fn in_doubt(said: &DbError) -> bool {
    let code = said.code().code();
    code == "40003" || (broken(said) && code != "25006")
}

/// A statement failed.
pub(in super::super) fn of(cause: &Cause) -> SqlFault {
    let Some(said) = cause.as_db_error() else { return SqlFault::unanswered(words(cause)) };
    let error = refused(said);
    let error = if in_doubt(said) { error.unknown() } else { error };
    SqlFault { error, again: again(said), broken: broken(said) }
}

/// No connection came about, so nothing was done.
pub(in super::super) fn at_door(cause: &Cause) -> Error {
    match cause.as_db_error() {
        Some(said) => refused(said),
        None if words(cause).contains("password missing") => {
            Error::new(Denied, "the server wants a password; give user:password@ before the host")
        }
        None => Error::new(Unavailable, "cannot connect").caused_by(words(cause)),
    }
}

fn refused(said: &DbError) -> Error {
    let code = said.code().code();
    let known = CODES.iter().find(|row| row.0 == code).map(|row| row.1);
    refusal(known, code, said.message())
}

/// The driver keeps the reason behind its own words.
fn words(cause: &Cause) -> String {
    match cause.source() {
        Some(source) => format!("{cause}: {source}"),
        None => cause.to_string(),
    }
}
