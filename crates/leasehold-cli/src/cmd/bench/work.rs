//! The kinds of work that are measured.

use std::time::Duration;

use leasehold::{Clock, Guard, Locks, Moment, Mutex};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::goal::Goal;
use super::measure::Measure;
use super::peer::Other;
use crate::failure::Failure;
use crate::histogram::Histogram;
use crate::scratch::Scratch;

/// Rounds before it counts.
const WARM_UP: u32 = 10;
/// How long to look for a waiter in the queue; some engines do not show any.
const QUEUEING: Duration = Duration::from_millis(50);
/// Nothing that is measured takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// One task that locks and releases.
    Alone,
    /// Many of them.
    Throughput,
    /// From a task that holds to a task that waits.
    Tasks,
    /// The same between processes.
    Processes,
}

impl Work {
    pub(crate) const ALL: [Self; 4] = [Self::Alone, Self::Throughput, Self::Tasks, Self::Processes];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Alone => "lock+release",
            Self::Throughput => "throughput",
            Self::Tasks => "hand-over",
            Self::Processes => "hand-over, processes",
        }
    }

    /// The word in JSON.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Alone => "lock_release",
            Self::Throughput => "throughput",
            Self::Tasks => "hand_over",
            Self::Processes => "hand_over_processes",
        }
    }

    pub(crate) async fn measure(
        self,
        scratch: &Scratch,
        url: &str,
        tasks: u32,
        goal: Goal,
    ) -> Result<Measure, Failure> {
        let progress = goal.clone();
        let (times, elapsed) = tokio::select! {
            biased;
            done = Box::pin(self.times(scratch, url, tasks, goal)) => done?,
            never = progress.show() => match never {},
        };
        Ok(Measure { work: self, times, elapsed })
    }

    async fn times(self, scratch: &Scratch, url: &str, tasks: u32, goal: Goal) -> Times {
        match self {
            Self::Alone => alone(scratch, goal).await,
            Self::Throughput => throughput(scratch, tasks, goal).await,
            Self::Tasks => between_tasks(scratch, goal).await,
            Self::Processes => between_processes(scratch, url, goal).await,
        }
    }
}

type Times = Result<(Histogram, Duration), Failure>;

async fn pair(mutex: &Mutex) -> Result<Duration, Failure> {
    let start = Clock::System.now();
    mutex.lock().within(PATIENCE).await?.release().await?;
    Ok(Clock::System.now().since(start))
}

async fn pairs(mutex: Mutex, goal: Goal) -> Result<Histogram, Failure> {
    let mut times = Histogram::default();
    while goal.go_on() {
        times.add(pair(&mutex).await?);
        // What is done at once must not keep the other tasks from their turn.
        tokio::task::yield_now().await;
    }
    Ok(times)
}

async fn alone(scratch: &Scratch, goal: Goal) -> Times {
    let mutex = scratch.locks().mutex(scratch.name());
    for _ in 0..WARM_UP {
        pair(&mutex).await?;
    }
    let goal = goal.start();
    let times = pairs(mutex, goal.clone()).await?;
    Ok((times, goal.elapsed()))
}

async fn throughput(scratch: &Scratch, tasks: u32, goal: Goal) -> Times {
    let goal = goal.start();
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        running.spawn(pairs(scratch.locks().mutex(scratch.name()), goal.clone()));
    }
    let mut times = Histogram::default();
    while let Some(done) = running.join_next().await {
        let done = done.map_err(|cause| Failure::internal(format!("a task failed: {cause}")))?;
        times.merge(&done?);
    }
    Ok((times, goal.elapsed()))
}

/// Fair claims queue one by one; others of one process would share a place.
async fn between_tasks(scratch: &Scratch, goal: Goal) -> Times {
    let name = scratch.name();
    let mutex = scratch.locks().mutex(&name).fair();
    let (mut times, mut spent) = (Histogram::default(), Duration::ZERO);
    let mut held = mutex.lock().within(PATIENCE).await?;
    let goal = goal.start();
    while goal.go_on() {
        let mut waiter = JoinSet::new();
        waiter.spawn(granted(mutex.clone()));
        queued(scratch.locks(), &name).await?;
        let released = Clock::System.now();
        held.release().await?;
        let next = waiter.join_next().await.and_then(Result::ok);
        let next = next.ok_or_else(|| Failure::internal("the waiting task has gone"))?;
        let (guard, seen) = next?;
        let took = seen.since(released);
        (held, spent) = (guard, spent + took);
        times.add(took);
    }
    held.release().await?;
    Ok((times, spent))
}

async fn granted(mutex: Mutex) -> Result<(Guard, Moment), Failure> {
    let guard = mutex.lock().within(PATIENCE).await?;
    Ok((guard, Clock::System.now()))
}

/// Waits until somebody is in the queue, as far as the engine shows it.
async fn queued(locks: &Locks, name: &str) -> Result<(), Failure> {
    let end = Clock::System.now().after(QUEUEING);
    while Clock::System.now() < end && locks.status(name).await?.waiters.is_empty() {
        sleep(Duration::from_micros(100)).await;
    }
    Ok(())
}

/// The other process reads the same clock: that of the host since boot.
async fn between_processes(scratch: &Scratch, url: &str, goal: Goal) -> Times {
    let name = scratch.name();
    let mutex = scratch.locks().mutex(&name);
    let mut other = Other::start(url, &name)?;
    let (mut times, mut spent) = (Histogram::default(), Duration::ZERO);
    let goal = goal.start();
    while goal.go_on() {
        let held = mutex.lock().within(PATIENCE).await?;
        other.ask("lock")?;
        queued(scratch.locks(), &name).await?;
        let released = Clock::System.now();
        held.release().await?;
        let took = other.answer().await?.since(released);
        other.ask("release")?;
        other.answer().await?;
        spent += took;
        times.add(took);
    }
    Ok((times, spent))
}
