//! The batcher: carries the verbs of one client, many in one call.
//!
//! A call that finds others waiting takes them along; nothing waits for a call
//! to fill. While one call is on its way the next one gathers, so the busier a
//! client is the fewer calls it makes. No verb is sent twice: not all of them
//! know a lease id by which the second would be told from the first. Renewals
//! have a [lane](RenewalLane) of their own, so that no caller waits for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use redis::{Cmd, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, oneshot};

use super::keys::{KeyParts, Shard};
use super::pack::garbled;
use super::renewal_lane::RenewalLane;
use super::verb::{ScriptAnswer, TimedAnswer, closed};
use crate::engines::redis::address::RedisAddress;
use crate::engines::redis::link::{self, RedisLink, RedisReply, RedisRequest};
use crate::engines::redis::script::{Script, ScriptCall};
use crate::error::{Error, Result};
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
/// How many plain renewals cost a server as much as one verb of a lease.
const VERB_WEIGHT: usize = 4;

/// Who serves a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ScriptChoice {
    /// The script of leases.
    Leases,
    /// The script of records.
    Records,
    /// No script: the verb is empty, and its key is read.
    Reading,
}

/// Which keys of its shard a verb has.
#[derive(Debug, Default)]
pub(super) struct OpKeys {
    /// Those of this lease.
    pub(super) lease: Option<Name>,
    /// This record.
    pub(super) record: Option<Name>,
    /// What lists records.
    pub(super) lists: bool,
}

impl OpKeys {
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
pub(super) struct Batcher {
    sender: BatchSender,
    queues: BatchQueues,
}

#[derive(Clone, Debug)]
enum BatchQueues {
    /// To the one primary.
    One(BatchQueue),
    /// To the primaries of a cluster.
    Many(Arc<QueueByServer>),
}

/// A queue for each primary: one that stands still keeps no verb waiting that is
/// for another. Where a verb goes in the end the link decides.
#[derive(Debug)]
struct QueueByServer {
    home: Handle,
    open: Mutex<BTreeMap<Option<RedisAddress>, BatchQueue>>,
}

/// What waits for one server: what callers ask for, and the renewals.
#[derive(Clone, Debug)]
struct BatchQueue {
    ops: UnboundedSender<Op>,
    renewals: RenewalLane,
}

impl BatchQueue {
    fn start(home: &Handle, sender: &BatchSender) -> Self {
        let (ops, queued) = unbounded_channel();
        home.spawn(rounds(sender.clone(), queued));
        Self { ops, renewals: RenewalLane::start(home, sender.link.clone()) }
    }
}

/// A verb, with the keys that are its own.
#[derive(Debug)]
pub(super) struct KeyedVerb {
    pub(super) keys: OpKeys,
    pub(super) text: Vec<u8>,
}

/// One verb on its way, and where its answer goes.
#[derive(Debug)]
struct Op {
    script: ScriptChoice,
    shard: Shard,
    verb: KeyedVerb,
    back: oneshot::Sender<Result<TimedAnswer>>,
}

impl Op {
    const fn goes_to(&self) -> (ScriptChoice, &Shard) {
        (self.script, &self.shard)
    }
}

/// Names, as a script packs them, of records whose lease has ended.
pub(super) type Orphans = Vec<u8>;

impl Batcher {
    /// Starts on the runtime it is called on, and ends with its last handle.
    pub(super) fn start(link: RedisLink, orphans: UnboundedSender<Orphans>) -> Self {
        let (home, spread) = (Handle::current(), link.is_cluster());
        let sender = BatchSender { link, orphans };
        let queues = if spread {
            BatchQueues::Many(Arc::new(QueueByServer { home, open: Mutex::default() }))
        } else {
            BatchQueues::One(BatchQueue::start(&home, &sender))
        };
        Self { sender, queues }
    }

    /// Takes one verb to the server, with the keys that are its own.
    pub(super) fn carry(
        &self,
        script: ScriptChoice,
        shard: Shard,
        keys: OpKeys,
        verb: Vec<u8>,
    ) -> impl Future<Output = Result<TimedAnswer>> + Send + use<> {
        let (back, answer) = oneshot::channel();
        let queue = self.queue(&shard);
        let sent = queue.ops.send(Op { script, shard, verb: KeyedVerb { keys, text: verb }, back });
        async move {
            sent.map_err(|_| closed())?;
            answer.await.unwrap_or_else(|_| Err(closed().unknown()))
        }
    }

