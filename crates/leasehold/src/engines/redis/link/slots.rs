//! Which primary has which of a cluster's slots.

use std::collections::BTreeSet;
use std::sync::Arc;

use redis::Value;

use super::super::address::RedisAddress;

/// How many slots there are.
pub(super) const COUNT: u16 = 16_384;

/// The map. Empty until drawn.
#[derive(Default)]
pub(super) struct SlotMap(Vec<Option<Arc<RedisAddress>>>);

impl SlotMap {
    /// Reads an answer to `CLUSTER SLOTS` by `asked`: ranges, each with its
    /// primary first.
    pub(super) fn read(answer: Value, asked: &RedisAddress) -> Option<Self> {
        let Value::Array(ranges) = answer else { return None };
        let mut slots = Self(vec![None; usize::from(COUNT)]);
        for range in ranges {
            let (first, last, primary) = read_range(range, asked)?;
            let owner = Some(Arc::new(primary));
            slots.0.get_mut(first..=last)?.fill(owner);
        }
        Some(slots)
    }

    pub(super) fn owner(&self, slot: u16) -> Option<RedisAddress> {
        self.0.get(usize::from(slot)).and_then(|owner| owner.as_deref().cloned())
    }

    /// One slot has a new owner.
    pub(super) fn assign(&mut self, slot: u16, to: &RedisAddress) {
        if let Some(owner) = self.0.get_mut(usize::from(slot)) {
            *owner = Some(Arc::new(to.clone()));
        }
    }

    /// Everyone who has a slot.
    pub(super) fn primaries(&self) -> BTreeSet<RedisAddress> {
        // Neighbours mostly share one owner.
        let mut runs: Vec<&Arc<RedisAddress>> = self.0.iter().flatten().collect();
        runs.dedup_by(|one, other| Arc::ptr_eq(one, other));
        runs.into_iter().map(|owner| RedisAddress::clone(owner)).collect()
    }
}

fn read_range(range: Value, asked: &RedisAddress) -> Option<(usize, usize, RedisAddress)> {
    let Value::Array(parts) = range else { return None };
    let mut parts = parts.into_iter();
    let (Value::Int(first), Value::Int(last)) = (parts.next()?, parts.next()?) else { return None };
    let Value::Array(node) = parts.next()? else { return None };
    let mut node = node.into_iter();
    let host = match node.next()? {
        Value::BulkString(host) => String::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        _ => String::new(),
    };
    let Value::Int(port) = node.next()? else { return None };
    let address = RedisAddress::told_parts(&host, u16::try_from(port).ok()?, asked)?;
    Some((usize::try_from(first).ok()?, usize::try_from(last).ok()?, address))
}

/// The slot of a key: of the part between the first braces, if there is one.
pub(super) fn slot(key: &[u8]) -> u16 {
    crc16(tag(key).unwrap_or(key)) % COUNT
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let rest = &key[open + 1..];
    let close = rest.iter().position(|byte| *byte == b'}')?;
    (close > 0).then(|| &rest[..close])
}

/// CRC-16/XMODEM, as the specification of Redis clusters asks for.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::kit::hosts::ServerAddress;

    #[test]
    fn keys_fall_into_the_slots_of_redis() {
        // As told by CLUSTER KEYSLOT.
        for (key, expected) in
            [("foo", 12_182), ("bar", 5_061), ("a{b}c", 3_300), ("b", 3_300), ("123456789", 12_739)]
        {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
        assert_eq!(slot(b"{}x"), crc16(b"{}x") % COUNT, "an empty tag is none");
        assert_eq!(slot(b"{x"), crc16(b"{x") % COUNT);
    }

    #[test]
    fn a_map_is_read_and_mended() {
        let at = |port| RedisAddress::Tcp(ServerAddress { host: "seed".into(), port });
        let asked = at(1);
        let node = |port| Value::Array(vec![Value::BulkString(Vec::new()), Value::Int(port)]);
        let range = |a, b, port| Value::Array(vec![Value::Int(a), Value::Int(b), node(port)]);
        let answer = Value::Array(vec![range(0, 9, 7), range(11, 16_383, 8)]);
        let mut slots = SlotMap::read(answer, &asked).unwrap();
        assert_eq!(slots.owner(9), Some(at(7)));
        assert_eq!(slots.owner(10), None, "nobody serves it");
        slots.assign(10, &at(9));
        assert_eq!(slots.primaries(), BTreeSet::from([at(7), at(8), at(9)]));
        let too_far = Value::Array(vec![range(0, 16_384, 7)]);
        assert!(SlotMap::read(too_far, &asked).is_none());
    }
}
