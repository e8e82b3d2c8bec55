//! Who holds and who waits: by the index, never by a scan of the server's keys.

use redis::Value;

use super::client::NativeClient;
use super::keys::Shard;
use super::pack::garbled;
use super::verb;
use crate::engine::{Listing, Page, Selector, Status};
use crate::engines::redis::link::RedisRequest;
use crate::error::Result;
use crate::name::{Name, Namespace};

pub(super) async fn inspect(
    engine: &NativeClient,
    selector: Selector,
    page: Page,
) -> Result<Listing> {
    match selector {
        Selector::Name(name) => {
            let behind = page.after.is_some_and(|after| name <= after);
            let wanted = if behind { Vec::new() } else { vec![name] };
            Ok(Listing::new(statuses(engine, wanted).await?, false))
        }
        Selector::Prefix(space, prefix) => {
            let (names, more) = names(engine, &space, &prefix, &page).await?;
            Ok(Listing::new(statuses(engine, names).await?, more))
        }
    }
}

/// Looks at each name. One that is in the index but has nothing to show leaves
/// the index by being looked at.
async fn statuses(engine: &NativeClient, names: Vec<Name>) -> Result<Vec<Status>> {
    let asked: Vec<_> = names.iter().map(|name| engine.ask(name, verb::look())).collect();
    let mut statuses = Vec::with_capacity(asked.len());
    for (name, asked) in names.into_iter().zip(asked) {
        let status = verb::status(name, asked.await?.said.packed()?)?;
        if status.is_busy() || status.last.is_some() {
            statuses.push(status);
        }
    }
    Ok(statuses)
}

/// One page of the names that begin with `prefix`, and whether more follow.
async fn names(
    engine: &NativeClient,
    space: &Namespace,
    prefix: &str,
    page: &Page,
) -> Result<(Vec<Name>, bool)> {
    let shards = engine.key_space.shards(space);
    let range = |shard| RedisRequest::Command(range(shard, prefix, page));
    let mut found = Vec::new();
    for reply in engine.link.asks(shards.iter().map(range).collect()).await {
        for text in texts(reply?.value)? {
            found.push(Name::new(space, text)?);
        }
    }
    found.sort();
    let more = found.len() > page.size;
    found.truncate(page.size);
    Ok((found, more))
}

/// In byte order; no name has a byte 0xff.
fn range(shard: &Shard, prefix: &str, page: &Page) -> redis::Cmd {
    let after = page.after.as_ref().map(Name::as_str).filter(|after| *after >= prefix);
    let from = after.map_or_else(|| format!("[{prefix}"), |after| format!("({after}"));
    let to = [b"[", prefix.as_bytes(), b"\xff"].concat();
    let mut command = redis::cmd("ZRANGEBYLEX");
    command.arg(shard.index()).arg(from).arg(to).arg("LIMIT").arg(0).arg(page.size + 1);
    command
}

pub(super) fn texts(value: Value) -> Result<Vec<String>> {
    let Value::Array(values) = value else { return Err(garbled()) };
    let text = |value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| garbled()),
        _ => Err(garbled()),
    };
    values.into_iter().map(text).collect()
}
