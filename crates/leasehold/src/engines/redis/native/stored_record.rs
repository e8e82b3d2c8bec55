//! What the script for records is asked, and what it answers.

use redis::Value;

use super::pack::{Item, Items, Packer, check_layout, garbled};
use super::verb::{full, id, lease_id, millis, name};
use crate::claim::{Expect, LeaseId, RawRecord, Store, Ticket};
use crate::engine::RecordEvent;
use crate::error::Result;
use crate::name::{Name, Namespace};

/// A record, and the lease it goes with.
#[derive(Clone, Debug)]
pub(super) struct StoredRecord {
    pub(super) record: RawRecord,
    pub(super) lease: Option<(Name, LeaseId)>,
}

/// The answers.
#[derive(Debug)]
pub(super) enum RecordAnswer {
    Stored(u64),
    Conflict(Option<StoredRecord>),
    /// It goes with a lease, which has to be looked at first.
    Look(StoredRecord),
    Sum(String),
    NoNumber,
    /// More digits than the script can add.
    TooLarge(Option<StoredRecord>),
}

/// Writes; `looked` is the version whose lease was found alive, `left` how long
/// the lease still runs that the new value goes with.
pub(super) fn store(store: &Store, looked: u64, left: u64) -> Vec<u8> {
    let (expected, version) = match store.expect {
        Expect::Any => (0, 0),
        Expect::Absent => (1, 0),
        Expect::Version(version) => (2, version),
    };
    let bond = store.bound_to.as_ref().filter(|_| store.value.is_some());
    let verb = Packer::default().array(11).bytes("s").bytes(store.name.as_str()).number(expected);
    let verb = verb.number(version).number(looked).maybe(store.value.as_ref());
    let verb = verb.number(store.ttl.map_or(0, millis));
    bonded(verb, bond).number(left).flag(store.is_unlisted()).done()
}

fn bonded(verb: Packer, bond: Option<&Ticket>) -> Packer {
    verb.maybe(bond.map(|ticket| full(&ticket.name))).maybe(bond.map(|ticket| id(ticket.id)))
}

pub(super) fn add(record: &Name, amount: i64, looked: u64) -> Vec<u8> {
    let verb = Packer::default().array(4).bytes("a").bytes(record.as_str());
    verb.bytes(amount.to_string()).number(looked).done()
}

/// Puts a sum in place of the value it was made of.
pub(super) fn put_sum(record: &Name, version: u64, sum: i64) -> Vec<u8> {
    let verb = Packer::default().array(4).bytes("p").bytes(record.as_str()).number(version);
    verb.bytes(sum.to_string()).done()
}

/// Ends a record that has outlived its lease or its time.
pub(super) fn delete(record: &str, version: u64) -> Vec<u8> {
    Packer::default().array(3).bytes("d").bytes(record).number(version).done()
}

/// The lease that a record goes with lives on.
pub(super) fn keep(record: &str, left: u64) -> Vec<u8> {
    Packer::default().array(3).bytes("w").bytes(record).number(left).done()
}

pub(super) fn answer(packed: &[u8]) -> Result<RecordAnswer> {
    let mut items = Item::unpack(packed)?.array()?;
    Ok(match items.number()? {
        1 => RecordAnswer::Stored(items.number()?),
        2 => RecordAnswer::Conflict(record(&mut items)?),
        3 => RecordAnswer::Look(record(&mut items)?.ok_or_else(garbled)?),
        4 => RecordAnswer::Sum(items.text()?),
        5 => RecordAnswer::NoNumber,
        6 => RecordAnswer::TooLarge(record(&mut items)?),
        _ => return Err(garbled()),
    })
}

/// A record as its key holds it.
pub(super) fn stored(packed: &[u8]) -> Result<StoredRecord> {
    check_layout(packed)?;
    record(&mut Item::unpack(packed)?.array()?)?.ok_or_else(garbled)
}

/// Those of these names that are there, by the answer to one read of all.
pub(super) fn all(value: Value) -> Result<Vec<Option<StoredRecord>>> {
    let Value::Array(values) = value else { return Err(garbled()) };
    let there = |value| match value {
        Value::Nil => Ok(None),
        Value::BulkString(packed) => stored(&packed).map(Some),
        _ => Err(garbled()),
    };
    values.into_iter().map(there).collect()
}

fn record(items: &mut Items) -> Result<Option<StoredRecord>> {
    let Some(version) = items.next() else { return Ok(None) };
    let record = RawRecord::new(items.bytes()?, version.number()?);
    let (lease, id) = (items.item()?.maybe_text()?, items.item()?.maybe_bytes()?);
    let lease = lease.zip(id).map(|(lease, id)| Ok((name(&lease)?, lease_id(id)?)));
    Ok(Some(StoredRecord { record, lease: lease.transpose()? }))
}

/// A change, as it is published.
pub(super) fn event(space: &Namespace, packed: &[u8]) -> Result<RecordEvent> {
    let mut items = Item::unpack(packed)?.array()?;
    let name = Name::new(space, items.text()?)?;
    // An earlier release tells of an end without its version.
    let Some(version) = items.next() else { return Ok(RecordEvent::Resync) };
    let version = version.number()?;
    Ok(match items.next() {
        Some(value) => {
            let value = value.maybe_bytes()?.ok_or_else(garbled)?;
            RecordEvent::Stored(name, RawRecord::new(value, version))
        }
        None => RecordEvent::Deleted(name, version),
    })
}

/// When something ends by itself, as a range of scores up to now.
pub(super) fn due(lapses: Vec<u8>, millis: u64) -> redis::Cmd {
    let mut command = redis::cmd("ZRANGEBYSCORE");
    command.arg(lapses).arg("-inf").arg(millis).arg("LIMIT").arg(0).arg(100);
    command
}
