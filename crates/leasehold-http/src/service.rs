//! The service: one request, from its key to its response.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, Response, header};
use http_body::Body;
use http_body_util::{Either, Full};
use leasehold::once::{Done, Fingerprint, Kept, Once, OnceError, Refusal, Turn};
use tokio::sync::Notify;
use tower_service::Service;

use crate::body::{Rest, Whole, read};
use crate::header::{self as key_header, REPLAYED, REPLAYED_AGE, Said};
use crate::outlive::Outlive;
use crate::policy::Policy;
use crate::problem::Problem;
use crate::saved::Saved;

/// The body of a response: one that was read whole, or one that is passed on.
pub type Reply<R> = Either<Full<Bytes>, Rest<R>>;

/// A service whose requests run once for each key; see
/// [`IdempotencyLayer`](crate::IdempotencyLayer). Handlers find the
/// [`Turn`] of their run, with its fence, among the extensions of the request.
#[derive(Clone, Debug)]
pub struct Idempotency<S> {
    inner: S,
    route: Arc<Route>,
}

/// What all requests of a route share.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) once: Once,
    pub(crate) policy: Policy,
}

impl<S> Idempotency<S> {
    pub(crate) const fn new(inner: S, route: Arc<Route>) -> Self {
        Self { inner, route }
    }
}

impl<S, B, R> Service<Request<B>> for Idempotency<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body + From<Bytes> + Send + 'static,
    B::Data: Send,
    B::Error: Send,
    R: Body + Send + 'static,
    R::Data: Send,
    R::Error: Send,
{
    type Response = Response<Reply<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready goes with the request.
        let another = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, another);
        let policy = &self.route.policy;
        let said = if policy.methods.contains(request.method()) {
            key_header::read(request.headers(), policy.spelling)
        } else {
            Said::Nothing
        };
        let problem = match said {
            Said::Key(key) => {
                return Box::pin(keyed(inner, Arc::clone(&self.route), key, request));
            }
            Said::Wrong(why) => Problem::bad(why),
            Said::Nothing if policy.required && policy.methods.contains(request.method()) => {
                Problem::missing()
            }
            Said::Nothing => {
                let response = inner.call(request);
                return Box::pin(async move { Ok(response.await?.map(passed)) });
            }
        };
        Box::pin(async move { Ok(told(problem)) })
    }
}

fn passed<R>(body: R) -> Reply<R> {
    Either::Right(Rest::all(body))
}

fn told<R>(problem: Problem) -> Response<Reply<R>> {
    problem.response::<Full<Bytes>>().map(Either::Left)
}

/// What both the caller and the run may take out, and who comes first has it.
type Slot<T> = Arc<Mutex<Option<T>>>;

fn slot<T>(item: Option<T>) -> Slot<T> {
    Arc::new(Mutex::new(item))
}

fn take<T>(slot: &Slot<T>) -> Option<T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Why a run has no outcome to record; what it has come to is in its slot.
enum Stop {
    /// The service failed, or its response is not one to record.
    Pass,
    /// The caller did not wait for it to begin.
    GaveUp,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the response is not recorded")
    }
}

async fn keyed<S, B, R>(
    inner: S,
    route: Arc<Route>,
    key: String,
    request: Request<B>,
) -> Result<Response<Reply<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body + From<Bytes> + Send + 'static,
    B::Data: Send,
    B::Error: Send,
    R: Body + Send + 'static,
    R::Data: Send,
    R::Error: Send,
{
    let policy = &route.policy;
    let (parts, body) = request.into_parts();
    let body = match read(body, policy.max_request).await {
        Ok(Whole::All(body)) => body,
        // A service that reads bodies whole has no use for trailers.
        Ok(Whole::Trailed(body)) => body.into_data(),
        Ok(Whole::Longer(_)) => return Ok(told(Problem::too_large())),
        Err(_) => return Ok(told(Problem::unreadable())),
    };
    let caller = (policy.caller)(&parts);
    // The length first, so that no two pairs are written the same way.
    let key = format!("{}:{caller}{key}", caller.len());
    let about = fingerprint(policy, &parts, &body);
    let work = slot(Some((inner, Request::from_parts(parts, B::from(body)))));
    let run = Run { route, answer: Arc::default(), work };
    run.finish(key, about).await
}

/// Method, target and body; JSON by what it means.
fn fingerprint(policy: &Policy, parts: &Parts, body: &[u8]) -> Fingerprint {
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let json = kind.is_some_and(|kind| kind.contains("json"));
    let meant = json.then(|| policy.fields.of_json(body).ok()).flatten();
    let meant = meant.unwrap_or_else(|| Fingerprint::of_bytes(body));
    let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
    Fingerprint::of_bytes(format!("{} {target} {meant:?}", parts.method).as_bytes())
}

/// What the service made of a request, with all its headers.
struct Answer<E, R> {
    given: Slot<Result<Response<Reply<R>>, E>>,
    there: Notify,
}

impl<E, R> Default for Answer<E, R> {
    fn default() -> Self {
        Self { given: slot(None), there: Notify::new() }
    }
}

impl<E, R> Answer<E, R> {
    /// If the turn is over, another may be at it by now: then it is not for us to
    /// say which answer counts, and nobody hurries.
    fn give(&self, turn: &Turn, response: Result<Response<Reply<R>>, E>) {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = Some(response);
        if turn.check().is_ok() {
            self.there.notify_one();
        }
    }

