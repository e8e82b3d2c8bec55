//! What a client may do, and what it is told. Each request of a scenario goes to
//! the other of two hosts: what one knows the other has to learn from the engine.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::BodyExt;
use leasehold::once::{Fields, Once};
use leasehold_http::{IdempotencyLayer, REPLAYED_AGE};

use crate::bank::{Bank, Stage, Tested, Told, Work, ask};

pub(crate) type Scenario = fn(Stage) -> Pin<Box<dyn Future<Output = Tested>>>;

/// Names each function, and makes it a row.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        [$((stringify!($name), |stage| Box::pin($name(stage)))),*]
    };
}

pub(crate) const SCENARIOS: [(&str, Scenario); 11] = scenarios![
    a_repeated_request_gets_the_first_response,
    keys_that_are_missing_bad_or_used_for_something_else_are_refused,
    a_request_that_is_running_is_a_conflict_or_is_waited_for,
    presets_differ_in_what_they_record,
    presets_differ_in_keys_and_mismatches,
    a_failure_is_run_again_until_it_succeeds,
    callers_do_not_share_keys_and_fields_can_be_left_out,
    bodies_are_bounded,
    a_request_may_have_trailers,
    the_work_goes_on_if_the_client_hangs_up,
    without_an_engine_requests_are_refused_or_run_unprotected,
];

