//! TLS inside PostgreSQL's own greeting.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

use super::super::settings::{Encrypt, Tls};
use crate::engine::BoxFuture;
use crate::engines::kit::hosts::ServerAddress;
use crate::engines::kit::tls;
use crate::error::Result;

/// Greets one server.
#[derive(Clone)]
pub(super) struct Connector {
    host: String,
    /// `None` where nothing is encrypted.
    config: Option<Arc<ClientConfig>>,
}

impl Connector {
    pub(super) fn new(address: &ServerAddress, settings: &Tls) -> Result<Self> {
        let config = match settings {
            Tls { encrypt: Encrypt::Never, .. } => None,
            Tls { verify: true, files, .. } => Some(tls::config(files)?),
            Tls { files, .. } => Some(tls::trusting(files)?),
        };
        Ok(Self { host: address.host.clone(), config })
    }
}

impl TlsConnect<TcpStream> for Connector {
    type Stream = PostgresTls;
    type Error = io::Error;
    type Future = BoxFuture<io::Result<PostgresTls>>;

    fn connect(self, stream: TcpStream) -> Self::Future {
        Box::pin(async move {
            let config = self.config.ok_or_else(|| io::Error::other("TLS is not wanted"))?;
            tls::wrap(config, &self.host, stream).await.map(PostgresTls)
        })
    }
}

/// An encrypted connection.
pub(super) struct PostgresTls(tokio_rustls::client::TlsStream<TcpStream>);

impl TlsStream for PostgresTls {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for PostgresTls {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for PostgresTls {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
