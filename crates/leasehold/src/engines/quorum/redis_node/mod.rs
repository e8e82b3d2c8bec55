//! One Redis server as a node of a quorum.
//!
//! A mutex is one string key that whoever sets it has, so clients of other
//! libraries that lock the same servers in the same way exclude ours and are
//! excluded by them.

mod age;
mod checkup;
mod parse;
mod steps;

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::redis::Value;

use self::age::age_after;
use self::parse::LockReply;
use self::steps::Steps;
use super::node::{Kept, LockAnswer, Node, NodeMark, Number, Trust, counter, inscribe};
use crate::claim::{Claim, LeaseId, Mode, Refresh, Ticket};
use crate::clock::Clock;
use crate::engine::profile::{Fencing, Reach};
use crate::engine::{BoxFuture, Finding};
use crate::engines::redis::link::RedisLink;
use crate::engines::redis::script::{Script, ScriptCall};
use crate::engines::redis::settings::RedisSettings;
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;
use crate::url::Url;

static LOCK: Script = Script::new(concat!(include_str!("common.lua"), include_str!("lock.lua")));
static RAISE: Script = Script::new(concat!(include_str!("common.lua"), include_str!("raise.lua")));
static EXTEND: Script =
    Script::new(concat!(include_str!("common.lua"), include_str!("extend.lua")));
static UNLOCK: Script =
    Script::new(concat!(include_str!("common.lua"), include_str!("unlock.lua")));
static LOOK: Script = Script::new(concat!(include_str!("common.lua"), include_str!("look.lua")));

/// The key of a mutex, unless the URL says otherwise.
const KEY: &str = "leasehold:{namespace}:{name}";
/// What else a node keeps.
const PREFIX: &str = "leasehold-quorum";

/// What all nodes of a quorum have in common.
#[derive(Clone, Debug)]
pub(in crate::engines) struct NodeTerms {
    /// The key of a mutex, with `{name}` and `{namespace}` in it.
    key: Arc<str>,
    /// How long a node does not vote after its start.
    quarantine: Duration,
}

impl NodeTerms {
    pub(in crate::engines) fn new(key: Option<&str>, quarantine: Duration) -> Result<Self> {
        let key = key.unwrap_or(KEY);
        if !key.contains("{name}") {
            let text = "option \"key\" takes a text with {name} in it, such as lock:{name}";
            return Err(Error::invalid(text));
        }
        Ok(Self { key: key.into(), quarantine })
    }

    /// Mutex, readers and writer, counters.
    fn keys(&self, name: &Name) -> Vec<Vec<u8>> {
        let space = name.namespace().as_str();
        // The name last: it may contain what looks like the other.
        let mutex = self.key.replace("{namespace}", space).replace("{name}", name.as_str());
        let keys = [mutex, format!("{PREFIX}:{space}:rw:{name}"), format!("{PREFIX}:{space}")];
        keys.map(String::into_bytes).to_vec()
    }
}

/// Refuses a URL that no server could be opened by.
pub(in crate::engines) fn check(url: &Url) -> Result<()> {
    RedisSettings::from_url(url).map(drop)
}

pub(in crate::engines) async fn open(
    url: &Url,
    terms: NodeTerms,
    clock: Clock,
) -> Result<Arc<dyn Node>> {
    let settings = RedisSettings::from_url(url)?;
    let link = RedisLink::open(&settings, clock.clone()).await?;
    let durable = checkup::is_durable(&link).await;
    let steps = Mutex::new(Steps::default());
    Ok(Arc::new(RedisNode(Arc::new(RedisNodeShared { link, terms, clock, durable, steps }))))
}

#[derive(Clone, Debug)]
struct RedisNode(Arc<RedisNodeShared>);

#[derive(Debug)]
struct RedisNodeShared {
    link: RedisLink,
    terms: NodeTerms,
    clock: Clock,
    /// Whether it forgets nothing that it has answered.
    durable: bool,
    steps: Mutex<Steps>,
}

impl RedisNode {
    async fn call(
        &self,
        script: &'static Script,
        name: &Name,
        args: Vec<Vec<u8>>,
    ) -> Result<Value> {
        let call = ScriptCall::new(script, self.0.terms.keys(name), args);
        Ok(self.0.link.call(call).await?.value)
    }

