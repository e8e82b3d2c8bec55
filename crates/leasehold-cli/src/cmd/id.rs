//! `id`: unique ids, and what they are made of.

use leasehold::Locks;
use leasehold::ids::{Alphabet, decode, encode};
use serde::Serialize;

use crate::args::{Decode, IdKind, IdSegment, IdSnowflake, Many};
use crate::args::{Global, Id};
use crate::failure::Failure;
use crate::{engine, output};

pub(crate) async fn id(global: &Global, args: &Id) -> Result<(), Failure> {
    match &args.kind {
        IdKind::Decode(args) => take_apart(args, global.json),
        IdKind::Segment(args) => {
            let locks = engine::open(global).await?;
            let ids = engine::answer(segment(&locks, args)).await?;
            print(&ids, &args.many, global.json)
        }
        IdKind::Snowflake(args) => {
            let locks = engine::open(global).await?;
            let ids = engine::answer(snowflake(&locks, args)).await?;
            print(&ids, &args.many, global.json)
        }
    }
}

async fn segment(locks: &Locks, args: &IdSegment) -> Result<Vec<u64>, Failure> {
    let Many { tag, count, .. } = &args.many;
    // One fetch is enough, and nothing is fetched ahead.
    let step = (*count as u64).max(1);
    let open = locks.ids(tag).segment().start(args.start).step(step).step_max(step.max(1_000));
    let ids = open.open().await?;
    let made = ids.batch(*count).await?;
    ids.close().await?;
    Ok(made)
}

async fn snowflake(locks: &Locks, args: &IdSnowflake) -> Result<Vec<u64>, Failure> {
    let Many { tag, count, .. } = &args.many;
    let ids = locks.ids(tag).snowflake().layout(args.layout).open().await?;
    let made = ids.batch(*count).await?;
    ids.close().await?;
    Ok(made)
}

fn print(ids: &[u64], many: &Many, json: bool) -> Result<(), Failure> {
    let Some(text) = many.text else {
        let lines = || ids.iter().map(|id| format!("{id}\n")).collect::<String>();
        return if json { output::print_json(&ids) } else { output::print(&lines()) };
    };
    let texts: Vec<String> = ids.iter().map(|id| encode(*id, text.into()).to_string()).collect();
    if json { output::print_json(&texts) } else { output::print(&(texts.join("\n") + "\n")) }
}

#[derive(Serialize)]
struct Parts {
    id: u64,
    at: String,
    millis: u64,
    worker: u32,
    cluster: u32,
    machine: u32,
    sequence: u32,
}

fn take_apart(args: &Decode, json: bool) -> Result<(), Failure> {
    let id = number(&args.id)?;
    let parts = args.layout.decode(id);
    let at = humantime::format_rfc3339_millis(parts.at()).to_string();
    if !json {
        let (worker, sequence) = (parts.worker, parts.sequence);
        let lines =
            format!("id        {id}\nat        {at}\nworker    {worker}\nsequence  {sequence}\n");
        return output::print(&lines);
    }
    output::print_json(&Parts {
        id,
        at,
        millis: parts.millis,
        worker: parts.worker,
        cluster: parts.cluster,
        machine: parts.machine,
        sequence: parts.sequence,
    })
}

/// A number, or a text of the width that tells its alphabet.
fn number(text: &str) -> Result<u64, Failure> {
    let alphabets = [Alphabet::Crockford, Alphabet::Base62];
    let fits = |alphabet: &Alphabet| text.len() == alphabet.width();
    match (text.parse(), alphabets.into_iter().find(fits)) {
        (Ok(id), _) => Ok(id),
        (Err(_), Some(alphabet)) => Ok(decode(text, alphabet)?),
        (Err(_), None) => Err(Failure::usage(format!(
            "{text:?} is no id: write a number, 13 characters of base 32 or 11 of base 62"
        ))),
    }
}
