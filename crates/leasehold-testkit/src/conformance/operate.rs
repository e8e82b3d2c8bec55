//! List, show, evict.

use std::collections::BTreeSet;

use leasehold::engine::profile::Lists;
use leasehold::engine::{Evicted, Eviction, Page, Target};
use leasehold::{ErrorKind, Guard, Locks, Mode};

use super::check::{Check, Outcome, check, ensure};
use super::direct::Direct;
use super::patience::{HOUR, locked, queued};
use super::store::Store;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(a_name_shows_who_holds_and_who_waits).of_known_leases().of_a_queue(),
        check!(an_unknown_name_is_free),
        check!(a_listing_has_the_names_of_a_prefix_in_order).when(|p| p.listing == Lists::Indexed),
        check!(a_listing_comes_in_pages).when(|p| p.listing == Lists::Indexed),
        check!(a_walk_misses_nobody_while_others_come_and_go).when(|p| p.listing == Lists::Indexed),
        check!(an_eviction_by_fence_hits_that_lease),
        check!(a_wrong_fence_evicts_nobody),
        check!(an_eviction_by_lease_hits_that_lease),
        check!(an_eviction_of_all_opens_a_closed_name).when(|p| p.lock_delay),
        check!(an_eviction_serves_the_queue).of_a_queue(),
        check!(an_eviction_needs_an_actor_and_a_reason),
        check!(an_eviction_is_remembered_with_its_reason).when(|p| p.predecessor),
        check!(an_examination_finds_no_danger_here),
    ]
}

async fn a_name_shows_who_holds_and_who_waits(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").label("alice").ttl(HOUR).lock().await?;
    let _waiter = tokio::spawn(two.mutex("n").label("bob").ttl(HOUR).lock().into_future());
    queued(&one.mutex("n"), 1).await?;
    let status = two.mutex("n").status().await?;
    let (held, waits) = (&status.holders[0], &status.waiters[0]);
    ensure!(&*held.label == "alice" && held.mode == Mode::Exclusive, "{status:?}");
    ensure!(held.fence == Some(guard.fence()) && held.time_left <= Some(HOUR), "{status:?}");
    ensure!(&*waits.label == "bob" && waits.mode == Mode::Exclusive, "{status:?}");
    Ok(())
}

async fn an_unknown_name_is_free(store: Store) -> Outcome {
    let status = store.open().await?.status("never seen").await?;
    ensure!(!status.is_busy() && status.last.is_none(), "{status:?}");
    Ok(())
}

async fn hold_all(locks: &Locks, names: &[&str]) -> Outcome<Vec<Guard>> {
    let mut guards = Vec::new();
    for name in names {
        guards.push(locks.mutex(name).ttl(HOUR).lock().await?);
    }
    Ok(guards)
}

async fn names(locks: &Locks, prefix: &str, page: Page) -> Outcome<(Vec<String>, bool)> {
    let listing = locks.list(prefix, page).await?;
    let names = listing.names.iter().map(|status| status.name.as_str().to_owned());
    Ok((names.collect(), listing.more))
}

async fn a_listing_has_the_names_of_a_prefix_in_order(store: Store) -> Outcome {
    let locks = store.open().await?;
    let _guards = hold_all(&locks, &["b", "a/2", "a/1", "A/1", "a_1", "a%1", "a"]).await?;
    let cases: [(&str, &[&str]); 5] = [
        ("a/", &["a/1", "a/2"]),
        ("a_", &["a_1"]),
        ("a%", &["a%1"]),
        ("none", &[]),
        ("", &["A/1", "a", "a%1", "a/1", "a/2", "a_1", "b"]),
    ];
    for (prefix, expected) in cases {
        let found = names(&locks, prefix, Page::default()).await?;
        ensure!(found.0 == expected && !found.1, "{prefix:?} finds {found:?}");
    }
    Ok(())
}

async fn a_listing_comes_in_pages(store: Store) -> Outcome {
    let locks = store.open().await?;
    let _guards = hold_all(&locks, &["p/1", "p/2", "p/3", "p/4", "p/5", "q"]).await?;
    let (mut page, mut seen, mut pages) = (Page::default(), Vec::new(), 0);
    loop {
        page.size = 2;
        let (found, more) = names(&locks, "p/", page).await?;
        pages += 1;
        seen.extend(found);
        let last = seen.last().ok_or("an empty page")?;
        page = Page::after(locks.name(last)?);
        if !more {
            break;
        }
    }
    ensure!(pages == 3 && seen == ["p/1", "p/2", "p/3", "p/4", "p/5"], "{pages} pages: {seen:?}");
    Ok(())
}

