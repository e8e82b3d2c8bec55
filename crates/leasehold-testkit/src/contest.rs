//! Clients that contend for a few names, each with a fenced register behind it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use leasehold::{Guard, Locks, Mutex, Released};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::check;
use crate::history::{History, Mode, Outcome, Recorder, Term};
use crate::register::Register;

/// Whether it went well.
pub type Checked<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A bound for what will happen; no test passes by waiting it out.
pub const BOUND: Duration = Duration::from_secs(60);
/// Outlasts every fault: whoever is waited for this long is stuck.
pub const LONG: Duration = Duration::from_secs(600);

/// In a cluster they are of different shards.
pub const NAMES: [&str; 3] = ["a", "b", "c"];
const CLIENTS: usize = 3;
/// Tasks of one client for one name: one waits at the server while another
/// holds.
const TASKS: usize = 2;

/// How many rounds everybody shall have had under a storm.
const ROUNDS: u32 = 15;

/// Waits for what must come.
///
/// # Errors
///
/// When it does not come in time, or the look for it fails.
pub async fn until<F>(what: &str, mut done: impl FnMut() -> F) -> Checked
where
    F: Future<Output = Checked<bool>>,
{
    let end = Instant::now() + BOUND;
    while !done().await? {
        if Instant::now() > end {
            return Err(format!("it never happened: {what}").into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// A register lets the second in and, from then on, not the first.
///
/// # Errors
///
/// When the register cannot be used, or what it saw was out of order.
///
/// # Panics
///
/// When it let the wrong one in.
pub fn is_guarded(first: &Guard, second: &Guard) -> Checked {
    let folder = TempDir::new()?;
    let register = Register::open(folder.path().join("register"))?;
    assert!(register.write(first.fence(), 0, 1)?);
    assert!(register.write(second.fence(), 1, 2)?, "the new holder was refused");
    assert!(!register.write(first.fence(), 1, 3)?, "the old holder was let in");
    Ok(check::register(&register.accesses()?)?)
}

/// A contest under way.
#[derive(Debug)]
pub struct Contest {
    clients: Vec<Locks>,
    workers: Vec<Worker>,
    stop: Arc<AtomicBool>,
    complaint: Arc<OnceLock<String>>,
    folder: TempDir,
}

/// One task that locks, works and releases again and again.
#[derive(Debug)]
struct Worker {
    rounds: Arc<AtomicU32>,
    task: JoinHandle<()>,
}

impl Contest {
    /// With leases that outlast it, so that whoever is left behind blocks a name
    /// for all to see.
    ///
    /// # Errors
    ///
    /// When a client cannot be opened.
    pub async fn start(url: &str) -> Checked<Self> {
        Self::start_with(url, LONG).await
    }

    /// With leases of this ttl.
    ///
    /// # Errors
    ///
    /// When a client cannot be opened.
    pub async fn start_with(url: &str, ttl: Duration) -> Checked<Self> {
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
    #[must_use]
    pub fn register(&self, name: &str) -> PathBuf {
        register(self.folder.path(), name)
    }

    /// Where it is told what happens.
    #[must_use]
    pub fn history(&self) -> PathBuf {
        history(self.folder.path())
    }

    /// The rounds of whoever has had the fewest. All who took part must get in.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        let rounds = self.workers.iter().map(|worker| worker.rounds.load(Ordering::Relaxed));
        rounds.min().unwrap_or(0)
    }

    /// Why somebody does not take part any more: nobody should stop before it
    /// is told to.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        self.complaint.get().cloned()
    }

    /// Waits until everybody has had so many more rounds.
    ///
    /// # Errors
    ///
    /// When somebody gives up, or does not get in.
    pub async fn proceeds(&self, rounds: u32) -> Checked {
        let wanted = self.rounds() + rounds;
        let enough = || async {
            match self.complaint() {
                None => Ok(self.rounds() >= wanted),
                Some(complaint) => Err(complaint.into()),
            }
        };
        until("everybody gets in", enough).await
    }

    /// Does something to the server until everybody has had enough rounds, and
    /// at least so many times.
    ///
    /// # Errors
    ///
    /// When the fault cannot be done, or not often enough.
    pub async fn shake(
        &self,
        times: u32,
        every: Duration,
        mut fault: impl FnMut() -> Checked,
    ) -> Checked {
        let end = Instant::now() + BOUND;
        let mut shaken = 0;
        while shaken < times || self.rounds() < ROUNDS {
            if self.complaint().is_some() || Instant::now() > end {
                break;
            }
            fault()?;
            shaken += 1;
            tokio::time::sleep(every).await;
        }
        if shaken < times { Err("the fault did not bite".into()) } else { Ok(()) }
    }

    /// Ends it: everybody had turns, no name is left behind, every fence grew
    /// and no register let a late writer in.
    ///
    /// # Errors
    ///
    /// When one of these is not so.
    pub async fn end(mut self) -> Checked<History> {
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

fn history(folder: &Path) -> PathBuf {
    folder.join("history")
}

fn register(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("register-{name}"))
}
