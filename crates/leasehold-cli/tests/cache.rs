//! `cache`: records, and how they change.

use rustix::process::Signal;
use serde_json::Value;

use crate::util::{Running, World, eventually};

fn add(world: &World, name: &str, amount: &str) {
    world.leasehold(&["counter", "add", name, amount]).outcome().expect_code(0);
}

fn lines(cache: &Running) -> Vec<Value> {
    let out = cache.out();
    let whole = out.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn events(cache: &Running) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let show = |line: &Value| {
        format!("{} {} {}", text(&line["event"]), text(&line["name"]), line["value"])
    };
    lines(cache).iter().map(show).collect()
}

#[test]
fn what_is_below_a_path_is_shown() {
    let world = World::new();
    assert_eq!(world.leasehold(&["cache", "price"]).stdout(), "");
    add(&world, "price/apple", "3");
    add(&world, "price/apple/old", "2");
    add(&world, "prices/pear", "9");
    let names = |words: &[&str]| {
        let all = world.leasehold(&[&["cache", "--json"], words].concat()).json();
        let names =
            all.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&["price"]), ["price/apple"]);
    assert_eq!(names(&["price", "--depth", "all"]), ["price/apple", "price/apple/old"]);
    assert_eq!(names(&["price/apple", "--depth", "0"]), ["price/apple"]);
    assert_eq!(names(&["", "--depth", "2"]), ["price/apple", "prices/pear"]);
    let plain = world.leasehold(&["cache", "price"]).stdout();
    let columns: Vec<_> = plain.trim_end().split('\t').collect();
    assert_eq!((columns.len(), columns[0], columns[2]), (3, "price/apple", "3"));
    assert!(columns[1].parse::<u64>().is_ok(), "{plain}");
}

#[test]
fn each_change_is_followed() {
    let world = World::new();
    add(&world, "price/apple", "3");
    let cache = world.leasehold(&["cache", "price", "--follow", "--json"]).start();
    let begun = ["snapshot null null", "there price/apple 3", "synced null null"];
    eventually("all is there", || events(&cache).len() == 3);
    assert_eq!(events(&cache), begun);
    add(&world, "price/apple", "1");
    eventually("it is changed", || events(&cache).last().unwrap() == "changed price/apple 4");
    world.leasehold(&["latch", "set", "price/pear", "1"]).outcome().expect_code(0);
    eventually("one more", || events(&cache).last().unwrap().starts_with("added price/pear {"));
    world.leasehold(&["latch", "count-down", "price/pear"]).outcome().expect_code(0);
    eventually("one less", || events(&cache).last().unwrap().starts_with("removed price/pear {"));
    cache.signal(Signal::INT);
    cache.wait().expect_code(0);
}

#[test]
fn it_ends_with_its_reader() {
    let world = World::new();
    let mut shell = std::process::Command::new("sh");
    let binary = env!("CARGO_BIN_EXE_leasehold");
    shell.args(["-c", "{ \"$0\" cache x --follow; echo $? >code; } | true", binary]);
    world.command(shell).outcome().expect_code(0);
    eventually("it ends", || world.read("code") == "0\n");
}

#[test]
fn a_depth_is_a_number_or_all() {
    let world = World::new();
    let wrong = world.leasehold(&["cache", "x", "--depth", "deep"]).outcome();
    wrong.expect_code(2).says("write a number, or all");
}
