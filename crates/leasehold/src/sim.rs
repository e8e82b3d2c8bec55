//! What a simulation decides: the time, the chance and the network of a client,
//! and whether it lives.
//!
//! Compiled under `--cfg leasehold_sim` alone. Many clients share one thread
//! there. Each task stands behind a gate that knows its client: it says who is
//! asking while the task is polled, and polls nothing of a client that is
//! stopped or dead. Engines know nothing of it.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// What every clock shows when the simulation begins, in nanoseconds: a day
/// after boot.
pub const BOOT: u64 = 86_400_000_000_000;
/// The wall clock at boot, in microseconds since 1970.
pub const EPOCH: u64 = 1_700_000_000_000_000;

/// The same tables in every run.
pub(crate) type RandomState = BuildHasherDefault<DefaultHasher>;

/// A connection, as a client sees it.
pub trait SimStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> SimStream for T {}

/// A connection that is being made.
pub type Dialed = Pin<Box<dyn Future<Output = io::Result<Box<dyn SimStream>>> + Send>>;

/// Connects to a host and port.
pub type Dial = Box<dyn Fn(&str, u16) -> Dialed + Send + Sync>;

thread_local! {
    /// Whose task is being polled.
    static CURRENT: RefCell<Option<Arc<Process>>> = const { RefCell::new(None) };
}

/// One process of the simulation.
pub struct Process {
    label: String,
    dial: Dial,
    state: Mutex<ProcessState>,
}

struct ProcessState {
    life: Life,
    /// Tasks that were woken while it was stopped.
    parked: Vec<Waker>,
    /// Where its stream of chance stands.
    chance: u64,
    /// When the rate was set, and what the clock showed.
    anchor: (Instant, u64),
    /// How much its clock gains, in parts per million.
    gain: i64,
    /// How far its wall clock was set forward, in microseconds.
    step: i64,
    /// What is static in a real process.
    statics: BTreeMap<TypeId, Box<dyn Any + Send>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Running,
    Stopped,
    Dead,
}

impl Process {
    /// A process that begins now. Its chance comes from `seed`, its connections
    /// from `dial`.
    #[must_use]
    pub fn new(label: impl Into<String>, seed: u64, dial: Dial) -> Arc<Self> {
        let state = ProcessState {
            life: Life::Running,
            parked: Vec::new(),
            chance: seed,
            anchor: (Instant::now(), BOOT),
            gain: 0,
            step: 0,
            statics: BTreeMap::new(),
        };
        Arc::new(Self { label: label.into(), dial, state: Mutex::new(state) })
    }

    /// `task` as one of this process.
    pub fn run<T: 'static>(
        self: &Arc<Self>,
        task: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        ProcessTask { client: Some(Arc::clone(self)), task: Some(Box::pin(task)) }
    }

    /// Does `work` as this process.
    pub fn enter<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let outer = CURRENT.replace(Some(Arc::clone(self)));
        let chance = fastrand::get_seed();
        fastrand::seed(self.state().chance);
        let done = work();
        self.state().chance = fastrand::get_seed();
        fastrand::seed(chance);
        CURRENT.set(outer);
        done
    }

    /// Stops it, as SIGSTOP or a suspended machine does: its clock goes on.
    pub fn stop(&self) {
        let mut state = self.state();
        if state.life == Life::Running {
            state.life = Life::Stopped;
        }
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        let mut state = self.state();
        if state.life == Life::Stopped {
            state.life = Life::Running;
        }
        let parked = std::mem::take(&mut state.parked);
        drop(state);
        parked.into_iter().for_each(Waker::wake);
    }

    /// Ends it without a word, as SIGKILL does. Its connections are the
    /// network's to close.
    pub fn kill(&self) {
        self.state().life = Life::Dead;
    }

    /// Whether it was killed.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state().life == Life::Dead
    }

    /// Whether its tasks are polled.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state().life == Life::Running
    }

    /// Its clock gains so many parts per million from now on.
    pub fn drift(&self, gain: i64) {
        let mut state = self.state();
        state.anchor = (Instant::now(), state.now());
        state.gain = gain;
    }

    /// Sets its wall clock forward, or back.
    pub fn step_wall(&self, micros: i64) {
        self.state().step += micros;
    }

    /// Nanoseconds since boot by its own clock.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.state().now()
    }

    /// What people call it.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    fn state(&self) -> MutexGuard<'_, ProcessState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Process").field(&self.label).finish()
    }
}

impl ProcessState {
    fn now(&self) -> u64 {
        let (since, shown) = self.anchor;
        let passed = since.elapsed().as_nanos();
        shown + u64::try_from(passed * self.rate() / MILLION).unwrap_or(u64::MAX)
    }

    fn rate(&self) -> u128 {
        MILLION.saturating_add_signed(self.gain.into()).max(1)
    }
}

const MILLION: u128 = 1_000_000;

/// A task, and whose it is.
struct ProcessTask<T> {
    client: Option<Arc<Process>>,
    /// Taken at its end, so that it ends as what it was.
    task: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
}

impl<T> Future for ProcessTask<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Self { client, task } = &mut *self;
        let Some(task) = task else { return Poll::Pending };
        let Some(client) = client else { return task.as_mut().poll(cx) };
        let mut state = client.state();
        if state.life != Life::Running {
            state.parked.push(cx.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        client.enter(|| task.as_mut().poll(cx))
    }
}

impl<T> Drop for ProcessTask<T> {
    fn drop(&mut self) {
        let task = self.task.take();
        match &self.client {
            Some(client) => client.enter(|| drop(task)),
            None => drop(task),
        }
    }
}

/// `task` as one of the process that starts it.
pub(crate) fn gated<T: 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = T> + Send + 'static {
    ProcessTask { client: current(), task: Some(Box::pin(task)) }
}

/// Whose task is being polled, or work is being done.
pub fn current() -> Option<Arc<Process>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Nanoseconds since boot.
pub(crate) fn nanos() -> u64 {
    current().expect("in a simulation everything is done by some client").now()
}

/// Microseconds since 1970.
pub(crate) fn wall_micros() -> u64 {
    let step = current().map_or(0, |client| client.state().step);
    (EPOCH + nanos() / 1_000).saturating_add_signed(step)
}

/// How long the runtime has to sleep for this span of the client's own time.
pub(crate) fn nap(span: Duration) -> Duration {
    let rate = current().map_or(MILLION, |client| client.state().rate());
    let nanos = (span.as_nanos() * MILLION).div_ceil(rate);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// From the stream of chance of the client.
pub(crate) fn random_bits() -> u128 {
    fastrand::u128(..)
}

pub(crate) fn label() -> String {
    current().map_or_else(|| "nobody".into(), |client| client.label.clone())
}

pub(crate) async fn dial(host: &str, port: u16) -> io::Result<Box<dyn SimStream>> {
    let client = current().ok_or(io::ErrorKind::NotConnected)?;
    (client.dial)(host, port).await
}

/// What stands for a `static` of this type.
pub(crate) fn with_static<S: Default + Send + 'static, T>(work: impl FnOnce(&mut S) -> T) -> T {
    let Some(client) = current() else { return work(&mut S::default()) };
    let mut state = client.state();
    let kept = state.statics.entry(TypeId::of::<S>()).or_insert_with(|| Box::<S>::default());
    let kept = kept.downcast_mut().expect("kept by its type");
    work(kept)
}
