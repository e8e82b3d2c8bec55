//! The first lock: take it, see that nobody else can, give it back.
//!
//! ```sh
//! cargo run -p leasehold --example first_lock
//! ```
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use leasehold::Locks;

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let locks = Locks::memory();
    let order = locks.mutex("order/42");

    let guard = order.lock().await?;
    println!("order/42 is ours, with fence {}", guard.fence());

    let second = order.try_lock().await?;
    println!("somebody else gets it: {}", second.is_some());

    let found = guard.release().await?;
    println!("given back: {found:?}");

    let again = order.lock().await?;
    println!("the next holder has fence {}", again.fence());
    Ok(())
}
