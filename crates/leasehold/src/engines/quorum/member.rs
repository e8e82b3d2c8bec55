//! A node that is an engine with records: the engine's lease is the lock, a
//! record is the counter, and a record bound to the lease holds its number.
//!
//! Lock and raise are several requests here. It is sound because the number is
//! drawn while the lease is held, and written bound to it: that fails if the
//! lease has ended in between. What a raise writes is in the counter before.

use std::sync::Arc;
use std::time::Duration;

use super::bid::family;
use super::layout::{EARLIEST, marked, other_layout, unmarked};
use super::node::{Kept, LockAnswer, Node, NodeMark, Number, Trust, counter, hash, inscribe, read};
use crate::claim::{
    Claim, Ending, Expect, LeaseId, Mode, RawRecord, Refresh, Released, Renewal, Stance, Store,
    Ticket, Verdict, Wants,
};
use crate::clock::{Clock, Moment};
use crate::engine::profile::Grants;
use crate::engine::{BoxFuture, Engine, Finding, Held, Page, RecordStore, Scope, Selector};
use crate::engines::{self, EngineRow};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;
use crate::url::Url;

/// Where the records of a quorum are, in the namespace of its names.
const FOLDER: &str = "leasehold.quorum";

#[derive(Debug, Clone)]
pub(super) struct EngineNode(Arc<dyn Engine>, Clock);

/// Refuses what can be known to be wrong before it is opened; says where the
/// engine is, without secrets.
pub(super) fn check(text: &str) -> Result<String> {
    let url = Url::parse(text)?;
    let row = find(&url)?;
    let shown = url.rest.rsplit_once('@').map_or(url.rest.as_str(), |(_, place)| place);
    Ok(format!("{}:{shown}", row.scheme))
}

fn find(url: &Url) -> Result<&'static EngineRow> {
    let row = engines::find(&url.scheme)?;
    url.options.check(row.scheme, row.options)?;
    if row.scheme == "quorum" {
        return Err(Error::invalid("a quorum cannot be the node of a quorum; name its nodes"));
    }
    Ok(row)
}

pub(super) async fn open(text: String, clock: Clock) -> Result<Arc<dyn Node>> {
    let url = Url::parse(&text)?;
    let engine = (find(&url)?.open)(url).await?;
    check_node(&*engine)?;
    Ok(Arc::new(EngineNode(engine, clock)))
}

fn check_node(engine: &dyn Engine) -> Result<()> {
    let profile = engine.profile();
    let text = if engine.records().is_none() || profile.grants < Grants::Shared {
        "keeps no records or grants no readers, so it cannot be the node of a quorum"
    } else if profile.raw_records {
        "cannot be the node of a quorum with records=raw: others may write what it counts by"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Unsupported, format!("the {} engine {text}", profile.scheme)))
}

/// The slot of an engine that is open already.
#[cfg(any(leasehold_sim, test))]
pub(super) fn seated(engine: Arc<dyn Engine>) -> Arc<super::node_slot::NodeSlot> {
    let endpoint = engine.profile().endpoint.clone();
    let open = move || -> BoxFuture<Result<Arc<dyn Node>>> {
        let node: Arc<dyn Node> = Arc::new(EngineNode(Arc::clone(&engine), Clock::System));
        Box::pin(std::future::ready(Ok(node)))
    };
    super::node_slot::NodeSlot::new(endpoint, Box::new(open))
}

impl EngineNode {
    fn records(&self) -> Result<&dyn RecordStore> {
        let none = || Error::new(ErrorKind::Unsupported, "the node has lost its records");
        self.0.records().ok_or_else(none)
    }

    async fn lock(self, mut claim: Claim, floor: u64) -> Result<LockAnswer> {
        (claim.stance, claim.wants) = (Stance::Try, Wants::Lease);
        let asked_at = self.1.now();
        let grant = match self.0.acquire(claim.clone()).await? {
            Verdict::Granted(grant) => grant,
            // The fence that the engine shows is its own and not the quorum's.
            Verdict::Busy(_) => {
                let marks = self.look(claim.ticket.name).await?;
                return Ok(LockAnswer::Busy(marks.into_iter().next().map(NodeMark::holder)));
            }
        };
        // From here on the lease is there, whatever else goes wrong.
        let number = self.number(&claim, floor).await.map_err(Error::unknown)?;
        let kept = left(grant.ttl, grant.sent_at, asked_at);
        Ok(number.map_or(LockAnswer::Busy(None), |number| LockAnswer::Vote(number, kept)))
    }

