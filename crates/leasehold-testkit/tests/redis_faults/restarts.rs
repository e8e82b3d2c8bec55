//! A server that is restarted under many who hold and many who wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leasehold::{Guard, Locks, Standing};
use leasehold_testkit::server::{Plan, Server};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{BOUND, Checked, LONG, until};

const HOLDERS: usize = 300;
const WAITERS: usize = 60;

/// Who goes through one by one sees that nobody else is inside, and a larger
/// fence than all before.
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

async fn restart(plan: Plan, keeps: bool) -> Checked {
    let mut server = Server::start(plan)?;
    let locks = leasehold::open(format!("{}?retry=forever:20ms", server.url())).await?;
    let (held, hot) = (hold(&locks).await?, locks.mutex("hot").ttl(LONG).lock().await?);
    let (door, mut waiting) = (Arc::new(Door::default()), JoinSet::new());
    for _ in 0..WAITERS {
        let pass = Arc::clone(&door).pass(locks.clone());
        waiting.spawn(async move { pass.await.map_err(|error| error.to_string()) });
    }
    let queued = || async { Ok(locks.status("hot").await?.waiters.len() == WAITERS) };
    until("all queue", queued).await?;
    server.kill()?;
    server.restart()?;
    if keeps {
        hot.release().await?;
    } else {
        for guard in held.iter().chain([&hot]) {
            let standing = timeout(BOUND, guard.lost()).await?;
            assert!(matches!(standing, Standing::Lost(_)), "{standing:?}");
        }
    }
    for passed in timeout(2 * BOUND, waiting.join_all()).await? {
        passed?;
    }
    if keeps {
        held.iter().try_for_each(Guard::check)?;
        assert_eq!(locks.list("held/", Default::default()).await?.names.len(), 100);
    }
    Ok(())
}

/// R5: nothing is forgotten: all still hold, and all who waited come in by turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_that_keeps_all_takes_nothing_from_many() -> Checked {
    restart(Plan::redis_durable(), true).await
}

/// R5: everything is forgotten: all hear of it, and all who waited come in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_that_forgets_all_is_told_to_many() -> Checked {
    restart(Plan::redis(), false).await
}
