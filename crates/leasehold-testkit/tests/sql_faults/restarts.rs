//! P16: the server is killed under many who hold and many who wait, and comes back with
//! all it had written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leasehold::{Guard, Locks};
use leasehold_testkit::contest::BOUND;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Checked, Database, LONG, until};

const HOLDERS: usize = 300;
const WAITERS: usize = 100;

/// Who goes through one by one sees that nobody else is inside, and a larger fence
/// than all before.
#[derive(Default)]
struct Door {
    taken: AtomicBool,
    last: AtomicU64,
}

impl Door {
    async fn pass(self: Arc<Self>, locks: Locks) -> Checked {
        let guard = locks.mutex("hot").ttl(LONG).fair().lock().within(2 * BOUND).await?;
        assert!(!self.taken.swap(true, Ordering::SeqCst), "two are inside");
        let before = self.last.swap(guard.fence(), Ordering::SeqCst);
        assert!(before < guard.fence(), "{} after {before}", guard.fence());
        self.taken.store(false, Ordering::SeqCst);
        guard.release().await?;
        Ok(())
    }
}

async fn hold(locks: &Locks) -> Checked<Vec<Guard>> {
    let mut asked = JoinSet::new();
    for n in 0..HOLDERS {
        asked.spawn(locks.mutex(format!("held/{n}")).ttl(LONG).lock().into_future());
    }
    Ok(asked.join_all().await.into_iter().collect::<Result<_, _>>()?)
}

/// All still hold, nobody else gets what they hold, and all who waited come in by
/// turns: those of a client that held, and those of one that did not.
async fn restart(mut db: Database) -> Checked {
    let url = db.url("retry=forever:20ms");
    let (one, two) = (leasehold::open(&url).await?, leasehold::open(&url).await?);
    let (held, hot) = (hold(&one).await?, one.mutex("hot").ttl(LONG).lock().await?);
    let (door, mut waiting) = (Arc::new(Door::default()), JoinSet::new());
    for n in 0..WAITERS {
        let locks = if n % 2 == 0 { &one } else { &two };
        waiting.spawn(Arc::clone(&door).pass(locks.clone()));
    }
    let queued = || async { Ok(one.status("hot").await?.waiters.len() == WAITERS) };
    until("all queue", queued).await?;
    let before = db.connections()?;
    db.server.kill()?;
    assert!(before > 0 && db.connections().is_err(), "nobody was cut off: {before}");
    db.server.restart()?;
    for n in 0..HOLDERS {
        assert!(two.mutex(format!("held/{n}")).try_lock().await?.is_none(), "{n} is held twice");
    }
    held.iter().try_for_each(Guard::check)?;
    hot.check()?;
    hot.release().await?;
    for passed in timeout(2 * BOUND, waiting.join_all()).await? {
        passed?;
    }
    drop(held);
    one.shutdown(LONG).await?;
    two.shutdown(LONG).await?;
    db.is_left_clean().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_is_killed_takes_nothing_from_many() -> Checked {
    restart(Database::postgres(|plan| plan)?).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mariadb_that_is_killed_takes_nothing_from_many() -> Checked {
    restart(Database::mariadb(|plan| plan)?).await
}