    async fn lock(self, claim: Claim, floor: u64) -> Result<LockAnswer> {
        let Ticket { id, name, mode } = &claim.ticket;
        self.check_clock(claim.ttl)?;
        // One that keeps what it has answered may vote as soon as it is back.
        let quarantine = if self.0.durable { 0 } else { age_after(self.0.terms.quarantine) };
        let args = vec![
            text(*id),
            word(*mode)?,
            millis(claim.ttl),
            number(floor),
            number(counter(name)),
            inscribe(&claim).into_bytes(),
            number(quarantine),
        ];
        let sent_at = self.0.clock.now();
        let found = LockReply::parse(self.call(&LOCK, name, args).await?)?;
        let stamp = found.stamp();
        if let Some(stamp) = stamp {
            self.steps().observe(stamp, sent_at, self.0.clock.now());
            // It may have locked all the same.
            self.check_clock(claim.ttl).map_err(Error::unknown)?;
        }
        found.into_answer(*mode, claim.ttl, quarantine)
    }

    fn steps(&self) -> std::sync::MutexGuard<'_, Steps> {
        self.0.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A clock that has jumped may have ended leases too early, and may do so
    /// for as long as they run.
    fn check_clock(&self, ttl: Duration) -> Result<()> {
        let Some(step) = self.steps().recent(self.0.clock.now(), ttl) else { return Ok(()) };
        let text = format!(
            "the clock of the node jumped by {step:?}; it does not vote for a ttl, \
             let its clock be slewed and never set"
        );
        Err(Error::new(ErrorKind::Unavailable, text))
    }

    async fn yes(self, script: &'static Script, name: Name, args: Vec<Vec<u8>>) -> Result<bool> {
        match self.call(script, &name, args).await? {
            Value::Int(said) => Ok(said == 1),
            _ => Err(parse::strange()),
        }
    }

    async fn extend(self, tickets: Vec<Refresh>) -> Vec<Result<Kept>> {
        let call = |refresh: &Refresh| {
            let Ticket { id, name, mode } = &refresh.ticket;
            let mode = word(*mode).unwrap_or_default();
            ScriptCall::new(
                &EXTEND,
                self.0.terms.keys(name),
                vec![text(*id), mode, millis(refresh.ttl)],
            )
        };
        let answers = self.0.link.calls(tickets.iter().map(call).collect()).await;
        answers.into_iter().map(|answer| parse::kept(&answer?.value)).collect()
    }
}

impl Node for RedisNode {
    fn trust(&self) -> Trust {
        let fencing = if self.0.durable { Fencing::Strict } else { Fencing::Clocked };
        Trust { fencing, reach: Reach::Network, convert: true }
    }

    fn lock(&self, claim: Claim, floor: u64) -> BoxFuture<Result<LockAnswer>> {
        Box::pin(self.clone().lock(claim, floor))
    }

    fn raise(&self, ticket: Ticket, seen: Number, fence: u64) -> BoxFuture<Result<bool>> {
        let Ticket { id, name, mode } = ticket;
        let server = self.clone();
        Box::pin(async move {
            let count = number(counter(&name));
            let args = vec![text(id), word(mode)?, number(seen.value), number(fence), count];
            server.yes(&RAISE, name, args).await
        })
    }

    fn extend(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Result<Kept>>> {
        Box::pin(self.clone().extend(tickets))
    }

    fn convert(&self, refresh: Refresh) -> BoxFuture<Result<Kept>> {
        let extended = self.clone().extend(vec![refresh]);
        Box::pin(async move { extended.await.pop().unwrap_or_else(|| Err(parse::strange())) })
    }

    fn unlock(&self, ticket: Ticket) -> BoxFuture<Result<bool>> {
        Box::pin(self.clone().yes(&UNLOCK, ticket.name, vec![text(ticket.id)]))
    }

    fn look(&self, name: Name) -> BoxFuture<Result<Vec<NodeMark>>> {
        let server = self.clone();
        Box::pin(async move { parse::marks(server.call(&LOOK, &name, Vec::new()).await?) })
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        let (link, quarantine) = (self.0.link.clone(), self.0.terms.quarantine);
        let step = self.steps().recent(self.0.clock.now(), checkup::REMEMBERED);
        Box::pin(async move { checkup::examine(&link, quarantine, step).await })
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let link = self.0.link.clone();
        Box::pin(async move {
            link.close();
            Ok(())
        })
    }
}

fn text(id: LeaseId) -> Vec<u8> {
    let mut text = String::with_capacity(32);
    // Writing to a string cannot fail.
    let _ = write!(text, "{:032x}", id.to_bits());
    text.into_bytes()
}

fn word(mode: Mode) -> Result<Vec<u8>> {
    match mode {
        Mode::Exclusive => Ok(b"x".to_vec()),
        Mode::Read => Ok(b"r".to_vec()),
        Mode::Write => Ok(b"w".to_vec()),
        Mode::Permits { .. } => {
            let text = "permits cannot be counted by a majority: each pair of nodes could give \
                        them out once";
            Err(Error::new(ErrorKind::Unsupported, text))
        }
    }
}

fn number(number: impl std::fmt::Display) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn millis(span: Duration) -> Vec<u8> {
    number(span.as_millis().max(1))
}
