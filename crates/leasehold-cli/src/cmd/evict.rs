//! `evict`: take a lock away from its holder.

use std::time::Duration;

use leasehold::Locks;
use leasehold::engine::{Eviction, Held, Status, Target};
use serde::Serialize;

use super::show;
use crate::args::Evict;
use crate::failure::{Failure, NOTHING};
use crate::output::{self, HeldJson};
use crate::text::{span, visible};
use crate::who;

pub(crate) async fn evict(locks: &Locks, args: &Evict, json: bool) -> Result<(), Failure> {
    let status = locks.status(&args.name).await?;
    let closed = status.closed_for.filter(|_| args.all && status.holders.is_empty());
    let aimed_at: Vec<_> = status.holders.iter().filter(|held| is_meant(args, held)).collect();
    if aimed_at.is_empty() && closed.is_none() {
        return Err(nothing(args, &status));
    }
    let evicted = if args.dry_run {
        aimed_at.into_iter().cloned().collect()
    } else {
        carry_out(locks, args, closed.is_some()).await?
    };
    let report = Report::new(args, &status, &evicted, closed.is_some());
    if json { output::print_json(&report) } else { output::print(&report.lines(&evicted, closed)) }
}

fn is_meant(args: &Evict, held: &Held) -> bool {
    args.expect_fence.is_none_or(|fence| held.fence == Some(fence))
}

async fn carry_out(locks: &Locks, args: &Evict, reopens: bool) -> Result<Vec<Held>, Failure> {
    let target = args.expect_fence.map_or(Target::All, Target::Fence);
    let reason = args.reason.as_deref().unwrap_or_default();
    let mut eviction = Eviction::new(locks.name(&args.name)?, target, who::user_at_host(), reason)?;
    eviction.ask = args.ask;
    let evicted = locks.evict(eviction).await?.leases;
    if evicted.is_empty() && !reopens {
        // It changed hands since we looked.
        return Err(nothing(args, &locks.status(&args.name).await?));
    }
    Ok(evicted)
}

/// Why nobody was evicted, and who would have to be.
fn nothing(args: &Evict, status: &Status) -> Failure {
    let name = &args.name;
    let holders: Vec<_> = status.holders.iter().map(show::holder).collect();
    let why = match (args.expect_fence, status.closed_for) {
        (Some(fence), _) if !holders.is_empty() => format!(
            "nobody holds {name:?} with fence {fence}; now held by {}; \
             if that is whom you mean, name that fence",
            holders.join("; ")
        ),
        (_, Some(left)) => format!(
            "nobody holds {name:?}, it is kept closed for another {}; --all opens it",
            span(left)
        ),
        _ => format!("nobody holds {name:?}: nothing to evict"),
    };
    Failure::new(NOTHING, why)
}

#[derive(Serialize)]
struct Report<'a> {
    name: &'a str,
    namespace: &'a str,
    dry_run: bool,
    ask: bool,
    actor: String,
    reason: Option<&'a str>,
    evicted: Vec<HeldJson<'a>>,
    reopened: bool,
}

impl<'a> Report<'a> {
    fn new(args: &'a Evict, status: &'a Status, evicted: &'a [Held], reopened: bool) -> Self {
        Self {
            name: status.name.as_str(),
            namespace: status.name.namespace().as_str(),
            dry_run: args.dry_run,
            ask: args.ask,
            actor: who::user_at_host(),
            reason: args.reason.as_deref(),
            evicted: evicted.iter().map(HeldJson::from).collect(),
            reopened,
        }
    }

    fn lines(&self, evicted: &[Held], closed: Option<Duration>) -> String {
        let open = if self.dry_run { "would open" } else { "opened" };
        let done = match (self.ask, self.dry_run) {
            (false, false) => "evicted from",
            (false, true) => "would evict from",
            (true, false) => "asked to let go of",
            (true, true) => "would ask to let go of",
        };
        let name = visible(self.name);
        let lease = |held: &Held| format!("{done} {name}: {}\n", show::holder(held));
        let lines = evicted.iter().map(lease).collect::<String>();
        let reopened = closed.map(|left| {
            format!("{open} {name}, which was to stay closed for another {}\n", span(left))
        });
        lines + &reopened.unwrap_or_default()
    }
}
