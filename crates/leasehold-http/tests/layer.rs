//! The layer, scenario by scenario: the header draft, and what other presets
//! make of it.
#![allow(clippy::disallowed_methods, reason = "tests run tasks of their own")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Extension;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use leasehold::Locks;
use leasehold::once::{Fields, Turn};
use leasehold_http::{IDEMPOTENCY_KEY, IdempotencyLayer, REPLAYED, REPLAYED_AGE};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::ServiceExt;

type Tested<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A service that counts what it does.
#[derive(Clone, Default)]
struct Bank {
    runs: Arc<AtomicU32>,
    go: Option<Arc<Notify>>,
}

impl Bank {
    fn app(&self, layer: IdempotencyLayer) -> Router {
        let bank = self.clone();
        let pay = async move |Extension(turn): Extension<Turn>, body: String| {
            assert!(turn.fence() > 0);
            let run = bank.runs.fetch_add(1, Ordering::AcqRel) + 1;
            if let Some(go) = &bank.go {
                go.notified().await;
            }
            respond(run, &body)
        };
        let plain = self.clone();
        let open = async move || plain.runs.fetch_add(1, Ordering::AcqRel).to_string();
        let paid = Router::new().route("/pay", post(pay)).layer(layer.clone());
        paid.merge(Router::new().route("/open", post(open.clone()).get(open)).layer(layer))
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::Acquire)
    }
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

fn ask(key: Option<&str>, body: &str) -> Request<Body> {
    let request = Request::post("/pay").header(header::CONTENT_TYPE, "application/json");
    let request = match key {
        Some(key) => request.header(IDEMPOTENCY_KEY, key),
        None => request,
    };
    request.body(Body::from(body.to_owned())).unwrap()
}

struct Told {
    status: u16,
    headers: http::HeaderMap,
    body: Vec<u8>,
}

impl Told {
    fn replayed(&self) -> bool {
        self.headers.contains_key(REPLAYED)
    }

    /// The word of a problem.
    fn problem(&self) -> String {
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json");
        let value: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(value["status"], self.status);
        value["type"].as_str().unwrap().rsplit(':').next().unwrap().to_owned()
    }
}

async fn send(app: &Router, request: Request<Body>) -> Tested<Told> {
    let (parts, body) = app.clone().oneshot(request).await?.into_parts();
    let body = body.collect().await?.to_bytes().to_vec();
    Ok(Told { status: parts.status.as_u16(), headers: parts.headers, body })
}

