//! The courier: carries the verbs of one client, many in one call.
//!
//! A call that finds others waiting takes them along; nothing waits for a call
//! to fill. While one call is on its way the next one gathers, so the busier a
//! client is the fewer calls it makes. No verb is sent twice: not all of them
//! know a lease id by which the second would be told from the first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use redis::{Cmd, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, oneshot};

use super::keys::{Key, Shard};
use super::pack::garbled;
use super::verb::{Answered, Said, closed};
use crate::engines::redis::address::Address;
use crate::engines::redis::link::{self, Link, Reply, Request};
use crate::engines::redis::script::{Call, Script};
use crate::error::Result;
use crate::home::Handle;
use crate::mutant::{self, Mutant};
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
pub(super) enum Courier {
    /// To the one primary.
    One(UnboundedSender<Parcel>),
    /// To the primaries of a cluster.
    Many(Arc<Queues>),
}

/// A queue for each primary: one that stands still keeps no verb waiting that is
/// for another. Where a verb goes in the end the link decides.
#[derive(Debug)]
pub(super) struct Queues {
    van: Van,
    home: Handle,
    open: Mutex<BTreeMap<Option<Address>, UnboundedSender<Parcel>>>,
}

impl Queues {
    fn of(&self, shard: &Shard) -> UnboundedSender<Parcel> {
        let to = self.van.link.home(shard.slot());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.entry(to).or_insert_with(|| start(&self.home, self.van.clone())).clone()
    }
}

fn start(home: &Handle, van: Van) -> UnboundedSender<Parcel> {
    let (sender, parcels) = unbounded_channel();
    home.spawn(rounds(van, parcels));
    sender
}

/// One verb on its way, and where its answer goes.
#[derive(Debug)]
pub(super) struct Parcel {
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
        let (home, spread) = (Handle::current(), link.is_cluster());
        let van = Van { link, orphans };
        if spread {
            return Self::Many(Arc::new(Queues { van, home, open: Mutex::default() }));
        }
        Self::One(start(&home, van))
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
        let parcel = Parcel { desk, shard, keys, verb, back };
        let sent = match self {
            Self::One(queue) => queue.send(parcel),
            Self::Many(queues) => queues.of(&parcel.shard).send(parcel),
        };
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
        let requests = || bags.iter().map(|bag| request(bag)).collect();
        let mut replies = self.link.asks(requests()).await;
        if mutant::lives(Mutant::VerbsSentTwice) && replies.iter().flatten().any(has_failure) {
            replies = self.link.asks(requests()).await;
        }
        for (bag, reply) in bags.into_iter().zip(replies) {
            self.hand_out(bag, reply);
        }
    }

    fn hand_out(&self, bag: Vec<Parcel>, reply: Result<Reply>) {
        let answers = reply.and_then(|reply| {
            let known = (reply.sent_at, reply.acknowledged);
            Ok((known, answers(reply.value, bag[0].desk, bag.len())?))
        });
        match answers {
            // Where nobody waits any more, nothing is lost.
            Err(error) => bag.into_iter().for_each(|parcel| {
                let _ = parcel.back.send(Err(error.clone()));
            }),
            Ok(((sent_at, acknowledged), mut answers)) => {
                let orphans = answers.split_off(bag.len());
                for (parcel, said) in bag.into_iter().zip(answers) {
                    let answered = said.map(|said| Answered { said, sent_at, acknowledged });
                    let _ = parcel.back.send(answered);
                }
                for names in orphans {
                    let Ok(Said::Packed(names)) = names else { continue };
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

/// One for each verb, and the orphans if there are any. What is wrong with one
/// says nothing of the others.
fn answers(value: Value, desk: Desk, expected: usize) -> Result<Vec<Result<Said>>> {
    let Value::Array(values) = value else { return Err(garbled()) };
    let read = if desk == Desk::Reading { said } else { served };
    let answers: Vec<_> = values.into_iter().map(read).collect();
    if answers.len() >= expected { Ok(answers) } else { Err(garbled()) }
}

/// Whether one of its verbs has failed.
fn has_failure(reply: &Reply) -> bool {
    let Value::Array(values) = &reply.value else { return false };
    values.iter().any(|it| matches!(it, Value::BulkString(bytes) if bytes.starts_with(b"!")))
}

/// What a script says to one verb; with a `!` before it, why it failed.
pub(super) fn served(value: Value) -> Result<Said> {
    match &value {
        Value::BulkString(bytes) if bytes.first() == Some(&b'!') => {
            Err(link::failed(&String::from_utf8_lossy(&bytes[1..])))
        }
        _ => said(value),
    }
}

fn said(value: Value) -> Result<Said> {
    match value {
        Value::BulkString(bytes) => Ok(Said::Packed(bytes)),
        Value::Nil => Ok(Said::Nothing),
        Value::Int(number) => u64::try_from(number).map(Said::Plain).map_err(|_| garbled()),
        _ => Err(garbled()),
    }
}
