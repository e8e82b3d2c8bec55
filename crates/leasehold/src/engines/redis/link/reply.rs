//! What came back for one request.

use redis::Value;

use crate::clock::Moment;

/// The answer, and when it was asked for.
#[derive(Debug)]
pub(in crate::engines) struct RedisReply {
    pub(in crate::engines) value: Value,
    /// When the request left.
    pub(in crate::engines::redis) sent_at: Moment,
    /// How many replicas have what was written; `None` unless asked for.
    pub(in crate::engines::redis) acknowledged: Option<u64>,
}
