//! What may be meant by an error code, whatever the server.

/// The SQLSTATE that a guard raises on PostgreSQL.
pub(in crate::sql) const LATE: &str = "LH001";
/// What a guard's message begins with.
pub(in crate::sql) const REFUSED: &str = "leasehold refuses";

pub(super) const BUSY: &str = "someone else has the lock";
pub(super) const AGAIN: &str = "the server undid the transaction; run all of it again";
pub(super) const CANCELLED: &str = "the statement was stopped, by a time limit or by an operator";
pub(super) const AWAY: &str = "the server cannot serve now; try again";
pub(super) const LATE_TEXT: &str = "a later holder has written; this one comes too late";
pub(super) const RIGHTS: &str = "the server refuses this user; grant it what the statement needs";
pub(super) const MISSING: &str =
    "there is no such table or column; `leasehold schema` prints what is needed";
pub(super) const OTHER: &str = "the server answered with an error";
