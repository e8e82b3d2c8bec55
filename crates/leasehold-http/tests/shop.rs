//! The shop of `examples/shop` under its load: a program that fails when an order
//! was made twice, or more was sold than there was.

use std::env;
use std::path::PathBuf;
use std::process::Command;

type Tested<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Cargo builds examples beside the tests of a package, but not for `--test` alone.
fn shop() -> Tested<PathBuf> {
    let deps = env::current_exe()?;
    let profile = deps.parent().and_then(|deps| deps.parent()).ok_or("no folder")?;
    let shop = profile.join("examples").join("shop").with_extension(env::consts::EXE_EXTENSION);
    match shop.exists() {
        true => Ok(shop),
        false => Err("first: cargo build -p leasehold-http --features axum --example shop".into()),
    }
}

#[test]
fn nobody_buys_twice_and_nothing_is_oversold() -> Tested {
    let load = Command::new(shop()?).output()?;
    let said = String::from_utf8_lossy(&load.stdout);
    assert!(load.status.success(), "{said}{}", String::from_utf8_lossy(&load.stderr));
    assert!(said.contains("75 customers, 50 orders, 25 sold out"), "{said}");
    Ok(())
}
