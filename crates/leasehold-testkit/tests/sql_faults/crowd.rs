//! P5: many processes with few connections, and many who wait in each.

use leasehold_testkit::check;
use leasehold_testkit::holder::{Holder, Orders};
use leasehold_testkit::register::Register;
use tempfile::TempDir;

use super::{Checked, Database, LONG};

const PROCESSES: u32 = 10;
const WAITERS: u32 = 200;
/// For statements, as told, and one for pushes where the server has them.
const EACH: i64 = 2 + 1;

/// Everybody gets in, once; as many connections serve ten who wait as a thousand.
async fn crowd(db: Database) -> Checked {
    let folder = TempDir::new()?;
    let path = folder.path().join("register");
    let orders = Orders::new(&db.url("connections=2"), "n").ttl(LONG).tasks(WAITERS);
    let mut crowd = Vec::new();
    let gate = leasehold::open(db.server.url()).await?;
    let own = db.connections()?;
    let held = gate.mutex("n").ttl(LONG).lock().await?;
    for _ in 0..PROCESSES {
        crowd.push(Holder::spawn(orders.clone().register(&path))?);
    }
    for holder in &mut crowd {
        (0..WAITERS).try_for_each(|_| holder.until("asking").map(drop))?;
    }
    held.release().await?;
    let most = watch(&db, &mut crowd).await?;
    assert!(most > own + i64::from(PROCESSES), "the crowd was never seen: {most}");
    assert!(most <= own + EACH * i64::from(PROCESSES) + EACH, "{most} connections");
    let accesses = Register::open(&path)?.accesses()?;
    assert_eq!(accesses.len(), usize::try_from(2 * PROCESSES * WAITERS)?);
    assert!(accesses.iter().all(|access| access.accepted), "somebody came late");
    check::register(&accesses)?;
    gate.shutdown(LONG).await?;
    db.is_left_clean().await
}

/// The most connections that were seen until all had ended.
async fn watch(db: &Database, crowd: &mut [Holder]) -> Checked<i64> {
    let (mut most, mut busy) = (0, true);
    while busy {
        most = most.max(db.connections()?);
        busy = false;
        for holder in &mut *crowd {
            busy |= !holder.is_done()?;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Ok(most)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_waiters_share_twenty_connections_of_a_postgres() -> Checked {
    crowd(Database::postgres(|plan| plan)?).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_waiters_share_twenty_connections_of_a_mariadb() -> Checked {
    crowd(Database::mariadb(|plan| plan)?).await
}
