//! `cache`: records, and how they change.

mod record;

use leasehold::Locks;
use leasehold::cache::{Cache, CacheEvent, CacheEvents};
use serde_json::Value;

use self::record::{RecordJson, RecordLine};
use super::follow;
use crate::args::{self, Global};
use crate::failure::Failure;
use crate::{engine, output};

pub(crate) async fn cache(global: &Global, args: &args::Cache) -> Result<u8, Failure> {
    args.check()?;
    if args.follow {
        return follow::follow(async {
            let locks = engine::open(global).await?;
            let cache = start(&locks, args).await?;
            tell(cache.events(), global.json).await
        })
        .await;
    }
    let locks = engine::open(global).await?;
    let all = start(&locks, args).await?.snapshot();
    let records: Vec<_> = all.iter().map(|(name, entry)| RecordJson::new(name, entry)).collect();
    if global.json {
        output::print_json(&records)?;
    } else {
        output::print(&records.iter().map(RecordJson::columns).collect::<String>())?;
    }
    Ok(0)
}

async fn start(locks: &Locks, args: &args::Cache) -> Result<Cache<Value>, Failure> {
    let cache = locks.cache::<Value>(&args.path).depth(args.depth);
    engine::answer(async { Ok(cache.start().await?) }).await
}

async fn tell(mut events: CacheEvents<Value>, json: bool) -> Result<(), Failure> {
    while let Some(event) = events.next().await {
        lines(&event).iter().try_for_each(|line| line.print(json))?;
    }
    Ok(())
}

/// A snapshot is a line for each record, after one that says so.
fn lines(event: &CacheEvent<Value>) -> Vec<RecordLine<'_>> {
    match event {
        CacheEvent::Snapshot(all) => {
            let there = all.iter().map(|(name, entry)| RecordLine::of("there", name, entry));
            std::iter::once(RecordLine::bare("snapshot")).chain(there).collect()
        }
        CacheEvent::Added { name, new } => vec![RecordLine::of("added", name, new)],
        CacheEvent::Changed { name, new, .. } => vec![RecordLine::of("changed", name, new)],
        CacheEvent::Removed { name, old } => vec![RecordLine::of("removed", name, old)],
        CacheEvent::Synced => vec![RecordLine::bare("synced")],
        _ => vec![RecordLine::bare("stale")],
    }
}
