//! One connection, from its first byte to its end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo, Value};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(not(leasehold_sim))]
use tokio::net::TcpStream;
use tokio::net::UnixStream;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::super::address::{Login, RedisAddress};
use super::fault;
use crate::clock::Clock;
use crate::engines::kit::timeout::timeout;
use crate::engines::kit::tls;
use crate::error::Result;
use crate::home::Handle;
#[cfg(leasehold_sim)]
use crate::sim::dial as tcp;

/// Takes what the server says without being asked.
pub(super) type Ear = Arc<dyn Fn(PushInfo) + Send + Sync>;

/// What every connection of a deployment has in common.
#[derive(Clone)]
pub(super) struct ConnectionTerms {
    pub(super) login: Login,
    pub(super) database: i64,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) connect: Duration,
    pub(super) timeout: Duration,
    pub(super) clock: Clock,
}

/// A connection that stands, or stood. Once gone it stays gone.
#[derive(Clone)]
pub(super) struct Wire(Arc<WireShared>);

struct WireShared {
    address: RedisAddress,
    connection: MultiplexedConnection,
    driver: AbortHandle,
    /// Closed when the driver has ended.
    alive: watch::Receiver<()>,
    doubted: Notify,
    condemned: Notify,
}

impl Wire {
    /// Connects and introduces us.
    pub(super) async fn open(
        address: &RedisAddress,
        terms: &ConnectionTerms,
        ear: Option<Ear>,
    ) -> Result<Self> {
        let work = connect(address, terms, ear);
        let made = timeout(&terms.clock, terms.connect, work).await;
        let made = made.unwrap_or_else(|| Err(io::Error::from(io::ErrorKind::TimedOut).into()));
        made.map_err(|cause| fault::unreachable(&cause).with("server", address))
    }

    pub(super) fn address(&self) -> &RedisAddress {
        &self.0.address
    }

    /// Sends all in one go. An error is about all of them; each answer may be
    /// an error of its own.
    pub(super) async fn send(&self, pipeline: &redis::Pipeline) -> Result<Vec<Value>> {
        if self.is_gone() {
            return Err(fault::away("the connection is gone").with("server", self.address()));
        }
        let mut connection = self.0.connection.clone();
        let answers = connection.send_packed_commands(pipeline, 0, pipeline.len()).await;
        answers.map_err(|cause| {
            self.doubt();
            fault::unanswered(&cause).with("server", self.address())
        })
    }

    /// Sends one command; an answer that is an error is an error.
    pub(super) async fn ask(&self, command: redis::Cmd) -> Result<Value> {
        let mut pipeline = redis::Pipeline::with_capacity(1);
        pipeline.add_command(command);
        let answer = self.send(&pipeline).await?.pop().unwrap_or(Value::Nil);
        answer
            .extract_error()
            .map_err(|cause| fault::refused(&cause).with("server", self.address()))
    }

    pub(super) fn is_gone(&self) -> bool {
        self.0.alive.has_changed().is_err()
    }

    /// Until the connection has ended.
    pub(super) async fn gone(&self) {
        let mut alive = self.0.alive.clone();
        while alive.changed().await.is_ok() {}
    }

    /// Asks for a look whether the other side is still there.
    pub(super) fn doubt(&self) {
        self.0.doubted.notify_one();
    }

    pub(super) async fn doubted(&self) {
        self.0.doubted.notified().await;
    }

    /// This is no primary any more: find another.
    pub(super) fn condemn(&self) {
        self.0.condemned.notify_one();
    }

    pub(super) async fn condemned(&self) {
        self.0.condemned.notified().await;
    }

    pub(super) fn close(&self) {
        self.0.driver.abort();
    }
}

impl Drop for WireShared {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

async fn connect(
    address: &RedisAddress,
    terms: &ConnectionTerms,
    ear: Option<Ear>,
) -> redis::RedisResult<Wire> {
    match (address, &terms.tls) {
        (RedisAddress::Unix(path), _) => {
            introduce(UnixStream::connect(path).await?, address, terms, ear).await
        }
        (RedisAddress::Tcp(server), None) => {
            introduce(tcp(&server.host, server.port).await?, address, terms, ear).await
        }
        (RedisAddress::Tcp(server), Some(config)) => {
            let stream = tcp(&server.host, server.port).await?;
            let stream = tls::wrap(Arc::clone(config), &server.host, stream).await?;
            introduce(stream, address, terms, ear).await
        }
    }
}

#[cfg(not(leasehold_sim))]
async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn introduce<S>(
    stream: S,
    address: &RedisAddress,
    terms: &ConnectionTerms,
    ear: Option<Ear>,
) -> redis::RedisResult<Wire>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = config(terms, ear);
    let (connection, driver) =
        MultiplexedConnection::new_with_config(&introduction(terms), stream, config).await?;
    let (living, alive) = watch::channel(());
    let driver = Handle::current().spawn(async move {
        driver.await;
        drop(living);
    });
    let wire = Wire(Arc::new(WireShared {
        address: address.clone(),
        connection,
        driver: driver.abort_handle(),
        alive,
        doubted: Notify::new(),
        condemned: Notify::new(),
    }));
    // For people who look at CLIENT LIST. An ACL may forbid it, which is fine.
    let name = redis::cmd("CLIENT").arg("SETNAME").arg("leasehold").to_owned();
    wire.0.connection.clone().send_packed_command(&name).await?;
    Ok(wire)
}

fn config(terms: &ConnectionTerms, ear: Option<Ear>) -> AsyncConnectionConfig {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(terms.timeout));
    match ear {
        None => config,
        Some(ear) => config.set_push_sender(move |push| {
            ear(push);
            Ok::<_, redis::aio::SendError>(())
        }),
    }
}

fn introduction(terms: &ConnectionTerms) -> RedisConnectionInfo {
    let mut info = RedisConnectionInfo::default()
        .set_db(terms.database)
        .set_protocol(ProtocolVersion::RESP3)
        .set_skip_set_lib_name();
    // A password alone is that of the user `default`.
    if let Some(user) = &terms.login.user {
        info = info.set_username(user);
    }
    if let Some(password) = &terms.login.password {
        info = info.set_password(password);
    }
    info
}
