//! A cluster: which node has which slots, and what a node says to those who
//! ask the wrong one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Bytes, Node, Reply, commands};

/// How many slots there are.
pub(crate) const COUNT: u16 = 16_384;

/// What one node knows of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct View {
    owners: Vec<usize>,
    /// Slots whose keys go elsewhere, one after another.
    leaving: BTreeMap<u16, usize>,
    /// Slots whose keys come here.
    coming: BTreeSet<u16>,
}

impl View {
    /// The slots in equal parts.
    pub(crate) fn of(primaries: &[usize]) -> Self {
        let part = usize::from(COUNT).div_ceil(primaries.len());
        let owners = (0..usize::from(COUNT)).map(|slot| primaries[slot / part]).collect();
        Self { owners, leaving: BTreeMap::new(), coming: BTreeSet::new() }
    }

    /// Ranges of slots with one owner each.
    fn ranges(&self) -> Vec<(Range<u16>, usize)> {
        let mut ranges: Vec<(Range<u16>, usize)> = Vec::new();
        for (slot, owner) in (0..COUNT).zip(&self.owners) {
            match ranges.last_mut() {
                Some((range, last)) if last == owner => range.end = slot + 1,
                _ => ranges.push((slot..slot + 1, *owner)),
            }
        }
        ranges
    }
}

impl Node {
    pub(crate) fn join(&mut self, view: View) {
        self.view = Some(view);
    }

    /// All slots of one node are another's.
    pub(crate) fn hear_of_failover(&mut self, from: usize, to: usize) {
        if let Some(view) = &mut self.view {
            view.owners.iter_mut().filter(|owner| **owner == from).for_each(|owner| *owner = to);
        }
    }

    /// Keys of this slot begin to go from one node to another.
    pub(crate) fn hear_of_move(&mut self, slot: u16, to: usize) {
        let Some(view) = &mut self.view else { return };
        if view.owners[usize::from(slot)] == self.number {
            view.leaving.insert(slot, to);
        } else if to == self.number {
            view.coming.insert(slot);
        }
    }

    /// A slot has arrived.
    pub(crate) fn hear_of_arrival(&mut self, slot: u16, to: usize) {
        let Some(view) = &mut self.view else { return };
        view.owners[usize::from(slot)] = to;
        view.leaving.remove(&slot);
        view.coming.remove(&slot);
    }

    /// Tells those who listen to a channel of a slot that is here no more.
    pub(crate) fn dismiss(&mut self, lost: impl Fn(u16) -> bool) -> Vec<(u64, Bytes)> {
        let gone = |channel: &(bool, Bytes)| channel.0 && lost(slot(&channel.1));
        let gone: Vec<_> = self.db.hearers.keys().filter(|it| gone(it)).cloned().collect();
        let mut told = Vec::new();
        for channel in gone {
            let hearers = self.db.hearers.remove(&channel).unwrap_or_default();
            let word = Reply::bulk("sunsubscribe");
            let push = Reply::Push(vec![word, Reply::Bulk(channel.1), Reply::Int(0)]);
            let mut bytes = Vec::new();
            push.encode(&mut bytes);
            told.extend(hearers.into_iter().map(|id| (id, bytes.clone())));
        }
        told
    }

    /// `CLUSTER SLOTS`.
    pub(super) fn map(&self) -> Reply {
        let Some(view) = &self.view else {
            return Reply::error("ERR This instance has cluster support disabled");
        };
        let range = |(range, owner): (Range<u16>, usize)| {
            let node = vec![Reply::bulk(format!("n{owner}")), Reply::Int(PORT)];
            let (first, last) =
                (Reply::Int(range.start.into()), Reply::Int((range.end - 1).into()));
            Reply::Array(vec![first, last, Reply::Array(node)])
        };
        Reply::Array(view.ranges().into_iter().map(range).collect())
    }

    /// Where a request belongs, if not here.
    pub(super) fn elsewhere(&mut self, request: &[Bytes], asking: bool) -> Option<Reply> {
        let keys = keys(request);
        let slot = slot(keys.first()?);
        let view = self.view.as_ref()?;
        if keys.iter().any(|key| self::slot(key) != slot) {
            return Some(Reply::error("CROSSSLOT Keys in request don't hash to the same slot"));
        }
        let owner = view.owners[usize::from(slot)];
        if owner != self.number {
            let takes = asking && view.coming.contains(&slot);
            return (!takes).then(|| Reply::Error(format!("MOVED {slot} n{owner}:{PORT}")));
        }
        let to = *view.leaving.get(&slot)?;
        let here = keys.iter().filter(|key| self.db.entry(key).is_some()).count();
        match here {
            _ if here == keys.len() => None,
            0 => Some(Reply::Error(format!("ASK {slot} n{to}:{PORT}"))),
            _ => Some(Reply::error("TRYAGAIN Multiple keys request during rehashing of slot")),
        }
    }
}

const PORT: i64 = 6379;

/// The keys that decide where a request goes.
fn keys(request: &[Bytes]) -> &[Bytes] {
    let name = commands::word(request, 0).to_ascii_uppercase();
    match name.as_str() {
        "EVAL" | "EVALSHA" => {
            let count: usize = commands::word(request, 2).parse().unwrap_or(0);
            request.get(3..3 + count).unwrap_or_default()
        }
        "MGET" | "DEL" | "EXISTS" | "SSUBSCRIBE" | "SUNSUBSCRIBE" => &request[1..],
        "PING" | "INFO" | "TIME" | "ROLE" | "WAIT" | "CONFIG" | "PUBLISH" | "DBSIZE"
        | "FLUSHALL" | "HELLO" | "CLIENT" | "SELECT" | "CLUSTER" | "SENTINEL" | "SUBSCRIBE"
        | "UNSUBSCRIBE" | "ASKING" => &[],
        _ => request.get(1..2).unwrap_or_default(),
    }
}

/// The slot of a key of a cluster: of the part between the first braces, if there is one.
#[must_use]
pub fn slot(key: &[u8]) -> u16 {
    crc16(tag(key).unwrap_or(key)) % COUNT
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let rest = &key[open + 1..];
    let close = rest.iter().position(|byte| *byte == b'}')?;
    (close > 0).then(|| &rest[..close])
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}