async fn a_repeated_request_gets_the_first_response(stage: Stage) -> Tested {
    let bank = stage.bank(IdempotencyLayer::draft);
    let first = bank.send(ask(Some("\"k\""), r#"{"a":1,"b":2}"#)).await?;
    assert_eq!((first.status, first.replayed()), (201, false));
    assert!(first.headers.contains_key("set-cookie"), "the first has all its headers");
    for _ in 0..2 {
        let again = bank.send(ask(Some("\"k\""), r#"{ "b": 2.0, "a": 1 }"#)).await?;
        assert_eq!((again.status, &again.body), (201, &first.body));
        assert!(again.replayed() && again.headers.contains_key(REPLAYED_AGE));
        assert_eq!(again.headers[header::LOCATION], "/payments/1");
        assert_eq!(again.headers[header::CONTENT_TYPE], "application/json");
        assert!(!again.headers.contains_key("set-cookie"));
        assert!(!again.headers.contains_key("x-other"));
    }
    assert_eq!(bank.runs(), 1);
    Ok(())
}

async fn keys_that_are_missing_bad_or_used_for_something_else_are_refused(stage: Stage) -> Tested {
    let bank = stage.bank(IdempotencyLayer::draft);
    let missing = bank.send(ask(None, "{}")).await?;
    assert_eq!((missing.status, missing.problem().as_str()), (400, "idempotency-key-missing"));
    for bad in ["bare", "\"\"", "\"open"] {
        let bad = bank.send(ask(Some(bad), "{}")).await?;
        assert_eq!((bad.status, bad.problem().as_str()), (400, "idempotency-key-invalid"));
    }
    bank.send(ask(Some("\"k\""), "{}")).await?;
    for _ in 0..2 {
        let other = bank.send(ask(Some("\"k\""), r#"{"a":1}"#)).await?;
        assert_eq!((other.status, other.problem().as_str()), (422, "idempotency-key-reused"));
    }
    let mut elsewhere = ask(Some("\"k\""), "{}");
    *elsewhere.uri_mut() = "/open".parse()?;
    assert_eq!(bank.send(elsewhere).await?.status, 422);
    assert_eq!(bank.runs(), 1);
    Ok(())
}

async fn a_request_that_is_running_is_a_conflict_or_is_waited_for(stage: Stage) -> Tested {
    let work = Arc::new(Work { waits: true, ..Work::default() });
    let bank = stage.bank_that(Arc::clone(&work), IdempotencyLayer::draft);
    let wait = |once| IdempotencyLayer::draft(once).wait(Duration::from_secs(60));
    let patient = stage.bank_that(Arc::clone(&work), wait);
    let pay = |bank: &Bank| {
        let bank = bank.clone();
        tokio::spawn(async move { bank.send(ask(Some("\"k\""), "{}")).await })
    };
    let running = pay(&bank);
    while bank.runs() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..2 {
        let busy = bank.send(ask(Some("\"k\""), "{}")).await?;
        assert_eq!((busy.status, busy.problem().as_str()), (409, "idempotency-key-in-use"));
        assert_eq!(busy.headers[header::RETRY_AFTER], "1");
    }
    let waiting = [pay(&patient), pay(&patient)];
    tokio::task::yield_now().await;
    work.go.notify_one();
    let first = running.await??;
    for waited in waiting {
        let waited = waited.await??;
        assert_eq!((first.status, &first.body), (waited.status, &waited.body));
    }
    assert_eq!(bank.runs(), 1);
    Ok(())
}

/// A preset, and which statuses it keeps.
type Row = (&'static str, fn(Once) -> IdempotencyLayer, &'static [(u16, bool)]);

const PRESETS: [Row; 4] = [
    (
        "draft",
        IdempotencyLayer::draft,
        &[(200, true), (201, true), (400, true), (404, true), (500, true)],
    ),
    (
        "stripe",
        IdempotencyLayer::stripe,
        &[(200, true), (402, true), (400, false), (409, false), (429, false), (500, true)],
    ),
    (
        "stripe v2",
        IdempotencyLayer::stripe_v2,
        &[(200, true), (201, true), (402, false), (400, false), (429, false), (500, false)],
    ),
    (
        "2xx only",
        IdempotencyLayer::two_xx_only,
        &[(200, true), (204, true), (301, false), (400, false), (500, false), (503, false)],
    ),
];

async fn presets_differ_in_what_they_record(stage: Stage) -> Tested {
    for (preset, layer, rows) in PRESETS {
        let bank = stage.bank(layer);
        for (status, recorded) in rows {
            let (key, body) = (format!("\"{preset} {status}\""), format!("status {status}"));
            let first = bank.send(ask(Some(&key), &body)).await?;
            let again = bank.send(ask(Some(&key), &body)).await?;
            assert_eq!((first.status, again.status), (*status, *status), "{preset}");
            assert_eq!(again.replayed(), *recorded, "{preset} {status}");
            assert_eq!(first.body == again.body, *recorded, "{preset} {status}");
        }
    }
    Ok(())
}

async fn presets_differ_in_keys_and_mismatches(stage: Stage) -> Tested {
    for (preset, layer) in
        [("a", IdempotencyLayer::stripe as fn(_) -> _), ("b", IdempotencyLayer::stripe_v2)]
    {
        let bank = stage.bank(layer);
        let mut open = ask(None, "{}");
        *open.uri_mut() = "/open".parse()?;
        assert_eq!(bank.send(open).await?.status, 200, "a key is optional");
        assert_eq!(bank.send(ask(Some(preset), "{}")).await?.status, 201);
        assert_eq!(bank.send(ask(Some(preset), "[]")).await?.status, 400);
        let mut get = ask(Some(preset), "");
        (*get.method_mut(), *get.uri_mut()) = (Method::GET, "/open".parse()?);
        assert_eq!(bank.send(get).await?.status, 200, "methods that are idempotent pass");
    }
    Ok(())
}

async fn a_failure_is_run_again_until_it_succeeds(stage: Stage) -> Tested {
    let bank = stage.bank(IdempotencyLayer::stripe_v2);
    for run in 1..4 {
        let failed = bank.send(ask(Some("k"), "status 500")).await?;
        assert_eq!((failed.status, failed.replayed(), bank.runs()), (500, false, run));
    }
    let done = bank.send(ask(Some("k"), "status 200")).await?;
    assert_eq!((done.status, done.replayed()), (200, false));
    for _ in 0..2 {
        let again = bank.send(ask(Some("k"), "status 200")).await?;
        assert!(again.replayed() && again.body == done.body);
    }
    assert_eq!(bank.runs(), 4);
    Ok(())
}

async fn callers_do_not_share_keys_and_fields_can_be_left_out(stage: Stage) -> Tested {
    let bank = stage.bank(|once| {
        let layer = IdempotencyLayer::draft(once).fields(Fields::all().except("/sent_at"));
        layer.caller(|parts| {
            parts.headers.get("x-account").and_then(|it| it.to_str().ok()).unwrap_or("").to_owned()
        })
    });
    let of = |account: &'static str, body: &str| {
        let mut request = ask(Some("\"k\""), body);
        request.headers_mut().insert("x-account", account.parse().unwrap());
        request
    };
    bank.send(of("ann", r#"{"sent_at": 1}"#)).await?;
    assert!(bank.send(of("ann", r#"{"sent_at": 2}"#)).await?.replayed());
    assert!(!bank.send(of("bob", r#"{"sent_at": 1}"#)).await?.replayed());
    assert_eq!(bank.runs(), 2);
    Ok(())
}

async fn bodies_are_bounded(stage: Stage) -> Tested {
    let small = |once| IdempotencyLayer::draft(once).max_request(100).max_response(1000);
    let bank = stage.bank(small);
    let large = bank.send(ask(Some("\"a\""), &"x".repeat(101))).await?;
    assert_eq!((large.status, bank.runs()), (413, 0));
    let first = bank.send(ask(Some("\"b\""), "size 1000")).await?;
    let again = bank.send(ask(Some("\"b\""), "size 1000")).await?;
    assert!(again.replayed() && again.body == first.body && first.body.len() == 1000);
    // Larger: passed on, and remembered as done.
    let first = bank.send(ask(Some("\"c\""), "size 100000")).await?;
    assert_eq!((first.status, first.body.len()), (200, 100_000));
    let again = bank.send(ask(Some("\"c\""), "size 100000")).await?;
    assert_eq!((again.status, again.problem().as_str()), (410, "idempotency-response-gone"));
    assert_eq!(bank.runs(), 2);
    Ok(())
}

/// A client that hangs up at any point finds the response when it comes back.
async fn a_request_may_have_trailers(stage: Stage) -> Tested {
    let bank = stage.bank(IdempotencyLayer::draft);
    for replayed in [false, true] {
        let request = ask(Some("\"k\""), "{}").map(|body| {
            let trailers = HeaderMap::from_iter([(header::ETAG, HeaderValue::from_static("x"))]);
            Body::new(body.with_trailers(std::future::ready(Some(Ok(trailers)))))
        });
        let told = bank.send(request).await?;
        assert_eq!((told.status, told.replayed()), (201, replayed));
    }
    let plain = bank.send(ask(Some("\"k\""), "{}")).await?;
    assert!(plain.replayed(), "trailers are no part of what is asked");
    assert_eq!(bank.runs(), 1);
    Ok(())
}

async fn the_work_goes_on_if_the_client_hangs_up(stage: Stage) -> Tested {
    // Where requests take their time, fewer do.
    let rounds = if stage.hosts[0].profile().scheme == "memory" { 10_000 } else { 200 };
    let bank = stage.bank(|once| IdempotencyLayer::draft(once).wait(Duration::from_secs(60)));
    for round in 0..rounds {
        let key = format!("\"{round}\"");
        hang_up(&bank, &key, round).await;
        let again = bank.send(ask(Some(&key), "{}")).await?;
        assert_eq!(again.status, 201);
        assert!(bank.send(ask(Some(&key), "{}")).await?.replayed());
    }
    assert_eq!(bank.runs(), rounds);
    Ok(())
}

/// Sends a request, and forgets it after a few polls or some milliseconds.
async fn hang_up(bank: &Bank, key: &str, round: u32) {
    let mut first = Box::pin(bank.send(ask(Some(key), "{}")));
    for _ in 0..round % 7 {
        if polled(&mut first).await {
            return;
        }
    }
    if round % 50 > 25 {
        let some = Duration::from_micros(u64::from(round) * 7919 % 4000);
        let _: Result<Tested<Told>, _> = tokio::time::timeout(some, first).await;
    }
}

/// Polls a future once, and lets others go on; whether it has ended.
async fn polled<F: Future>(future: &mut Pin<Box<F>>) -> bool {
    let polled =
        std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_ready()));
    let ready = polled.await;
    tokio::task::yield_now().await;
    ready
}

async fn without_an_engine_requests_are_refused_or_run_unprotected(stage: Stage) -> Tested {
    let closed = stage.bank(IdempotencyLayer::draft);
    let open = stage.bank(|once| IdempotencyLayer::draft(once).fail_open());
    for locks in &stage.hosts {
        locks.shutdown(Duration::from_secs(5)).await?;
    }
    let ask = || {
        let mut request = ask(Some("\"k\""), "{}");
        *request.uri_mut() = "/open".parse().unwrap();
        request
    };
    let refused = closed.send(ask()).await?;
    assert_eq!((refused.status, closed.runs()), (503, 0));
    assert_eq!(refused.problem(), "idempotency-unavailable");
    assert_eq!(refused.headers[header::RETRY_AFTER], "1");
    assert_eq!((open.send(ask()).await?.status, open.runs()), (200, 1));
    Ok(())
}
