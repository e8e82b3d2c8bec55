//! `bench`: its shape, its bounds, and that it cleans up. Never its numbers.

use serde_json::Value;

use crate::terminal::on_terminal;
use crate::util::World;

const FEW: [&str; 5] = ["bench", "--count", "5", "--tasks", "3"];

fn bench(world: &World, options: &[&str]) -> Value {
    world.leasehold(&[&FEW[..], options, &["--json"]].concat()).json()
}

fn works(engine: &Value) -> Vec<&str> {
    engine["results"].as_array().unwrap().iter().map(|it| it["work"].as_str().unwrap()).collect()
}

#[test]
fn the_report_has_the_promised_shape() {
    let world = World::new();
    let report = bench(&world, &[]);
    assert_eq!(report["tasks"], 3);
    let engine = &report["engines"][0];
    assert_eq!(engine["engine"], "sqlite");
    assert_eq!(works(engine), ["lock_release", "throughput", "hand_over", "hand_over_processes"]);
    for result in engine["results"].as_array().unwrap() {
        assert_eq!(result["pairs"], 5, "{result}");
        for key in ["seconds", "per_second", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"] {
            assert!(result[key].as_f64().unwrap() > 0.0, "{key}: {result}");
        }
        assert_eq!(result["ratio"], 1.0, "the first is compared with itself");
    }
}

#[test]
fn engines_are_compared_with_the_first() {
    let world = World::new();
    let other = format!("sqlite:{}", world.path("other.db").display());
    let report = bench(&world, &["--compare", "memory:", &other]);
    let engines = report["engines"].as_array().unwrap();
    assert_eq!(engines.len(), 3);
    assert_eq!(works(&engines[1]), ["lock_release", "throughput", "hand_over"], "one process");
    let ratio = engines[1]["results"][0]["ratio"].as_f64().unwrap();
    assert!(ratio > 0.0, "{ratio}");

    let page = world.leasehold(&[&FEW[..], &["--compare", "memory:"]].concat()).stdout();
    let mut lines = page.lines();
    assert!(lines.next().unwrap().starts_with("1 is sqlite /"), "{page}");
    assert_eq!(lines.next(), Some("2 is memory:"));
    let header: Vec<_> = lines.nth(1).unwrap().split_whitespace().collect();
    assert_eq!(header[..4], ["WORK", "ENGINE", "TIMES", "P50"], "{page}");
    assert!(page.contains("throughput, 3 tasks"), "{page}");
}

#[test]
fn it_can_be_bounded_by_time() {
    let world = World::new();
    let report = world.leasehold(&["bench", "--seconds", "0.05", "--json"]).json();
    assert!(report["engines"][0]["results"][0]["pairs"].as_u64().unwrap() > 0, "{report}");
    let both = world.leasehold(&["bench", "--seconds", "1", "--count", "1"]).outcome();
    both.expect_code(2).says("cannot be used with");
    world.leasehold(&["bench", "--seconds", "0"]).outcome().expect_code(2).says("0.01 to 3600");
}

#[test]
fn nothing_stays_held() {
    let world = World::new();
    bench(&world, &[]);
    let left = world.leasehold(&["ls", "--namespace", "leasehold.bench", "--json"]).json();
    assert_eq!(left, serde_json::json!([]));
    assert_eq!(world.leasehold(&["ls", "--all"]).stdout(), "");
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let world = World::new();
    let out = on_terminal(&world, "bench --seconds 0.3").stdout();
    assert!(out.contains("\r\x1b[Ksqlite: lock+release  "), "{out:?}");
    let piped = world.leasehold(&FEW).outcome().expect_code(0);
    assert_eq!(piped.err, "");
}

#[test]
fn an_interrupt_leaves_nothing() {
    let world = World::new();
    let mut running = world.leasehold(&["bench", "--seconds", "600"]).start();
    let held = || world.leasehold(&["ls", "--namespace", "leasehold.bench"]).stdout();
    crate::util::eventually("it works", || !held().is_empty());
    assert!(!running.has_ended());
    running.signal(rustix::process::Signal::INT);
    running.wait().expect_code(130);
    assert_eq!(held(), "");
}

#[test]
fn a_bad_engine_is_named_by_its_place() {
    let world = World::new();
    let secret = "sqlitee://user:canary@host/";
    let bad = world.leasehold(&[&FEW[..], &["--compare", "memory:", secret]].concat()).outcome();
    let bad = bad.expect_code(2).says("--compare, engine 2: ");
    assert!(!bad.err.contains("canary"), "{bad:?}");
}