    /// Takes plain renewals of one shard there behind what callers ask for. Done
    /// when there is room for them; what comes of it then has the answer.
    pub(super) async fn carry_behind(
        &self,
        shard: &Shard,
        request: RedisRequest,
        count: usize,
    ) -> impl Future<Output = Result<RedisReply>> + Send + use<> {
        let reply = self.queue(shard).renewals.carry(request, count, |reply| reply).await;
        async move { reply.await.flatten() }
    }

    /// The same with verbs of leases.
    pub(super) async fn carry_verbs_behind(
        &self,
        shard: &Shard,
        verbs: Vec<KeyedVerb>,
    ) -> impl Future<Output = Vec<Result<TimedAnswer>>> + Send + use<> {
        let (sender, count) = (self.sender.clone(), verbs.len());
        let asked = request(ScriptChoice::Leases, shard, verbs.iter());
        let read = move |reply| sender.take_apart(reply, ScriptChoice::Leases, count);
        let lane = self.queue(shard).renewals;
        let answers = lane.carry(asked, count * VERB_WEIGHT, read).await;
        async move { answers.await.unwrap_or_else(|error| all_failed(&error, count)) }
    }

    fn queue(&self, shard: &Shard) -> BatchQueue {
        match &self.queues {
            BatchQueues::One(queue) => queue.clone(),
            BatchQueues::Many(by_server) => {
                let to = self.sender.link.home(shard.slot());
                let mut open = by_server.open.lock().unwrap_or_else(PoisonError::into_inner);
                let start = || BatchQueue::start(&by_server.home, &self.sender);
                open.entry(to).or_insert_with(start).clone()
            }
        }
    }
}

/// What takes the calls there and brings the answers back.
#[derive(Clone, Debug)]
struct BatchSender {
    link: RedisLink,
    orphans: UnboundedSender<Orphans>,
}

/// Takes what has gathered, again and again.
async fn rounds(sender: BatchSender, mut ops: UnboundedReceiver<Op>) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut gathered = Vec::new();
    while ops.recv_many(&mut gathered, MOST).await > 0 {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        // What has come in while there was no room goes along.
        while gathered.len() < MOST
            && let Ok(op) = ops.try_recv()
        {
            gathered.push(op);
        }
        let (sender, ops) = (sender.clone(), std::mem::take(&mut gathered));
        Handle::current().spawn(async move {
            sender.deliver(ops).await;
            drop(place);
        });
    }
}

impl BatchSender {
    /// One call for each script and shard.
    async fn deliver(&self, ops: Vec<Op>) {
        let bags = bags(ops);
        let requests = || bags.iter().map(|batch| batched(batch)).collect();
        let mut replies = self.link.asks(requests()).await;
        if mutant::lives(Mutant::VerbsSentTwice) && replies.iter().flatten().any(has_failure) {
            replies = self.link.asks(requests()).await;
        }
        for (batch, reply) in bags.into_iter().zip(replies) {
            let answers = self.take_apart(reply, batch[0].script, batch.len());
            for (op, answer) in batch.into_iter().zip(answers) {
                // Where nobody waits any more, nothing is lost.
                let _ = op.back.send(answer);
            }
        }
    }

    /// One answer for each verb of a call; the orphans it has found go their way.
    fn take_apart(
        &self,
        reply: Result<RedisReply>,
        script: ScriptChoice,
        count: usize,
    ) -> Vec<Result<TimedAnswer>> {
        let answers = reply.and_then(|reply| {
            let known = (reply.sent_at, reply.acknowledged);
            Ok((known, answers(reply.value, script, count)?))
        });
        let ((sent_at, acknowledged), mut answers) = match answers {
            Ok(answers) => answers,
            Err(error) => return all_failed(&error, count),
        };
        for names in answers.split_off(count) {
            let Ok(ScriptAnswer::Packed(names)) = names else { continue };
            let _ = self.orphans.send(names);
        }
        let timed = |said| TimedAnswer { said, sent_at, acknowledged };
        answers.into_iter().map(|said| said.map(timed)).collect()
    }
}

