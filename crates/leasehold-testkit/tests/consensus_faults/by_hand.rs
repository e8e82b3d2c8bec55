//! Somebody removes the nodes or keys of a lock by hand.

use leasehold_testkit::contest::{BOUND, Checked, is_guarded, until};

use super::store::Store;
use super::{LONG, NAME, is_lost, open, queued, still_waits};

/// The holder is told, and the next one gets in with a larger fence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_own_node_is_removed_is_told() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
        let guard = one.mutex(NAME).ttl(LONG).lock().await?;
        let line = store.line(&server)?;
        assert_eq!(line.len(), 1, "{line:?}");
        store.remove(&server, &line[0])?;
        is_lost(&guard).await?;
        let next = two.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
        is_guarded(&guard, &next)?;
    }
    Ok(())
}

/// It notices that it is in no line any more, and joins again behind the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_own_node_is_removed_joins_again() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
        let guard = one.mutex(NAME).ttl(LONG).lock().await?;
        let held = store.line(&server)?;
        let mut waiting =
            tokio::spawn(two.mutex(NAME).ttl(LONG).lock().within(BOUND).into_future());
        queued(&one, 1).await?;
        let place = only(store.line(&server)?, &held)?;
        let made = store.made(&server, &place)?;
        store.remove(&server, &place)?;
        until(&format!("{store:?}: it joins again"), || async {
            let Ok(place) = only(store.line(&server)?, &held) else { return Ok(false) };
            Ok(store.made(&server, &place)? > made)
        })
        .await?;
        guard.check()?;
        still_waits(&mut waiting).await?;
        let fence = guard.fence();
        guard.release().await?;
        assert!(waiting.await??.fence() > fence);
    }
    Ok(())
}

/// A waiter loses its place while the holder leaves: a third one was faster, and
/// nobody takes the missing node for a grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_without_a_node_does_not_take_a_release_for_its_turn() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
        let mut last = 0;
        for _ in 0..10 {
            let guard = one.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
            let held = store.line(&server)?;
            let waiting = two.mutex(NAME).ttl(LONG).lock().within(BOUND).into_future();
            let waiting = tokio::spawn(waiting);
            queued(&one, 1).await?;
            let place = only(store.line(&server)?, &held)?;
            let fence = guard.fence();
            let release = tokio::spawn(guard.release());
            // Whether it comes before the release or after it, one holds in the end.
            let _ = store.remove(&server, &place);
            release.await??;
            // It may have been granted, and lost that again.
            let granted = waiting.await??;
            assert!(granted.fence() > fence.max(last), "{} after {fence}", granted.fence());
            last = granted.fence();
            granted.release().await?;
        }
    }
    Ok(())
}

/// The one of the line that is not in the other.
fn only(line: Vec<String>, without: &[String]) -> Checked<String> {
    let found = line.into_iter().find(|key| !without.contains(key));
    found.ok_or_else(|| "nobody else is in line".into())
}
