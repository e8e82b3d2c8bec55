//! Many processes on one engine.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use leasehold_testkit::proxy::{Fault, FaultProxy, Way};
use leasehold_testkit::server::Server;
use rustix::process::Signal;
use tempfile::TempDir;

use super::maker::{CHUNK, Kind, Maker, Orders, losses, read};
use super::{is_long, repeated};

const COUNT: usize = 50;
const TTL: Duration = Duration::from_secs(3);

fn orders(url: &str, folder: &Path, number: usize) -> Orders {
    let each = if is_long() { 200_000 } else { 2_000 };
    Orders {
        kind: Kind::Snowflake,
        url: url.into(),
        file: folder.join(format!("{number}.ids")),
        chunks: each / CHUNK,
        pause: Duration::from_millis(20),
        steps: Vec::new(),
        ttl: TTL,
    }
}

/// What is done to one of the fifty.
fn disturbed(number: usize, mut orders: Orders) -> Orders {
    orders.steps = match number % 10 {
        0 => vec![(5, -400)],
        1 => vec![(5, -3_600_000)],
        2 => vec![(5, 3_600_000)],
        3 => vec![(0, -700)],
        _ => Vec::new(),
    };
    orders
}

#[test]
fn fifty_at_once_make_no_id_twice_whatever_is_done_to_them() {
    let (server, folder) = (Server::redis().expect("redis"), TempDir::new().expect("a folder"));
    let start =
        |number| Maker::start(disturbed(number, orders(&server.url(), folder.path(), number)));
    let mut makers: Vec<Maker> = (0..COUNT).map(start).collect();
    makers.iter().for_each(Maker::has_begun);
    // Some die, and are started again with the clock behind.
    for number in (4..COUNT).step_by(10) {
        makers[number].kill();
        let mut again = makers[number].orders.clone();
        again.steps = vec![(0, -700)];
        makers[number] = Maker::start(again);
    }
    // Some stand still for longer than their lease.
    let stopped: Vec<usize> = (5..COUNT).step_by(10).collect();
    for number in &stopped {
        makers[*number].kill();
        let mut slow = makers[*number].orders.clone();
        slow.chunks += 200;
        makers[*number] = Maker::start(slow);
        makers[*number].has_begun();
    }
    sleep(Duration::from_millis(300));
    stopped.iter().for_each(|number| makers[*number].signal(Signal::STOP));
    sleep(TTL * 2);
    stopped.iter().for_each(|number| makers[*number].signal(Signal::CONT));
    let ids: Vec<u64> = makers.iter_mut().flat_map(Maker::finish).collect();
    assert!(ids.len() >= COUNT * 2_000, "{} ids", ids.len());
    let lost: u64 = stopped.iter().map(|number| losses(&makers[*number].orders)).sum();
    assert!(lost > 0, "nobody noticed that it had stood still: the fault did not bite");
    let refused = folder.path().join("1.refused");
    assert!(refused.exists(), "a clock that went back by an hour was not refused");
    assert_eq!(repeated(&ids), 0, "of {}", ids.len());
}

#[test]
fn a_kill_in_the_middle_of_a_fill_repeats_nothing() {
    let (server, folder) = (Server::redis().expect("redis"), TempDir::new().expect("a folder"));
    let proxy = FaultProxy::to(server.addr()).expect("a proxy");
    for round in 0..3 {
        proxy.heal();
        let mut orders = orders(&server.url_via(proxy.addr()), folder.path(), round);
        (orders.kind, orders.chunks) = (Kind::Segment, 100_000);
        let mut maker = Maker::start(orders);
        maker.has_begun();
        // What it asks for is done; the answer never comes.
        let before = proxy.counts().replies.held;
        proxy.set(Way::Replies, Fault::Hold);
        proxy.wait_for(Duration::from_secs(60), |counts| counts.replies.held > before);
        maker.kill();
    }
    proxy.heal();
    let mut last = orders(&server.url(), folder.path(), 9);
    last.kind = Kind::Segment;
    Maker::start(last).finish();
    let files = [0, 1, 2, 9].map(|number| folder.path().join(format!("{number}.ids")));
    let all: Vec<u64> = files.iter().flat_map(|file| read(file)).collect();
    assert_eq!(repeated(&all), 0, "of {}", all.len());
    assert!(files.iter().all(|file| read(file).is_sorted()));
}

#[test]
fn processes_share_one_counter_and_rise() {
    let folder = TempDir::new().expect("a folder");
    let url = format!("sqlite:{}/locks.db", folder.path().display());
    let start = |number| {
        let orders = orders(&url, folder.path(), number);
        Maker::start(Orders { kind: Kind::Segment, pause: Duration::ZERO, ..orders })
    };
    let mut makers: Vec<Maker> = (0..6).map(start).collect();
    let lists: Vec<Vec<u64>> = makers.iter_mut().map(Maker::finish).collect();
    assert!(lists.iter().all(|list| list.is_sorted()));
    assert_eq!(repeated(&lists.concat()), 0);
}
