//! Optimistic locking: two shops sell from one stock. Nobody waits for anybody;
//! whoever was overtaken reads again and tries again, so no sale is lost.
//!
//! ```sh
//! cargo run -p leasehold --features full --example optimistic_update
//! ```
//!
//! Give both of two terminals the same URL to see it between processes:
//! `... --example optimistic_update -- sqlite:/tmp/stock.db`.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use leasehold::{Locks, Record};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Stock {
    sold: u32,
    writes: u32,
}

const SALES: u32 = 100;

/// Sells one piece at a time; says how often somebody else was faster.
async fn sell(stock: &Record<Stock>) -> leasehold::Result<u32> {
    let mut overtaken = 0;
    for _ in 0..SALES {
        let mut tries = 0;
        stock
            .update(|found| {
                tries += 1;
                let Stock { sold, writes } = found.unwrap_or_default();
                Some(Stock { sold: sold + 1, writes: writes + 1 })
            })
            .await?;
        overtaken += tries - 1;
    }
    Ok(overtaken)
}

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let locks = match std::env::args().nth(1) {
        Some(url) => leasehold::open(url).await?,
        None => Locks::memory(),
    };
    let stock = locks.record::<Stock>("stock/42");

    let (one, two) = (sell(&stock), sell(&stock));
    let (one, two) = tokio::try_join!(one, two)?;

    println!("sold {} pieces, overtaken {one} and {two} times", 2 * SALES);
    if let Some(found) = stock.get().await? {
        println!("all shops together have sold {} so far", found.value.sold);
    }
    Ok(())
}
