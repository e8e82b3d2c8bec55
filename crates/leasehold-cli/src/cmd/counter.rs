//! `counter`: read it, add to it.

use serde::Serialize;

use crate::args::{self, CounterAction, Global};
use crate::failure::Failure;
use crate::{engine, output};

pub(crate) async fn counter(global: &Global, args: &args::Counter) -> Result<(), Failure> {
    args.check()?;
    let locks = engine::open(global).await?;
    let (name, counter) = (locks.name(args.name())?, locks.counter(args.name()));
    let value = match &args.action {
        CounterAction::Get { .. } => engine::answer(async { Ok(counter.get().await?) }).await?,
        CounterAction::Add { amount, .. } => engine::change(counter.add(*amount)).await?,
    };
    if !global.json {
        return output::print(&format!("{value}\n"));
    }
    let (name, namespace) = (name.as_str(), name.namespace().as_str());
    output::print_json(&CounterJson { name, namespace, value })
}

/// A counter. Field names are a promise.
#[derive(Serialize)]
struct CounterJson<'a> {
    name: &'a str,
    namespace: &'a str,
    value: i64,
}
