//! `id`: unique ids.

use crate::util::World;

#[test]
fn segment_ids_count_over_many_calls() {
    let world = World::new();
    let make = |args: &[&str]| world.leasehold(&[&["id", "segment"], args].concat()).stdout();
    assert_eq!(make(&["orders"]), "1\n");
    assert_eq!(make(&["orders", "-n", "3"]), "2\n3\n4\n");
    assert_eq!(make(&["orders", "--start", "1000"]), "1000\n");
    assert_eq!(make(&["users"]), "1\n", "each tag has its own");
    assert_eq!(make(&["users", "--text", "base32"]), "0000000000002\n");
}

#[test]
fn snowflake_ids_differ_and_can_be_taken_apart() {
    let world = World::new();
    let made = world.leasehold(&["id", "snowflake", "-n", "100"]).stdout();
    let mut ids: Vec<u64> = made.lines().map(|line| line.parse().unwrap()).collect();
    assert!(ids.is_sorted());
    ids.dedup();
    assert_eq!(ids.len(), 100);
    let text = world.leasehold(&["id", "decode", &ids[0].to_string()]).stdout();
    assert!(text.contains("sequence  ") && text.contains("at        20"), "{text}");
    let json = world.leasehold(&["id", "decode", &ids[0].to_string(), "--json"]).stdout();
    assert!(json.contains("\"worker\""), "{json}");
}

#[test]
fn what_is_no_id_or_layout_is_explained() {
    let world = World::new();
    world.leasehold(&["id", "decode", "x"]).outcome().expect_code(2).says("base 62");
    let bad = world.leasehold(&["id", "decode", "1", "--layout", "60/10/12"]).outcome();
    bad.expect_code(2).says("82 bits");
    world.leasehold(&["id"]).outcome().expect_code(2).says("segment, snowflake, decode");
}
