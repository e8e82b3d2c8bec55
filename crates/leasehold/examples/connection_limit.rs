//! A semaphore as a connection limit: twenty workers, five connections.
//!
//! `cargo run -p leasehold --example connection_limit`
//!
//! With `sqlite:PATH` instead of memory the limit holds for all processes of
//! the host.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::Locks;

const WORKERS: usize = 20;
const CONNECTIONS: u32 = 5;

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let locks = Locks::memory();
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let workers = (0..WORKERS).map(|_| {
        let limit = locks.semaphore("database", CONNECTIONS);
        let (open, most) = (Arc::clone(&open), Arc::clone(&most));
        async move {
            let _permit = limit.acquire(1).await?;
            most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            use_connection().await;
            open.fetch_sub(1, Ordering::SeqCst);
            leasehold::Result::Ok(())
        }
    });
    let tasks: Vec<_> = workers.map(run).collect();
    for task in tasks {
        task.await.expect("no panic")?;
    }
    let most = most.load(Ordering::SeqCst);
    println!("{WORKERS} workers, never more than {most} connections (limit {CONNECTIONS})");
    assert!(most <= CONNECTIONS as usize);
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "this is an application, on its own runtime")]
fn run<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}

#[allow(clippy::disallowed_methods, reason = "this is an application, on its own runtime")]
async fn use_connection() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}
