//! Bodies: read whole up to a limit, and passed on beyond it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

/// A body as far as it was read, and the rest of it.
#[derive(Debug)]
pub struct Rest<B> {
    read: VecDeque<Frame<Bytes>>,
    body: Pin<Box<B>>,
}

impl<B> Rest<B> {
    /// All of a body that nobody has looked at.
    pub(crate) fn all(body: B) -> Self {
        Self { read: VecDeque::new(), body: Box::pin(body) }
    }
}

impl<B> Rest<B> {
    /// What was read, without trailers.
    pub(crate) fn into_data(self) -> Bytes {
        joined(self.read)
    }
}

impl<B: Body> Rest<B> {
    /// Whether nothing was read before, and nothing is left.
    fn is_over(&self) -> bool {
        self.read.is_empty() && self.body.is_end_stream()
    }
}

/// What reading a body came to.
#[derive(Debug)]
pub(crate) enum Whole<B> {
    /// All of it.
    All(Bytes),
    /// All of it, with trailers behind it.
    Trailed(Rest<B>),
    /// It is longer than it may be; nothing of it is lost.
    Longer(Rest<B>),
}

/// Reads a body up to `most` bytes.
pub(crate) async fn read<B: Body>(body: B, most: usize) -> Result<Whole<B>, B::Error> {
    let mut rest = Rest::all(body);
    let mut size = 0;
    while let Some(frame) = rest.body.frame().await {
        let frame = frame?.map_data(|mut data| data.copy_to_bytes(data.remaining()));
        let more = frame.data_ref().map(Bytes::len);
        size += more.unwrap_or(0);
        let frame = match frame.into_data() {
            // Most bodies are one piece.
            Ok(data) if size <= most && rest.is_over() => return Ok(Whole::All(data)),
            Ok(data) => Frame::data(data),
            Err(other) => other,
        };
        rest.read.push_back(frame);
        match more {
            None => return Ok(Whole::Trailed(rest)),
            Some(_) if size > most => return Ok(Whole::Longer(rest)),
            Some(_) => {}
        }
    }
    Ok(Whole::All(joined(rest.read)))
}

fn joined(frames: VecDeque<Frame<Bytes>>) -> Bytes {
    let size = frames.iter().filter_map(|frame| frame.data_ref().map(Bytes::len)).sum();
    let mut parts = frames.into_iter().filter_map(|frame| frame.into_data().ok());
    let first = parts.next().unwrap_or_default();
    if first.len() == size {
        return first;
    }
    let mut all = BytesMut::with_capacity(size);
    all.extend_from_slice(&first);
    parts.for_each(|part| all.extend_from_slice(&part));
    all.freeze()
}

impl<B: Body> Body for Rest<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(frame) = self.read.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        let frame = ready!(self.body.as_mut().poll_frame(cx));
        let owned =
            |frame: Frame<B::Data>| frame.map_data(|mut data| data.copy_to_bytes(data.remaining()));
        Poll::Ready(frame.map(|frame| frame.map(owned)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over()
    }

    fn size_hint(&self) -> SizeHint {
        let read: usize = self.read.iter().filter_map(|f| f.data_ref().map(Bytes::len)).sum();
        let (read, rest) = (read as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(read + rest.lower());
        if let Some(upper) = rest.upper() {
            hint.set_upper(read + upper);
        }
        hint
    }
}
