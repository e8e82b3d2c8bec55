//! The self-test: a few locks, taken and given back.

use std::time::Duration;

use leasehold::engine::{Finding, Severity};
use leasehold::{Clock, Locks, Mutex};
use serde::{Serialize, Serializer};
use tokio::time::sleep;

use crate::failure::Failure;
use crate::histogram::Histogram;
use crate::scratch::Scratch;
use crate::text::{brief, micros};

const NAMESPACE: &str = "leasehold.doctor";
/// How often to lock and release; fewer where that takes too long.
const PAIRS: u64 = 100;
const TIME: Duration = Duration::from_secs(5);
/// For the clocks: long enough to see one that runs wrong, short enough to wait.
const SPAN: Duration = Duration::from_millis(500);
/// What a busy machine may add to it.
const TOLERANCE: Duration = Duration::from_millis(50);

/// What was measured.
#[derive(Serialize)]
pub(crate) struct Checkup {
    pairs: u64,
    #[serde(flatten, serialize_with = "quantiles")]
    times: Histogram,
    engine_clock_ms: Option<f64>,
    own_clock_ms: Option<f64>,
}

#[derive(Serialize)]
struct Quantiles {
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    max_us: f64,
}

fn quantiles<S: Serializer>(times: &Histogram, to: S) -> Result<S::Ok, S::Error> {
    let [p50_us, p90_us, p99_us] = [0.5, 0.9, 0.99].map(|share| micros(times.quantile(share)));
    Quantiles { p50_us, p90_us, p99_us, max_us: micros(times.max()) }.serialize(to)
}

impl Checkup {
    pub(crate) fn lines(&self) -> String {
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|share| brief(self.times.quantile(share)));
        let (pairs, max) = (self.pairs, brief(self.times.max()));
        let clocks = match (self.engine_clock_ms, self.own_clock_ms) {
            (Some(engine), Some(own)) => format!("{engine} ms passed at the engine, {own} ms here"),
            _ => "the engine does not tell the time".into(),
        };
        format!(
            "self-test  {pairs} x lock and release: p50 {p50}, p90 {p90}, p99 {p99}, max {max}\n\
             clocks     {clocks}\n"
        )
    }
}

pub(crate) async fn check_up(
    locks: &Locks,
    findings: &mut Vec<Finding>,
) -> Result<Checkup, Failure> {
    let scratch = Scratch::new(locks, NAMESPACE)?;
    let times = pairs(&scratch, findings).await?;
    exclusion(&scratch, findings).await?;
    let clocks = clocks(&scratch, findings).await?;
    let millis = |span: Duration| (span.as_secs_f64() * 1e4).round() / 10.0;
    let [engine_clock_ms, own_clock_ms] =
        clocks.map_or([None; 2], |both| both.map(millis).map(Some));
    Ok(Checkup { pairs: times.count(), times, engine_clock_ms, own_clock_ms })
}

fn danger(findings: &mut Vec<Finding>, what: &str) {
    let advice = "do not rely on this engine; please report it with the output of doctor --json";
    findings.push(Finding::new(Severity::Danger, what, advice));
}

/// How long it takes to lock and release; on the way, whether fences grow.
async fn pairs(scratch: &Scratch, findings: &mut Vec<Finding>) -> Result<Histogram, Failure> {
    let mutex = scratch.locks().mutex(scratch.name());
    let (mut times, mut fence, mut grows) = (Histogram::default(), 0, true);
    let end = Clock::System.now().after(TIME);
    while times.count() < PAIRS && Clock::System.now() < end {
        let start = Clock::System.now();
        let guard = mutex.lock().await?;
        grows &= std::mem::replace(&mut fence, guard.fence()) < guard.fence();
        guard.release().await?;
        times.add(Clock::System.now().since(start));
    }
    let promised = scratch.locks().profile().fencing > leasehold::engine::profile::Fencing::None;
    if promised && !grows {
        danger(findings, "fences do not grow from one holder to the next");
    }
    Ok(times)
}

/// Whether a held lock keeps others out, and a released one does not.
async fn exclusion(scratch: &Scratch, findings: &mut Vec<Finding>) -> Result<(), Failure> {
    let mutex = scratch.locks().mutex(scratch.name());
    let guard = mutex.lock().await?;
    if mutex.try_lock().await?.is_some() {
        danger(findings, "a lock was granted twice at the same time");
    }
    guard.release().await?;
    match mutex.try_lock().await? {
        Some(again) => drop(again.release().await?),
        None => danger(findings, "a lock that was given back is not free"),
    }
    Ok(())
}

/// The same span on the engine's clock and on ours, read off a fixed lease.
async fn clocks(
    scratch: &Scratch,
    findings: &mut Vec<Finding>,
) -> Result<Option<[Duration; 2]>, Failure> {
    let mutex = scratch.locks().mutex(scratch.name()).renew(false);
    let guard = mutex.lock().await?;
    let start = Clock::System.now();
    let before = time_left(&mutex).await?;
    sleep(SPAN).await;
    let own = Clock::System.now().since(start);
    let after = time_left(&mutex).await?;
    // The engine reads its clock somewhere within the two requests.
    let slack = TOLERANCE + Clock::System.now().since(start).saturating_sub(SPAN);
    guard.release().await?;
    let (Some(before), Some(after)) = (before, after) else { return Ok(None) };
    let engine = before.saturating_sub(after);
    if engine.abs_diff(own) > slack {
        findings.push(out_of_step(engine, own));
    }
    Ok(Some([engine, own]))
}

fn out_of_step(engine: Duration, own: Duration) -> Finding {
    let what = format!("{} passed here, but {} at the engine", brief(own), brief(engine));
    let advice = "the two clocks do not run alike: check time synchronisation and suspended \
                  virtual machines; leases may end early or late";
    Finding::new(Severity::Warning, what, advice)
}

async fn time_left(mutex: &Mutex) -> Result<Option<Duration>, Failure> {
    Ok(mutex.status().await?.holders.first().and_then(|held| held.time_left))
}
