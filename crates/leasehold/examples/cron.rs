//! A nightly job on two hosts whose clocks differ by a second: it runs once.
//!
//! `cargo run -p leasehold --example cron`
//!
//! The job is short, so the second host would find the lock free again and run
//! it a second time. `hold_at_least` keeps the name closed from the grant on,
//! even though the job has released it.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::time::Duration;

use leasehold::{Locks, TestClock};

#[tokio::main(flavor = "current_thread")]
async fn main() -> leasehold::Result<()> {
    let clock = TestClock::new();
    let locks = Locks::memory_on(clock.clone());
    let (mut plain, mut held) = (0, 0);
    for _host in ["a", "b"] {
        if let Some(guard) = locks.mutex("report").try_lock().await? {
            plain += 1;
            guard.release().await?;
        }
        let nightly = locks.mutex("nightly").hold_at_least(Duration::from_secs(60));
        if let Some(guard) = nightly.try_lock().await? {
            held += 1;
            guard.release().await?;
        }
        // The other host's clock shows midnight a second later.
        clock.advance(Duration::from_secs(1));
    }
    println!("without hold_at_least the job ran {plain} times, with it {held} time");
    assert_eq!((plain, held), (2, 1));

    clock.advance(Duration::from_secs(24 * 60 * 60));
    assert!(locks.mutex("nightly").try_lock().await?.is_some(), "tomorrow it runs again");
    Ok(())
}
