//! A bare etcd client: one transaction that puts a key if it is not there, one
//! that removes it.

#[allow(dead_code, unreachable_pub, clippy::all, reason = "generated for the library")]
#[rustfmt::skip]
#[path = "../../../leasehold/src/engines/etcd/proto.rs"]
mod proto;

use std::time::{Duration, Instant};

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};

use self::proto::compare::{CompareResult, CompareTarget, TargetUnion};
use self::proto::request_op::Request;
use self::proto::{Compare, DeleteRangeRequest, PutRequest, RequestOp, TxnRequest, TxnResponse};
use crate::{Outcome, median};

const KEY: &[u8] = b"bare";

/// What both take together, one after the other.
pub(crate) async fn pairs(host: String, count: u32) -> Outcome<Duration> {
    let channel =
        Endpoint::from_shared(format!("http://{host}"))?.tcp_nodelay(true).connect().await?;
    let mut client = Grpc::new(channel);
    let put = PutRequest { key: KEY.into(), ..PutRequest::default() };
    let delete = DeleteRangeRequest { key: KEY.into() };
    let mut samples = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        ask(&mut client, step(true, Request::RequestPut(put.clone()))).await?;
        ask(&mut client, step(false, Request::RequestDeleteRange(delete.clone()))).await?;
        samples.push(start.elapsed());
    }
    Ok(median(samples))
}

/// Does it if the key is absent, or if it is there.
fn step(absent: bool, request: Request) -> TxnRequest {
    let result = if absent { CompareResult::Equal } else { CompareResult::Greater };
    let compare = Compare {
        result: result.into(),
        target: CompareTarget::Create.into(),
        key: KEY.into(),
        target_union: Some(TargetUnion::CreateRevision(0)),
        ..Compare::default()
    };
    let success = vec![RequestOp { request: Some(request) }];
    TxnRequest { compare: vec![compare], success, failure: Vec::new() }
}

async fn ask(client: &mut Grpc<Channel>, txn: TxnRequest) -> Outcome<()> {
    client.ready().await?;
    let codec = tonic_prost::ProstCodec::<TxnRequest, TxnResponse>::default();
    let path = PathAndQuery::from_static("/etcdserverpb.KV/Txn");
    let answer = client.unary(tonic::Request::new(txn), path, codec).await?.into_inner();
    if answer.succeeded { Ok(()) } else { Err("somebody else uses the key".into()) }
}
