//! What a client is told when there is no response: `application/problem+json`.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use leasehold::once::Refusal;

const TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");
const SOON: HeaderValue = HeaderValue::from_static("1");

/// A problem: a status, a word for programs and a sentence for people. Neither
/// holds anything of the client's, nor of the server's errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    word: &'static str,
    title: &'static str,
    again: bool,
}

impl Problem {
    const fn new(status: StatusCode, word: &'static str, title: &'static str) -> Self {
        Self { status, word, title, again: false }
    }

    /// The same, which is worth a retry.
    const fn passing(self) -> Self {
        Self { again: true, ..self }
    }

    pub(crate) const fn missing() -> Self {
        let title = "This operation needs an Idempotency-Key header";
        Self::new(StatusCode::BAD_REQUEST, "idempotency-key-missing", title)
    }

    pub(crate) const fn bad(title: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "idempotency-key-invalid", title)
    }

    pub(crate) const fn too_large() -> Self {
        let title = "The request body is too large for an idempotent request";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "request-too-large", title)
    }

    pub(crate) const fn unreadable() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "request-unreadable", "The request body did not arrive")
    }

    pub(crate) const fn running() -> Self {
        let title = "A request with this Idempotency-Key is being processed";
        Self::new(StatusCode::CONFLICT, "idempotency-key-in-use", title).passing()
    }

    pub(crate) const fn away() -> Self {
        let title = "It cannot be told now whether this request is new; try again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "idempotency-unavailable", title).passing()
    }

    const fn mismatch(status: StatusCode) -> Self {
        let title = "This Idempotency-Key was used for another request";
        Self::new(status, "idempotency-key-reused", title)
    }

    const fn unknown() -> Self {
        let title = "A request with this Idempotency-Key was cut off; its outcome is unknown";
        Self::new(StatusCode::CONFLICT, "idempotency-outcome-unknown", title)
    }

    const fn gone() -> Self {
        let title = "This request was done; its response is not available any more";
        Self::new(StatusCode::GONE, "idempotency-response-gone", title)
    }

    pub(crate) const fn broken() -> Self {
        let title = "This request was done; its response was lost on the way";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "idempotency-response-lost", title)
    }

    #[cfg(feature = "axum")]
    pub(crate) const fn no_token() -> Self {
        let title = "This form needs a one-time token";
        Self::new(StatusCode::BAD_REQUEST, "token-missing", title)
    }

    const fn token() -> Self {
        let title = "The token is not valid; ask for a new one";
        Self::new(StatusCode::FORBIDDEN, "token-invalid", title)
    }

    /// What a refusal means to a client.
    pub(crate) const fn of(refusal: &Refusal, mismatch: StatusCode) -> Self {
        match refusal {
            Refusal::Mismatch => Self::mismatch(mismatch),
            Refusal::Running(_) => Self::running(),
            Refusal::Unknown { .. } => Self::unknown(),
            Refusal::Gone { .. } | Refusal::NotKept { .. } => Self::gone(),
            Refusal::Token(_) => Self::token(),
            _ => Self::away(),
        }
    }

    pub(crate) fn response<B: From<Bytes>>(self) -> Response<B> {
        let Self { status, word, title, again } = self;
        // Our own words: nothing in them has to be escaped.
        let text = format!(
            "{{\"type\":\"urn:leasehold:problem:{word}\",\"title\":\"{title}\",\"status\":{}}}",
            status.as_u16()
        );
        let mut response = Response::new(B::from(Bytes::from(text)));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, TYPE);
        if again {
            response.headers_mut().insert(header::RETRY_AFTER, SOON);
        }
        response
    }
}
