//! `doctor`: promises, findings, self-test.

use serde_json::Value;

use crate::util::World;

fn names(list: &Value, key: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|it| it[key].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_healthy_engine_is_well() {
    let world = World::new();
    let page = world.leasehold(&["doctor"]).stdout();
    assert!(page.starts_with(&format!("sqlite {}\n", world.path("locks.db").display())), "{page}");
    for text in
        ["PROMISE", "a later holder always has a larger fence", "self-test  100 x", "clocks "]
    {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(page.ends_with("verdict    well\n"), "{page}");
    assert!(!page.contains('\x1b'), "no tricks in a pipe: {page:?}");
}

#[test]
fn the_report_has_the_promised_shape() {
    let world = World::new();
    let report = world.leasehold(&["doctor", "--json"]).json();
    assert_eq!((&report["engine"], &report["verdict"]), (&"sqlite".into(), &"well".into()));
    let promises = names(&report["promises"], "promise");
    for promise in ["grants", "fencing", "order", "clock", "wake", "reach", "survives", "cost"] {
        assert!(promises.iter().any(|it| it == promise), "{promise}");
    }
    assert!(names(&report["findings"], "severity").iter().all(|it| it == "note"));
    let test = &report["self_test"];
    assert_eq!(test["pairs"], 100);
    for time in ["p50_us", "p90_us", "p99_us", "max_us", "engine_clock_ms", "own_clock_ms"] {
        assert!(test[time].as_f64().unwrap() > 0.0, "{time}: {test}");
    }
}

#[test]
fn nothing_stays_held() {
    let world = World::new();
    world.leasehold(&["doctor"]).outcome().expect_code(0);
    let left = world.leasehold(&["ls", "--namespace", "leasehold.doctor", "--json"]).json();
    assert_eq!(left, serde_json::json!([]));
    assert_eq!(world.leasehold(&["ls", "--all"]).stdout(), "");
}

#[test]
fn memory_is_examined_too() {
    let world = World::new();
    let page = world.leasehold(&["doctor", "--engine", "memory:"]).stdout();
    assert!(page.starts_with("memory:\n") && page.contains("findings   none"), "{page}");
}

#[test]
fn an_engine_that_cannot_be_opened_has_its_own_code() {
    let world = World::new();
    let none = world.leasehold(&["doctor", "--engine", "sqlite:/proc/no/such/x.db"]).outcome();
    none.expect_code(2).says("there is no folder");
}
