//! `ls`, `show` and `evict`: what people and programs read.

use serde_json::{Value, json};

use crate::util::World;

/// Puts fixed values in the place of times, after checking that they are some.
fn pinned(mut value: Value) -> Value {
    match &mut value {
        Value::Array(items) => items.iter_mut().for_each(|item| *item = pinned(item.take())),
        Value::Object(fields) => {
            for (key, field) in fields {
                let is_time = key.ends_with("_seconds") && !field.is_null();
                *field = if is_time {
                    assert!(field.as_f64().unwrap() >= 0.0, "{key}");
                    json!("time")
                } else if key == "fence" {
                    assert!(field.as_u64().unwrap() > 0);
                    json!("fence")
                } else {
                    pinned(field.take())
                };
            }
        }
        _ => {}
    }
    value
}

fn holder(label: &str, meta: Value) -> Value {
    json!({
        "label": label, "mode": "exclusive", "fence": "fence",
        "held_seconds": "time", "left_seconds": "time", "meta": meta,
    })
}

#[test]
fn show_has_the_promised_shape() {
    let world = World::new();
    world.run(&["x", "--label", "zero"], "true").outcome().expect_code(0);
    let first = world.holder(&["x", "--label", "one", "--meta", "why"]);
    let second = world.run(&["x", "--label", "two"], "true").start();
    crate::util::eventually("it waits", || world.show("x")["waiters"][0].is_object());
    let last = json!({
        "label": "zero", "fence": "fence", "ended": "released", "ago_seconds": "time",
        "remark": null,
    });
    let waiter = json!({ "label": "two", "mode": "exclusive", "waiting_seconds": "time" });
    let whole = json!({
        "name": "x", "namespace": "default", "free": false,
        "holders": [holder("one", json!("why"))], "waiters": [waiter],
        "closed_seconds": null, "last": last,
    });
    assert_eq!(pinned(world.show("x")), whole);
    assert_eq!(pinned(world.leasehold(&["ls", "--json"]).json()), json!([whole]));

    let page = world.leasehold(&["show", "x"]).stdout();
    let lines: Vec<_> = page.lines().collect();
    assert_eq!(lines[0], "x is held");
    assert!(lines[1].starts_with("holder    one (exclusive, fence "), "{page}");
    assert!(lines[1].ends_with(" left, meta: why"), "{page}");
    assert!(lines[2].starts_with("waiting   1. two (exclusive), for "), "{page}");
    assert!(lines[3].starts_with("last      zero (fence "), "{page}");

    first.finish().expect_code(0);
    second.wait().expect_code(0);
}

#[test]
fn a_free_name_is_no_error() {
    let world = World::new();
    assert_eq!(world.leasehold(&["show", "nobody"]).stdout(), "nobody is free\n");
    let free = json!({
        "name": "nobody", "namespace": "default", "free": true, "holders": [], "waiters": [],
        "closed_seconds": null, "last": null,
    });
    assert_eq!(world.show("nobody"), free);
    assert_eq!(world.leasehold(&["ls", "--json"]).json(), json!([]));
    assert_eq!(world.leasehold(&["ls"]).stdout(), "");
}

#[test]
fn ls_prints_columns_for_programs() {
    let world = World::new();
    world.run(&["order/1"], "true").outcome().expect_code(0);
    let holder = world.holder(&["order/2", "--label", "a b"]);
    let lines = world.leasehold(&["ls"]).stdout();
    let fields: Vec<_> = lines.trim_end().split('\t').collect();
    assert_eq!((fields.len(), lines.lines().count()), (7, 1), "{lines}");
    assert_eq!(fields[..3], ["order/2", "exclusive", "a b"]);
    assert!(fields[3].parse::<u64>().is_ok());
    assert!(fields[4].parse::<f64>().is_ok() && fields[5].parse::<f64>().unwrap() > 1.0);
    assert_eq!(fields[6], "0");

    let all = world.leasehold(&["ls", "order/", "--all"]).stdout();
    assert!(all.starts_with("order/1\tfree\t-\t-\t-\t-\t0\norder/2\t"), "{all}");
    assert_eq!(world.leasehold(&["ls", "other/"]).stdout(), "");
    holder.finish().expect_code(0);
}

#[test]
fn ls_shows_every_page() {
    let world = World::new();
    let names: Vec<String> = (0..130).map(|n| format!("n/{n:03}")).collect();
    for name in &names {
        world.run(&[name, "--hold-at-least", "1h"], "true").outcome().expect_code(0);
    }
    let listed = world.leasehold(&["ls"]).stdout();
    let listed: Vec<_> = listed.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(listed, names);
    assert_eq!(world.leasehold(&["ls", "--json"]).json().as_array().unwrap().len(), 130);
}

