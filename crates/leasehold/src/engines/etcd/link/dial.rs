//! One endpoint, and how to connect to it.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

use crate::engine::BoxFuture;
use crate::engines::etcd::settings::EtcdSettings;
use crate::engines::kit::byte_stream::ByteStream;
use crate::engines::kit::hosts::ServerAddress;
use crate::engines::kit::tls;
use crate::error::{Error, Result};

/// How often a silent connection is tried, while a stream is open on it. A server
/// takes pings that come more often than every five seconds, or without a stream,
/// for an attack.
const PING: Duration = Duration::from_secs(10);

/// One endpoint.
#[derive(Clone)]
pub(in crate::engines::etcd) struct EtcdDialer {
    host: ServerAddress,
    tls: Option<Arc<ClientConfig>>,
    endpoint: Endpoint,
}

impl EtcdDialer {
    /// All endpoints of a URL, in any order: clients spread over the servers.
    pub(super) fn all(settings: &EtcdSettings) -> Result<Vec<Self>> {
        let tls = settings.tls.as_ref().map(|files| tls::config(files).map(speaking_http2));
        let tls = tls.transpose()?;
        let dial = |host: &ServerAddress| Self::new(host, tls.clone(), settings);
        let mut all = settings.hosts.iter().map(dial).collect::<Result<Vec<_>>>()?;
        fastrand::shuffle(&mut all);
        Ok(all)
    }

    fn new(
        host: &ServerAddress,
        tls: Option<Arc<ClientConfig>>,
        settings: &EtcdSettings,
    ) -> Result<Self> {
        // The TLS is ours: an https address would make the library look for its own.
        let mut endpoint = Endpoint::from(uri("http", host)?);
        if tls.is_some() {
            endpoint = endpoint.origin(uri("https", host)?);
        }
        let endpoint = endpoint
            .connect_timeout(settings.connect)
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(settings.timeout);
        Ok(Self { host: host.clone(), tls, endpoint })
    }

    pub(in crate::engines::etcd) const fn host(&self) -> &ServerAddress {
        &self.host
    }

    pub(super) async fn connect(&self) -> Result<Channel, tonic::transport::Error> {
        self.endpoint.connect_with_connector(self.clone()).await
    }

    async fn stream(self) -> io::Result<TokioIo<Box<dyn ByteStream>>> {
        let stream = TcpStream::connect((self.host.host.as_str(), self.host.port)).await?;
        stream.set_nodelay(true)?;
        Ok(TokioIo::new(match self.tls {
            None => Box::new(stream),
            Some(config) => Box::new(tls::wrap(config, &self.host.host, stream).await?),
        }))
    }
}

impl Service<Uri> for EtcdDialer {
    type Response = TokioIo<Box<dyn ByteStream>>;
    type Error = io::Error;
    type Future = BoxFuture<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.clone().stream())
    }
}

fn uri(scheme: &str, host: &ServerAddress) -> Result<Uri> {
    let uri = format!("{scheme}://{host}").parse();
    uri.map_err(|cause| Error::invalid("the engine URL has no valid host").caused_by(cause))
}

/// Newer servers hang up on clients that do not say so.
fn speaking_http2(config: Arc<ClientConfig>) -> Arc<ClientConfig> {
    let mut config = Arc::unwrap_or_clone(config);
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}
