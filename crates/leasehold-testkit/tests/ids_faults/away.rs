//! The engine is away while ids are wanted.

use std::time::Duration;

use leasehold::ids::TestWall;
use leasehold_testkit::proxy::{Fault, FaultProxy};
use leasehold_testkit::server::Server;
use tokio::time::{Instant, sleep};

use super::{is_long, repeated};

/// How long the engine is away.
fn away() -> Duration {
    Duration::from_secs(if is_long() { 60 } else { 5 })
}

/// Makes ids at a steady rate until then; nobody may fail.
async fn steadily(ids: &leasehold::ids::SegmentIds, span: Duration, made: &mut Vec<u64>) {
    let end = Instant::now() + span;
    while Instant::now() < end {
        for _ in 0..10 {
            made.push(ids.next().await.expect("an id, although the engine is away"));
        }
        sleep(Duration::from_millis(5)).await;
    }
}

async fn goes_on(server: Server) {
    let addr = server.addr();
    let proxy = std::thread::spawn(move || FaultProxy::to(addr)).join();
    let proxy = proxy.expect("no panic").expect("a proxy");
    let locks = leasehold::open(server.url_via(proxy.addr())).await.expect("an engine");
    let open = locks.ids("t").segment().step(100).horizon(away() * 2);
    let (ids, mut made) = (open.open().await.expect("ids"), Vec::new());
    steadily(&ids, Duration::from_secs(3), &mut made).await;
    let runway = ids.runway();
    assert!(runway.lasts >= away(), "{runway:?}");
    proxy.set_both(Fault::BlackHole);
    steadily(&ids, away(), &mut made).await;
    let lost = proxy.counts().requests.lost;
    proxy.reset_all();
    proxy.heal();
    steadily(&ids, Duration::from_secs(2), &mut made).await;
    assert_eq!(repeated(&made), 0);
    assert!(made.is_sorted());
    assert!(lost > 0, "nothing was asked meanwhile: the fault did not bite");
}

#[tokio::test]
async fn segments_go_on_while_redis_is_away() {
    goes_on(Server::redis().expect("redis")).await;
}

#[tokio::test]
async fn segments_go_on_while_postgres_is_away() {
    goes_on(Server::postgres().expect("postgres")).await;
}

#[tokio::test]
async fn with_a_slow_engine_nobody_waits_once_the_pace_is_known() {
    let server = Server::redis().expect("redis");
    let addr = server.addr();
    let proxy = std::thread::spawn(move || FaultProxy::to(addr)).join();
    let proxy = proxy.expect("no panic").expect("a proxy");
    let locks = leasehold::open(server.url_via(proxy.addr())).await.expect("an engine");
    proxy.set_both(Fault::Delay(Duration::from_millis(10)));
    let horizon = Duration::from_secs(4);
    let ids = locks.ids("t").segment().horizon(horizon).open().await.expect("ids");
    let (mut waited, mut known) = (0, false);
    let mut end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        for _ in 0..200 {
            if ids.try_next().expect("ids").is_none() {
                waited += u32::from(known);
                ids.next().await.expect("an id");
            }
        }
        if !known && ids.runway().ids > 10_000 && ids.runway().lasts > horizon / 2 {
            known = true;
            end = Instant::now() + horizon;
        }
        sleep(Duration::from_millis(1)).await;
    }
    assert!(known, "the pace was never known: {:?}", ids.runway());
    assert_eq!(waited, 0, "calls found nothing at hand");
    assert!(proxy.counts().replies.delayed > 0, "the fault did not bite");
}

#[tokio::test]
async fn a_worker_stops_before_another_can_have_its_number() {
    let server = Server::redis().expect("redis");
    let addr = server.addr();
    let proxy = std::thread::spawn(move || FaultProxy::to(addr)).join();
    let proxy = proxy.expect("no panic").expect("a proxy");
    let ttl = Duration::from_secs(2);
    let near = leasehold::open(server.url()).await.expect("an engine");
    let far = leasehold::open(server.url_via(proxy.addr())).await.expect("an engine");
    let layout = leasehold::ids::Layout::new(41, 0, 12);
    let clock = TestWall::running();
    let open = |locks: &leasehold::Locks| {
        locks.ids("t").snowflake().layout(layout).ttl(ttl).clock(clock.clone())
    };
    let ids = open(&far).open().await.expect("ids");
    let mut made = vec![ids.next().await.expect("an id")];
    proxy.set_both(Fault::BlackHole);
    // It goes on for a while, and then is lost for good.
    let lost = loop {
        match ids.next().await {
            Ok(id) => made.push(id),
            Err(error) if error.is_lost() => break error,
            Err(_) => {}
        }
        sleep(Duration::from_millis(1)).await;
    };
    assert!(lost.to_string().contains("lost"), "{lost}");
    assert!(proxy.counts().requests.lost > 0, "the fault did not bite");
    let next = loop {
        match open(&near).open().await {
            Ok(next) => break next,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        sleep(Duration::from_millis(10)).await;
    };
    assert!(ids.next().await.is_err());
    made.extend(next.batch(1_000).await.expect("ids"));
    assert_eq!(repeated(&made), 0);
    assert!(made.is_sorted());
}
