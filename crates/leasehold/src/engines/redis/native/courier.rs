//! The courier: carries the verbs of one client, many in one call.
//!
//! A call that finds others waiting takes them along; nothing waits for a call
//! to fill. While one call is on its way the next one gathers, so the busier a
//! client is the fewer calls it makes.

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, oneshot};

use super::keys::Shard;
use super::pack::garbled;
use super::verb::{Answered, closed};
use crate::engines::redis::link::{Link, Reply};
use crate::engines::redis::script::{Call, Script};
use crate::error::{Error, ErrorKind, Result};

/// Without its clock, which a test brings itself.
#[cfg(test)]
pub(super) const STEP_ALONE: &str = include_str!("step.lua");

static STEP: Script = Script::new(concat!(include_str!("clock.lua"), include_str!("step.lua")));

/// The most verbs of one call: a server does nothing else while it serves them.
const MOST: usize = 128;
/// How many calls are on their way at the same time: one is being served while
/// the other one is read or written.
const AT_ONCE: usize = 2;

/// Carries verbs; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Courier(UnboundedSender<Parcel>);

/// One verb on its way, and where its answer goes.
#[derive(Debug)]
struct Parcel {
    shard: Shard,
    keys: [Vec<u8>; 2],
    verb: Vec<u8>,
    back: oneshot::Sender<Result<Answered>>,
}

impl Courier {
    /// Starts on the runtime it is called on, and ends with its last handle.
    pub(super) fn start(link: Link) -> Self {
        let (sender, parcels) = unbounded_channel();
        tokio::spawn(rounds(link, parcels));
        Self(sender)
    }

    /// Takes one verb on one name to the server.
    pub(super) fn carry(
        &self,
        shard: &Shard,
        name: &str,
        verb: Vec<u8>,
    ) -> impl Future<Output = Result<Answered>> + Send + use<> {
        let (back, answer) = oneshot::channel();
        let keys = [shard.summary(name), shard.details(name)];
        let sent = self.0.send(Parcel { shard: shard.clone(), keys, verb, back });
        async move {
            sent.map_err(|_| closed())?;
            answer.await.unwrap_or_else(|_| Err(closed().unknown()))
        }
    }
}

/// Takes what has gathered, again and again.
async fn rounds(link: Link, mut parcels: UnboundedReceiver<Parcel>) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut gathered = Vec::new();
    while parcels.recv_many(&mut gathered, MOST).await > 0 {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        // What has come in while there was no room goes along.
        while gathered.len() < MOST
            && let Ok(parcel) = parcels.try_recv()
        {
            gathered.push(parcel);
        }
        let (link, parcels) = (link.clone(), std::mem::take(&mut gathered));
        tokio::spawn(async move {
            deliver(&link, parcels).await;
            drop(place);
        });
    }
}

/// One call for each shard.
async fn deliver(link: &Link, parcels: Vec<Parcel>) {
    let mut bags: BTreeMap<Shard, Vec<Parcel>> = BTreeMap::new();
    parcels
        .into_iter()
        .for_each(|parcel| bags.entry(parcel.shard.clone()).or_default().push(parcel));
    let bags: Vec<_> = bags.into_values().collect();
    let calls = bags.iter().map(|bag| call(bag)).collect();
    let replies = link.calls(calls).await;
    for (bag, reply) in bags.into_iter().zip(replies) {
        match reply {
            Err(error) if bag.len() > 1 && is_of_one(&error) => one_by_one(link, bag).await,
            reply => hand_out(bag, reply),
        }
    }
}

/// An error in the middle of a call may be the fault of one verb. All verbs
/// may be sent again: they know their lease ids.
fn is_of_one(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unexpected | ErrorKind::Invalid)
        || error.to_string().contains("OOM")
}

async fn one_by_one(link: &Link, bag: Vec<Parcel>) {
    for parcel in bag {
        let bag = vec![parcel];
        let reply = link.call(call(&bag)).await;
        hand_out(bag, reply);
    }
}

fn call(bag: &[Parcel]) -> Call {
    let shard = &bag[0].shard;
    let mut keys = vec![shard.counter(), shard.index()];
    let mut args = vec![publish(shard).into(), shard.prefix().to_string().into_bytes()];
    for parcel in bag {
        keys.extend(parcel.keys.iter().cloned());
        args.push(parcel.verb.clone());
    }
    Call::new(&STEP, keys, args)
}

/// In a cluster a message stays in its shard.
fn publish(shard: &Shard) -> &'static str {
    if shard.is_spread() { "SPUBLISH" } else { "PUBLISH" }
}

fn hand_out(bag: Vec<Parcel>, reply: Result<Reply>) {
    let answers = reply.and_then(|reply| Ok((reply.sent_at, answers(reply.value, bag.len())?)));
    match answers {
        Err(error) => bag.into_iter().for_each(|parcel| {
            // Nobody waits any more: nothing is lost.
            let _ = parcel.back.send(Err(error.clone()));
        }),
        Ok((sent_at, answers)) => {
            for (parcel, packed) in bag.into_iter().zip(answers) {
                let _ = parcel.back.send(Ok(Answered { packed, sent_at }));
            }
        }
    }
}

fn answers(value: Value, expected: usize) -> Result<Vec<Vec<u8>>> {
    let Value::Array(values) = value else { return Err(garbled()) };
    let bytes = values.into_iter().map(|value| match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(garbled()),
    });
    let answers = bytes.collect::<Result<Vec<_>>>()?;
    if answers.len() == expected { Ok(answers) } else { Err(garbled()) }
}
