//! Caches: what they have is what the store has, over two clients of one store.

use leasehold::cache::{Cache, CacheEvent, CacheFreshness, StaleReason};
use leasehold::{ErrorKind, Locks};
use tokio::task::JoinSet;

use super::check::{Check, Outcome, check, ensure};
use super::patience::{self, HOUR, PATIENCE};
use super::recipe::Client;
use super::store::Store as Shared;
use crate::audience::Audience;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(a_cache_follows_writers_of_two_clients),
        check!(a_cache_that_starts_among_writers_lacks_nothing),
        check!(a_cache_has_what_is_below_its_path_and_not_too_deep),
        check!(what_ends_by_itself_leaves_the_cache),
        check!(a_value_of_another_type_is_told_and_the_cache_goes_on),
        check!(more_than_a_cache_may_hold_is_an_error_and_later_told),
        check!(a_cache_of_names_takes_any_value),
        check!(a_listener_that_does_not_read_begins_anew),
        check!(a_cache_outlives_a_shutdown_as_it_was),
    ]
}

/// Two clients of one store; `None` if the engine keeps no records.
async fn two(shared: &Shared) -> Outcome<Option<(Client, Client)>> {
    let mut clients = shared.open_many(2).await?;
    let (a, b) = (clients.remove(0), clients.remove(0));
    Ok(a.engine().records().is_some().then_some((a, b)))
}

fn word(text: &str) -> String {
    text.to_owned()
}

async fn start(locks: &Locks) -> Outcome<Cache<u32>> {
    Ok(locks.cache::<u32>("c").start().await?)
}

/// Sets some records, deletes others, again and again.
async fn write(locks: Locks, writer: u32, rounds: u32) {
    for round in 0..rounds {
        let at = writer * 31 + round * 7;
        let record = locks.record::<u32>(format!("c/{}", at % 23));
        if round % 3 == 2 {
            record.delete().await.expect("a deletion");
        } else {
            record.set(&round).await.expect("a write");
        }
    }
}

fn writers(a: &Locks, b: &Locks, rounds: u32) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for writer in 0..6 {
        let locks = if writer % 2 == 0 { a } else { b };
        tasks.spawn(write(locks.clone(), writer, rounds));
    }
    tasks
}

async fn a_cache_follows_writers_of_two_clients(shared: Shared) -> Outcome {
    let Some((a, b)) = two(&shared).await? else { return Ok(()) };
    let caches = [start(&a).await?, start(&b).await?, start(&b).await?];
    let mut audiences = caches.each_ref().map(Audience::of);
    let tasks = writers(&a, &b, 60);
    for _ in 0..100 {
        audiences[0].hear(PATIENCE).await;
    }
    tasks.join_all().await;
    for audience in &mut audiences {
        audience.agrees(&a, "c", 1, PATIENCE).await?;
    }
    Ok(())
}

async fn a_cache_that_starts_among_writers_lacks_nothing(shared: Shared) -> Outcome {
    let Some((a, b)) = two(&shared).await? else { return Ok(()) };
    let tasks = writers(&a, &b, 60);
    let mut audiences = Vec::new();
    for locks in [&a, &b, &a, &b] {
        audiences.push(Audience::of(&start(locks).await?));
    }
    tasks.join_all().await;
    for audience in &mut audiences {
        audience.agrees(&b, "c", 1, PATIENCE).await?;
    }
    Ok(())
}

async fn a_cache_has_what_is_below_its_path_and_not_too_deep(shared: Shared) -> Outcome {
    let Some((a, b)) = two(&shared).await? else { return Ok(()) };
    for name in ["c", "c/x", "c/x/y", "c/x/y/z", "cc", "d"] {
        a.record(name).set(&1).await?;
    }
    let names = |cache: &Cache<u32>| -> Vec<String> {
        cache.snapshot().iter().map(|(name, _)| name.as_str().to_owned()).collect()
    };
    let made = || b.cache::<u32>("c");
    assert_eq!(names(&made().depth(0).start().await?), ["c"]);
    assert_eq!(names(&made().start().await?), ["c/x"]);
    let both = made().with_root().depth(2).start().await?;
    assert_eq!(names(&both), ["c", "c/x", "c/x/y"]);
    assert_eq!(names(&b.cache::<u32>("").start().await?), ["c", "cc", "d"]);
    assert_eq!(made().depth(usize::MAX).start().await?.len(), 3);
    let mut news = both.events();
    a.record::<u32>("c/x").delete().await?;
    a.record::<u32>("c").delete().await?;
    let mut left = Vec::new();
    while left.len() < 2 {
        if let Some(CacheEvent::Removed { name, .. }) = news.next().await {
            left.push(name.as_str().to_owned());
        }
    }
    left.sort();
    assert_eq!(left, ["c", "c/x"]);
    Ok(())
}

