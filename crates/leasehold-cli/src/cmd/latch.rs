//! `latch`: set it, count it down, wait for it.

use std::time::Duration;

use leasehold::{Latch, Name};
use serde::Serialize;

use crate::args::{self, Global, LatchAction};
use crate::failure::{Failure, NOTHING};
use crate::{engine, output};

pub(crate) async fn latch(global: &Global, args: &args::Latch) -> Result<(), Failure> {
    args.check()?;
    let locks = engine::open(global).await?;
    let (name, latch) = (locks.name(args.name())?, locks.latch(args.name()));
    let left = match &args.action {
        LatchAction::Set { count, .. } => set(&latch, &name, *count).await?,
        LatchAction::CountDown { .. } => engine::change(latch.count_down()).await?,
        LatchAction::Arrive { id, .. } => arrive(&latch, id).await?,
        LatchAction::Show { .. } => count(&latch).await?,
        LatchAction::Wait(args) => return wait(&latch, &name, args.wait, global.json).await,
    };
    print(&name, left, global.json)
}

async fn set(latch: &Latch, name: &Name, times: u64) -> Result<u64, Failure> {
    if engine::change(latch.set(times)).await? {
        return Ok(times);
    }
    let left = count(latch).await?;
    let advice = "count it down first, or choose another name";
    let text = format!("the latch {:?} is set already, and {left} are missing", name.as_str());
    Err(Failure::new(NOTHING, format!("{text}; {advice}")))
}

async fn arrive(latch: &Latch, id: &str) -> Result<u64, Failure> {
    engine::answer(async { Ok(latch.arrive(id).await?) }).await
}

async fn count(latch: &Latch) -> Result<u64, Failure> {
    engine::answer(async { Ok(latch.count().await?) }).await
}

/// Who has waited knows that it is open, and is told nothing.
async fn wait(
    latch: &Latch,
    name: &Name,
    limit: Option<Duration>,
    json: bool,
) -> Result<(), Failure> {
    let wait = latch.wait();
    if let Some(limit) = limit {
        wait.within(limit).await?
    } else {
        wait.await?
    }
    if json { print(name, 0, json) } else { Ok(()) }
}

/// How a latch is now. Field names are a promise.
#[derive(Serialize)]
struct LatchJson<'a> {
    name: &'a str,
    namespace: &'a str,
    left: u64,
}

fn print(name: &Name, left: u64, json: bool) -> Result<(), Failure> {
    if !json {
        return output::print(&format!("{left}\n"));
    }
    let (name, namespace) = (name.as_str(), name.namespace().as_str());
    output::print_json(&LatchJson { name, namespace, left })
}
