//! The calls we make, one row each.

use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::engines::etcd::proto::{
    AuthenticateRequest, AuthenticateResponse, LeaseGrantRequest, LeaseGrantResponse,
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    MemberListRequest, MemberListResponse, RangeRequest, RangeResponse, StatusRequest,
    StatusResponse, TxnRequest, TxnResponse, WatchRequest, WatchResponse,
};

/// The largest answer: a page of the largest values, and room for their keys.
const ANSWER_MAX: usize = 40 * 1024 * 1024;

/// A request that knows where it goes and what it is answered with.
pub(in crate::engines::etcd) trait EtcdCall:
    Message + Clone + Send + 'static
{
    type Answer: Message + Default + 'static;
    const PATH: &'static str;

    /// Whether it changes anything: then it is not sent twice.
    fn has_effect(&self) -> bool;
}

macro_rules! calls {
    ($($call:ty => $answer:ty, $path:literal, $effect:expr;)*) => {$(
        impl EtcdCall for $call {
            type Answer = $answer;
            const PATH: &'static str = concat!("/etcdserverpb.", $path);

            fn has_effect(&self) -> bool {
                let effect: fn(&Self) -> bool = $effect;
                effect(self)
            }
        }
    )*};
}

calls! {
    RangeRequest => RangeResponse, "KV/Range", |_| false;
    TxnRequest => TxnResponse, "KV/Txn", |txn| super::super::txn::writes(txn);
    LeaseGrantRequest => LeaseGrantResponse, "Lease/LeaseGrant", |_| true;
    LeaseRevokeRequest => LeaseRevokeResponse, "Lease/LeaseRevoke", |_| true;
    LeaseKeepAliveRequest => LeaseKeepAliveResponse, "Lease/LeaseKeepAlive", |_| true;
    WatchRequest => WatchResponse, "Watch/Watch", |_| false;
    AuthenticateRequest => AuthenticateResponse, "Auth/Authenticate", |_| false;
    MemberListRequest => MemberListResponse, "Cluster/MemberList", |_| false;
    StatusRequest => StatusResponse, "Maintenance/Status", |_| false;
}

/// One question, one answer.
pub(super) async fn unary<C: EtcdCall>(
    channel: Channel,
    request: Request<C>,
) -> Result<C::Answer, Status> {
    let mut grpc = ready(channel).await?;
    let path = PathAndQuery::from_static(C::PATH);
    let answer = grpc.unary(request, path, ProstCodec::<C, C::Answer>::default()).await?;
    Ok(answer.into_inner())
}

/// Many of both, for as long as it lasts. The server begins to answer with the
/// first question, so there has to be one.
pub(super) async fn stream<C: EtcdCall>(
    channel: Channel,
    request: Request<UnboundedReceiverStream<C>>,
) -> Result<Streaming<C::Answer>, Status> {
    let mut grpc = ready(channel).await?;
    let path = PathAndQuery::from_static(C::PATH);
    let answer = grpc.streaming(request, path, ProstCodec::<C, C::Answer>::default()).await?;
    Ok(answer.into_inner())
}

async fn ready(channel: Channel) -> Result<Grpc<Channel>, Status> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(ANSWER_MAX);
    grpc.ready().await.map_err(|cause| Status::from_error(Box::new(cause)))?;
    Ok(grpc)
}