    fn take(&self) -> Result<Response<Reply<R>>, E> {
        take(&self.given).unwrap_or_else(|| Ok(told(Problem::broken())))
    }
}

/// One request with a key.
struct Run<S, B, R>
where
    S: Service<Request<B>>,
{
    route: Arc<Route>,
    /// The service and the request, until one of them has begun or given up.
    work: Slot<(S, Request<B>)>,
    answer: Arc<Answer<S::Error, R>>,
}

type Ended = Result<Done, OnceError<Stop>>;

impl<S, B, R> Run<S, B, R>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Send + 'static,
    R: Body + Send + 'static,
    R::Data: Send,
    R::Error: Send,
{
    /// The work goes on if the client hangs up.
    async fn finish(self, key: String, about: Fingerprint) -> Result<Response<Reply<R>>, S::Error> {
        let route = Arc::clone(&self.route);
        let (work, answer) = (Arc::clone(&self.work), Arc::clone(&self.answer));
        let mut run = Outlive::new(async move {
            let policy = &route.policy;
            let run = async |turn| carry_out(&work, &answer, policy, turn).await;
            route.once.run(key, about, run).await
        });
        let ended = tokio::select! {
            biased;
            ended = &mut run => ended,
            work = self.given_up() => return self.without(Some(work)).await,
            () = self.held_back() => return self.answer.take(),
        };
        self.conclude(ended).await
    }

    /// Resolves with the work if that has not begun when the time is up; never,
    /// once it has begun: it takes as long as it takes.
    #[expect(clippy::disallowed_methods, reason = "a service waits where it runs")]
    async fn given_up(&self) -> (S, Request<B>) {
        let begun = self.work.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        if !begun {
            let policy = &self.route.policy;
            tokio::time::sleep(policy.wait + policy.patience).await;
            if let Some(work) = take(&self.work) {
                return work;
            }
        }
        std::future::pending().await
    }

    /// Resolves when the answer has waited for its record for too long: the
    /// engine is away, and learns of it later, if it can.
    #[expect(clippy::disallowed_methods, reason = "a service waits where it runs")]
    async fn held_back(&self) {
        self.answer.there.notified().await;
        tokio::time::sleep(self.route.policy.patience).await;
    }

    /// The engine is away: runs unprotected, if that was chosen.
    async fn without(&self, work: Option<(S, Request<B>)>) -> Result<Response<Reply<R>>, S::Error> {
        match work.filter(|_| self.route.policy.fail_open) {
            Some((mut inner, request)) => Ok(inner.call(request).await?.map(passed)),
            None => Ok(told(Problem::away())),
        }
    }

    async fn conclude(&self, ended: Ended) -> Result<Response<Reply<R>>, S::Error> {
        match ended {
            Ok(done) if done.replayed => Ok(replayed(done)),
            Ok(_) | Err(OnceError::Failed(_)) => self.answer.take(),
            // Another may have run it too: what was recorded is the answer.
            Err(OnceError::Unrecorded { cause, .. }) if cause.is_lost() => {
                Ok(told(Problem::away()))
            }
            Err(OnceError::Unrecorded { .. }) => self.answer.take(),
            Err(OnceError::Refused(Refusal::Engine(_))) => self.without(take(&self.work)).await,
            Err(OnceError::Refused(refusal)) => {
                Ok(told(Problem::of(&refusal, self.route.policy.mismatch)))
            }
            Err(_) => Ok(told(Problem::away())),
        }
    }
}

/// Runs the service, and reads its response as far as it is to be kept.
async fn carry_out<S, B, R>(
    work: &Slot<(S, Request<B>)>,
    answer: &Answer<S::Error, R>,
    policy: &Policy,
    turn: Turn,
) -> Result<Kept, Stop>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    let Some((mut inner, mut request)) = take(work) else { return Err(Stop::GaveUp) };
    request.extensions_mut().insert(turn.clone());
    let response = match inner.call(request).await {
        Ok(response) if (policy.records)(response.status()) => response,
        other => {
            answer.give(&turn, other.map(|response| response.map(passed)));
            return Err(Stop::Pass);
        }
    };
    let (parts, body) = response.into_parts();
    let (kept, body) = match read(body, policy.max_response).await {
        Ok(Whole::All(body)) => {
            let saved = Saved::encode(&parts, &body, &policy.headers);
            (Kept::from(saved), Either::Left(Full::new(body)))
        }
        Ok(Whole::Longer(rest) | Whole::Trailed(rest)) => (Kept::nothing(), Either::Right(rest)),
        // It was done, and nobody will know more about it.
        Err(_) => return Ok(Kept::nothing()),
    };
    answer.give(&turn, Ok(Response::from_parts(parts, body)));
    Ok(kept)
}

fn replayed<R>(done: Done) -> Response<Reply<R>> {
    let age = done.age.as_secs();
    let Some(mut response) = Saved::decode::<Full<Bytes>>(done.outcome) else {
        return told(Problem::broken());
    };
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response.headers_mut().insert(REPLAYED_AGE, HeaderValue::from(age));
    response.map(Either::Left)
}
