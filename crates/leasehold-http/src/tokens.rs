//! Routes that issue and redeem one-time tokens: for forms, where no client
//! makes up a key.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use leasehold::once::{Done, Fingerprint, Kept, OnceError, Tokens, Turn};

use crate::body::{Whole, read};
use crate::header::{REPLAYED, REPLAYED_AGE};
use crate::policy::kept_headers;
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
    headers: Vec<HeaderName>,
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
        let (ttl, subject) = (Duration::from_secs(900), Arc::new(|_: &HeaderMap| String::new()));
        Self { tokens, ttl, subject, headers: kept_headers() }
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

    /// One more header that a replayed response has: by default those that
    /// describe its body, and `Location`. Never keep `Set-Cookie` lightly.
    #[must_use]
    pub fn keep_header(mut self, header: HeaderName) -> Self {
        self.headers.push(header);
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
    /// response, with the headers that are kept. A response of 500 and above is
    /// not recorded; one that is too large, or has trailers, is given once.
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
            let given = Given::default();
            let slot = Arc::clone(&given);
            let redeem = async move {
                let kept = &routes.headers;
                let run = async |turn| keep(work(turn, body).await, kept, &slot).await;
                routes.tokens.redeem(&token, &subject, about, run).await
            };
            answer(in_a_task(redeem).await, &given)
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

/// What the work has answered, with all its headers, for whoever came first.
type Given = Arc<Mutex<Option<Response>>>;

fn give(given: &Given, response: Response) {
    *given.lock().unwrap_or_else(PoisonError::into_inner) = Some(response);
}

fn take(given: &Given) -> Response {
    let response = given.lock().unwrap_or_else(PoisonError::into_inner).take();
    response.unwrap_or_else(|| Problem::broken().response())
}

/// A response that is not recorded.
struct Passed(StatusCode);

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the response {} is not recorded", self.0)
    }
}

/// A response as it is kept; one that cannot be is given once.
async fn keep(response: Response, kept: &[HeaderName], given: &Given) -> Result<Kept, Passed> {
    let status = response.status();
    if status.is_server_error() {
        give(given, response);
        return Err(Passed(status));
    }
    let (parts, body) = response.into_parts();
    let (saved, body) = match read(body, MAX_RESPONSE).await {
        Ok(Whole::All(body)) => (Kept::from(Saved::encode(&parts, &body, kept)), Body::from(body)),
        Ok(Whole::Longer(rest) | Whole::Trailed(rest)) => (Kept::nothing(), Body::new(rest)),
        // It was done, and nobody will know more about it.
        Err(_) => return Ok(Kept::nothing()),
    };
    give(given, Response::from_parts(parts, body));
    Ok(saved)
}

fn answer(done: Option<Result<Done, OnceError<Passed>>>, given: &Given) -> Response {
    match done {
        Some(Ok(done)) if done.replayed => replayed(done),
        Some(Ok(_) | Err(OnceError::Failed(_))) => take(given),
        Some(Err(OnceError::Unrecorded { cause, .. })) if !cause.is_lost() => take(given),
        Some(Err(OnceError::Refused(refusal))) => {
            Problem::of(&refusal, StatusCode::UNPROCESSABLE_ENTITY).response()
        }
        _ => Problem::away().response(),
    }
}

fn replayed(done: Done) -> Response {
    let age = done.age.as_secs();
    let Some(mut response) = Saved::decode::<Body>(done.outcome) else {
        return Problem::broken().response();
    };
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response.headers_mut().insert(REPLAYED_AGE, HeaderValue::from(age));
    response
}
