//! Twenty buyers, five items, one database: four ways to sell them.
//!
//! ```sh
//! cargo run -p leasehold --features postgres --example database_locks
//! cargo run -p leasehold --features postgres --example database_locks -- version
//! ```
//!
//! | way | what keeps buyers apart |
//! |---|---|
//! | `wrong` | nothing: look, think, write. It sells what is not there |
//! | `for_update` | the row is locked until the transaction ends |
//! | `version` | a write is refused if someone else has written since the look |
//! | `lease` | a lease around it all, and a fence that the write has to pass |
//!
//! It uses the PostgreSQL that `LEASEHOLD_URL` names, in which it makes the tables
//! `t_goods` and `t_orders`, or starts one of its own and ends it again.
//!
//! It fails if a right way sells too much, or if the wrong one does not.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]
#![allow(clippy::disallowed_methods, reason = "buyers think")]

mod for_update;
mod lease;
mod server;
mod shop;
mod version;
mod wrong;

use std::error::Error;

use shop::{STOCK, Shop};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The ways, and whether each is right.
const WAYS: [(&str, bool); 4] =
    [("wrong", false), ("for_update", true), ("version", true), ("lease", true)];

#[tokio::main]
async fn main() -> Outcome<()> {
    let chosen = std::env::args().nth(1);
    let server = server::Server::find()?;
    let shop = Shop::open(server.url()).await?;
    println!("{STOCK} items, {} buyers", shop::BUYERS);
    for (way, right) in WAYS {
        if chosen.as_ref().is_none_or(|chosen| chosen == way) {
            show(&shop, way, right).await?;
        }
    }
    shop.close().await
}

async fn show(shop: &Shop, way: &'static str, right: bool) -> Outcome<()> {
    let (sold, left) = shop.sell_out(way).await?;
    let verdict = if sold == STOCK && left == 0 { "right" } else { "OVERSOLD" };
    println!("{way:<10}  sold {sold:>2}, left {left:>3}: {verdict}");
    match right == (verdict == "right") {
        true => Ok(()),
        false => Err(format!("{way} did not show what it is for").into()),
    }
}

/// One buyer buys one item; false if there is none left.
async fn buy(shop: &Shop, way: &str) -> Outcome<bool> {
    match way {
        "wrong" => wrong::buy(shop).await,
        "for_update" => for_update::buy(shop).await,
        "version" => version::buy(shop).await,
        _ => lease::buy(shop).await,
    }
}
