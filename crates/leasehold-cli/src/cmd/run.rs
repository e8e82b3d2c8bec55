//! `run`: a command under a lock.

mod child;
mod notice;
mod recipe;
mod tenure;
mod terminal;
mod wait;
mod watch;

use std::time::{Duration, SystemTime};

use leasehold::{Guard, Locks, Released};
use serde_json::{Map, Value};
use tokio::time::timeout;

use self::child::Child;
pub(crate) use self::child::{own_binary, start};
use self::tenure::Tenure;
use self::watch::{End, Watch};
use crate::args::{Global, OnLost, Run};
use crate::failure::{Failure, LOST};
use crate::output::tell;
use crate::signals::{self, Signals};
use crate::{engine, who};

/// How long an unreachable engine may delay the end.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long it may take to let go of the engine.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(crate) async fn run(global: &Global, args: &Run) -> Result<u8, Failure> {
    args.check()?;
    let mut signals = Signals::listen()?;
    let label = args.label.clone().unwrap_or_else(|| who::label(&args.command[0]));
    let (locks, tenure) = tokio::select! {
        biased;
        signal = signals.end_asked() => return Err(Failure::silent(signals::exit_code(signal))),
        granted = granted(global, args, &label) => granted?,
    };
    let code = hold(args, &tenure, &label, &mut signals).await;
    let_go(&locks, tenure, args).await;
    code
}

async fn granted(global: &Global, args: &Run, label: &str) -> Result<(Locks, Tenure), Failure> {
    let locks = engine::open(global).await?;
    let tenure = wait::acquire(&locks, args, label).await?;
    Ok((locks, tenure))
}

/// Runs the command as long as the lease is ours.
async fn hold(
    args: &Run,
    tenure: &Tenure,
    label: &str,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    signals.hear_children()?;
    let tethered = args.on_lost != OnLost::Ignore;
    let child = Child::spawn(&args.command, environment(tenure, label), tethered)?;
    match Watch::new(args, tenure, child).until_end(signals).await {
        End::Own(code) => Ok(code),
        End::Stopped => Err(Failure::silent(LOST)),
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
async fn let_go(locks: &Locks, tenure: Tenure, args: &Run) {
    let (name, lost) = (tenure.names(), tenure.weakest().check().is_err());
    let by_itself = format!("it ends by itself within {}", humantime::format_duration(args.ttl));
    // Once the lease has run out there is nothing left to wait for.
    let limit = FAREWELL.min(tenure.weakest().remaining() + LAST_WORDS);
    match timeout(limit, tenure.release()).await {
        Ok(Ok(Released::Released)) => {}
        Ok(Ok(Released::AlreadyLost)) if lost => {}
        Ok(Ok(Released::AlreadyLost)) => {
            tell(&format!("the lease on {name} had been lost before the command ended"));
        }
        Ok(Err(error)) => tell(&format!("cannot release {name}: {error}; {by_itself}")),
        Err(_) => tell(&format!("no answer to the release of {name}; {by_itself}")),
    }
    // What could not be given back has just been told.
    let _ = timeout(2 * LAST_WORDS, locks.shutdown(LAST_WORDS)).await;
}
