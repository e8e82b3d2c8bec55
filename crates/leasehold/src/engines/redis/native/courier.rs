//! The courier: carries the verbs of one client, many in one call.
//!
//! A call that finds others waiting takes them along; nothing waits for a call
//! to fill. While one call is on its way the next one gathers, so the busier a
//! client is the fewer calls it makes.

use std::sync::Arc;

use redis::{Cmd, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, oneshot};

use super::keys::{Key, Shard};
use super::pack::garbled;
use super::verb::{Answered, Said, closed};
use crate::engines::redis::link::{Link, Reply, Request};
use crate::engines::redis::script::{Call, Script};
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;
use crate::name::Name;

macro_rules! parts {
    ($($file:literal),+) => { concat!($(include_str!(concat!("scripts/", $file, ".lua"))),+) };
}

/// Without its clock, which a test brings itself.
#[cfg(test)]
pub(super) const STEP_ALONE: &str = parts!("quick", "common", "words", "step");

static STEP: Script = Script::new(parts!("clock", "quick", "common", "words", "step"));
static RECORD: Script = Script::new(parts!("clock", "count", "common", "record"));

/// The most verbs of one call: a server does nothing else while it serves them.
const MOST: usize = 128;
/// How many calls are on their way at the same time: one is being served while
/// the other one is read or written.
const AT_ONCE: usize = 5;

/// Who serves a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Desk {
    /// The script of leases.
    Leases,
    /// The script of records.
    Records,
    /// No script: the verb is empty, and its key is read.
    Reading,
}

/// Which keys of its shard a verb has.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Those of this lease.
    pub(super) lease: Option<Name>,
    /// This record.
    pub(super) record: Option<Name>,
    /// What lists records.
    pub(super) lists: bool,
}

impl Keys {
    pub(super) fn of_lease(name: &Name) -> Self {
        Self { lease: Some(name.clone()), ..Self::default() }
    }

    pub(super) fn of_record(name: &Name) -> Self {
        Self { record: Some(name.clone()), ..Self::default() }
    }

    fn count(&self) -> usize {
        2 * usize::from(self.lease.is_some())
            + usize::from(self.record.is_some())
            + 2 * usize::from(self.lists)
    }

    fn write(&self, shard: &Shard, command: &mut Cmd) {
        if let Some(name) = &self.lease {
            command.arg(shard.summary(name.as_str())).arg(shard.details(name.as_str()));
        }
        if let Some(name) = &self.record {
            command.arg(shard.record(name.as_str()));
        }
        if self.lists {
            command.arg(shard.records()).arg(shard.lapses());
        }
    }
}

/// Carries verbs; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Courier(UnboundedSender<Parcel>);

/// One verb on its way, and where its answer goes.
#[derive(Debug)]
struct Parcel {
    desk: Desk,
    shard: Shard,
    keys: Keys,
    verb: Vec<u8>,
    back: oneshot::Sender<Result<Answered>>,
}

impl Parcel {
    const fn goes_to(&self) -> (Desk, &Shard) {
        (self.desk, &self.shard)
    }
}

/// Names, as a script packs them, of records whose lease has ended.
pub(super) type Orphans = Vec<u8>;

impl Courier {
    /// Starts on the runtime it is called on, and ends with its last handle.
    pub(super) fn start(link: Link, orphans: UnboundedSender<Orphans>) -> Self {
        let (sender, parcels) = unbounded_channel();
        Handle::current().spawn(rounds(Van { link, orphans }, parcels));
        Self(sender)
    }

    /// Takes one verb to the server, with the keys that are its own.
    pub(super) fn carry(
        &self,
        desk: Desk,
        shard: Shard,
        keys: Keys,
        verb: Vec<u8>,
    ) -> impl Future<Output = Result<Answered>> + Send + use<> {
        let (back, answer) = oneshot::channel();
        let sent = self.0.send(Parcel { desk, shard, keys, verb, back });
        async move {
            sent.map_err(|_| closed())?;
            answer.await.unwrap_or_else(|_| Err(closed().unknown()))
        }
    }
}

/// What takes the calls there and brings the answers back.
#[derive(Clone, Debug)]
struct Van {
    link: Link,
    orphans: UnboundedSender<Orphans>,
}

/// Takes what has gathered, again and again.
async fn rounds(van: Van, mut parcels: UnboundedReceiver<Parcel>) {
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
        let (van, parcels) = (van.clone(), std::mem::take(&mut gathered));
        Handle::current().spawn(async move {
            van.deliver(parcels).await;
            drop(place);
        });
    }
}

