//! Against a server that says what it is told to.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::EtcdLink;
use crate::clock::Clock;
use crate::engine::{Event, Events};
use crate::engines::etcd::proto::{LeaseRevokeRequest, TxnRequest};
use crate::engines::etcd::settings::EtcdSettings;
use crate::engines::etcd::txn;
use crate::error::Effect;
use crate::home::Handle;
use crate::url::Url;

/// The frames of HTTP/2, and what they can say.
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const ACK: u8 = 1;
const END_OF_STREAM: u8 = 1;
const END_OF_HEADERS: u8 = 4;

/// Refuses so many calls like this on its first connection, and answers those after
/// them with nothing.
struct RefusingServer {
    times: usize,
    status: &'static str,
    message: &'static str,
}

impl RefusingServer {
    /// Serves one connection, to its end: how many calls it was asked.
    async fn serve(self, listener: TcpListener) -> usize {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = 0;
        stream.read_exact(&mut [0; 24]).await.unwrap();
        write(&mut stream, SETTINGS, 0, 0, &[]).await;
        while let Some((kind, flags, call)) = read(&mut stream).await {
            if kind == SETTINGS && flags & ACK == 0 {
                write(&mut stream, SETTINGS, ACK, 0, &[]).await;
            } else if call > 0 && flags & END_OF_STREAM != 0 {
                asked += 1;
                self.answer(&mut stream, call, asked <= self.times).await;
            }
        }
        asked
    }

    async fn answer(&self, stream: &mut TcpStream, call: u32, refused: bool) {
        // `:status 200`, which every table begins with.
        let mut head = vec![0x88];
        literal(&mut head, "content-type", "application/grpc");
        if refused {
            literal(&mut head, "grpc-status", self.status);
            literal(&mut head, "grpc-message", self.message);
            return write(stream, HEADERS, END_OF_HEADERS | END_OF_STREAM, call, &head).await;
        }
        write(stream, HEADERS, END_OF_HEADERS, call, &head).await;
        // A message of no bytes, not compressed.
        write(stream, 0, 0, call, &[0; 5]).await;
        let mut end = Vec::new();
        literal(&mut end, "grpc-status", "0");
        write(stream, HEADERS, END_OF_HEADERS | END_OF_STREAM, call, &end).await;
    }
}

fn literal(head: &mut Vec<u8>, name: &str, value: &str) {
    head.push(0);
    for text in [name, value] {
        head.push(u8::try_from(text.len()).unwrap());
        head.extend_from_slice(text.as_bytes());
    }
}

async fn write(stream: &mut TcpStream, kind: u8, flags: u8, call: u32, body: &[u8]) {
    let size = u32::try_from(body.len()).unwrap().to_be_bytes();
    let head = [&size[1..], &[kind, flags], &call.to_be_bytes()].concat();
    stream.write_all(&[&head, body].concat()).await.unwrap();
}

/// Kind, flags and call of the next frame; none once the client has gone.
async fn read(stream: &mut TcpStream) -> Option<(u8, u8, u32)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let size = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    stream.read_exact(&mut vec![0; size as usize]).await.ok()?;
    Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]])))
}

/// A link to such a server, and what is told of it.
async fn link_to(server: RefusingServer) -> (EtcdLink, Events, tokio::task::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("etcd://{}", listener.local_addr().unwrap());
    let settings = EtcdSettings::from_url(&Url::parse(&url).unwrap()).unwrap();
    let link = EtcdLink::new(&settings, Clock::System).unwrap();
    let events = link.state_publisher().bus().subscribe();
    (link, events, Handle::current().spawn(server.serve(listener)))
}

const CROWDED: RefusingServer =
    RefusingServer { times: 2, status: "2", message: "etcdserver: too many requests" };

/// What a server has not begun with is asked again, on the same connection, and
/// nobody who holds a lease is told anything.
#[tokio::test]
async fn a_server_with_too_much_to_do_is_asked_again_and_not_left() {
    let (link, mut events, serving) = link_to(CROWDED).await;
    let write = TxnRequest { success: vec![txn::delete("a")], ..TxnRequest::default() };
    link.ask(write, link.deadline()).await.unwrap();
    link.state_publisher().bus().close();
    let told = events.next().await;
    assert!(told.is_none(), "{told:?}");
    drop(link);
    assert_eq!(serving.await.unwrap(), 3, "all over one connection");
}

/// It has to answer in time all the same.
#[tokio::test]
async fn a_server_that_always_has_too_much_to_do_has_done_nothing() {
    let (link, mut events, _serving) = link_to(RefusingServer { times: 1000, ..CROWDED }).await;
    let by = link.clock().now().after(Duration::from_millis(300));
    let refused = link.ask(LeaseRevokeRequest { id: 1 }, by).await.unwrap_err();
    assert_eq!(refused.effect(), Effect::NotApplied);
    assert!(refused.is_retryable(), "{refused}");
    link.state_publisher().unreached();
    assert!(matches!(events.next().await, Some(Event::Suspended)), "it was left before");
}
