//! From an address to a server that has greeted us.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::fault;
use super::wire::{Greeting, Head, Hello, JuteReader, digest};
use crate::engines::kit::byte_stream::ByteStream;
use crate::engines::kit::hosts::ServerAddress;
use crate::engines::kit::tls;
use crate::error::{Error, ErrorKind, Result};

/// The longest answer we take.
const ANSWER_MAX: usize = 64 * 1024 * 1024;

/// A connection to a server.
pub(super) type Boxed = Box<dyn ByteStream>;

/// Connects to a server and says who we are.
pub(super) async fn dial(
    server: &ServerAddress,
    tls: Option<&Arc<ClientConfig>>,
    hello: Hello,
    login: Option<&str>,
) -> Result<(Boxed, Greeting)> {
    let mut stream = connect(server, tls).await.map_err(|cause| unreachable(server, &cause))?;
    let greeting = greet(&mut stream, hello).await.map_err(|cause| unreachable(server, &cause))?;
    let greeting = Greeting::read(&mut JuteReader::new(&greeting))?;
    if let (Some(login), true) = (login, greeting.timeout > 0) {
        introduce(&mut stream, login).await?;
    }
    Ok((stream, greeting))
}

async fn connect(server: &ServerAddress, tls: Option<&Arc<ClientConfig>>) -> io::Result<Boxed> {
    let stream = TcpStream::connect((server.host.as_str(), server.port)).await?;
    stream.set_nodelay(true)?;
    // What was not delivered when we give a connection up must not arrive later:
    // by then nobody looks for what it leaves.
    stream.set_zero_linger()?;
    Ok(match tls {
        None => Box::new(stream),
        Some(config) => Box::new(tls::wrap(Arc::clone(config), &server.host, stream).await?),
    })
}

async fn greet(stream: &mut Boxed, hello: Hello) -> io::Result<Vec<u8>> {
    stream.write_all(&hello.frame()).await?;
    stream.flush().await?;
    frame(stream).await
}

/// The server ends the connection of whom it does not know.
async fn introduce(stream: &mut Boxed, login: &str) -> Result<()> {
    let work = async {
        stream.write_all(&digest(login)).await?;
        stream.flush().await?;
        frame(stream).await
    };
    let answer = work.await.map_err(|cause| {
        Error::new(ErrorKind::Unavailable, "the server left while we said who we are")
            .caused_by(cause)
    })?;
    let head = Head::read(&mut JuteReader::new(&answer))?;
    match head.error {
        None if head.is_auth() => Ok(()),
        None => Err(fault::misfit()),
        Some(code) => Err(fault::refused(code)),
    }
}

/// The next frame of a connection.
pub(super) async fn frame(stream: &mut (impl AsyncRead + Unpin + ?Sized)) -> io::Result<Vec<u8>> {
    let size = usize::try_from(stream.read_i32().await?).ok().filter(|size| *size <= ANSWER_MAX);
    let size = size.ok_or_else(|| io::Error::other("the answer is too long"))?;
    let mut bytes = vec![0; size];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn unreachable(server: &ServerAddress, cause: &io::Error) -> Error {
    fault::away("cannot connect").with("server", server).caused_by(cause)
}