async fn a_walk_misses_nobody_while_others_come_and_go(store: Store) -> Outcome {
    let locks = store.open().await?;
    let here = |n| ["", "-", "/", ".", "/%"].map(|sign| format!("w{sign}{n:02}"));
    let all: BTreeSet<_> = (0..12).flat_map(here).chain(["w".into()]).collect();
    let _guards = hold_all(&locks, &all.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let (mut page, mut seen, mut passing) = (Page::default(), Vec::new(), None);
    loop {
        page.size = 7;
        let (found, more) = names(&locks, "w", page).await?;
        seen.extend(found);
        let last = seen.last().ok_or("an empty page")?.clone();
        if !more {
            break;
        }
        let next = locks.mutex(format!("{last}/passing").as_str()).ttl(HOUR).lock().await?;
        if let Some(passing) = passing.replace(next) {
            Guard::release(passing).await?;
        }
        page = Page::after(locks.name(&last)?);
    }
    ensure!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    seen.retain(|name| all.contains(name));
    ensure!(seen.iter().eq(&all), "{seen:?}");
    Ok(())
}

async fn evict(locks: &Locks, target: Target) -> Outcome<Evicted> {
    Ok(locks.evict(Eviction::new(locks.name("n")?, target, "olga", "a test")?).await?)
}

async fn an_eviction_by_fence_hits_that_lease(store: Store) -> Outcome {
    let locks = store.open().await?;
    let guard = locks.mutex("n").label("alice").ttl(HOUR).lock().await?;
    let hit = evict(&locks, Target::Fence(guard.fence())).await?.leases;
    ensure!(hit.len() == 1 && hit[0].fence == Some(guard.fence()), "{hit:?}");
    ensure!(&*hit[0].label == "alice", "{hit:?}");
    drop(locked(&locks.mutex("n")).await?);
    Ok(())
}

async fn a_wrong_fence_evicts_nobody(store: Store) -> Outcome {
    let locks = store.open().await?;
    let guard = locks.mutex("n").ttl(HOUR).lock().await?;
    let wrong = [guard.fence() - 1, guard.fence() + 1, 0];
    for fence in wrong {
        let hit = evict(&locks, Target::Fence(fence)).await?.leases;
        ensure!(hit.is_empty(), "{hit:?}");
    }
    ensure!(locks.mutex("n").try_lock().await?.is_none(), "it was taken away");
    Ok(guard.check()?)
}

async fn an_eviction_by_lease_hits_that_lease(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let claim = direct.claim(Mode::Exclusive);
    direct.granted(claim.clone()).await?;
    let other = direct.claim(Mode::Exclusive).ticket.id;
    let hit = evict(&direct.locks, Target::Lease(other)).await?.leases;
    ensure!(hit.is_empty(), "{hit:?}");
    let hit = evict(&direct.locks, Target::Lease(claim.ticket.id)).await?.leases;
    ensure!(hit.len() == 1, "{hit:?}");
    direct.granted(direct.claim(Mode::Exclusive)).await?;
    Ok(())
}

async fn an_eviction_of_all_opens_a_closed_name(store: Store) -> Outcome {
    let locks = store.open().await?;
    let mutex = locks.mutex("n").ttl(locks.short()).renew(false).lock_delay(HOUR);
    let guard = mutex.lock().await?;
    guard.lost().await;
    super::patience::eventually("a closed name", || async {
        Ok(locks.status("n").await?.closed_for.is_some())
    })
    .await?;
    ensure!(locks.mutex("n").try_lock().await?.is_none(), "the delay did not close it");
    evict(&locks, Target::All).await?;
    drop(super::patience::free(&locks.mutex("n")).await?);
    Ok(())
}

async fn an_eviction_serves_the_queue(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").ttl(HOUR).lock().await?;
    let waiter = tokio::spawn(two.mutex("n").ttl(HOUR).lock().into_future());
    queued(&one.mutex("n"), 1).await?;
    evict(&one, Target::Fence(guard.fence())).await?;
    let next = tokio::time::timeout(super::patience::PATIENCE, waiter).await???;
    ensure!(next.fence() > guard.fence(), "the fence did not grow");
    Ok(())
}

async fn an_eviction_needs_an_actor_and_a_reason(store: Store) -> Outcome {
    let locks = store.open().await?;
    for (actor, reason) in [("", "why"), ("who", ""), (" ", "why")] {
        let refused = Eviction::new(locks.name("n")?, Target::All, actor, reason);
        let refused = refused.err().ok_or("taken without a reason")?;
        ensure!(refused.kind() == ErrorKind::Invalid, "{refused:?}");
    }
    Ok(())
}

async fn an_eviction_is_remembered_with_its_reason(store: Store) -> Outcome {
    let locks = store.open().await?;
    let _guard = locks.mutex("n").label("alice").lock().await?;
    evict(&locks, Target::All).await?;
    let last = locks.status("n").await?.last.ok_or("it is forgotten")?;
    ensure!(&*last.label == "alice", "{last:?}");
    let remark = last.remark.as_deref().unwrap_or_default();
    ensure!(remark.contains("olga") && remark.contains("a test"), "{last:?}");
    Ok(())
}

async fn an_examination_finds_no_danger_here(store: Store) -> Outcome {
    let findings = store.open().await?.examine().await?;
    let danger = findings.iter().find(|it| it.severity == leasehold::engine::Severity::Danger);
    ensure!(danger.is_none(), "{danger:?}");
    let silent = findings.iter().find(|it| it.advice.trim().is_empty());
    ensure!(silent.is_none(), "a finding without advice: {silent:?}");
    Ok(())
}
