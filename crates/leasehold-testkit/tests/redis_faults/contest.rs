//! Clients that contend for a few names, each with a fenced register behind it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold::{Guard, Locks, Mutex, Released};
use leasehold_testkit::check;
use leasehold_testkit::history::{History, Mode, Outcome, Recorder, Term};
use leasehold_testkit::register::Register;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::{BOUND, Checked, LONG, until};

/// In a cluster they are of different shards.
pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];
const CLIENTS: usize = 3;
/// Tasks of one client for one name: one waits at the server while another
/// holds.
const TASKS: usize = 2;

/// A contest under way.
pub(crate) struct Contest {
    clients: Vec<Locks>,
    workers: Vec<Worker>,
    stop: Arc<AtomicBool>,
    complaint: Arc<OnceLock<String>>,
    folder: TempDir,
}

/// One task that locks, works and releases again and again.
struct Worker {
    rounds: Arc<AtomicU32>,
    task: JoinHandle<()>,
}

impl Contest {
    /// With leases that outlast it, so that whoever is left behind blocks a name
    /// for all to see.
    pub(crate) async fn start(url: &str) -> Checked<Self> {
        Self::start_with(url, LONG).await
    }

    /// With leases of this ttl.
    pub(crate) async fn start_with(url: &str, ttl: Duration) -> Checked<Self> {
        let folder = TempDir::new()?;
        let (stop, complaint) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (mut clients, mut workers) = (Vec::new(), Vec::new());
        for _ in 0..CLIENTS {
            let locks = leasehold::open(url).await?;
            for name in NAMES.iter().cycle().take(TASKS * NAMES.len()) {
                let rival = Rival::new(&locks, name, ttl, folder.path())?;
                workers.push(Worker::start(rival, Arc::clone(&stop), Arc::clone(&complaint)));
            }
            clients.push(locks);
        }
        Ok(Self { clients, workers, stop, complaint, folder })
    }

    /// Where a name's register is, for processes that take part.
    pub(crate) fn register(&self, name: &str) -> std::path::PathBuf {
        register(self.folder.path(), name)
    }

    pub(crate) fn history(&self) -> std::path::PathBuf {
        history(self.folder.path())
    }

    /// The rounds of whoever has had the fewest. All who took part must get in.
    pub(crate) fn rounds(&self) -> u32 {
        let rounds = self.workers.iter().map(|worker| worker.rounds.load(Ordering::Relaxed));
        rounds.min().unwrap_or(0)
    }

    /// Why somebody does not take part any more: nobody should stop before it
    /// is told to.
    pub(crate) fn complaint(&self) -> Option<String> {
        self.complaint.get().cloned()
    }

    /// Waits until everybody has had so many more rounds.
    pub(crate) async fn proceeds(&self, rounds: u32) -> Checked {
        let wanted = self.rounds() + rounds;
        let enough = || async {
            match self.complaint() {
                None => Ok(self.rounds() >= wanted),
                Some(complaint) => Err(complaint.into()),
            }
        };
        until("everybody gets in", enough).await
    }

    /// Ends it: everybody had turns, no name is left behind, every fence grew
    /// and no register let a late writer in.
    pub(crate) async fn end(mut self) -> Checked<History> {
        self.stop.store(true, Ordering::Relaxed);
        for worker in self.workers.drain(..) {
            tokio::time::timeout(BOUND, worker.task).await.map_err(|_| "a worker is stuck")??;
        }
        if let Some(complaint) = self.complaint() {
            return Err(complaint.into());
        }
        for name in NAMES {
            let idle = || async { Ok(!self.clients[0].status(name).await?.is_busy()) };
            until("an idle name", idle).await?;
            check::register(&Register::open(self.register(name))?.accesses()?)?;
        }
        for client in &self.clients {
            client.shutdown(BOUND).await?;
        }
        let history = History::read(self.history())?;
        check::fences(&history.grants())?;
        Ok(history)
    }
}

impl Worker {
    fn start(rival: Rival, stop: Arc<AtomicBool>, complaint: Arc<OnceLock<String>>) -> Self {
        let rounds = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&rounds);
        let task = tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                if let Err(error) = rival.round().await {
                    let _ = complaint.set(error.to_string());
                    return;
                }
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { rounds, task }
    }
}

/// Who wants a name.
struct Rival {
    name: &'static str,
    mutex: Mutex,
    recorder: Recorder,
    register: Register,
}

impl Rival {
    fn new(locks: &Locks, name: &'static str, ttl: Duration, folder: &Path) -> Checked<Self> {
        let recorder = Recorder::open(history(folder))?;
        let register = Register::open(register(folder, name))?;
        Ok(Self { name, mutex: locks.mutex(name).ttl(ttl), recorder, register })
    }

    /// An error of the lock ends the contest: who waits has to go on waiting.
    async fn round(&self) -> Checked {
        let asked = self.recorder.acquire(self.name, Mode::Exclusive);
        let locked = self.mutex.lock().within(BOUND).await;
        let guard = locked.inspect_err(|_| self.recorder.unknown(asked))?;
        self.recorder.granted(asked, guard.fence(), term(&guard));
        self.work(&guard).await?;
        let ending = self.recorder.release(asked);
        self.recorder.released(ending, outcome(guard.release().await));
        Ok(())
    }

    /// Adds one, whatever the guard says: the register must know better.
    async fn work(&self, guard: &Guard) -> Checked {
        let saw = self.register.read(guard.fence())?.unwrap_or_default();
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..2000))).await;
        self.register.write(guard.fence(), saw, saw + 1)?;
        Ok(())
    }
}

fn term(guard: &Guard) -> Term {
    let deadline = Some(guard.deadline().nanos());
    Term { deadline, expires: deadline }
}

/// A release that is sent again finds nothing if the first one arrived, so what
/// was lost already may as well have been released.
fn outcome(released: leasehold::Result<Released>) -> Outcome {
    match released {
        Ok(Released::Released) => Outcome::Ok,
        _ => Outcome::Info,
    }
}

fn history(folder: &Path) -> std::path::PathBuf {
    folder.join("history")
}

fn register(folder: &Path, name: &str) -> std::path::PathBuf {
    folder.join(format!("register-{name}"))
}
