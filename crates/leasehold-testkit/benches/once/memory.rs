//! What the library itself costs: an engine in this process, without a driver or
//! a network, and the HTTP layer on it. Time that this thread has worked, because
//! nothing of it waits.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use http::{HeaderValue, Request, Response, header};
use leasehold::Locks;
use leasehold_http::{IDEMPOTENCY_KEY, IdempotencyLayer};
use rustix::time::{ClockId, clock_gettime};
use tower::{Layer, Service};

use super::{Outcome, ROUNDS, one, row};

const COUNT: u32 = 20_000;

/// The processor time of this thread.
fn worked() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), u32::try_from(t.tv_nsec).unwrap_or_default())
}

/// The time of one call, the best of several rounds: `work` is told round and
/// number.
async fn each(mut work: impl AsyncFnMut(u32, u32) -> Outcome) -> Outcome<Duration> {
    let mut best = Duration::MAX;
    for round in 0..ROUNDS {
        let start = worked();
        for n in 0..COUNT {
            work(round, n).await?;
        }
        best = best.min((worked() - start) / COUNT);
    }
    Ok(best)
}

pub(crate) async fn report() -> Outcome {
    let once = Locks::memory().once("m");
    let mutex = Locks::memory().mutex("m");
    let bare = each(async |_, _| {
        mutex.lock().await?.release().await?;
        Ok(())
    })
    .await?;
    let fresh = each(async |round, n| one(&once, format!("{round} {n}")).await).await?;
    let again = each(async |_, n| one(&once, format!("0 {}", n % 500)).await).await?;
    row("memory: fresh", fresh, "2 µs", Duration::from_micros(2));
    row("memory: fresh", fresh, "lock + release of a mutex", bare);
    row("memory: replay", again, "0.6 µs", Duration::from_nanos(600));
    layer().await
}

/// What the layer adds to a service that does nothing.
async fn layer() -> Outcome {
    let mut app = IdempotencyLayer::stripe(Locks::memory().once("h")).layer(Paid);
    let plain = each(async |_, _| call(&mut Paid, asked(None)).await).await?;
    let passed = each(async |_, _| call(&mut app, asked(None)).await).await?;
    let key = |round: u32, n: u32| Some(format!("\"{round} {n}\""));
    let keyed = each(async |round, n| call(&mut Paid, asked(key(round, n))).await).await?;
    let fresh = each(async |round, n| call(&mut app, asked(key(round, n))).await).await?;
    let again = each(async |_, n| call(&mut app, asked(key(0, n % 500))).await).await?;
    let added = |all: Duration, bare: Duration| all.saturating_sub(bare);
    let (little, much) = (Duration::from_nanos(300), Duration::from_micros(3));
    row("HTTP layer: adds to a request without a key", added(passed, plain), "0.3 µs", little);
    row("HTTP layer: adds to a fresh request", added(fresh, keyed), "3 µs", much);
    row("HTTP layer: adds to a replay", added(again, keyed), "3 µs", much);
    Ok(())
}

fn asked(key: Option<String>) -> Request<Body> {
    let mut request = Request::new(Body::from("amount=10&to=ann"));
    *request.method_mut() = http::Method::POST;
    if let Some(key) = key.and_then(|key| HeaderValue::from_str(&key).ok()) {
        request.headers_mut().insert(IDEMPOTENCY_KEY, key);
    }
    request
}

async fn call<S, R>(app: &mut S, request: Request<Body>) -> Outcome
where
    S: Service<Request<Body>, Response = Response<R>, Error = Infallible>,
{
    black_box(app.call(request).await?);
    Ok(())
}

/// A service that has done its work before it was asked.
#[derive(Clone)]
struct Paid;

impl Service<Request<Body>> for Paid {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        black_box(request);
        let mut response = Response::new(Body::from("{\"paid\":true}"));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        ready(Ok(response))
    }
}
