//! A configuration cache: settings are records, each process has them at hand, and
//! hears at once when somebody changes one.
//!
//! ```sh
//! cargo run -p leasehold --features full --example config_cache
//! ```
//!
//! Give both of two terminals the same URL to see it between processes:
//! `... --example config_cache -- sqlite:/tmp/config.db`.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use leasehold::Locks;
use leasehold::cache::{Cache, CacheEvent};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Pool {
    connections: u32,
}

/// What holds where nobody has set anything.
const DEFAULT: Pool = Pool { connections: 4 };

/// Costs no request: ask as often as you like.
fn pool(config: &Cache<Pool>, service: &str) -> leasehold::Result<Pool> {
    let found = config.get(format!("config/pool/{service}"))?;
    Ok(found.map_or(DEFAULT, |found| *found.value))
}

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let locks = match std::env::args().nth(1) {
        Some(url) => leasehold::open(url).await?,
        None => Locks::memory(),
    };
    let config = locks.cache::<Pool>("config/pool").limit(1_000).start().await?;
    println!("checkout starts with {} connections", pool(&config, "checkout")?.connections);

    let mut news = config.events();
    let operator = locks.record::<Pool>("config/pool/checkout");
    operator
        .update(|found| Some(Pool { connections: found.map_or(8, |it| it.connections + 1) }))
        .await?;

    while let Some(event) = news.next().await {
        match event {
            CacheEvent::Snapshot(all) => println!("{} settings so far", all.len()),
            CacheEvent::Added { name, new } | CacheEvent::Changed { name, new, .. } => {
                println!("{name} is {} now", new.value()?.connections);
                break;
            }
            CacheEvent::Removed { name, .. } => println!("{name} is as it was built"),
            CacheEvent::Stale(reason) => println!("settings may be old: {reason:?}"),
            _ => {}
        }
    }
    println!("checkout goes on with {} connections", pool(&config, "checkout")?.connections);
    Ok(())
}
