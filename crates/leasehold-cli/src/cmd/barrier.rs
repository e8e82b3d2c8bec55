//! `barrier`: open, close, wait.

use leasehold::Name;
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
        BarrierAction::Wait(args) => {
            let wait = barrier.wait();
            if let Some(limit) = args.wait {
                wait.within(limit).await?
            } else {
                wait.await?
            }
            (false, None)
        }
        BarrierAction::Open { .. } => {
            (false, Some(engine::answer(async { Ok(barrier.open().await?) }).await?))
        }
        BarrierAction::Close { .. } => {
            (true, Some(engine::answer(async { Ok(barrier.close().await?) }).await?))
        }
    };
    print(&name, closed, changed, global.json)
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
