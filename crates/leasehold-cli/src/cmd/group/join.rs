//! To be a member while a command runs.

use std::time::Duration;

use leasehold::{Error, ErrorKind, Group, Locks};
use tokio::time::timeout;

use super::stay::Stay;
use crate::args::{Global, Join, OnLost};
use crate::cmd::run::{Plan, hold};
use crate::failure::{BUSY, Failure};
use crate::output::tell;
use crate::signals::{self, Signals};
use crate::{engine, who};

/// How long an unreachable engine may delay the end.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long it may take to let go of the engine.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

pub(super) async fn join(global: &Global, args: &Join) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    let label = args.label.clone().unwrap_or_else(|| who::label(&args.command[0]));
    let (locks, stay) = tokio::select! {
        biased;
        signal = signals.end_asked() => return Err(Failure::silent(signals::exit_code(signal))),
        joined = joined(global, args, &label) => joined?,
    };
    let plan = Plan::new(OnLost::Term, GRACE, args.ttl);
    let code = hold(&args.command, environment(args, label), &stay, plan, &mut signals).await;
    leave(&locks, stay).await;
    code
}

fn environment(args: &Join, label: String) -> [(&'static str, String); 3] {
    [
        ("LEASEHOLD_NAME", args.name.clone()),
        ("LEASEHOLD_MEMBER", args.id.clone()),
        ("LEASEHOLD_LABEL", label),
    ]
}

async fn joined(global: &Global, args: &Join, label: &str) -> Result<(Locks, Stay), Failure> {
    let locks = engine::open(global).await?;
    let group = locks.group(&args.name).ttl(args.ttl).label(label);
    let membership = engine::answer(async {
        match group.join(&args.id, &args.payload).await {
            Ok(membership) => Ok(membership),
            Err(error) => Err(refused(&group, &args.id, error).await),
        }
    });
    let membership = membership.await?;
    let member = format!("{}/{}", args.name.trim_end_matches('/'), args.id);
    Ok((locks, Stay { member, membership }))
}

/// An id that another one has is free again some day: no wrong use.
async fn refused(group: &Group, id: &str, error: Error) -> Failure {
    let members = group.members().await.unwrap_or_default();
    let is_taken = members.iter().any(|member| &*member.id == id);
    if error.kind() == ErrorKind::Invalid && is_taken {
        return Failure::new(BUSY, error.to_string());
    }
    error.into()
}

/// Leaves, so that others see it at once.
async fn leave(locks: &Locks, stay: Stay) {
    let (member, membership) = (stay.member, stay.membership);
    let why = match timeout(FAREWELL, membership.leave()).await {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("no answer from the engine".into()),
    };
    if let Some(why) = why {
        tell(&format!("cannot leave as {member:?}: {why}; it is gone within its ttl"));
    }
    // What could not be given back has just been told.
    let _ = timeout(FAREWELL, locks.shutdown(LAST_WORDS)).await;
}
