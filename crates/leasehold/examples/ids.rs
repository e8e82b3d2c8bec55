//! Ids that are unique over all processes, and texts that do not tell how many
//! there are. Run it twice: the numbers go on.
//!
//! ```sh
//! cargo run --example ids --features ids,sqlite
//! ```

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use leasehold::ids::{Alphabet, Veil};

#[tokio::main(flavor = "current_thread")]
async fn main() -> leasehold::Result<()> {
    let file = std::env::temp_dir().join("leasehold-example-ids.db");
    let locks = leasehold::open(format!("sqlite:{}", file.display())).await?;

    let orders = locks.ids("orders").segment().start(1_000).open().await?;
    let veil = Veil::new(1, *b"sixteen secret b")?;
    for _ in 0..3 {
        let id = orders.next().await?;
        let shown = veil.hide(id, Alphabet::Crockford);
        println!("order {id}, shown to customers as {shown}");
    }
    // Without it the rest of the block would be a gap.
    orders.close().await?;

    let events = locks.ids("events").snowflake().open().await?;
    for id in events.batch(3).await? {
        let parts = events.decode(id);
        println!("event {id}: worker {}, number {}", parts.worker, parts.sequence);
    }
    events.close().await
}
