//! `observe`: who leads.

use leasehold::{Leader, Name, Observed, Observer};
use serde::Serialize;

use super::follow;
use crate::args::{Global, Observe};
use crate::failure::{Failure, NOTHING};
use crate::text::visible;
use crate::{engine, output};

pub(crate) async fn observe(global: &Global, args: &Observe) -> Result<u8, Failure> {
    args.check()?;
    if args.once {
        return once(global, args).await;
    }
    follow::follow(async {
        let (name, mut observer) = begin(global, args).await?;
        while let Some(observed) = observer.next().await? {
            print(&name, &observed, global.json)?;
        }
        Ok(())
    })
    .await
}

async fn begin(global: &Global, args: &Observe) -> Result<(Name, Observer), Failure> {
    let locks = engine::open(global).await?;
    let name = locks.name(&args.name)?;
    let election = locks.election(&args.name);
    let observer = engine::answer(async { Ok(election.observe().await?) }).await?;
    Ok((name, observer))
}

async fn once(global: &Global, args: &Observe) -> Result<u8, Failure> {
    let (name, mut observer) = begin(global, args).await?;
    let observed = engine::answer(first_sure(&mut observer)).await?;
    print(&name, &observed, global.json)?;
    Ok(if matches!(observed, Observed::Leader(_)) { 0 } else { NOTHING })
}

/// What is seen first while the connection stands.
async fn first_sure(observer: &mut Observer) -> Result<Observed, Failure> {
    while let Some(observed) = observer.next().await? {
        if observed != Observed::Unsure {
            return Ok(observed);
        }
    }
    Err(Failure::internal("the observer has ended before it saw anything"))
}

/// What was seen. Field names are a promise.
#[derive(Serialize)]
struct SightingJson<'a> {
    at: String,
    event: &'static str,
    name: &'a str,
    namespace: &'a str,
    fence: Option<u64>,
    value: Option<&'a str>,
    label: Option<&'a str>,
}

fn print(name: &Name, observed: &Observed, json: bool) -> Result<(), Failure> {
    let (event, leader) = match observed {
        Observed::Leader(leader) => ("leader", Some(leader)),
        Observed::Nobody => ("nobody", None),
        _ => ("unsure", None),
    };
    if !json {
        return output::print(&follow::line(event, &described(name, leader)));
    }
    output::print_json_line(&SightingJson {
        at: follow::now(),
        event,
        name: name.as_str(),
        namespace: name.namespace().as_str(),
        fence: leader.map(|leader| leader.fence),
        value: leader.map(|leader| &*leader.value),
        label: leader.map(|leader| &*leader.label),
    })
}

fn described(name: &Name, leader: Option<&Leader>) -> String {
    let name = visible(name.as_str());
    let Some(Leader { fence, value, label, .. }) = leader else { return name };
    format!("{name}  {} ({}, fence {fence})", visible(value), visible(label))
}
