//! A service with idempotency keys whose engine is away: behind a black hole,
//! stopped or dead. Every request is answered, and nothing runs twice.

#![allow(clippy::disallowed_methods, reason = "these tests wait for real servers")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::{Request, StatusCode, header};
use leasehold_http::{IdempotencyLayer, REPLAYED};
use leasehold_testkit::contest::BOUND;
use leasehold_testkit::{Fault, FaultProxy, Server};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tower::ServiceExt;

type Tested<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// An engine that never says that it is away: whoever is answered all the same
/// was answered by the layer.
const STUBBORN: &str = "retry=forever:50ms";
const PATIENCE: Duration = Duration::from_millis(500);
/// Long enough for an outage.
const LEASE: Duration = Duration::from_secs(120);

/// What the service does, and when.
#[derive(Default)]
struct Work {
    runs: AtomicU32,
    waits: bool,
    begun: Notify,
    go: Notify,
}

impl Work {
    fn runs(&self) -> u32 {
        self.runs.load(Ordering::Acquire)
    }

    async fn pay(&self) -> &'static str {
        self.runs.fetch_add(1, Ordering::AcqRel);
        if self.waits {
            self.begun.notify_one();
            self.go.notified().await;
        }
        "paid"
    }
}

async fn service(url: &str, open: bool, work: &Arc<Work>) -> Tested<Router> {
    let sign = if url.contains('?') { '&' } else { '?' };
    let locks = leasehold::open(format!("{url}{sign}{STUBBORN}")).await?;
    let layer = IdempotencyLayer::draft(locks.once("pay").lease(LEASE)).patience(PATIENCE);
    let layer = if open { layer.fail_open() } else { layer };
    let work = Arc::clone(work);
    let pay = move || {
        let work = Arc::clone(&work);
        async move { work.pay().await }
    };
    Ok(Router::new().route("/pay", post(pay)).layer(layer))
}

/// What a client is told: the status, whether to try again, whether it is old.
type Told = (StatusCode, bool, bool);

async fn ask(app: Router, key: String) -> Tested<Told> {
    let request = Request::post("/pay").header("idempotency-key", format!("\"{key}\""));
    let request = request.body(Body::empty())?;
    let response = tokio::time::timeout(BOUND, app.oneshot(request)).await??;
    let has = |name| response.headers().contains_key(name);
    Ok((response.status(), has(header::RETRY_AFTER), has(REPLAYED)))
}

/// Fifty at once, of whom all are told the same; how long the last one waited.
async fn crowd(app: &Router, keys: &str, told: Told) -> Tested<Duration> {
    let mut asked = JoinSet::new();
    let start = Instant::now();
    for n in 0..50 {
        asked.spawn(ask(app.clone(), format!("{keys} {n}")));
    }
    while let Some(answer) = asked.join_next().await {
        assert_eq!(answer??, told, "{keys}");
    }
    Ok(start.elapsed())
}

/// Asks until the service is well again; the last answer.
async fn well_again(app: &Router, key: &str) -> Tested<Told> {
    let end = Instant::now() + BOUND;
    loop {
        let told = ask(app.clone(), key.into()).await?;
        if told.0 == StatusCode::OK {
            return Ok(told);
        }
        assert!(Instant::now() < end, "never well again: {told:?}");
        // Who is refused at once lets the others work.
        tokio::task::yield_now().await;
    }
}

type Fall = fn(&mut Server) -> Tested;

const FALLS: [(&str, Fall, Fall); 2] = [
    ("stopped", |server| Ok(server.pause()?), |server| Ok(server.resume()?)),
    ("dead", |server| Ok(server.kill()?), |server| Ok(server.restart()?)),
];

/// Before the work: refused, or unprotected.
async fn nobody_hangs(mut server: Server, engine: &str) -> Tested {
    for (how, fall, rise) in FALLS {
        let (closed, open) = (Arc::default(), Arc::default());
        let shut = service(&server.url(), false, &closed).await?;
        let bold = service(&server.url(), true, &open).await?;
        for app in [&shut, &bold] {
            well_again(app, &format!("well {how}")).await?;
        }
        let before = (closed.runs(), open.runs());
        fall(&mut server)?;
        let refused = (StatusCode::SERVICE_UNAVAILABLE, true, false);
        let slowest = crowd(&shut, &format!("shut {how}"), refused).await?;
        tell(&format!("{engine} {how}: 50 of 50 refused, the last after {slowest:?}"));
        let slowest = crowd(&bold, &format!("bold {how}"), (StatusCode::OK, false, false)).await?;
        tell(&format!("{engine} {how}: 50 of 50 unprotected, the last after {slowest:?}"));
        assert_eq!((closed.runs(), open.runs()), (before.0, before.1 + 50), "{engine} {how}");
        rise(&mut server)?;
        // A key is worth something again.
        well_again(&shut, &format!("again {how}")).await?;
        assert!(well_again(&shut, &format!("again {how}")).await?.2);
        assert_eq!(closed.runs(), before.0 + 1);
    }
    Ok(())
}

/// After the work: its response does not wait for the engine, which learns of it
/// later.
async fn a_response_is_not_held_back(mut server: Server, engine: &str) -> Tested {
    let work = Arc::new(Work { waits: true, ..Work::default() });
    let app = service(&server.url(), false, &work).await?;
    let paying = tokio::spawn(ask(app.clone(), "k".into()));
    work.begun.notified().await;
    server.pause()?;
    work.go.notify_one();
    assert_eq!(paying.await??, (StatusCode::OK, false, false), "{engine}");
    server.resume()?;
    assert!(well_again(&app, "k").await?.2, "{engine}: recorded when the engine is back");
    assert_eq!(work.runs(), 1);
    Ok(())
}

/// For whoever wants to see the numbers: `--nocapture`.
fn tell(what: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{what}");
}

#[tokio::test]
async fn nobody_hangs_while_redis_is_stopped_or_dead() -> Tested {
    nobody_hangs(Server::redis()?, "redis").await
}

#[tokio::test]
async fn nobody_hangs_while_postgres_is_stopped_or_dead() -> Tested {
    nobody_hangs(Server::postgres()?, "postgres").await
}

#[tokio::test]
async fn a_response_is_not_held_back_by_a_redis_that_stands_still() -> Tested {
    a_response_is_not_held_back(Server::redis()?, "redis").await
}

#[tokio::test]
async fn a_response_is_not_held_back_by_a_postgres_that_stands_still() -> Tested {
    a_response_is_not_held_back(Server::postgres()?, "postgres").await
}

#[tokio::test]
async fn every_request_is_answered_while_the_engine_is_in_a_black_hole() -> Tested {
    let server = Server::redis()?;
    let addr = server.addr();
    let proxy = tokio::task::spawn_blocking(move || FaultProxy::to(addr)).await??;
    let url = server.url_via(proxy.addr());
    for (open, status) in [(false, StatusCode::SERVICE_UNAVAILABLE), (true, StatusCode::OK)] {
        let work = Arc::default();
        let app = service(&url, open, &work).await?;
        well_again(&app, &format!("well {open}")).await?;
        proxy.set_both(Fault::BlackHole);
        let before = work.runs();
        crowd(&app, &format!("away {open}"), (status, !open, false)).await?;
        assert!(proxy.counts().requests.lost > 0, "the hole has swallowed nothing");
        // Refused means not run; open means run without protection.
        assert_eq!(work.runs(), before + if open { 50 } else { 0 });
        proxy.heal();
        well_again(&app, &format!("well again {open}")).await?;
    }
    Ok(())
}
