//! Values as the columns of our tables have them.

use std::time::Duration;

use crate::claim::LeaseId;
use crate::clock::Moment;

/// A lease id as its columns have it.
pub(super) fn key(lease: LeaseId) -> String {
    format!("{:032x}", lease.to_bits())
}

/// A lease id from its column.
pub(super) fn lease(key: &str) -> Option<LeaseId> {
    u128::from_str_radix(key, 16).ok().map(LeaseId::from_bits)
}

/// A number as the database stores it.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A moment as the database stores it.
pub(super) fn micros(moment: Moment) -> i64 {
    int(moment.nanos() / 1000)
}

/// A moment that the database stored.
pub(super) fn moment(micros: i64) -> Moment {
    Moment::from_nanos(micros.unsigned_abs().saturating_mul(1000))
}

/// A span as the database stores it.
pub(super) fn span(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
