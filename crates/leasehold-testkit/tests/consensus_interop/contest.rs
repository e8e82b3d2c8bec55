//! Java and Rust compete for one lock while the ensemble is shaken.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use leasehold::Locks;
use leasehold_testkit::check;
use leasehold_testkit::contest::{BOUND, Checked, until};
use leasehold_testkit::peer::{Peer, Tongue};
use leasehold_testkit::register::{Access, Register};
use leasehold_testkit::server::Ensemble;
use leasehold_testkit::znodes::Znodes;
use tempfile::TempDir;

use crate::stage::{NOW, PATH};

/// How long they compete; set it to 30 to see more.
const SPAN_VARIABLE: &str = "LEASEHOLD_INTEROP_SECONDS";
const SPAN: Duration = Duration::from_secs(8);
const EACH: usize = 2;
const TTL: Duration = Duration::from_secs(3);
/// Curator may wait for ever once its own node is gone; then it asks anew.
const CURATOR_WAITS: Duration = Duration::from_secs(10);

/// Who competes, and how often each has held the lock.
struct Rivals {
    stop: Arc<AtomicBool>,
    rounds: Vec<Arc<AtomicU32>>,
    threads: Vec<JoinHandle<()>>,
}

impl Rivals {
    /// So many of each side, all on one register.
    fn start(hosts: &str, register: &Path) -> Checked<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut all = Self { stop, rounds: Vec::new(), threads: Vec::new() };
        for _ in 0..EACH {
            let mut java = Peer::start(Tongue::Curator, &[hosts.to_owned()])?;
            let shared = Register::open(register)?;
            all.add(move || curator(&mut java, &shared));
            let url = format!("zookeeper://{hosts}?names=raw&retry=forever:20ms");
            let shared = Register::open(register)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let mut locks = None;
            all.add(move || runtime.block_on(leasehold(&mut locks, &url, &shared)));
        }
        Ok(all)
    }

    /// Whatever goes wrong in a round is what the ensemble was shaken for; only
    /// the register judges.
    fn add(&mut self, mut round: impl FnMut() -> Checked + Send + 'static) {
        let (stop, rounds) = (Arc::clone(&self.stop), Arc::new(AtomicU32::new(0)));
        self.rounds.push(Arc::clone(&rounds));
        self.threads.push(thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if round().is_ok() {
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            }
        }));
    }

    fn counts(&self) -> Vec<u32> {
        self.rounds.iter().map(|rounds| rounds.load(Ordering::Relaxed)).collect()
    }

    /// Waits until everybody has held the lock so many more times.
    async fn proceed(&self, more: u32) -> Checked {
        let before = self.counts();
        let enough = || {
            let now = self.counts();
            let all = now.iter().zip(&before).all(|(now, before)| *now >= before + more);
            async move { Ok(all) }
        };
        let entered = until("everybody gets in", enough).await;
        // Java, ours, Java, ours.
        entered.map_err(|why| format!("{why}: {before:?}, then {:?}", self.counts()).into())
    }

    fn end(self) -> Checked<Vec<u32>> {
        self.stop.store(true, Ordering::Relaxed);
        let counts = self.counts();
        for thread in self.threads {
            thread.join().map_err(|_| "a rival panicked")?;
        }
        Ok(counts)
    }
}

/// Adds one under the number of the grant, whatever the holder believes.
fn work(register: &Register, fence: u64) -> Checked {
    let saw = register.read(fence)?.unwrap_or_default();
    thread::sleep(Duration::from_micros(fastrand::u64(..3000)));
    register.write(fence, saw, saw + 1)?;
    Ok(())
}

/// The lock's object is given up after each round: one whose session ended
/// would believe that it holds still.
fn curator(java: &mut Peer, register: &Register) -> Checked {
    let granted = java.lock("mutex", PATH, CURATOR_WAITS, NOW)?.ok_or("busy for too long")?;
    if let Some(fence) = granted.token {
        work(register, fence)?;
    }
    java.unlock("mutex", PATH)?;
    Ok(())
}

async fn leasehold(locks: &mut Option<Locks>, url: &str, register: &Register) -> Checked {
    let ours = match locks {
        Some(locks) => locks,
        None => locks.insert(leasehold::open(url).await?),
    };
    let guard = ours.mutex(PATH).ttl(TTL).lock().within(BOUND).await?;
    work(register, guard.fence())?;
    guard.release().await?;
    Ok(())
}

/// Ends the session of whoever holds the lock now; whether somebody did.
fn drop_a_session(ensemble: &mut Ensemble) -> Checked<bool> {
    let leader = ensemble.leader()?;
    let addr = ensemble.servers()[leader].addr();
    let mut znodes = Znodes::connect(addr)?;
    let mut nodes = znodes.children(PATH)?;
    nodes.sort_by_key(|node| node[node.len().saturating_sub(10)..].to_owned());
    let Some(holder) = nodes.first() else { return Ok(false) };
    let Some(stat) = znodes.stat(&format!("{PATH}/{holder}"))? else { return Ok(false) };
    Ok(Znodes::end_session(addr, stat.owner).is_ok())
}

/// Who got in, and in which order: every number once, each larger than the last.
fn is_in_order(accesses: &[Access]) -> bool {
    let accepted = accesses.iter().filter(|access| access.accepted);
    accepted.map(|access| access.fence).is_sorted()
}

/// The leader is killed and sessions are dropped: no overlap at the register,
/// order by czxid, and nobody starves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_and_rust_compete_while_leaders_die_and_sessions_are_dropped() -> Checked {
    let mut ensemble = Ensemble::zookeeper(3)?;
    let folder = TempDir::new()?;
    let path = folder.path().join("register");
    let rivals = Rivals::start(&ensemble.hosts(), &path)?;
    rivals.proceed(2).await?;
    let (end, mut dropped, mut killed) = (Instant::now() + span(), 0, 0);
    while Instant::now() < end || dropped == 0 || killed == 0 {
        for _ in 0..3 {
            dropped += u32::from(drop_a_session(&mut ensemble)?);
            rivals.proceed(1).await?;
        }
        let leader = ensemble.kill_leader()?;
        killed += 1;
        assert_ne!(ensemble.leader()?, leader, "the fault did not bite");
        ensemble.servers()[leader].restart()?;
        rivals.proceed(2).await?;
    }
    let counts = rivals.end()?;
    let accesses = Register::open(&path)?.accesses()?;
    check::register(&accesses)?;
    assert!(is_in_order(&accesses), "the register let a smaller number in");
    assert!(counts.iter().all(|rounds| *rounds > 2), "somebody starved: {counts:?}");
    Ok(())
}

fn span() -> Duration {
    let seconds = std::env::var(SPAN_VARIABLE).ok().and_then(|text| text.parse().ok());
    seconds.map_or(SPAN, Duration::from_secs)
}
