//! Servers that are killed and come back with all they knew.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold::Standing;
use leasehold_testkit::contest::{BOUND, Checked, until};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::store::Store;
use super::{LONG, PATIENT};

/// How many hold, and how many wait for one name.
const HOLDERS: usize = 300;
const WAITERS: usize = 100;

/// All holders keep what they hold or learn that they have lost it, nobody else gets
/// what is held, and all who wait have their turn, one at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_comes_back_to_its_holders_and_waiters() -> Checked {
    for store in Store::BOTH {
        let mut server = store.start()?;
        let url = format!("{}?{}", server.url(), PATIENT.replace("names=raw&", ""));
        let (one, two) = (leasehold::open(&url).await?, leasehold::open(&url).await?);
        let mut held = Vec::new();
        for at in 0..HOLDERS {
            held.push(one.mutex(format!("held/{at}")).ttl(LONG).lock().await?);
        }
        let first = one.mutex("line").ttl(LONG).lock().await?;
        let (inside, fences) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut waiting = JoinSet::new();
        for at in 0..WAITERS {
            let locks = if at % 2 == 0 { one.clone() } else { two.clone() };
            let (inside, fences) = (Arc::clone(&inside), Arc::clone(&fences));
            waiting.spawn(async move {
                let guard = locks.mutex("line").ttl(LONG).fair().lock().await?;
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
                let fence = usize::try_from(guard.fence()).unwrap_or_default();
                assert!(fences.swap(fence, Ordering::SeqCst) < fence, "out of order");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await
            });
        }
        until("they wait", || async { Ok(one.status("line").await?.waiters.len() == WAITERS) })
            .await?;
        server.kill()?;
        server.restart()?;
        until("holders know", || async {
            let settled = |standing| matches!(standing, Standing::Held | Standing::Lost(_));
            Ok(held.iter().all(|guard| settled(guard.standing())))
        })
        .await?;
        for (at, guard) in held.iter().enumerate() {
            let taken = two.mutex(format!("held/{at}")).ttl(LONG).try_lock().await?.is_some();
            assert!(!taken || guard.check().is_err(), "{store:?}: two holders of {at}");
        }
        assert_eq!(inside.load(Ordering::SeqCst), 0, "{store:?}: it is held");
        first.release().await?;
        while let Some(done) = timeout(BOUND, waiting.join_next()).await? {
            done??;
        }
    }
    Ok(())
}
