//! Many processes, and many who wait in each for one name.

use leasehold_testkit::check;
use leasehold_testkit::holder::{Holder, Orders};
use leasehold_testkit::register::Register;
use leasehold_testkit::server::Server;
use tempfile::TempDir;

use super::{BOUND, Checked, LONG, calls, info};

const PROCESSES: u32 = 10;
const WAITERS: u32 = 1_000;
/// One for commands and one for pushes.
const EACH: u64 = 2;

/// Everybody gets in, once. A process is one waiter to the server, however many
/// wait in it, so a hand-over costs two calls: the release, and the next claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_waiters_share_twenty_connections() -> Checked {
    let (server, folder) = (Server::redis()?, TempDir::new()?);
    let path = folder.path().join("register");
    let gate = leasehold::open(server.url()).await?;
    let held = gate.mutex("n").ttl(LONG).lock().await?;
    let orders = Orders::new(&server.url(), "n").ttl(LONG).tasks(WAITERS).register(&path);
    let mut crowd = Vec::new();
    for _ in 0..PROCESSES {
        crowd.push(Holder::spawn(orders.clone())?);
    }
    for holder in &mut crowd {
        (0..WAITERS).try_for_each(|_| holder.until("asking").map(drop))?;
    }
    let most = info(&server, "clients", "connected_clients")?;
    // Ours, those of the crowd, and the one that asks.
    assert!(most <= EACH * u64::from(PROCESSES + 1) + 1, "{most} connections");
    held.release().await?;
    tokio::time::timeout(2 * BOUND, all_done(&mut crowd)).await??;
    let accesses = Register::open(&path)?.accesses()?;
    assert_eq!(accesses.len(), usize::try_from(2 * PROCESSES * WAITERS)?);
    assert!(accesses.iter().all(|access| access.accepted), "somebody came late");
    check::register(&accesses)?;
    let calls = calls(&server)?;
    let grants = u64::from(PROCESSES * WAITERS);
    assert!(calls < 3 * grants, "{calls} calls for {grants} grants");
    Ok(())
}

async fn all_done(crowd: &mut [Holder]) -> Checked {
    for holder in crowd {
        while !holder.is_done()? {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    Ok(())
}
