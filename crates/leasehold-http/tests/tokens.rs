//! One-time tokens over HTTP: a form that is sent twice orders once.
#![allow(clippy::disallowed_methods, reason = "tests run tasks of their own")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use http::{Request, header};
use http_body_util::BodyExt;
use leasehold::Locks;
use leasehold::once::TokenKeys;
use leasehold_http::REPLAYED;
use leasehold_http::tokens::TokenRoutes;
use tower::ServiceExt;

type Tested<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn shop(orders: &Arc<AtomicU32>) -> Tested<Router> {
    let once = Locks::memory().once("orders");
    let forms = TokenRoutes::new(once.tokens(TokenKeys::new(1, &[7; 32])?));
    let forms = forms.ttl(Duration::from_secs(60)).subject(|headers| {
        headers.get(header::COOKIE).and_then(|it| it.to_str().ok()).unwrap_or("").to_owned()
    });
    let orders = Arc::clone(orders);
    let order = move |_turn, _form| {
        let order = orders.fetch_add(1, Ordering::AcqRel) + 1;
        async move { format!("order {order}").into_response() }
    };
    Ok(Router::new().route("/token", forms.issue()).route("/order", forms.redeem(order)))
}

async fn token(app: &Router) -> Tested<String> {
    let request = Request::get("/token").header(header::COOKIE, "ann").body(Body::empty())?;
    let response = app.clone().oneshot(request).await?;
    assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
    let body = response.into_body().collect().await?.to_bytes();
    let value: serde_json::Value = serde_json::from_slice(&body)?;
    assert_eq!(value["expires_in"], 60);
    Ok(value["token"].as_str().ok_or("no token")?.to_owned())
}

async fn order(app: &Router, who: &str, form: String) -> Tested<(u16, bool, String)> {
    let request = Request::post("/order").header(header::COOKIE, who).body(Body::from(form))?;
    let response = app.clone().oneshot(request).await?;
    let (status, replayed) = (response.status(), response.headers().contains_key(REPLAYED));
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status.as_u16(), replayed, String::from_utf8(body.to_vec())?))
}

#[tokio::test]
async fn a_form_that_is_sent_twice_orders_once() -> Tested {
    let orders = Arc::default();
    let app = shop(&orders)?;
    let form = format!("thing=book&one_time_token={}", token(&app).await?);
    assert_eq!(order(&app, "ann", form.clone()).await?, (200, false, "order 1".into()));
    assert_eq!(order(&app, "ann", form.clone()).await?, (200, true, "order 1".into()));
    assert_eq!(order(&app, "bob", form).await?.0, 403, "stolen");
    assert_eq!(order(&app, "ann", "thing=book".into()).await?.0, 400, "none");
    assert_eq!(order(&app, "ann", "one_time_token=00".into()).await?.0, 403, "forged");
    let other = format!("thing=car&one_time_token={}", token(&app).await?);
    assert_eq!(order(&app, "ann", other).await?.2, "order 2");
    assert_eq!(orders.load(Ordering::Acquire), 2);
    Ok(())
}

/// A session cookie is for whoever logs in, not for whoever has the link later.
#[tokio::test]
async fn a_second_redeemer_gets_no_cookie_of_the_first() -> Tested {
    let tokens = Locks::memory().once("login").tokens(TokenKeys::new(1, &[7; 32])?);
    let forms = TokenRoutes::new(tokens);
    let token = forms.token_for(&http::HeaderMap::new());
    let welcome = async |_turn, _form| {
        let headers = [("set-cookie", "session=canary"), ("x-other", "y"), ("location", "/home")];
        (headers, "welcome").into_response()
    };
    let app = Router::new().route("/login", forms.redeem(welcome));
    for first in [true, false] {
        let request = Request::post("/login").header("one-time-token", &token);
        let response = app.clone().oneshot(request.body(Body::empty())?).await?;
        let has = |name: &str| response.headers().contains_key(name);
        assert_eq!((has("set-cookie"), has("x-other")), (first, first));
        assert_eq!((has("location"), response.headers().contains_key(REPLAYED)), (true, !first));
        assert_eq!(response.into_body().collect().await?.to_bytes(), "welcome");
    }
    Ok(())
}

#[tokio::test]
async fn a_response_that_is_too_large_to_keep_is_given_once() -> Tested {
    let tokens = Locks::memory().once("large").tokens(TokenKeys::new(1, &[7; 32])?);
    let forms = TokenRoutes::new(tokens);
    let token = forms.token_for(&http::HeaderMap::new());
    let large = async |_turn, _form| "x".repeat(300_000).into_response();
    let app = Router::new().route("/large", forms.redeem(large));
    for expected in [(200, 300_000), (410, 0)] {
        let request = Request::post("/large").header("one-time-token", &token);
        let response = app.clone().oneshot(request.body(Body::empty())?).await?;
        assert_eq!(response.status().as_u16(), expected.0);
        assert!(response.into_body().collect().await?.to_bytes().len() >= expected.1);
    }
    Ok(())
}
