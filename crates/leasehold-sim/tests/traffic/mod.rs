//! What clients send when they do a bit of everything.

use std::time::Duration;

use leasehold::engine::{Eviction, Page, Target};
use leasehold::once::Fingerprint;
use leasehold::{Guard, Locks, Mode, Result};
use leasehold_sim::net::Delays;
use leasehold_sim::trace::Event;
use leasehold_sim::world::{Setup, World};
use tokio::time::{sleep_until, timeout_at};

/// All that have scripts.
pub(crate) const URLS: &[&str] = &[
    "redis://n0",
    "redis://n0?layout=string",
    "redis://n0?layout=redisson",
    "redis://n0?layout=redisson&kind=fair",
    "redlock://n0,n1,n2",
];

const LENGTH: Duration = Duration::from_secs(20);

/// What the first node was sent.
pub(crate) fn record(url: &'static str, seed: u64) -> Vec<Event> {
    let setup = Setup { seed, nodes: 3, delays: Delays::seeded(seed), keeps_events: true };
    World::run(setup, async |world| {
        let mut tasks = Vec::new();
        for number in 0..3 {
            let client = world.add_client(&format!("c{number}"));
            let chance = fastrand::Rng::with_seed(seed * 7 + number);
            tasks.push(world.spawn(client, live(world.clone(), url, chance)));
        }
        for task in tasks {
            let _ = timeout_at(world.at(LENGTH), task).await;
        }
        let mut events = world.events();
        events.retain(|event| event.node == 0);
        events
    })
}

async fn live(world: World, url: &'static str, mut chance: fastrand::Rng) {
    let locks = leasehold::open(url).await.expect("a node that is there");
    while world.now() < LENGTH.mul_f64(0.7) {
        // Much is refused by engines that do not promise it.
        let _ = turn(&world, &locks, &mut chance).await;
    }
}

async fn turn(world: &World, locks: &Locks, chance: &mut fastrand::Rng) -> Result<()> {
    let name = |kind: &str, chance: &mut fastrand::Rng| format!("{kind}{}", chance.u32(..2));
    let short = Duration::from_millis(chance.u64(1..400));
    let ttl = Duration::from_secs(30);
    let lock = match chance.u32(..8) {
        0..=2 => locks.mutex(name("m", chance)).ttl(ttl).lock(),
        3 => locks.rwlock(name("r", chance)).ttl(ttl).read(),
        4 => locks.rwlock(name("r", chance)).ttl(ttl).write(),
        5 => locks.semaphore(name("s", chance), 3).ttl(ttl).acquire(chance.u32(1..3)),
        6 => return records(locks, chance).await,
        _ => return look(locks, chance).await,
    };
    let guard = lock.within(short).await?;
    hold(world, locks, guard, chance).await
}

async fn hold(
    world: &World,
    locks: &Locks,
    mut guard: Guard,
    chance: &mut fastrand::Rng,
) -> Result<()> {
    match chance.u32(..6) {
        0 => guard.extend(Duration::from_secs(chance.u64(1..4) * 10)).await?,
        1 => guard.convert(Mode::Read).await?,
        2 => {
            let record = locks.record::<u64>("bound").bound_to(&guard);
            drop(record.set(&chance.u64(..)).await);
        }
        _ => sleep_until(world.at(world.now() + Duration::from_millis(chance.u64(1..90)))).await,
    }
    guard.release().await.map(drop)
}

async fn records(locks: &Locks, chance: &mut fastrand::Rng) -> Result<()> {
    let record = locks.record::<u64>(format!("config/{}", chance.u32(..3)));
    match chance.u32(..6) {
        0 => drop(record.set(&chance.u64(..)).await?),
        1 => drop(record.create(&1).await?),
        2 => drop(record.get().await?),
        3 => record.delete().await?,
        4 => drop(locks.records::<u64>("config").list(1).await?),
        _ => {
            let once = locks.once("pay").keep(Duration::from_secs(3_600));
            let key = chance.u32(..9).to_string();
            let work =
                async |turn: leasehold::once::Turn| Ok::<_, String>(turn.fence().to_string());
            drop(once.run(key, Fingerprint::none(), work).await);
        }
    }
    Ok(())
}

async fn look(locks: &Locks, chance: &mut fastrand::Rng) -> Result<()> {
    match chance.u32(..4) {
        0 => drop(locks.status(format!("m{}", chance.u32(..2))).await?),
        1 => drop(locks.list("", Page::default()).await?),
        2 => drop(locks.examine().await?),
        _ => {
            let name = locks.name(&format!("m{}", chance.u32(..2)))?;
            drop(locks.evict(Eviction::new(name, Target::All, "sim", "a test")?).await?);
        }
    }
    Ok(())
}
