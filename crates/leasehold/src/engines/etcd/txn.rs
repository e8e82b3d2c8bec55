//! Parts of requests, by what they mean.

use super::proto::compare::{CompareResult, CompareTarget, TargetUnion};
use super::proto::range_request::{SortOrder, SortTarget};
use super::proto::request_op::Request;
use super::proto::response_op::Response;
use super::proto::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, RequestOp, ResponseOp,
    TxnRequest, TxnResponse,
};
use super::proto::{KeyValue, ResponseHeader};

/// The end of the range of all keys that begin with `prefix`.
pub(super) fn end_of(prefix: impl AsRef<[u8]>) -> Vec<u8> {
    let mut end = prefix.as_ref().to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // Of all keys there are.
    vec![0]
}

/// If there is no such key.
pub(super) fn absent(key: &str) -> Compare {
    made_at(key, 0)
}

/// If no key begins with `prefix`.
pub(super) fn none_below(prefix: &str) -> Compare {
    none_between(prefix.into(), end_of(prefix))
}

/// If there is no key from here on up to there.
pub(super) fn none_between(from: Vec<u8>, to: Vec<u8>) -> Compare {
    Compare { key: from, range_end: to, ..absent("") }
}

/// If the key is there, made at this revision.
pub(super) fn made_at(key: &str, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: key.into(),
        range_end: Vec::new(),
        target_union: Some(TargetUnion::CreateRevision(revision)),
    }
}

/// If the key was last written at this revision.
pub(super) fn written_at(key: &str, revision: i64) -> Compare {
    Compare {
        target: CompareTarget::Mod.into(),
        target_union: Some(TargetUnion::ModRevision(revision)),
        ..absent(key)
    }
}

/// If the key has this value.
pub(super) fn valued(key: &str, value: Vec<u8>) -> Compare {
    Compare {
        target: CompareTarget::Value.into(),
        target_union: Some(TargetUnion::Value(value)),
        ..absent(key)
    }
}

/// One of two things, in the middle of a transaction. What it is to be is seen in
/// the store as it was before the transaction.
pub(super) fn either(
    compare: Vec<Compare>,
    success: Vec<RequestOp>,
    failure: Vec<RequestOp>,
) -> RequestOp {
    RequestOp { request: Some(Request::RequestTxn(TxnRequest { compare, success, failure })) }
}

/// One key, as it was at this revision.
pub(super) fn once(key: &str, revision: i64) -> RangeRequest {
    RangeRequest { revision, ..one(key) }
}

/// One key.
pub(super) fn one(key: &str) -> RangeRequest {
    RangeRequest { key: key.into(), ..RangeRequest::default() }
}

/// The first `limit` of all keys that begin with `prefix`.
pub(super) fn below(prefix: &str, limit: i64) -> RangeRequest {
    RangeRequest { key: prefix.into(), range_end: end_of(prefix), limit, ..RangeRequest::default() }
}

/// The same, by age.
pub(super) fn oldest_below(prefix: &str, limit: i64) -> RangeRequest {
    RangeRequest {
        sort_order: SortOrder::Ascend.into(),
        sort_target: SortTarget::Create.into(),
        ..below(prefix, limit)
    }
}

/// Of the keys of a range the youngest that is older than `revision`.
pub(super) fn youngest_before(range: RangeRequest, revision: i64) -> RangeRequest {
    RangeRequest {
        sort_order: SortOrder::Descend.into(),
        sort_target: SortTarget::Create.into(),
        max_create_revision: revision - 1,
        limit: 1,
        ..range
    }
}

/// Keys that begin with `prefix` and go on with a number in hex: entries of a line,
/// and not what lies beside them.
pub(super) fn entries_below(prefix: &str, limit: i64) -> RangeRequest {
    RangeRequest { range_end: format!("{prefix}g").into_bytes(), ..below(prefix, limit) }
}

pub(super) fn read(range: RangeRequest) -> RequestOp {
    RequestOp { request: Some(Request::RequestRange(range)) }
}

/// Writes a key. `lease` 0 is none.
pub(super) fn put(key: &str, value: Vec<u8>, lease: i64) -> RequestOp {
    write(PutRequest { key: key.into(), value, lease, ignore_lease: false })
}

/// Writes over a key that is there, which keeps its lease.
pub(super) fn overwrite(key: &str, value: Vec<u8>) -> RequestOp {
    write(PutRequest { key: key.into(), value, lease: 0, ignore_lease: true })
}

fn write(put: PutRequest) -> RequestOp {
    RequestOp { request: Some(Request::RequestPut(put)) }
}

pub(super) fn delete(key: &str) -> RequestOp {
    RequestOp { request: Some(Request::RequestDeleteRange(DeleteRangeRequest { key: key.into() })) }
}

/// Whether a transaction can change anything.
pub(super) fn writes(txn: &TxnRequest) -> bool {
    let changes = |op: &RequestOp| !matches!(op.request, None | Some(Request::RequestRange(_)));
    txn.success.iter().chain(&txn.failure).any(changes)
}

/// The leases that a transaction binds keys to.
pub(super) fn leases(txn: &TxnRequest) -> Vec<i64> {
    let lease = |op: &RequestOp| match &op.request {
        Some(Request::RequestPut(put)) if put.lease != 0 => Some(put.lease),
        _ => None,
    };
    txn.success.iter().filter_map(lease).collect()
}

pub(super) fn revision(header: Option<ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}

/// What the reads of a transaction found, in their order.
pub(super) fn found(answer: TxnResponse) -> impl Iterator<Item = RangeResponse> {
    let range = |op: ResponseOp| match op.response {
        Some(Response::ResponseRange(range)) => Some(range),
        _ => None,
    };
    answer.responses.into_iter().filter_map(range)
}

/// What came of the either-or of a transaction.
pub(super) fn chosen(answer: &TxnResponse) -> Option<TxnResponse> {
    answer.responses.iter().find_map(|op| match &op.response {
        Some(Response::ResponseTxn(chosen)) => Some(chosen.clone()),
        _ => None,
    })
}

/// Revisions count from 1.
pub(super) fn fence(key: &KeyValue) -> u64 {
    key.create_revision.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_after_the_last_key_with_its_prefix() {
        assert_eq!(end_of("a/"), b"a0");
        assert!(b"a/\xff\xff".as_slice() < end_of("a/").as_slice());
        assert_eq!(end_of(""), [0]);
    }

    #[test]
    fn a_transaction_that_only_reads_has_no_effect() {
        let reads = vec![read(one("a"))];
        let only = TxnRequest { success: reads.clone(), ..TxnRequest::default() };
        assert!(!writes(&only));
        assert!(writes(&TxnRequest {
            failure: vec![delete("a")],
            success: reads,
            compare: vec![]
        }));
    }
}
