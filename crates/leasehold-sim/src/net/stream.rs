//! A connection, as the library's code sees it.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use leasehold::sim::{Dialed, SimStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{End, Parcel, Way};
use crate::world::World;

/// Asks for a connection. It is made, refused, or never answered.
#[must_use]
pub fn dial(world: World, client: usize, node: usize) -> Dialed {
    Box::pin(async move {
        let id = world.with(|inner, now| inner.net.open(client, node, now));
        let line = Line { world, id };
        poll_fn(|cx| line.poll_open(cx)).await?;
        Ok(Box::new(line) as Box<dyn SimStream>)
    })
}

/// One end of a connection; closed on drop.
struct Line {
    world: World,
    id: u64,
}

impl Line {
    fn poll_open(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        self.world.with(|inner, _| {
            let Some(it) = inner.net.connections.get_mut(&self.id) else { return broken() };
            if it.is_open {
                return Poll::Ready(Ok(()));
            }
            it.reader = Some(cx.waker().clone());
            it.end.map_or(Poll::Pending, |end| Poll::Ready(Err(error(end))))
        })
    }
}

fn broken<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(error(End::Reset)))
}

fn error(end: End) -> io::Error {
    io::Error::from(match end {
        End::Closed => io::ErrorKind::UnexpectedEof,
        End::Reset => io::ErrorKind::ConnectionReset,
        End::Refused => io::ErrorKind::ConnectionRefused,
    })
}

impl AsyncRead for Line {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.world.with(|inner, _| {
            let Some(it) = inner.net.connections.get_mut(&self.id) else { return broken() };
            if !it.inbox.is_empty() {
                let size = it.inbox.len().min(into.remaining());
                let bytes: Vec<u8> = it.inbox.drain(..size).collect();
                into.put_slice(&bytes);
                return Poll::Ready(Ok(()));
            }
            it.reader = Some(cx.waker().clone());
            match it.end {
                None => Poll::Pending,
                Some(End::Closed) => Poll::Ready(Ok(())),
                Some(end) => Poll::Ready(Err(error(end))),
            }
        })
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.world.with(|inner, now| {
            let it = inner.net.connections.get(&self.id);
            if let Some(end) = it.map_or(Some(End::Reset), |it| it.end) {
                return Poll::Ready(Err(error(end)));
            }
            inner.net.send(self.id, Way::There, Parcel::Bytes(bytes.to_vec()), now);
            Poll::Ready(Ok(bytes.len()))
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.world.with(|inner, now| inner.net.send(self.id, Way::There, Parcel::Close, now));
    }
}
