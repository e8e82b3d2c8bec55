//! A hot standby: two schedulers are candidates of one election. Only the leader
//! works, and when it ends the other one leads.
//!
//! ```sh
//! cargo run -p leasehold --features full --example scheduler
//! ```
//!
//! Each is a client of its own, as two processes would be. What they write to
//! compares fences, so that a leader which was paused for too long writes nothing.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::time::Duration;

use leasehold::{Fenced, Reign, Result};

const TICKS: u32 = 3;

/// How often anybody has worked.
type Ledger = Fenced<u32>;

/// What became of a scheduler: the fence of its reign, and what the ledger said then.
type Term = (u64, u32);

async fn stand_by(url: &str, node: &str, ledger: &Ledger) -> Result<Term> {
    let locks = leasehold::open(url).await?;
    let election = locks.election("scheduler").ttl(Duration::from_secs(5)).label(node);
    println!("{node} stands by");
    let term = election.lead(node, async |reign| work(node, reign, ledger).await).await??;
    println!("{node} leads no longer");
    Ok(term)
}

/// Works for some time, then ends. It is dropped if the lead is lost before.
async fn work(node: &str, reign: &Reign, ledger: &Ledger) -> Result<Term> {
    let sequencer = reign.guard().sequencer();
    let mut count = 0;
    for tick in 1..=TICKS {
        count = ledger.write(&sequencer, |ticks| {
            *ticks += 1;
            *ticks
        })?;
        println!("{node} works: tick {tick} of its reign, with fence {}", reign.fence());
        until_the_next_tick().await;
    }
    Ok((reign.fence(), count))
}

#[allow(clippy::disallowed_methods, reason = "this is an application, on its own runtime")]
async fn until_the_next_tick() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

#[tokio::main]
async fn main() -> Result<()> {
    let file = std::env::temp_dir().join("leasehold-example-scheduler.db");
    let url = format!("sqlite:{}", file.display());
    let ledger = Ledger::new(0);
    let one = stand_by(&url, "node-1", &ledger);
    let two = stand_by(&url, "node-2", &ledger);
    let (one, two) = tokio::join!(one, two);

    // Whoever led second has the larger fence, and has seen all the work of the first.
    let last = one?.max(two?);
    println!("{} ticks, the last with fence {}", last.1, last.0);
    assert_eq!(last, (ledger.mark(), 2 * TICKS));
    Ok(())
}
