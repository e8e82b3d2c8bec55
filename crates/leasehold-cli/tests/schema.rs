//! `schema`: SQL for those who run it themselves.

use crate::util::World;

#[test]
fn every_database_has_its_tables() {
    let world = World::new();
    for database in ["postgres", "mysql", "sqlite"] {
        let page = world.leasehold(&["schema", database]).stdout();
        assert!(page.contains("CREATE TABLE") && page.contains("names"), "{page}");
    }
    let page = world.leasehold(&["schema", "postgres", "--prefix", "app_"]).stdout();
    assert!(page.contains("app_names"), "{page}");
    let page = world.leasehold(&["schema", "mysql", "--names"]).stdout();
    assert!(page.contains("`leasehold_name_locks`"), "{page}");
    let page = world.leasehold(&["schema", "postgres", "--once", "shop.keys"]).stdout();
    assert!(page.contains(r#""shop"."keys""#) && page.contains("outcome BYTEA"), "{page}");
}

#[test]
fn guards_follow_the_column() {
    let world = World::new();
    let page = world.leasehold(&["schema", "postgres", "--guard", "goods"]).stdout();
    assert!(page.contains(r#"NEW."fence" >= OLD."fence""#), "{page}");
    let page = world.leasehold(&["schema", "mysql", "--guard", "goods", "--column", "version"]);
    let page = page.stdout();
    assert!(page.starts_with("DELIMITER //") && page.contains("OLD.`version` + 1"), "{page}");
}

#[test]
fn what_is_no_name_gets_into_no_statement() {
    let world = World::new();
    let bad = world.leasehold(&["schema", "postgres", "--guard", "goods; --"]).outcome();
    bad.expect_code(2).says("cannot be the name of a table");
    world.leasehold(&["schema", "sqlite", "--prefix", "x"]).outcome().expect_code(2);
    world.leasehold(&["schema", "oracle"]).outcome().expect_code(2).says("postgres, mysql, sqlite");
}
