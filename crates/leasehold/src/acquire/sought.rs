//! What a request comes to, and what it waits for.

use super::releaser::Releaser;
use crate::claim::{RawRecord, Verdict};
use crate::engine::BoxFuture;
use crate::error::Result;

/// What an engine answers to a claim that has left.
pub(super) type PendingVerdict = BoxFuture<Result<Verdict>>;

/// What a request comes to.
#[derive(Debug)]
pub(crate) enum Sought<L> {
    Lease(L),
    /// No lease: a record that will do, for those who said so.
    #[cfg_attr(not(feature = "once"), allow(dead_code, reason = "only it says so"))]
    Record(RawRecord),
    /// Someone else has it.
    Busy,
}

impl<L> Sought<L> {
    pub(crate) fn map<T>(self, lease: impl FnOnce(L) -> T) -> Sought<T> {
        match self {
            Self::Lease(it) => Sought::Lease(lease(it)),
            Self::Record(record) => Sought::Record(record),
            Self::Busy => Sought::Busy,
        }
    }
}

/// What reaches the user's future.
#[derive(Debug)]
pub(super) enum Delivery {
    /// The end of the request.
    Done(Result<Sought<Releaser>>),
    /// It was granted, but nobody came for it; ask again.
    TakenBack,
}
