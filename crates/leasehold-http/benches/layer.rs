//! What the layer adds to a request, on the memory engine and without a network:
//! time that this thread has worked, because nothing of it waits. `cargo xtask
//! bench --once` runs it.

#![allow(clippy::print_stdout, reason = "that is what it is for")]

use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response, header};
use leasehold::Locks;
use leasehold_http::{IDEMPOTENCY_KEY, IdempotencyLayer};
use leasehold_testkit::worked;
use tower::{Layer, Service};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: u32 = 5;
const COUNT: u32 = 20_000;

fn main() -> Outcome {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(report())
}

/// The time of one call.
async fn each(work: impl AsyncFnMut(u32, u32) -> Outcome) -> Outcome<Duration> {
    worked::each(ROUNDS, COUNT, work).await
}

/// What the layer adds to a service that does nothing.
async fn report() -> Outcome {
    let mut app = IdempotencyLayer::stripe(Locks::memory().once("h")).layer(Paid);
    let plain = each(async |_, _| call(&mut Paid, asked(None)).await).await?;
    let passed = each(async |_, _| call(&mut app, asked(None)).await).await?;
    let key = |round: u32, n: u32| Some(format!("\"{round} {n}\""));
    let keyed = each(async |round, n| call(&mut Paid, asked(key(round, n))).await).await?;
    let fresh = each(async |round, n| call(&mut app, asked(key(round, n))).await).await?;
    let again = each(async |_, n| call(&mut app, asked(key(0, n % 500))).await).await?;
    let added = |all: Duration, bare: Duration| all.saturating_sub(bare);
    println!("| HTTP layer | adds | goal |\n|---|---|---|");
    println!("| to a request without a key | {:.2?} | 0.3 µs |", added(passed, plain));
    println!("| to a fresh request | {:.2?} | 3 µs |", added(fresh, keyed));
    println!("| to a replay | {:.2?} | 3 µs |", added(again, keyed));
    Ok(())
}

fn asked(key: Option<String>) -> Request<Body> {
    let mut request = Request::new(Body::from("amount=10&to=ann"));
    *request.method_mut() = Method::POST;
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