async fn what_ends_by_itself_leaves_the_cache(shared: Shared) -> Outcome {
    let Some((a, b)) = two(&shared).await? else { return Ok(()) };
    let cache = start(&b).await?;
    let mut audience = Audience::of(&cache);
    let guard = a.mutex("lock").ttl(HOUR).lock().await?;
    a.record("c/bound").bound_to(&guard).set(&1).await?;
    a.record("c/brief").ttl(patience::short(a.profile())).set(&2).await?;
    a.record("c/kept").set(&3).await?;
    while cache.get("c/bound")?.is_none() || cache.get("c/kept")?.is_none() {
        audience.hear(PATIENCE).await;
    }
    guard.release().await?;
    while cache.len() > 1 {
        audience.hear(PATIENCE).await;
    }
    audience.agrees(&a, "c", 1, PATIENCE).await?;
    Ok(())
}

async fn a_value_of_another_type_is_told_and_the_cache_goes_on(shared: Shared) -> Outcome {
    let Some((a, b)) = two(&shared).await? else { return Ok(()) };
    a.record("c/x").set(&word("a")).await?;
    let cache = start(&b).await?;
    let error = cache.get("c/x").expect_err("no number");
    assert_eq!(error.kind(), ErrorKind::Unexpected);
    let mut news = cache.events();
    a.record("c/x").set(&7).await?;
    a.record("c/y").set(&word("another")).await?;
    loop {
        match news.next().await {
            Some(CacheEvent::Changed { old, new, .. }) => {
                assert!(old.value().is_err());
                assert_eq!(*new.value()?, 7);
            }
            Some(CacheEvent::Added { new, .. }) => {
                assert!(new.value().is_err());
                return Ok(());
            }
            Some(_) => {}
            None => return Err("the cache has ended".into()),
        }
    }
}

async fn more_than_a_cache_may_hold_is_an_error_and_later_told(shared: Shared) -> Outcome {
    let Some((a, b)) = two(&shared).await? else { return Ok(()) };
    for at in 0..5 {
        a.record(format!("c/{at}")).set(&at).await?;
    }
    let error = b.cache::<u32>("c").limit(4).start().await.expect_err("too much");
    ensure!(error.to_string().contains("4 records"), "{error}");
    let cache = b.cache::<u32>("c").limit(5).start().await?;
    let mut news = cache.events();
    a.record("c/5").set(&5).await?;
    while !matches!(news.next().await, Some(CacheEvent::Stale(StaleReason::TooLarge))) {}
    assert!(matches!(
        cache.freshness(),
        CacheFreshness::Stale { reason: StaleReason::TooLarge, .. }
    ));
    assert_eq!(cache.len(), 5, "what fits stays readable");
    a.record::<u32>("c/0").delete().await?;
    while !matches!(news.next().await, Some(CacheEvent::Synced)) {}
    while cache.get("c/5")?.is_none() || cache.get("c/0")?.is_some() {
        news.next().await;
    }
    Ok(())
}

async fn a_cache_of_names_takes_any_value(shared: Shared) -> Outcome {
    let Some((a, b)) = two(&shared).await? else { return Ok(()) };
    let version = a.record("c/x").set(&"x".repeat(1000)).await?;
    let error = b.cache::<u32>("c").max_bytes(100).start().await.expect_err("too much");
    ensure!(error.to_string().contains("100 bytes"), "{error}");
    let names = b.cache::<u32>("c").max_bytes(100).keys_only().start().await?;
    assert_eq!(names.get("c/x")?.map(|found| found.version), Some(version));
    Ok(())
}

async fn a_listener_that_does_not_read_begins_anew(shared: Shared) -> Outcome {
    let Some((a, b)) = two(&shared).await? else { return Ok(()) };
    let cache = start(&b).await?;
    let mut audience = Audience::of(&cache);
    while audience.snapshots == 0 {
        audience.hear(PATIENCE).await;
    }
    let mut others = Audience::of(&cache);
    for round in 0..15 {
        let mut last = 0;
        for at in 0..100 {
            last = a.record(format!("c/{}", at % 10)).set(&(round + at)).await?;
        }
        // So that the cache itself misses none.
        while cache.get("c/9")?.is_none_or(|found| found.version < last) {
            others.hear(PATIENCE).await;
        }
    }
    audience.agrees(&a, "c", 1, PATIENCE).await?;
    assert!(audience.snapshots > 1, "it was never behind");
    Ok(())
}

async fn a_cache_outlives_a_shutdown_as_it_was(shared: Shared) -> Outcome {
    let Some((a, b)) = two(&shared).await? else { return Ok(()) };
    a.record("c/x").set(&7).await?;
    let cache = start(&b).await?;
    let mut news = cache.events();
    b.shutdown(PATIENCE).await?;
    let mut last = None;
    while let Some(event) = news.next().await {
        last = Some(event);
    }
    assert!(matches!(last, Some(CacheEvent::Stale(StaleReason::Closed))), "{last:?}");
    assert_eq!(cache.get("c/x")?.map(|found| *found.value), Some(7));
    assert!(!cache.freshness().is_live());
    assert!(b.cache::<u32>("c").start().await.is_err());
    Ok(())
}
