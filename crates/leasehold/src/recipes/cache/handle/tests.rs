//! What a cache takes, and what it leaves.

use std::sync::Weak;

use super::*;
use crate::Locks;

async fn start(locks: &Locks, depth: usize) -> Cache<u32> {
    locks.cache("c").depth(depth).start().await.unwrap()
}

/// Tasks end on home, some time after the last handle has gone.
async fn ends<T: Send + Sync>(task: Weak<T>) {
    while task.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn caches_of_one_path_share_one_watch_and_the_last_one_ends_it() {
    let locks = Locks::memory();
    let watches = &locks.core().watches;
    let (one, two, three) =
        (start(&locks, 1).await, start(&locks, 1).await, start(&locks.clone(), 1).await);
    assert_eq!(watches.len(), 1);
    let other = start(&locks, 2).await;
    assert_eq!(watches.len(), 2);
    let tasks = [&one, &two, &three].map(|cache| Arc::downgrade(&cache.0.shared));
    drop((one, two));
    locks.record("c/x").set(&7).await.unwrap();
    while three.get("c/x").unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    drop(three);
    for task in tasks {
        ends(task).await;
    }
    assert_eq!(watches.len(), 1);
    let again = start(&locks, 1).await;
    assert_eq!(again.len(), 1);
    drop((again, other));
}

#[tokio::test]
async fn a_listener_keeps_the_cache_and_the_last_one_ends_its_task() {
    let locks = Locks::memory();
    let cache = start(&locks, 1).await;
    let (mut events, task) = (cache.events(), Arc::downgrade(&cache.0.shared));
    drop(cache);
    locks.record("c/x").set(&7).await.unwrap();
    while !matches!(events.next().await.unwrap(), crate::cache::CacheEvent::Added { .. }) {}
    drop(events);
    ends(task).await;
    assert_eq!(locks.core().watches.len(), 0);
}

#[tokio::test]
async fn the_last_cache_ends_the_client() {
    let locks = Locks::memory();
    let core = Arc::downgrade(locks.core());
    let cache = start(&locks, 1).await;
    drop(locks);
    assert!(cache.freshness().is_live());
    drop(cache);
    ends(core).await;
}

#[tokio::test]
async fn a_start_that_is_dropped_leaves_nothing() {
    let locks = Locks::memory();
    for polls in 0..6 {
        let mut starting = Box::pin(locks.cache::<u32>("c").start());
        for _ in 0..polls {
            let once =
                std::future::poll_fn(|cx| std::task::Poll::Ready(starting.as_mut().poll(cx)));
            if once.await.is_ready() {
                break;
            }
        }
        drop(starting);
        while locks.core().watches.len() > 0 {
            tokio::task::yield_now().await;
        }
    }
}
