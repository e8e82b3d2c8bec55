//! Traffic: tasks that lock, extend, convert, give back and walk away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold::engine::profile::Grants;
use leasehold::{Guard, Locks, Mode, Result};
use tokio::task::JoinSet;

use super::witness::{Shown, Witness};

/// One for each kind of lock; all clients want all of them. In a cluster they
/// are of different shards.
pub(super) const NAMES: [&str; 6] = ["mutex/a", "mutex/b", "mutex/c", "rw/a", "rw/b", "permits/a"];
/// How many permits there are.
const PERMITS: u32 = 3;
/// Tasks of one client.
const TASKS: usize = 6;

/// What the tasks did.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) grants: u64,
    pub(super) refusals: u64,
    pub(super) losses: u64,
    pub(super) changes: u64,
}

#[derive(Debug, Default)]
struct Tally {
    grants: AtomicU64,
    refusals: AtomicU64,
    losses: AtomicU64,
    changes: AtomicU64,
}

/// Tasks under way.
pub(super) struct Traffic {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
    tally: Arc<Tally>,
}

impl Traffic {
    pub(super) fn start(clients: &[Locks], witness: &Arc<Witness>) -> Self {
        let (stop, tally) = (Arc::new(AtomicBool::new(false)), Arc::new(Tally::default()));
        let mut tasks = JoinSet::new();
        for client in clients.iter().cycle().take(clients.len() * TASKS) {
            let user = User {
                locks: client.clone(),
                witness: Arc::clone(witness),
                tally: Arc::clone(&tally),
            };
            let stop = Arc::clone(&stop);
            tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    user.round().await;
                }
            });
        }
        Self { tasks, stop, tally }
    }

    /// Lets everybody finish what they do.
    pub(super) async fn end(mut self) -> Counts {
        self.stop.store(true, Ordering::Relaxed);
        while self.tasks.join_next().await.is_some() {}
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            grants: read(&self.tally.grants),
            refusals: read(&self.tally.refusals),
            losses: read(&self.tally.losses),
            changes: read(&self.tally.changes),
        }
    }
}

/// One task of one client.
struct User {
    locks: Locks,
    witness: Arc<Witness>,
    tally: Arc<Tally>,
}

impl User {
    async fn round(&self) {
        let Some(guard) = self.granted().await else {
            self.tally.refusals.fetch_add(1, Ordering::Relaxed);
            // An engine that refuses at once is not asked all the time.
            return millis(1..50).await;
        };
        self.tally.grants.fetch_add(1, Ordering::Relaxed);
        let shown = self.witness.show(guard);
        self.work(&shown).await;
        self.end(&shown).await;
    }

    /// Asks in one of many ways; a wait is left at any moment.
    async fn granted(&self) -> Option<Guard> {
        let patience = Duration::from_millis(fastrand::u64(1..6_000));
        let asked = tokio::time::timeout(patience, self.ask()).await;
        asked.ok()?.ok()?
    }

    async fn ask(&self) -> Result<Option<Guard>> {
        let ttl = Duration::from_millis(fastrand::u64(1_000..3_000));
        let within = Duration::from_millis(fastrand::u64(1..4_000));
        let name = NAMES[fastrand::usize(..NAMES.len())];
        let renewed = fastrand::u8(..4) > 0;
        if name.starts_with("mutex") {
            let mutex = self.locks.mutex(name).ttl(ttl).renew(renewed);
            return if fastrand::bool() {
                mutex.try_lock().await
            } else {
                mutex.lock().within(within).await.map(Some)
            };
        }
        if name.starts_with("rw") {
            let lock = self.locks.rwlock(name).ttl(ttl).renew(renewed);
            let asked = if fastrand::bool() { lock.read() } else { lock.write() };
            return asked.within(within).await.map(Some);
        }
        if self.locks.profile().grants < Grants::Counted {
            return Ok(None);
        }
        let semaphore = self.locks.semaphore(name, PERMITS).ttl(ttl).renew(renewed);
        semaphore.acquire(fastrand::u32(1..=PERMITS)).within(within).await.map(Some)
    }

    /// Holds for a while; extends and converts on the way.
    async fn work(&self, shown: &Shown) {
        for _ in 0..fastrand::u8(..4) {
            let changed = match fastrand::u8(..4) {
                0 => self.extend(shown).await,
                1 => self.convert(shown).await,
                _ => false,
            };
            self.tally.changes.fetch_add(u64::from(changed), Ordering::Relaxed);
            millis(0..400).await;
        }
    }

    async fn extend(&self, shown: &Shown) -> bool {
        let span = Duration::from_millis(fastrand::u64(500..5_000));
        match shown.read().await.as_ref() {
            Some(guard) => guard.extend(span).await.is_ok(),
            None => false,
        }
    }

    async fn convert(&self, shown: &Shown) -> bool {
        match shown.write().await.as_mut() {
            Some(guard) if guard.mode() == Mode::Write && self.locks.profile().convert => {
                guard.convert(Mode::Read).await.is_ok()
            }
            _ => false,
        }
    }

    /// Gives it back, or just goes.
    async fn end(&self, shown: &Shown) {
        let Some(guard) = shown.write().await.take() else { return };
        if guard.check().is_err() {
            self.tally.losses.fetch_add(1, Ordering::Relaxed);
        }
        if fastrand::bool() {
            // An engine that is away hears of it later.
            let _ = guard.release().await;
        }
    }
}

async fn millis(range: std::ops::Range<u64>) {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(range))).await;
}