    /// Gives the lease a number; `None` if it ran out before it had one.
    async fn number(&self, claim: &Claim, floor: u64) -> Result<Option<Number>> {
        let value = self.draw(&claim.ticket.name, floor).await?;
        let mark = Written { value, mode: claim.ticket.mode, text: inscribe(claim) };
        let store = bound(&claim.ticket, &mark)?.expecting(Expect::Absent);
        match self.records()?.store(store).await {
            Ok(Ok(version)) => Ok(Some(Number { value, version })),
            // This lease has been here before.
            Ok(Err(Some(found))) => match Written::parse(&found)? {
                Some(mark) => Ok(Some(Number { value: mark.value, version: found.version })),
                None => Err(damaged(&claim.ticket.name)),
            },
            Ok(Err(None)) => Err(damaged(&claim.ticket.name)),
            Err(error) if error.kind() == ErrorKind::NotHeld => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A number larger than all before, and not below `floor`.
    async fn draw(&self, name: &Name, floor: u64) -> Result<u64> {
        let drawn = self.count(name, 1).await?;
        if drawn >= floor {
            return Ok(drawn);
        }
        // Others may have moved it meanwhile: it ends above, which is fine.
        self.count(name, floor - drawn).await
    }

    /// Moves the counter of a name up; where it is then.
    async fn count(&self, name: &Name, by: u64) -> Result<u64> {
        let by = i64::try_from(by).map_err(|_| damaged(name))?;
        let now = self.records()?.add(counter_of(name)?, by).await?;
        u64::try_from(now).map_err(|_| damaged(name))
    }

    async fn raise(self, ticket: Ticket, seen: Number, fence: u64) -> Result<bool> {
        self.lift(&ticket.name, fence).await?;
        let records = self.records()?;
        let Some(found) = records.load(mark_of(&ticket)?).await? else { return Ok(false) };
        let Some(mark) = Written::parse(&found)? else { return Err(damaged(&ticket.name)) };
        let store = bound(&ticket, &Written { value: fence, ..mark })?;
        match records.store(store.expecting(Expect::Version(seen.version))).await {
            Ok(stored) => Ok(stored.is_ok()),
            Err(error) if error.kind() == ErrorKind::NotHeld => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Before the number is written, so that nobody can draw it again after.
    async fn lift(&self, name: &Name, fence: u64) -> Result<()> {
        let records = self.records()?;
        let found = records.load(counter_of(name)?).await?;
        let text = found.map(|record| String::from_utf8_lossy(&record.value).into_owned());
        let now: u64 = text.and_then(|text| text.parse().ok()).unwrap_or(0);
        if now < fence {
            self.count(name, fence - now).await?;
        }
        Ok(())
    }

    /// What is not here under this id may be here for an earlier round of its
    /// ticket, or for one that another client knows: its record tells.
    async fn unlock(self, bid: Ticket) -> Result<bool> {
        let mut removed = self.release(bid.clone()).await?;
        if removed {
            return Ok(true);
        }
        let past = |id: LeaseId| family(id) == family(bid.id) && id < bid.id;
        for (id, record) in self.beside(&bid.name).await?.into_iter().filter(|(id, _)| past(*id)) {
            if let Ok(Some(mark)) = Written::parse(&record) {
                let earlier = Ticket { id, mode: mark.mode, ..bid.clone() };
                removed |= self.release(earlier).await?;
            }
        }
        Ok(removed)
    }

    async fn release(&self, bid: Ticket) -> Result<bool> {
        Ok(self.0.release(bid, Ending::new()).await? == Released::Released)
    }

    /// The records beside the leases of a name.
    async fn beside(&self, name: &Name) -> Result<Vec<(LeaseId, RawRecord)>> {
        let scope = Scope::below(name.namespace(), &folder_of(name), 1);
        let found = self.records()?.list(scope, Page::default()).await?;
        let one = |(at, record): (Name, RawRecord)| {
            let id = u128::from_str_radix(at.as_str().rsplit('/').next()?, 16).ok()?;
            Some((LeaseId::from_bits(id), record))
        };
        Ok(found.records.into_iter().filter_map(one).collect())
    }

    /// What they say. Who has the name in another layout is not shown as somebody who
    /// will let us in: the caller is told.
    async fn marks(&self, name: &Name) -> Result<Vec<NodeMark>> {
        let read = |(id, record): (LeaseId, RawRecord)| {
            Written::parse(&record).map(|mark| mark.map(|mark| mark.shown(id))).transpose()
        };
        self.beside(name).await?.into_iter().filter_map(read).collect()
    }

    async fn look(self, name: Name) -> Result<Vec<NodeMark>> {
        let mut marks = self.marks(&name).await?;
        let seen = self.0.inspect(Selector::Name(name), Page::default()).await?;
        let holders: Vec<Held> = seen.names.into_iter().flat_map(|it| it.holders).collect();
        marks.iter_mut().for_each(|mark| complete(mark, &holders));
        Ok(marks)
    }
}

/// Adds what the engine itself knows of a lease.
fn complete(mark: &mut NodeMark, holders: &[Held]) {
    if let Some(held) = holders.iter().find(|held| held.label == mark.label) {
        mark.mode = held.mode;
        (mark.held_for, mark.time_left) = (held.held_for, held.time_left);
    }
}

/// What is written beside a lease.
struct Written {
    value: u64,
    mode: Mode,
    text: String,
}

impl Written {
    /// `None` if others have written over it. That of another layout is refused.
    fn parse(record: &RawRecord) -> Result<Option<Self>> {
        let Ok(text) = std::str::from_utf8(&record.value) else { return Ok(None) };
        match unmarked(text)? {
            Some(text) => Ok(Self::read(text)),
            None if Self::read(text).is_some() => Err(other_layout(EARLIEST)),
            None => Ok(None),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        let (value, mode, text) = (parts.next()?, parts.next()?, parts.next()?);
        let mode = match mode {
            "exclusive" => Mode::Exclusive,
            "read" => Mode::Read,
            "write" => Mode::Write,
            _ => return None,
        };
        Some(Self { value: value.parse().ok()?, mode, text: text.to_owned() })
    }

    fn bytes(&self) -> Vec<u8> {
        marked(&format!("{} {} {}", self.value, self.mode, self.text)).into_bytes()
    }

    fn shown(self, id: LeaseId) -> NodeMark {
        let (label, meta) = read(&self.text).unwrap_or_else(|| ("".into(), None));
        let (number, mode) = (self.value, self.mode);
        NodeMark { id, number, mode, label, meta, held_for: None, time_left: None }
    }
}

fn bound(ticket: &Ticket, mark: &Written) -> Result<Store> {
    let mut store = Store::put(mark_of(ticket)?, mark.bytes());
    store.bound_to = Some(ticket.clone());
    Ok(store)
}

/// A name may be as long as the path of a record, so its hash has to do; two
/// names with one hash would only be shown together.
fn folder_of(name: &Name) -> String {
    format!("{FOLDER}/{:016x}", hash(name.as_str()))
}

fn mark_of(ticket: &Ticket) -> Result<Name> {
    let text = format!("{}/{:032x}", folder_of(&ticket.name), ticket.id.to_bits());
    Name::new(ticket.name.namespace(), text)
}

fn counter_of(name: &Name) -> Result<Name> {
    Name::new(name.namespace(), format!("{FOLDER}/{}", counter(name)))
}

fn damaged(name: &Name) -> Error {
    let text = "a record of the quorum was overwritten; leave records below it alone";
    Error::new(ErrorKind::Unexpected, text).with("name", name).with("folder", FOLDER)
}

impl Node for EngineNode {
    fn trust(&self) -> Trust {
        let profile = self.0.profile();
        Trust { fencing: profile.fencing, reach: profile.reach, convert: profile.convert }
    }

    fn lock(&self, claim: Claim, floor: u64) -> BoxFuture<Result<LockAnswer>> {
        Box::pin(self.clone().lock(claim, floor))
    }

    fn raise(&self, ticket: Ticket, seen: Number, fence: u64) -> BoxFuture<Result<bool>> {
        Box::pin(self.clone().raise(ticket, seen, fence))
    }

    fn extend(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Result<Kept>>> {
        let asked_at = self.1.now();
        let renewed = self.0.renew(tickets);
        Box::pin(async move {
            renewed.await.into_iter().map(|renewal| kept(renewal, asked_at)).collect()
        })
    }

    fn convert(&self, refresh: Refresh) -> BoxFuture<Result<Kept>> {
        let asked_at = self.1.now();
        let converted = self.0.convert(refresh.ticket.in_mode(Mode::Write), Mode::Read);
        Box::pin(async move { kept(converted.await?, asked_at) })
    }

    fn unlock(&self, ticket: Ticket) -> BoxFuture<Result<bool>> {
        Box::pin(self.clone().unlock(ticket))
    }

    fn look(&self, name: Name) -> BoxFuture<Result<Vec<NodeMark>>> {
        Box::pin(self.clone().look(name))
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        self.0.examine()
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.0.close()
    }
}

/// What the engine has confirmed, which may be less than was asked for.
fn kept(renewal: Renewal, asked_at: Moment) -> Result<Kept> {
    match renewal {
        Renewal::Held { ttl, sent_at } => Ok(Some(left(ttl, sent_at, asked_at))),
        Renewal::Gone | Renewal::Queued(_) => Ok(None),
        Renewal::Unknown(error) => Err(error),
    }
}

/// A ttl from `sent_at` as one from `asked_at`: on a session it may have begun
/// earlier.
const fn left(ttl: Duration, sent_at: Moment, asked_at: Moment) -> Duration {
    ttl.saturating_sub(asked_at.since(sent_at))
}
