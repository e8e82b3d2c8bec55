//! Go's line: whoever joins puts a key, reads the oldest one and the one before
//! its own; whoever is next asks for the one before its own again. The server
//! sorts the line for each of these.

use std::time::Instant;

use leasehold_testkit::contest::Checked;
use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};

use crate::inside::Inside;

/// The part of etcd's messages that is used here.
#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Range {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    limit: i64,
    /// 1 is ascending, 2 descending.
    #[prost(int32, tag = "5")]
    sort_order: i32,
    /// 2 is by the revision that made the key.
    #[prost(int32, tag = "6")]
    sort_target: i32,
    #[prost(int64, tag = "13")]
    max_create_revision: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(int64, tag = "3")]
    revision: i64,
}

/// Every answer begins with this; the rest is left unread.
#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
}

pub(crate) async fn line(cell: &Inside) -> Checked {
    let mut client = Client::connect(cell.hosts().first().ok_or("no server")?).await?;
    let (start, mut line) = (Instant::now(), Vec::new());
    for n in 0..cell.size {
        let key = format!("by-hand/{n:07}").into_bytes();
        let made = client.ask("Put", Put { key: key.clone() }).await?;
        client.ask("Range", sorted(1, 0)).await?;
        client.ask("Range", sorted(2, made - 1)).await?;
        line.push((key, made));
    }
    cell.say_each("join_us", start.elapsed().as_secs_f64() * 1e6);
    let start = Instant::now();
    for (key, made) in line {
        client.ask("DeleteRange", Put { key }).await?;
        // For the next in line; then it looks whether its own key is there.
        client.ask("Range", sorted(2, made)).await?;
        client.ask("Range", Range { key: b"by-hand/".to_vec(), ..Range::default() }).await?;
    }
    cell.say_each("hand_us", start.elapsed().as_secs_f64() * 1e6);
    Ok(())
}

/// The first of the line, or the last of those not younger than `most`.
fn sorted(sort_order: i32, most: i64) -> Range {
    Range {
        key: b"by-hand/".to_vec(),
        range_end: b"by-hand0".to_vec(),
        limit: 1,
        sort_order,
        sort_target: 2,
        max_create_revision: most,
    }
}

struct Client(Grpc<Channel>);

impl Client {
    async fn connect(host: &str) -> Checked<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{host}"))?.tcp_nodelay(true);
        Ok(Self(Grpc::new(endpoint.connect().await?)))
    }

    /// Sends it, and gives back the store's revision.
    async fn ask<M: Message + Default + 'static>(&mut self, verb: &str, ask: M) -> Checked<i64> {
        self.0.ready().await?;
        let codec = tonic_prost::ProstCodec::<M, Answer>::default();
        let path = PathAndQuery::try_from(format!("/etcdserverpb.KV/{verb}"))?;
        let answer = self.0.unary(tonic::Request::new(ask), path, codec).await?.into_inner();
        Ok(answer.header.unwrap_or_default().revision)
    }
}
