//! Sentinels and clusters: servers that change places, and nothing is lost.
#![cfg(leasehold_sim)]

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::{Guard, Locks};
use leasehold_sim::net::Delays;
use leasehold_sim::redis::slot;
use leasehold_sim::world::{Setup, World};
use tokio::time::sleep_until;

const TTL: Duration = Duration::from_secs(10);

fn world<T>(nodes: usize, body: impl AsyncFnOnce(World) -> T) -> T {
    let setup = Setup { seed: 1, nodes, delays: Delays::seeded(1), keeps_events: false };
    World::run(setup, body)
}

/// Locks some names, lets `trouble` happen, and waits until all were renewed.
async fn outlives(world: &World, url: &'static str, trouble: impl FnOnce(&World)) {
    let client = world.add_client("holder");
    let task = world.spawn(client, async move {
        let locks = leasehold::open(url).await.expect("all nodes are there");
        let mut guards = Vec::new();
        for number in 0..6 {
            guards.push(lock(&locks, number).await);
        }
        (locks, guards)
    });
    let (locks, guards) = task.await.expect("it ends");
    let fences: Vec<u64> = guards.iter().map(Guard::fence).collect();
    trouble(world);
    sleep_until(world.at(world.now() + 2 * TTL)).await;
    let task = world.spawn(client, async move {
        for guard in guards {
            guard.check().expect("it was renewed");
            guard.release().await.expect("it was held");
        }
        let mut later = Vec::new();
        for number in 0..6 {
            later.push(lock(&locks, number).await.fence());
        }
        drop(locks);
        later
    });
    let later = task.await.expect("it ends");
    assert!(fences.iter().zip(&later).all(|(one, other)| one < other), "{fences:?} {later:?}");
}

async fn lock(locks: &Locks, number: usize) -> Guard {
    let mutex = locks.mutex(format!("name {number}")).ttl(TTL);
    mutex.lock().within(TTL).await.expect("nobody else wants it")
}

fn bites(world: &World, kind: &str) -> u64 {
    world.net(|net| net.bites().get(kind).copied().unwrap_or_default())
}

#[test]
fn leases_outlive_a_failover_by_sentinels() {
    world(5, async |world| {
        world.make_replica(1);
        (2..5).for_each(|sentinel| world.make_sentinel(sentinel, 0));
        outlives(&world, "redis+sentinel://n2,n3,n4/main", |world| world.fail_over(0, 1)).await;
        let asked = world.node(1, |node| node.commands());
        assert!(asked > 6, "the new primary was asked {asked} times");
    });
}

#[test]
fn leases_outlive_a_failover_in_a_cluster() {
    world(4, async |world| {
        world.form_cluster(&[0, 1, 2]);
        outlives(&world, "redis+cluster://n0,n1,n2", |world| {
            for from in 0..3 {
                world.fail_over(from, 3);
            }
        })
        .await;
        let keys = world.node(3, |node| node.keys().len());
        assert!(keys > 0, "the new primary has something");
    });
}

#[test]
fn leases_outlive_slots_that_move() {
    world(2, async |world| {
        world.form_cluster(&[0, 1]);
        outlives(&world, "redis+cluster://n0,n1", |world| {
            let keys = world.node(0, |node| node.keys());
            let slots: BTreeSet<u16> = keys.iter().map(|key| slot(key)).collect();
            for slot in slots {
                world.begin_move(slot, 1);
                world.end_move(slot, 0, 1);
            }
        })
        .await;
        assert!(bites(&world, "slot moved") > 0);
        assert!(world.node(0, |node| node.keys()).is_empty());
    });
}