fn all_failed(error: &Error, count: usize) -> Vec<Result<TimedAnswer>> {
    (0..count).map(|_| Err(error.clone())).collect()
}

/// Those for one script and shard together, in the order they came.
fn bags(mut ops: Vec<Op>) -> Vec<Vec<Op>> {
    if ops.windows(2).all(|pair| pair[0].goes_to() == pair[1].goes_to()) {
        return vec![ops];
    }
    ops.sort_by(|one, other| one.goes_to().cmp(&other.goes_to()));
    let mut bags: Vec<Vec<Op>> = Vec::new();
    for op in ops {
        match bags.last_mut().filter(|batch| batch[0].goes_to() == op.goes_to()) {
            Some(batch) => batch.push(op),
            None => bags.push(vec![op]),
        }
    }
    bags
}

fn batched(batch: &[Op]) -> RedisRequest {
    request(batch[0].script, &batch[0].shard, batch.iter().map(|op| &op.verb))
}

/// One call for verbs of one script and shard.
fn request<'a>(
    script: ScriptChoice,
    shard: &Shard,
    verbs: impl Iterator<Item = &'a KeyedVerb> + Clone,
) -> RedisRequest {
    let (publish, changes) = (publish(shard).into(), shard.changes());
    match script {
        ScriptChoice::Reading => {
            let mut read = redis::cmd("MGET");
            verbs.for_each(|verb| verb.keys.write(shard, &mut read));
            RedisRequest::Command(read)
        }
        ScriptChoice::Leases => {
            let args = [publish, shard.prefix().to_string().into_bytes(), changes];
            call(&STEP, shard, verbs, &[shard.counter(), shard.index()], &args)
        }
        ScriptChoice::Records => {
            let keys = [shard.counter(), shard.records(), shard.lapses()];
            call(&RECORD, shard, verbs, &keys, &[publish, changes])
        }
    }
}

/// A call with its own keys and arguments, and those of all verbs.
fn call<'a>(
    script: &'static Script,
    shard: &Shard,
    verbs: impl Iterator<Item = &'a KeyedVerb> + Clone,
    keys: &[KeyParts<'_>],
    args: &[Vec<u8>],
) -> RedisRequest {
    let count = keys.len() + verbs.clone().map(|verb| verb.keys.count()).sum::<usize>();
    RedisRequest::Call(ScriptCall::written(script, count, |call| {
        call.arg(keys);
        verbs.clone().for_each(|verb| verb.keys.write(shard, call));
        call.arg(args);
        verbs.for_each(|verb| {
            call.arg(&verb.text);
        });
    }))
}

/// In a cluster a message stays in its shard.
fn publish(shard: &Shard) -> &'static str {
    if shard.is_spread() { "SPUBLISH" } else { "PUBLISH" }
}

/// One for each verb, and the orphans if there are any. What is wrong with one
/// says nothing of the others.
fn answers(
    value: Value,
    script: ScriptChoice,
    expected: usize,
) -> Result<Vec<Result<ScriptAnswer>>> {
    let Value::Array(values) = value else { return Err(garbled()) };
    let read = if script == ScriptChoice::Reading { said } else { served };
    let answers: Vec<_> = values.into_iter().map(read).collect();
    if answers.len() >= expected { Ok(answers) } else { Err(garbled()) }
}

/// Whether one of its verbs has failed.
fn has_failure(reply: &RedisReply) -> bool {
    let Value::Array(values) = &reply.value else { return false };
    values.iter().any(|it| matches!(it, Value::BulkString(bytes) if bytes.starts_with(b"!")))
}

/// What a script says to one verb; with a `!` before it, why it failed.
pub(super) fn served(value: Value) -> Result<ScriptAnswer> {
    match &value {
        Value::BulkString(bytes) if bytes.first() == Some(&b'!') => {
            Err(link::failed(&String::from_utf8_lossy(&bytes[1..])))
        }
        _ => said(value),
    }
}

fn said(value: Value) -> Result<ScriptAnswer> {
    match value {
        Value::BulkString(bytes) => Ok(ScriptAnswer::Packed(bytes)),
        Value::Nil => Ok(ScriptAnswer::Nothing),
        Value::Int(number) => u64::try_from(number).map(ScriptAnswer::Plain).map_err(|_| garbled()),
        _ => Err(garbled()),
    }
}
