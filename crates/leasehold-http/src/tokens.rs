//! Routes that issue and redeem one-time tokens: for forms, where no client
//! makes up a key.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use leasehold::once::{Done, Fingerprint, Kept, OnceError, Tokens, Turn};

use crate::body::{Whole, read};
use crate::header::{REPLAYED, REPLAYED_AGE};
use crate::problem::Problem;
use crate::saved::Saved;

/// The header that carries a token, where it is not a field of the form.
pub const ONE_TIME_TOKEN: HeaderName = HeaderName::from_static("one-time-token");
/// The field of a form that carries a token.
pub const FIELD: &str = "one_time_token";

/// The largest response to keep.
const MAX_RESPONSE: usize = 256 * 1024;

type Subject = Arc<dyn Fn(&HeaderMap) -> String + Send + Sync>;

/// Routes for the tokens of one scope.
///
/// ```
/// use axum::{Router, response::IntoResponse};
/// use leasehold::{Locks, once::TokenKeys};
/// use leasehold_http::tokens::TokenRoutes;
///
/// # let secret = [7; 32];
/// let orders = Locks::memory().once("orders");
/// let forms = TokenRoutes::new(orders.tokens(TokenKeys::new(1, &secret)?));
/// let app: Router = Router::new()
///     .route("/order/token", forms.issue())
///     .route("/order", forms.redeem(async |_turn, form| format!("ordered {form:?}").into_response()));
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone)]
pub struct TokenRoutes {
    tokens: Tokens,
    ttl: Duration,
    subject: Subject,
}

impl fmt::Debug for TokenRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenRoutes").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

impl TokenRoutes {
    /// Tokens that are good for a quarter of an hour, and for everybody.
    #[must_use]
    pub fn new(tokens: Tokens) -> Self {
        let tokens = tokens.max_outcome(MAX_RESPONSE + 16 * 1024);
        Self { tokens, ttl: Duration::from_secs(900), subject: Arc::new(|_| String::new()) }
    }

    /// How long a token is good for.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Whom a token is for, such as a session: nobody else can redeem it.
    #[must_use]
    pub fn subject(mut self, of: impl Fn(&HeaderMap) -> String + Send + Sync + 'static) -> Self {
        self.subject = Arc::new(of);
        self
    }

    /// A token for whoever these headers are of, to be put into a form.
    #[must_use]
    pub fn token_for(&self, headers: &HeaderMap) -> String {
        self.tokens.issue(&(self.subject)(headers), self.ttl)
    }

    /// `GET`: a new token, as JSON. Nothing is written.
    pub fn issue<S: Clone + Send + Sync + 'static>(&self) -> MethodRouter<S> {
        let routes = self.clone();
        get(async move |headers: HeaderMap| {
            let (token, seconds) = (routes.token_for(&headers), routes.ttl.as_secs());
            let text = format!("{{\"token\":\"{token}\",\"expires_in\":{seconds}}}");
            let mut response = Response::new(Body::from(text));
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            response
                .headers_mut()
                .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        })
    }

    /// `POST`: runs `work` with the body if the token in the header or in the
    /// field `one_time_token` was not redeemed; otherwise gives the first
    /// response. A response of 500 and above is not recorded.
    ///
    /// The work is a task of its own: it goes on if the client hangs up.
    pub fn redeem<S, F, Fut>(&self, work: F) -> MethodRouter<S>
    where
        S: Clone + Send + Sync + 'static,
        F: Fn(Turn, Bytes) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Response> + Send + 'static,
    {
        let routes = self.clone();
        post(async move |headers: HeaderMap, body: Bytes| {
            let Some(token) = token(&headers, &body) else { return Problem::no_token().response() };
            let subject = (routes.subject)(&headers);
            let about = Fingerprint::of_bytes(&body);
            let run = async move |turn| keep(work(turn, body).await).await;
            let redeem = async move { routes.tokens.redeem(&token, &subject, about, run).await };
            answer(in_a_task(redeem).await)
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "handlers run where the service does")]
async fn in_a_task<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> Option<T> {
    match tokio::spawn(task).await {
        Ok(done) => Some(done),
        Err(died) => match died.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}

fn token(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let header = headers.get(ONE_TIME_TOKEN).and_then(|value| value.to_str().ok());
    let form = std::str::from_utf8(body).ok().and_then(|form| {
        let pairs = form.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(field, _)| *field == FIELD).map(|(_, token)| token)
    });
    header.or(form).map(str::to_owned)
}

/// A response that is not recorded.
struct Passed(Response);

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the response {} is not recorded", self.0.status())
    }
}

/// A response as it is kept; one that cannot be is given once.
async fn keep(response: Response) -> Result<Kept, Passed> {
    if response.status().is_server_error() {
        return Err(Passed(response));
    }
    let (parts, body) = response.into_parts();
    match read(body, MAX_RESPONSE).await {
        Ok(Whole::Whole(body)) => {
            let kept: Vec<_> = parts.headers.keys().cloned().collect();
            Ok(Kept::from(Saved::encode(&parts, &body, &kept)))
        }
        _ => Ok(Kept::nothing()),
    }
}

fn answer(done: Option<Result<Done, OnceError<Passed>>>) -> Response {
    let done = match done {
        Some(Ok(done)) => done,
        Some(Err(OnceError::Failed(Passed(response)))) => return response,
        Some(Err(OnceError::Unrecorded { outcome, cause })) if !cause.is_lost() => {
            return Saved::decode(outcome).unwrap_or_else(|| Problem::broken().response());
        }
        Some(Err(OnceError::Refused(refusal))) => {
            return Problem::of(&refusal, StatusCode::UNPROCESSABLE_ENTITY).response();
        }
        _ => return Problem::away().response(),
    };
    let age = done.age.as_secs();
    let replayed = done.replayed;
    let Some(mut response) = Saved::decode::<Body>(done.outcome) else {
        return Problem::broken().response();
    };
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        response.headers_mut().insert(REPLAYED_AGE, HeaderValue::from(age));
    }
    response
}
