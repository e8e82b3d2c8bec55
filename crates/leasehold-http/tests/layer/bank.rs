//! A service under test: a bank that counts what it does, on two hosts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Extension;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use leasehold::Locks;
use leasehold::once::{Once, Turn};
use leasehold_http::{IDEMPOTENCY_KEY, IdempotencyLayer, REPLAYED};
use leasehold_testkit::conformance::Store;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::ServiceExt;

pub(crate) type Tested<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// No test is about how fast an engine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// The clients of two hosts that share a store.
pub(crate) struct Stage {
    pub(crate) hosts: [Locks; 2],
}

impl Stage {
    pub(crate) async fn on(store: &Store) -> Tested<Self> {
        let (a, b) = (store.open().await?, store.open().await?);
        Ok(Self { hosts: [a.into_locks(), b.into_locks()] })
    }

    /// A bank on both, behind this layer.
    pub(crate) fn bank(&self, layer: impl Fn(Once) -> IdempotencyLayer) -> Bank {
        self.bank_that(Arc::default(), layer)
    }

    /// The same, sharing what it counts, and whose work waits, with another.
    pub(crate) fn bank_that(
        &self,
        work: Arc<Work>,
        layer: impl Fn(Once) -> IdempotencyLayer,
    ) -> Bank {
        let app = |locks: &Locks| app(&work, layer(locks.once("pay")).patience(PATIENCE));
        let apps = [app(&self.hosts[0]), app(&self.hosts[1])];
        Bank { work, apps, turn: Arc::default() }
    }
}

/// What the bank does.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) runs: AtomicU32,
    /// Whether a payment waits for its `go`.
    pub(crate) waits: bool,
    pub(crate) go: Notify,
}

/// A bank on two hosts, which are asked in turn.
#[derive(Clone)]
pub(crate) struct Bank {
    work: Arc<Work>,
    apps: [Router; 2],
    turn: Arc<AtomicUsize>,
}

impl Bank {
    pub(crate) fn runs(&self) -> u32 {
        self.work.runs.load(Ordering::Acquire)
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Tested<Told> {
        let app = self.apps[self.turn.fetch_add(1, Ordering::AcqRel) % 2].clone();
        let (parts, body) = app.oneshot(request).await?.into_parts();
        let body = body.collect().await?.to_bytes().to_vec();
        Ok(Told { status: parts.status.as_u16(), headers: parts.headers, body })
    }
}

fn app(work: &Arc<Work>, layer: IdempotencyLayer) -> Router {
    let paid = Arc::clone(work);
    let pay = async move |Extension(turn): Extension<Turn>, body: String| {
        assert!(turn.fence() > 0);
        let run = paid.runs.fetch_add(1, Ordering::AcqRel) + 1;
        if paid.waits {
            paid.go.notified().await;
        }
        respond(run, &body)
    };
    let plain = Arc::clone(work);
    let open = async move || plain.runs.fetch_add(1, Ordering::AcqRel).to_string();
    let paid = Router::new().route("/pay", post(pay)).layer(layer.clone());
    paid.merge(Router::new().route("/open", post(open.clone()).get(open)).layer(layer))
}

/// What the body asks for: a status, or a size.
fn respond(run: u32, body: &str) -> Response {
    if let Some(status) = body.strip_prefix("status ") {
        let status = StatusCode::from_u16(status.parse().unwrap()).unwrap();
        return (status, format!("run {run}")).into_response();
    }
    if let Some(size) = body.strip_prefix("size ") {
        return "x".repeat(size.parse().unwrap()).into_response();
    }
    let headers = [
        ("content-type", "application/json"),
        ("location", "/payments/1"),
        ("set-cookie", "secret"),
        ("x-other", "y"),
    ];
    (StatusCode::CREATED, headers, json!({ "run": run }).to_string()).into_response()
}

/// A payment.
pub(crate) fn ask(key: Option<&str>, body: &str) -> Request<Body> {
    let request = Request::post("/pay").header(header::CONTENT_TYPE, "application/json");
    let request = match key {
        Some(key) => request.header(IDEMPOTENCY_KEY, key),
        None => request,
    };
    request.body(Body::from(body.to_owned())).unwrap()
}

/// What a client is told.
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Told {
    pub(crate) fn replayed(&self) -> bool {
        self.headers.contains_key(REPLAYED)
    }

    /// The word of a problem.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json");
        let value: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(value["status"], self.status);
        value["type"].as_str().unwrap().rsplit(':').next().unwrap().to_owned()
    }
}
