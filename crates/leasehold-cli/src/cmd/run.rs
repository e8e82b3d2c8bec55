//! `run` and `elect`: a command under a lease.

mod child;
mod guardian;
mod lease;
mod notice;
mod recipe;
mod request;
mod tenure;
mod terminal;
mod tree;
mod wait;
mod watch;
mod wire;

use std::ffi::OsString;
use std::time::{Duration, SystemTime};

use leasehold::{Guard, Locks, Released};
use serde_json::{Map, Value};
use tokio::time::timeout;

pub(crate) use self::child::{Child, Streams, own_binary, start};
pub(crate) use self::guardian::guard;
pub(crate) use self::lease::Lease;
use self::request::Request;
use self::tenure::Tenure;
pub(crate) use self::watch::{End, Plan, Watch};
use crate::args::{Elect, Global, OnLost, Run};
use crate::failure::{Failure, INTERNAL, LOST};
use crate::output::tell;
use crate::signals::{self, Signals};
use crate::{engine, who};

/// How long an unreachable engine may delay the end.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long it may take to let go of the engine.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(crate) async fn run(global: &Global, args: &Run) -> Result<u8, Failure> {
    args.check()?;
    under(global, &Request::of_run(args)).await
}

pub(crate) async fn elect(global: &Global, args: &Elect) -> Result<u8, Failure> {
    args.check()?;
    let value = args.value.clone().unwrap_or_else(who::process);
    under(global, &Request::of_elect(args, &value)).await
}

/// Runs a command under the lease that it asks for.
async fn under(global: &Global, request: &Request<'_>) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    let (locks, tenure) = tokio::select! {
        biased;
        signal = signals.end_asked() => return Err(Failure::silent(signals::exit_code(signal))),
        granted = granted(global, request) => granted?,
    };
    let (job, environment) = (request.job, environment(&tenure, &request.label));
    let plan = Plan::of_job(job, &tenure);
    let code = hold(&job.command, environment, &tenure, plan, &mut signals).await;
    let late = let_go(&locks, tenure, job.ttl).await;
    // Whoever wants to go on regardless keeps the command's own code.
    let late = late.filter(|_| code.is_ok() && job.on_lost != OnLost::Ignore);
    late.map_or(code, Err)
}

async fn granted(global: &Global, request: &Request<'_>) -> Result<(Locks, Tenure), Failure> {
    let locks = engine::open(global).await?;
    let tenure = wait::acquire(&locks, request).await?;
    Ok((locks, tenure))
}

/// Runs the command as long as the lease is ours.
pub(crate) async fn hold(
    command: &[OsString],
    environment: impl IntoIterator<Item = (&'static str, String)>,
    lease: &dyn Lease,
    plan: Plan,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    signals.hear_children()?;
    let streams = Streams::inherited()?;
    let child = Child::spawn(command, environment, streams, plan.latest(lease)).await?;
    match Watch::new(plan, lease, child).until_end(signals).await {
        End::Own(code) => Ok(code),
        End::Stopped => Err(Failure::silent(LOST)),
        End::Unguarded => Err(Failure::silent(INTERNAL)),
    }
}

/// Names have no line breaks, so several of them are lines.
fn environment(tenure: &Tenure, label: &str) -> [(&'static str, String); 5] {
    let deadline = SystemTime::now() + tenure.weakest().remaining();
    let deadline = deadline.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let lines = |text: fn(&Guard) -> String| {
        tenure.guards().iter().map(text).collect::<Vec<_>>().join("\n")
    };
    [
        ("LEASEHOLD_NAME", lines(|guard| guard.name().to_string())),
        ("LEASEHOLD_FENCE", lines(|guard| guard.fence().to_string())),
        ("LEASEHOLD_FENCES", fences(tenure)),
        ("LEASEHOLD_DEADLINE", deadline.as_secs().to_string()),
        ("LEASEHOLD_LABEL", label.to_owned()),
    ]
}

fn fences(tenure: &Tenure) -> String {
    let pair = |guard: &Guard| (guard.name().to_string(), Value::from(guard.fence()));
    Value::Object(tenure.guards().iter().map(pair).collect::<Map<_, _>>()).to_string()
}

/// Gives the lease back and waits for it, so that the next run finds it free.
/// What to say if it was not ours any more.
async fn let_go(locks: &Locks, tenure: Tenure, ttl: Duration) -> Option<Failure> {
    let (name, lost) = (tenure.names(), tenure.check().is_err());
    let by_itself = format!("it ends by itself within {}", humantime::format_duration(ttl));
    // Once the lease has run out there is nothing left to wait for.
    let limit = FAREWELL.min(tenure.remaining() + LAST_WORDS);
    let released = timeout(limit, tenure.release()).await;
    let lost = lost || matches!(released, Ok(Ok(Released::AlreadyLost)));
    match released {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tell(&format!("cannot release {name}: {error}; {by_itself}")),
        Err(_) => tell(&format!("no answer to the release of {name}; {by_itself}")),
    }
    // What could not be given back has just been told.
    let _ = timeout(2 * LAST_WORDS, locks.shutdown(LAST_WORDS)).await;
    let late = format!("the lease on {name} had been lost before the command ended");
    lost.then(|| Failure::new(LOST, late))
}
