//! What lies beside a borrowed lock: who holds it, since when, with which fence.
//!
//! Other software writes neither labels nor fences. We keep those of our own
//! clients in two keys beside the lock, in the same hash slot; a holder of other
//! software has no entry there.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::claim::{Claim, Holder, LeaseId, Mode};
use crate::clock::wall_micros;
use crate::engine::{Held, Queued, Status};
use crate::engines::redis::values::{array, number, part, text};
use crate::error::Result;
use crate::mutant::{self, Mutant};
use crate::name::Name;

/// Separates mode, label and meta; no label contains it, and no name.
const SEPARATOR: char = '\x1f';

/// A key of the lock's own software beside `key`, in its hash slot.
pub(super) fn beside(key: &str, suffix: &str) -> Vec<u8> {
    if key.contains('{') { format!("{key}:{suffix}") } else { format!("{{{key}}}:{suffix}") }.into()
}

/// A key of ours beside `key`. No name has the byte that tells them apart, so
/// none can be the key of something that lies beside another.
pub(super) fn ours(key: &str, what: &str) -> Vec<u8> {
    let home = if key.contains('{') { key.to_owned() } else { format!("{{{key}}}") };
    let between = if mutant::lives(Mutant::KeysBeside) { ':' } else { SEPARATOR };
    format!("{home}{between}{what}").into()
}

/// What a claim says about itself.
pub(super) fn about(claim: &Claim) -> String {
    let meta = claim.meta.as_deref().unwrap_or_default();
    let (mode, label) = (claim.ticket.mode, claim.owner.label());
    format!("{mode}{SEPARATOR}{label}{SEPARATOR}{meta}")
}

/// What a waiter is called in the line: who it is, since when it waits by its
/// own host's calendar, what it says about itself.
pub(super) fn place(id: LeaseId, about: &str) -> String {
    format!("{}{SEPARATOR}{}{SEPARATOR}{about}", id.to_uuid(), wall_micros() / 1000)
}

struct About {
    mode: Option<Mode>,
    label: Arc<str>,
    meta: Option<Arc<str>>,
}

impl About {
    fn read(text: &str) -> Self {
        let mut parts = text.splitn(3, SEPARATOR);
        let mut next = || parts.next().unwrap_or_default();
        let (mode, label, meta) = (mode(next()), next().into(), next());
        Self { mode, label, meta: (!meta.is_empty()).then(|| meta.into()) }
    }
}

fn mode(text: &str) -> Option<Mode> {
    match text {
        "exclusive" => Some(Mode::Exclusive),
        "read" => Some(Mode::Read),
        "write" => Some(Mode::Write),
        other => {
            let (take, of) = other.strip_prefix("permits ")?.split_once('/')?;
            Some(Mode::Permits { take: take.parse().ok()?, of: of.parse().ok()? })
        }
    }
}

/// One entry of a card: `fence since about`.
struct MetadataEntry {
    fence: u64,
    since: i64,
    about: About,
}

impl MetadataEntry {
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        let fence = parts.next()?.parse().ok()?;
        let since = parts.next()?.parse().ok()?;
        Some(Self { fence, since, about: About::read(parts.next()?) })
    }
}

/// How those who are not ours are called.
pub(super) type Stranger = fn(&str) -> String;

/// Whoever keeps a claim from being granted: its entry, its id, its time.
pub(super) fn holder(parts: &[Value], stranger: Stranger) -> Result<Option<Holder>> {
    let (entry, id) = (text(part(parts, 0)?)?, text(part(parts, 1)?)?);
    if id.is_empty() {
        return Ok(None);
    }
    let entry = MetadataEntry::read(&entry);
    let mut holder = Holder::new(match &entry {
        Some(entry) => Arc::clone(&entry.about.label),
        None => stranger(&id).into(),
    });
    holder.fence = entry.map(|entry| entry.fence);
    holder.time_left = millis(number(part(parts, 2)?)?);
    Ok(Some(holder))
}

/// What a look at a name has found: `now`, its holders, those in line.
pub(super) fn status(name: Name, value: Value, stranger: Stranger) -> Result<Status> {
    let parts = array(value)?;
    let now = number(part(&parts, 0)?)?;
    let mut status = Status::new(name);
    for one in array(part(&parts, 1)?.clone())? {
        status.holders.push(held(&array(one)?, now, stranger)?.1);
    }
    for one in array(part(&parts, 2)?.clone())? {
        status.waiters.push(queued(&text(&one)?, now, stranger));
    }
    Ok(status)
}

/// The holders in a look, with the ids of those who are ours.
pub(super) fn evicted(value: Value, stranger: Stranger) -> Result<Vec<(Option<LeaseId>, Held)>> {
    let parts = array(value)?;
    let now = number(part(&parts, 0)?)?;
    let each = array(part(&parts, 1)?.clone())?.into_iter();
    each.map(|one| held(&array(one)?, now, stranger)).collect()
}

fn held(parts: &[Value], now: i64, stranger: Stranger) -> Result<(Option<LeaseId>, Held)> {
    let (entry, id) = (text(part(parts, 0)?)?, text(part(parts, 1)?)?);
    let time_left = millis(number(part(parts, 2)?)?);
    let seen = mode(&text(part(parts, 3)?)?).unwrap_or(Mode::Exclusive);
    let entry = MetadataEntry::read(&entry);
    let ours = entry.as_ref().and_then(|_| LeaseId::from_uuid(&id));
    let held = match entry {
        Some(MetadataEntry { fence, since, about }) => Held {
            label: about.label,
            // A writer that has become a reader is one.
            mode: if seen.same_kind(Mode::Read) { seen } else { about.mode.unwrap_or(seen) },
            fence: Some(fence),
            held_for: millis(now - since),
            time_left,
            meta: about.meta,
        },
        None => {
            let label = stranger(&id).into();
            Held { label, mode: seen, fence: None, held_for: None, time_left, meta: None }
        }
    };
    Ok((ours, held))
}

fn queued(place: &str, now: i64, stranger: Stranger) -> Queued {
    let mut parts = place.splitn(3, SEPARATOR);
    let id = parts.next().unwrap_or_default();
    let since = parts.next().and_then(|since| since.parse::<i64>().ok());
    let waiting_for = since.and_then(|since| millis((now - since).max(0)));
    let about = parts.next().map(About::read);
    let mode = about.as_ref().and_then(|about| about.mode).unwrap_or(Mode::Exclusive);
    let label = about.map_or_else(|| stranger(id).into(), |about| about.label);
    Queued { label, mode, waiting_for }
}

/// A time that is there, in a time that may not be.
fn millis(span: i64) -> Option<Duration> {
    u64::try_from(span).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_and_come_back() {
        let id = LeaseId::random();
        let text = id.to_uuid();
        assert_eq!((text.len(), text.as_bytes()[14]), (36, b'4'));
        assert_eq!(LeaseId::from_uuid(&text), Some(id));
    }

    #[test]
    fn a_key_beside_another_is_in_its_slot() {
        assert_eq!(beside("a", "x"), b"{a}:x");
        assert_eq!(beside("a{b}", "x"), b"a{b}:x");
        assert_eq!(ours("a", "x"), b"{a}\x1fx");
        assert_eq!(ours("a{b}", "x"), b"a{b}\x1fx");
    }

    #[test]
    fn modes_come_back() {
        let permits = Mode::Permits { take: 2, of: 5 };
        for it in [Mode::Exclusive, Mode::Read, Mode::Write, permits] {
            assert_eq!(mode(&it.to_string()), Some(it));
        }
        assert_eq!(mode("permits"), None);
    }
}