impl Van {
    /// One call for each script and shard.
    async fn deliver(&self, parcels: Vec<Parcel>) {
        let bags = bags(parcels);
        let replies = self.link.asks(bags.iter().map(|bag| request(bag)).collect()).await;
        for (bag, reply) in bags.into_iter().zip(replies) {
            match reply {
                Err(error) if bag.len() > 1 && is_of_one(&error) => self.one_by_one(bag).await,
                reply => self.hand_out(bag, reply),
            }
        }
    }

    async fn one_by_one(&self, bag: Vec<Parcel>) {
        for parcel in bag {
            let bag = vec![parcel];
            let reply = self.link.ask(request(&bag)).await;
            self.hand_out(bag, reply);
        }
    }

    fn hand_out(&self, bag: Vec<Parcel>, reply: Result<Reply>) {
        let answers = reply.and_then(|reply| {
            let known = (reply.sent_at, reply.acknowledged);
            Ok((known, answers(reply.value, bag.len())?))
        });
        match answers {
            // Where nobody waits any more, nothing is lost.
            Err(error) => bag.into_iter().for_each(|parcel| {
                let _ = parcel.back.send(Err(error.clone()));
            }),
            Ok(((sent_at, acknowledged), mut answers)) => {
                let orphans = answers.split_off(bag.len());
                for (parcel, said) in bag.into_iter().zip(answers) {
                    let _ = parcel.back.send(Ok(Answered { said, sent_at, acknowledged }));
                }
                for names in orphans {
                    let Said::Packed(names) = names else { continue };
                    let _ = self.orphans.send(names);
                }
            }
        }
    }
}

/// Those for one desk and shard together, in the order they came.
fn bags(mut parcels: Vec<Parcel>) -> Vec<Vec<Parcel>> {
    if parcels.windows(2).all(|pair| pair[0].goes_to() == pair[1].goes_to()) {
        return vec![parcels];
    }
    parcels.sort_by(|one, other| one.goes_to().cmp(&other.goes_to()));
    let mut bags: Vec<Vec<Parcel>> = Vec::new();
    for parcel in parcels {
        match bags.last_mut().filter(|bag| bag[0].goes_to() == parcel.goes_to()) {
            Some(bag) => bag.push(parcel),
            None => bags.push(vec![parcel]),
        }
    }
    bags
}

/// An error in the middle of a call may be the fault of one verb. All verbs
/// may be sent again: they know their lease ids.
fn is_of_one(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unexpected | ErrorKind::Invalid)
        || error.to_string().contains("OOM")
}

fn request(bag: &[Parcel]) -> Request {
    let shard = &bag[0].shard;
    let (publish, changes) = (publish(shard).into(), shard.changes());
    match bag[0].desk {
        Desk::Reading => {
            let mut read = redis::cmd("MGET");
            bag.iter().for_each(|parcel| parcel.keys.write(shard, &mut read));
            Request::Command(read)
        }
        Desk::Leases => {
            let args = [publish, shard.prefix().to_string().into_bytes(), changes];
            call(&STEP, bag, &[shard.counter(), shard.index()], &args)
        }
        Desk::Records => {
            let keys = [shard.counter(), shard.records(), shard.lapses()];
            call(&RECORD, bag, &keys, &[publish, changes])
        }
    }
}

/// A call with its own keys and arguments, and those of all verbs.
fn call(script: &'static Script, bag: &[Parcel], keys: &[Key<'_>], args: &[Vec<u8>]) -> Request {
    let count = keys.len() + bag.iter().map(|parcel| parcel.keys.count()).sum::<usize>();
    Request::Call(Call::written(script, count, |call| {
        call.arg(keys);
        bag.iter().for_each(|parcel| parcel.keys.write(&bag[0].shard, call));
        call.arg(args);
        bag.iter().for_each(|parcel| {
            call.arg(&parcel.verb);
        });
    }))
}

/// In a cluster a message stays in its shard.
fn publish(shard: &Shard) -> &'static str {
    if shard.is_spread() { "SPUBLISH" } else { "PUBLISH" }
}

/// One for each verb, and the orphans if there are any.
fn answers(value: Value, expected: usize) -> Result<Vec<Said>> {
    let Value::Array(values) = value else { return Err(garbled()) };
    let answers = values.into_iter().map(said).collect::<Result<Vec<_>>>()?;
    if answers.len() >= expected { Ok(answers) } else { Err(garbled()) }
}

pub(super) fn said(value: Value) -> Result<Said> {
    match value {
        Value::BulkString(bytes) => Ok(Said::Packed(bytes)),
        Value::Nil => Ok(Said::Nothing),
        Value::Int(number) => u64::try_from(number).map(Said::Plain).map_err(|_| garbled()),
        _ => Err(garbled()),
    }
}