fn draft() -> IdempotencyLayer {
    IdempotencyLayer::draft(Locks::memory().once("pay"))
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_response() -> Tested {
    let bank = Bank::default();
    let app = bank.app(draft());
    let first = send(&app, ask(Some("\"k\""), r#"{"a":1,"b":2}"#)).await?;
    assert_eq!((first.status, first.replayed()), (201, false));
    assert!(first.headers.contains_key("set-cookie"), "the first has all its headers");
    let again = send(&app, ask(Some("\"k\""), r#"{ "b": 2.0, "a": 1 }"#)).await?;
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert!(again.replayed() && again.headers.contains_key(REPLAYED_AGE));
    assert_eq!(again.headers[header::LOCATION], "/payments/1");
    assert_eq!(again.headers[header::CONTENT_TYPE], "application/json");
    assert!(!again.headers.contains_key("set-cookie") && !again.headers.contains_key("x-other"));
    assert_eq!(bank.runs(), 1);
    Ok(())
}

#[tokio::test]
async fn keys_that_are_missing_bad_or_used_for_something_else_are_refused() -> Tested {
    let bank = Bank::default();
    let app = bank.app(draft());
    let missing = send(&app, ask(None, "{}")).await?;
    assert_eq!((missing.status, missing.problem().as_str()), (400, "idempotency-key-missing"));
    for bad in ["bare", "\"\"", "\"open"] {
        let bad = send(&app, ask(Some(bad), "{}")).await?;
        assert_eq!((bad.status, bad.problem().as_str()), (400, "idempotency-key-invalid"));
    }
    send(&app, ask(Some("\"k\""), "{}")).await?;
    let other = send(&app, ask(Some("\"k\""), r#"{"a":1}"#)).await?;
    assert_eq!((other.status, other.problem().as_str()), (422, "idempotency-key-reused"));
    let mut elsewhere = ask(Some("\"k\""), "{}");
    *elsewhere.uri_mut() = "/open".parse()?;
    assert_eq!(send(&app, elsewhere).await?.status, 422);
    assert_eq!(bank.runs(), 1);
    Ok(())
}

#[tokio::test]
async fn a_request_that_is_running_is_a_conflict_or_is_waited_for() -> Tested {
    let go = Arc::new(Notify::new());
    let bank = Bank { go: Some(Arc::clone(&go)), ..Bank::default() };
    let once = Locks::memory().once("pay");
    let app = bank.app(IdempotencyLayer::draft(once.clone()));
    let patient = bank.app(IdempotencyLayer::draft(once).wait(Duration::from_secs(60)));
    let running = tokio::spawn({
        let app = app.clone();
        async move { send(&app, ask(Some("\"k\""), "{}")).await.map_err(|error| error.to_string()) }
    });
    while bank.runs() == 0 {
        tokio::task::yield_now().await;
    }
    let busy = send(&app, ask(Some("\"k\""), "{}")).await?;
    assert_eq!((busy.status, busy.problem().as_str()), (409, "idempotency-key-in-use"));
    assert_eq!(busy.headers[header::RETRY_AFTER], "1");
    let waiting = tokio::spawn(async move {
        send(&patient, ask(Some("\"k\""), "{}")).await.map_err(|error| error.to_string())
    });
    tokio::task::yield_now().await;
    go.notify_one();
    let (first, waited) = (running.await??, waiting.await??);
    assert_eq!((first.status, &first.body), (waited.status, &waited.body));
    assert_eq!(bank.runs(), 1);
    Ok(())
}

/// A preset, and which statuses it keeps.
type Row<'a> = (&'a str, IdempotencyLayer, &'a [(u16, bool)]);

/// Which statuses are recorded, by preset.
#[tokio::test]
async fn presets_differ_in_what_they_record() -> Tested {
    let once = || Locks::memory().once("pay");
    let table: [Row<'_>; 3] = [
        ("draft", draft(), &[(200, true), (201, true), (400, true), (404, true), (500, true)]),
        (
            "stripe",
            IdempotencyLayer::stripe(once()),
            &[(200, true), (402, true), (400, false), (409, false), (429, false), (500, true)],
        ),
        (
            "2xx only",
            IdempotencyLayer::two_xx_only(once()),
            &[(200, true), (204, true), (301, false), (400, false), (500, false), (503, false)],
        ),
    ];
    for (preset, layer, rows) in table {
        let bank = Bank::default();
        let app = bank.app(layer);
        for (status, recorded) in rows {
            let (key, body) = (format!("\"{status}\""), format!("status {status}"));
            let first = send(&app, ask(Some(&key), &body)).await?;
            let again = send(&app, ask(Some(&key), &body)).await?;
            assert_eq!((first.status, again.status), (*status, *status), "{preset}");
            assert_eq!(again.replayed(), *recorded, "{preset} {status}");
            assert_eq!(first.body == again.body, *recorded, "{preset} {status}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn presets_differ_in_keys_and_mismatches() -> Tested {
    let bank = Bank::default();
    let app = bank.app(IdempotencyLayer::stripe(Locks::memory().once("pay")));
    let mut open = ask(None, "{}");
    *open.uri_mut() = "/open".parse()?;
    assert_eq!(send(&app, open).await?.status, 200, "a key is optional");
    assert_eq!(send(&app, ask(Some("bare"), "{}")).await?.status, 201);
    assert_eq!(send(&app, ask(Some("bare"), "[]")).await?.status, 400);
    let mut get = ask(Some("bare"), "");
    (*get.method_mut(), *get.uri_mut()) = (Method::GET, "/open".parse()?);
    assert_eq!(send(&app, get).await?.status, 200, "methods that are idempotent pass");
    Ok(())
}

#[tokio::test]
async fn callers_do_not_share_keys_and_fields_can_be_left_out() -> Tested {
    let bank = Bank::default();
    let layer = draft().fields(Fields::all().except("/sent_at"));
    let app = bank.app(layer.caller(|parts| {
        parts.headers.get("x-account").and_then(|it| it.to_str().ok()).unwrap_or("").to_owned()
    }));
    let of = |account: &'static str, body: &str| {
        let mut request = ask(Some("\"k\""), body);
        request.headers_mut().insert("x-account", account.parse().unwrap());
        request
    };
    send(&app, of("ann", r#"{"sent_at": 1}"#)).await?;
    assert!(send(&app, of("ann", r#"{"sent_at": 2}"#)).await?.replayed());
    assert!(!send(&app, of("bob", r#"{"sent_at": 1}"#)).await?.replayed());
    assert_eq!(bank.runs(), 2);
    Ok(())
}

#[tokio::test]
async fn bodies_are_bounded() -> Tested {
    let bank = Bank::default();
    let app = bank.app(draft().max_request(100).max_response(1000));
    let large = send(&app, ask(Some("\"a\""), &"x".repeat(101))).await?;
    assert_eq!((large.status, bank.runs()), (413, 0));
    let first = send(&app, ask(Some("\"b\""), "size 1000")).await?;
    assert!(
        send(&app, ask(Some("\"b\""), "size 1000")).await?.replayed() && first.body.len() == 1000
    );
    // Larger: passed on, and remembered as done.
    let first = send(&app, ask(Some("\"c\""), "size 100000")).await?;
    assert_eq!((first.status, first.body.len()), (200, 100_000));
    let again = send(&app, ask(Some("\"c\""), "size 100000")).await?;
    assert_eq!((again.status, again.problem().as_str()), (410, "idempotency-response-gone"));
    assert_eq!(bank.runs(), 2);
    Ok(())
}

/// A client that hangs up at any point finds the response when it comes back.
#[tokio::test]
async fn the_work_goes_on_if_the_client_hangs_up() -> Tested {
    let bank = Bank::default();
    let app = bank.app(draft().wait(Duration::from_secs(60)));
    for round in 0..10_000_u32 {
        let key = format!("\"{round}\"");
        let mut first = Box::pin(send(&app, ask(Some(&key), "{}")));
        for _ in 0..round % 7 {
            if polled(&mut first).await {
                break;
            }
        }
        drop(first);
        let again = send(&app, ask(Some(&key), "{}")).await?;
        assert_eq!(again.status, 201);
        assert!(send(&app, ask(Some(&key), "{}")).await?.replayed());
    }
    assert_eq!(bank.runs(), 10_000);
    Ok(())
}

/// Polls a future once, and lets others go on; whether it has ended.
async fn polled<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> bool {
    let polled =
        std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_ready()));
    let ready = polled.await;
    tokio::task::yield_now().await;
    ready
}

#[tokio::test]
async fn without_an_engine_requests_are_refused_or_run_unprotected() -> Tested {
    for (open, status) in [(false, 503), (true, 200)] {
        let locks = Locks::memory();
        let layer = IdempotencyLayer::draft(locks.once("pay"));
        let layer = if open { layer.fail_open() } else { layer };
        let bank = Bank::default();
        let app = bank.app(layer);
        locks.shutdown(Duration::from_secs(5)).await?;
        let mut request = ask(Some("\"k\""), "{}");
        *request.uri_mut() = "/open".parse()?;
        let told = send(&app, request).await?;
        assert_eq!(told.status, status);
        if !open {
            assert_eq!(told.problem(), "idempotency-unavailable");
            assert_eq!(told.headers[header::RETRY_AFTER], "1");
        }
    }
    Ok(())
}