#[test]
fn eviction_needs_the_right_fence_and_a_reason() {
    let world = World::new();
    let holder = world.holder(&["x", "--ttl", "1h", "--label", "one", "--on-lost", "ignore"]);
    let fence = world.show("x")["holders"][0]["fence"].to_string();

    let unreasoned = world.leasehold(&["evict", "x", "--expect-fence", &fence]).outcome();
    unreasoned.expect_code(2).says("--reason <TEXT>");
    let blank = world.leasehold(&["evict", "x", "--expect-fence", &fence, "--reason", " "]);
    blank.outcome().expect_code(2).says("needs its reason");
    let wrong = world.leasehold(&["evict", "x", "--expect-fence", "1", "--reason", "r"]).outcome();
    let now = format!("now held by one (exclusive, fence {fence})");
    wrong.expect_code(1).says("nobody holds \"x\" with fence 1").says(&now);

    let dry = world.leasehold(&["evict", "x", "--expect-fence", &fence, "--dry-run"]).stdout();
    assert!(
        dry.starts_with(&format!("would evict from x: one (exclusive, fence {fence})")),
        "{dry}"
    );
    assert_eq!(world.show("x")["holders"][0]["label"], "one");

    let evict = ["evict", "x", "--expect-fence", &fence, "--reason", "drill"];
    let done = world.leasehold(&evict).stdout();
    assert!(done.starts_with("evicted from x: one (exclusive, fence "), "{done}");
    world.leasehold(&evict).outcome().expect_code(1).says("nobody holds \"x\": nothing to evict");
    holder.finish();
}

#[test]
fn evict_has_the_promised_shape() {
    let world = World::new();
    let held = world.holder(&["x", "--label", "one", "--on-lost", "ignore"]);
    let mut report =
        world.leasehold(&["evict", "x", "--all", "--reason", "drill", "--json"]).json();
    let actor = report["actor"].take();
    assert!(actor.as_str().unwrap().contains('@'), "{actor}");
    let expected = json!({
        "name": "x", "namespace": "default", "dry_run": false, "ask": false, "actor": null,
        "reason": "drill", "evicted": [holder("one", Value::Null)], "reopened": false,
    });
    assert_eq!(pinned(report), expected);
    let last = &world.show("x")["last"];
    assert_eq!((&last["ended"], &last["label"]), (&json!("evicted"), &json!("one")));
    let remark = last["remark"].as_str().unwrap();
    assert!(remark.ends_with(&format!("{}: drill", actor.as_str().unwrap())), "{remark}");
    held.finish();
}

#[test]
fn evict_all_opens_a_name_that_is_kept_closed() {
    let world = World::new();
    world.run(&["x", "--hold-at-least", "1h"], "true").outcome().expect_code(0);
    let by_fence = world.leasehold(&["evict", "x", "--expect-fence", "1", "--reason", "r"]);
    by_fence.outcome().expect_code(1).says("kept closed for another 59m");
    let opened = world.leasehold(&["evict", "x", "--all", "--reason", "r"]).stdout();
    assert!(opened.starts_with("opened x, which was to stay closed for another 59m"), "{opened}");
    world.run(&["x", "--no-wait"], "true").outcome().expect_code(0);
}

#[test]
fn tricky_names_are_exact_for_programs_and_escaped_in_json() {
    let world = World::new();
    let name = "a\u{202e}b";
    let holder = world.holder(&[name]);
    assert!(world.leasehold(&["ls"]).stdout().starts_with("a\u{202e}b\t"));
    let json = world.leasehold(&["ls", "--json"]).stdout();
    assert!(json.contains("a\\u202eb") && !json.contains('\u{202e}'), "{json}");
    assert_eq!(world.show(name)["name"], name);
    let page = world.leasehold(&["show", name]).stdout();
    assert!(page.starts_with("a\\u{202e}b is held\n"), "{page}");
    holder.finish().expect_code(0);
}

/// Asked for in this way, all three answered about the default store.
#[test]
fn the_url_of_an_engine_is_where_to_look() {
    let world = World::new();
    let elsewhere = World::new();
    let holder = world.holder(&["order/1", "--label", "one"]);
    let (here, there) = (world.engine(), elsewhere.engine());
    let ask = |args: &[&str]| elsewhere.leasehold(args);
    for args in [&["ls", &here][..], &["ls", &here, "order/"], &["ls", "--engine", &here, &here]] {
        assert!(ask(args).stdout().starts_with("order/1\t"), "{args:?}");
    }
    assert_eq!(ask(&["ls", &here, "other/"]).stdout(), "");
    assert!(ask(&["show", &here, "order/1"]).stdout().starts_with("order/1 is held\n"));
    let watch = ask(&["watch", &here, "order/", "--every", "100ms"]).start();
    crate::util::eventually("it is seen", || watch.out().contains(" held      order/1  one "));

    let twice = ask(&["ls", "--engine", &there, &here]).outcome();
    twice.expect_code(2).says("are two engines; leave one out");
    ask(&["show", &here]).outcome().expect_code(2).says("say a name as well");
    ask(&["ls", "order/", "other/"]).outcome().expect_code(2).says("the first is the URL");
    for args in [&["run", &here, "--", "true"][..], &["evict", &here, "--all", "--reason", "r"]] {
        ask(args).outcome().expect_code(2).says("is the URL of an engine; say --engine URL");
    }
    let name = "redis:failover";
    assert_eq!(ask(&["show", name]).stdout(), "redis:failover is free\n", "a name all the same");
    holder.finish().expect_code(0);
}
