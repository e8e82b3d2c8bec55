//! A service with idempotency keys whose engine is away: behind a black hole, or
//! dead. Every request is answered, and nothing runs twice.

// These tests wait for real servers; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::{Request, StatusCode, header};
use leasehold_http::IdempotencyLayer;
use leasehold_testkit::contest::BOUND;
use leasehold_testkit::{Fault, FaultProxy, Server};
use tokio::task::JoinSet;
use tower::ServiceExt;

type Tested<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

async fn service(url: &str, open: bool, runs: &Arc<AtomicU32>) -> Tested<Router> {
    let locks = leasehold::open(url).await?;
    let layer = IdempotencyLayer::draft(locks.once("pay").lease(Duration::from_secs(3)));
    let layer = if open { layer.fail_open() } else { layer };
    let runs = Arc::clone(runs);
    let pay = move || {
        runs.fetch_add(1, Ordering::AcqRel);
        async { "paid" }
    };
    Ok(Router::new().route("/pay", post(pay)).layer(layer))
}

async fn ask(app: Router, key: String) -> Tested<(StatusCode, bool)> {
    let request = Request::post("/pay").header("idempotency-key", format!("\"{key}\""));
    let request = request.body(Body::empty())?;
    let response = tokio::time::timeout(BOUND, app.oneshot(request)).await??;
    Ok((response.status(), response.headers().contains_key(header::RETRY_AFTER)))
}

#[tokio::test]
async fn every_request_is_answered_while_the_engine_is_in_a_black_hole() -> Tested {
    let server = Server::redis()?;
    let addr = server.addr();
    let proxy = tokio::task::spawn_blocking(move || FaultProxy::to(addr)).await??;
    let url = server.url_via(proxy.addr());
    for (open, status) in [(false, StatusCode::SERVICE_UNAVAILABLE), (true, StatusCode::OK)] {
        let runs = Arc::default();
        let app = service(&url, open, &runs).await?;
        assert_eq!(ask(app.clone(), format!("well {open}")).await?.0, StatusCode::OK);
        proxy.set_both(Fault::BlackHole);
        let mut asked = JoinSet::new();
        for n in 0..50 {
            asked.spawn(ask(app.clone(), format!("away {open} {n}")));
        }
        while let Some(told) = asked.join_next().await {
            assert_eq!(told??, (status, !open));
        }
        assert!(proxy.counts().requests.lost > 0, "the hole has swallowed nothing");
        // Refused means not run; open means run without protection.
        assert_eq!(runs.load(Ordering::Acquire), if open { 51 } else { 1 });
        proxy.heal();
        let again = async || ask(app.clone(), format!("well again {open}")).await;
        while again().await?.0 != StatusCode::OK {}
    }
    Ok(())
}

#[tokio::test]
async fn a_key_is_worth_something_again_when_the_engine_is_back() -> Tested {
    let mut server = Server::redis()?;
    let runs = Arc::default();
    let app = service(&server.url(), false, &runs).await?;
    server.kill()?;
    let refused = ask(app.clone(), "k".into()).await?;
    assert_eq!(refused, (StatusCode::SERVICE_UNAVAILABLE, true));
    server.restart()?;
    while ask(app.clone(), "k".into()).await?.0 != StatusCode::OK {}
    assert_eq!(ask(app.clone(), "k".into()).await?.0, StatusCode::OK);
    assert_eq!(runs.load(Ordering::Acquire), 1);
    Ok(())
}
