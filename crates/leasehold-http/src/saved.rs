//! A response as bytes.

use bytes::Bytes;
use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

/// A response with its whole body, and of its headers those that are kept.
#[derive(Debug)]
pub(crate) struct Saved;

impl Saved {
    /// Status, number of headers, each with its lengths, body.
    pub(crate) fn encode(parts: &Parts, body: &[u8], kept: &[HeaderName]) -> Vec<u8> {
        let headers: Vec<_> =
            parts.headers.iter().filter(|(name, _)| kept.contains(name)).collect();
        let mut bytes = Vec::with_capacity(64 * headers.len() + body.len() + 4);
        bytes.extend(parts.status.as_u16().to_be_bytes());
        put(headers.len(), &mut bytes);
        for (name, value) in headers {
            put(name.as_str().len(), &mut bytes);
            put(value.len(), &mut bytes);
            bytes.extend(name.as_str().as_bytes());
            bytes.extend(value.as_bytes());
        }
        bytes.extend(body);
        bytes
    }

    /// `None` if it was not written here.
    pub(crate) fn decode<B: From<Bytes>>(bytes: Vec<u8>) -> Option<Response<B>> {
        let mut rest = Bytes::from(bytes);
        let status = StatusCode::from_u16(number(&mut rest)?).ok()?;
        let mut headers = HeaderMap::new();
        for _ in 0..number(&mut rest)? {
            let (name, value) = (number(&mut rest)?, number(&mut rest)?);
            let name = HeaderName::from_bytes(&cut(&mut rest, name)?).ok()?;
            let value = HeaderValue::from_maybe_shared(cut(&mut rest, value)?).ok()?;
            headers.append(name, value);
        }
        let mut response = Response::new(B::from(rest));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Some(response)
    }
}

/// Servers take no header as long as that.
fn put(number: usize, bytes: &mut Vec<u8>) {
    bytes.extend(u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes());
}

fn number(bytes: &mut Bytes) -> Option<u16> {
    let pair = cut(bytes, 2)?;
    Some(u16::from_be_bytes([pair[0], pair[1]]))
}

fn cut(bytes: &mut Bytes, size: u16) -> Option<Bytes> {
    let size = usize::from(size);
    (bytes.len() >= size).then(|| bytes.split_to(size))
}

#[cfg(test)]
mod tests {
    use http::header::{CONTENT_TYPE, LINK, SET_COOKIE};

    use super::*;

    #[test]
    fn a_response_is_given_again_as_it_was() {
        let response = Response::builder().status(201).header(CONTENT_TYPE, "text/plain");
        let response = response.header(LINK, "<a>").header(LINK, "<b>").header(SET_COOKIE, "x");
        let (parts, ()) = response.body(()).unwrap().into_parts();
        let bytes = Saved::encode(&parts, b"paid", &[CONTENT_TYPE, LINK]);
        let again: Response<Bytes> = Saved::decode(bytes.clone()).unwrap();
        assert_eq!((again.status().as_u16(), &again.body()[..]), (201, &b"paid"[..]));
        assert_eq!(again.headers().get_all(LINK).iter().count(), 2);
        assert!(again.headers().get(SET_COOKIE).is_none());
        assert!(Saved::decode::<Bytes>(bytes[..5].to_vec()).is_none());
    }
}
