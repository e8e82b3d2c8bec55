//! `barrier`: open, close, wait.

use std::time::Duration;

use leasehold::{Barrier, Name};
use serde::Serialize;

use crate::args::{self, BarrierAction, Global};
use crate::failure::Failure;
use crate::text::visible;
use crate::{engine, output, who};

pub(crate) async fn barrier(global: &Global, args: &args::Barrier) -> Result<(), Failure> {
    args.check()?;
    let locks = engine::open(global).await?.label(who::process());
    let (name, barrier) = (locks.name(args.name())?, locks.barrier(args.name()));
    let (closed, changed) = match &args.action {
        BarrierAction::Wait(args) => (false, wait(&barrier, args.wait).await?),
        BarrierAction::Open { .. } => (false, Some(changed(barrier.open()).await?)),
        BarrierAction::Close { .. } => (true, Some(changed(barrier.close()).await?)),
    };
    print(&name, closed, changed, global.json)
}

async fn wait(barrier: &Barrier, limit: Option<Duration>) -> Result<Option<bool>, Failure> {
    let wait = barrier.wait();
    if let Some(limit) = limit {
        wait.within(limit).await?
    } else {
        wait.await?
    }
    Ok(None)
}

/// Both can be repeated: a barrier that is so already stays as it is.
async fn changed(asked: impl Future<Output = leasehold::Result<bool>>) -> Result<bool, Failure> {
    engine::answer(async { Ok(asked.await?) }).await
}

/// How a barrier is now. Field names are a promise.
#[derive(Serialize)]
struct BarrierJson<'a> {
    name: &'a str,
    namespace: &'a str,
    closed: bool,
    changed: Option<bool>,
}

/// Who has waited knows that it is open, and is told nothing.
fn print(name: &Name, closed: bool, changed: Option<bool>, json: bool) -> Result<(), Failure> {
    let (text, namespace) = (name.as_str(), name.namespace().as_str());
    if json {
        return output::print_json(&BarrierJson { name: text, namespace, closed, changed });
    }
    let state = if closed { "closed" } else { "open" };
    match changed {
        Some(true) => output::print(&format!("{} is {state}\n", visible(text))),
        Some(false) => output::print(&format!("{} was {state} already\n", visible(text))),
        None => Ok(()),
    }
}
