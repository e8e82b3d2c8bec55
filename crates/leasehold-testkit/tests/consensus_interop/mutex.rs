//! `InterProcessMutex` and our mutex.

use leasehold_testkit::contest::{BOUND, Checked, until};

use crate::stage::{LONG, NOW, PATH, Stage, token};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_waits_for_us() -> Checked {
    let Stage { ours, mut java, server: _server } = Stage::new().await?;
    let guard = ours.mutex(PATH).ttl(LONG).lock().await?;
    assert!(java.lock("mutex", PATH, NOW, NOW)?.is_none(), "two holders");
    java.ask("mutex", PATH, BOUND, NOW)?;
    until("it queues", || async { Ok(ours.status(PATH).await?.waiters.len() == 1) }).await?;
    guard.check()?;
    let fence = guard.fence();
    guard.release().await?;
    assert!(token(java.granted()?)? > fence);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_wait_for_curator() -> Checked {
    let Stage { ours, mut java, server: _server } = Stage::new().await?;
    let theirs = token(java.lock("mutex", PATH, NOW, NOW)?)?;
    let mutex = ours.mutex(PATH).ttl(LONG);
    assert!(mutex.try_lock().await?.is_none(), "two holders");
    let waiting = tokio::spawn(mutex.lock().within(BOUND).into_future());
    until("we queue", || async { Ok(mutex.status().await?.waiters.len() == 1) }).await?;
    assert!(java.unlock("mutex", PATH)?.is_some(), "it held");
    assert!(waiting.await??.fence() > theirs);
    Ok(())
}

/// Whoever looks with Curator's eyes sees Curator's nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_node_looks_like_curators_and_its_czxid_is_our_fence() -> Checked {
    let stage = Stage::new().await?;
    let guard = stage.ours.mutex(PATH).ttl(LONG).lock().await?;
    let mut znodes = stage.znodes()?;
    let nodes = znodes.children(PATH)?;
    let [node] = nodes.as_slice() else { return Err(format!("one node: {nodes:?}").into()) };
    assert!(is_curators(node), "{node}");
    let stat = znodes.stat(&format!("{PATH}/{node}"))?.ok_or("it is gone")?;
    assert_eq!(u64::try_from(stat.czxid)?, guard.fence());
    assert_ne!(stat.owner, 0, "it would outlive its client");
    Ok(())
}

/// `_c_<uuid>-lock-<ten digits>`.
fn is_curators(node: &str) -> bool {
    let rest = node.strip_prefix("_c_").unwrap_or_default();
    let (id, number) = rest.split_once("-lock-").unwrap_or_default();
    let dashes: Vec<_> = id.match_indices('-').map(|(at, _)| at).collect();
    id.len() == 36
        && dashes == [8, 13, 18, 23]
        && number.len() == 10
        && number.bytes().all(|digit| digit.is_ascii_digit())
}

/// Both sides in turn, four waiters: who came first is served first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_both_sides_are_served_in_the_order_of_their_czxid() -> Checked {
    let stage = Stage::new().await?;
    let (mut first, mut second) = (stage.peer()?, stage.peer()?);
    let (one, two) = (stage.ours.mutex(PATH).ttl(LONG), stage.ours.mutex(PATH).ttl(LONG));
    let holder = stage.ours.mutex(PATH).ttl(LONG).lock().await?;
    let queued =
        async |count| until("it queues", || async { Ok(stage.line(PATH)? == count) }).await;
    first.ask("mutex", PATH, BOUND, NOW)?;
    queued(2).await?;
    let one = tokio::spawn(one.fair().lock().within(BOUND).into_future());
    queued(3).await?;
    second.ask("mutex", PATH, BOUND, NOW)?;
    queued(4).await?;
    let two = tokio::spawn(two.fair().lock().within(BOUND).into_future());
    queued(5).await?;
    let mut fences = vec![holder.fence()];
    holder.release().await?;
    fences.push(token(first.granted()?)?);
    assert!(first.unlock("mutex", PATH)?.is_some());
    let one = one.await??;
    fences.push(one.fence());
    one.release().await?;
    fences.push(token(second.granted()?)?);
    assert!(second.unlock("mutex", PATH)?.is_some());
    fences.push(two.await??.fence());
    assert!(fences.is_sorted_by(|earlier, later| earlier < later), "{fences:?}");
    Ok(())
}
