//! What a route does about keys.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderName, Method, StatusCode, header};
use leasehold::once::Fields;

/// How clients write their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// In double quotes, as the draft says.
    Quoted,
    /// With or without them.
    Any,
}

type Caller = Arc<dyn Fn(&Parts) -> String + Send + Sync>;
type Records = Arc<dyn Fn(StatusCode) -> bool + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Policy {
    pub(crate) methods: Vec<Method>,
    pub(crate) required: bool,
    pub(crate) spelling: Spelling,
    /// What a key that was used for something else is answered.
    pub(crate) mismatch: StatusCode,
    pub(crate) records: Records,
    pub(crate) caller: Caller,
    pub(crate) fields: Fields,
    pub(crate) headers: Vec<HeaderName>,
    pub(crate) max_request: usize,
    pub(crate) max_response: usize,
    /// How long to wait for the first request with the same key.
    pub(crate) wait: Duration,
    /// How much longer the engine may take to say whether the request is new.
    pub(crate) patience: Duration,
    pub(crate) fail_open: bool,
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("required", &self.required).finish_non_exhaustive()
    }
}

impl Policy {
    /// Everything that was run is recorded, errors too.
    pub(crate) fn draft() -> Self {
        Self {
            methods: vec![Method::POST, Method::PATCH],
            required: true,
            spelling: Spelling::Quoted,
            mismatch: StatusCode::UNPROCESSABLE_ENTITY,
            records: Arc::new(|_| true),
            caller: Arc::new(|_| String::new()),
            fields: Fields::all(),
            headers: kept_headers(),
            max_request: 1024 * 1024,
            max_response: 256 * 1024,
            wait: Duration::ZERO,
            patience: Duration::from_secs(1),
            fail_open: false,
        }
    }

    /// What was refused before it ran is not recorded.
    pub(crate) fn stripe() -> Self {
        let refused = [400, 401, 403, 404, 409, 422, 429];
        Self {
            required: false,
            spelling: Spelling::Any,
            mismatch: StatusCode::BAD_REQUEST,
            records: Arc::new(move |status| !refused.contains(&status.as_u16())),
            ..Self::draft()
        }
    }

    /// What failed is run again under the same key.
    pub(crate) fn stripe_v2() -> Self {
        Self { records: Self::two_xx_only().records, ..Self::stripe() }
    }

    /// Only what succeeded is recorded; all else may be tried again.
    pub(crate) fn two_xx_only() -> Self {
        let records = |status: StatusCode| status.is_success();
        Self { spelling: Spelling::Any, records: Arc::new(records), ..Self::draft() }
    }
}

/// What every replay has, of a key or of a token: what describes the body or
/// says where to go. No cookies: they are for one client at one time.
pub(crate) fn kept_headers() -> Vec<HeaderName> {
    vec![
        header::CONTENT_TYPE,
        header::CONTENT_LANGUAGE,
        header::CONTENT_ENCODING,
        header::CONTENT_LOCATION,
        header::CONTENT_DISPOSITION,
        header::LOCATION,
        header::ETAG,
        header::LAST_MODIFIED,
        header::LINK,
    ]
}
