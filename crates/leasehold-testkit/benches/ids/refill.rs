//! A slow engine: whether anyone has to wait once the pace is known.

use std::time::{Duration, Instant};

use leasehold::ids::SegmentIds;
use leasehold_testkit::proxy::{Fault, FaultProxy};
use leasehold_testkit::server::Server;

/// A thousand in a millisecond: a million a second.
const EACH: u32 = 1_000;
const WARM_UP: Duration = Duration::from_secs(6);
const SPAN: Duration = Duration::from_secs(10);

pub(crate) fn report() {
    println!(
        "| engine answers after | ids | calls that had to wait | p99.99 | largest |\n|---|---|---|---|---|"
    );
    let server = Server::redis().expect("redis");
    for latency in [2, 20, 200] {
        let proxy = FaultProxy::to(server.addr()).expect("a proxy");
        let url = server.url_via(proxy.addr());
        let locks = leasehold::blocking::open(url).expect("an engine");
        proxy.set_both(Fault::Delay(Duration::from_millis(latency / 2)));
        let ids = locks.ids(format!("t{latency}")).segment().blocking_open().expect("ids");
        run(&ids, WARM_UP);
        let (mut calls, waited) = run(&ids, SPAN);
        calls.sort_unstable();
        let at = calls.len() - 1 - calls.len() / 10_000;
        println!(
            "| {latency} ms | {} | {waited} | {:?} | {:?} |",
            calls.len(),
            calls[at],
            calls[calls.len() - 1]
        );
    }
}

/// How long each call took, and how many found nothing at hand.
fn run(ids: &SegmentIds, span: Duration) -> (Vec<Duration>, u64) {
    let (start, mut calls, mut waited) = (Instant::now(), Vec::new(), 0);
    let mut ticks = 0;
    while start.elapsed() < span {
        for _ in 0..EACH {
            let before = Instant::now();
            if ids.try_next().expect("ids").is_none() {
                waited += 1;
                ids.blocking_next().expect("an id");
            }
            calls.push(before.elapsed());
        }
        ticks += 1;
        let due = start + Duration::from_millis(ticks);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    (calls, waited)
}
