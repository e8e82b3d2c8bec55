//! Where things are: the names of keys and channels.

use std::sync::Arc;

use crate::name::{Name, Namespace};

/// In a cluster a namespace is spread over this many slots, each with a fence
/// counter of its own; all keys of a name are in one of them.
const SHARDS: u8 = 64;

/// The keys of one hash slot that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Shard {
    prefix: Arc<str>,
    spread: bool,
}

impl Shard {
    /// The shard of a name.
    pub(super) fn of(name: &Name, spread: bool) -> Self {
        let number = spread.then(|| bucket(name.as_str()));
        Self::new(name.namespace(), number)
    }

    /// All shards of a namespace.
    pub(super) fn all(space: &Namespace, spread: bool) -> Vec<Self> {
        if !spread {
            return vec![Self::new(space, None)];
        }
        (0..SHARDS).map(|number| Self::new(space, Some(number))).collect()
    }

    /// A namespace has no braces, so the server hashes what we put into them.
    fn new(space: &Namespace, number: Option<u8>) -> Self {
        match number {
            None => Self { prefix: format!("leasehold:{{{space}}}:").into(), spread: false },
            Some(number) => {
                Self { prefix: format!("leasehold:{{{space}/{number}}}:").into(), spread: true }
            }
        }
    }

    /// Whether it is one of many.
    pub(super) const fn is_spread(&self) -> bool {
        self.spread
    }

    /// The last fence or version.
    pub(super) fn counter(&self) -> Vec<u8> {
        format!("{}fence", self.prefix).into_bytes()
    }

    /// The names in use.
    pub(super) fn index(&self) -> Vec<u8> {
        format!("{}index", self.prefix).into_bytes()
    }

    /// The summary of a name.
    pub(super) fn summary(&self, name: &str) -> Vec<u8> {
        format!("{}name:{name}", self.prefix).into_bytes()
    }

    /// How much of a summary key is not the name.
    pub(super) fn prefix(&self) -> usize {
        self.prefix.len() + "name:".len()
    }

    /// The queue, the readers and the permits of a name.
    pub(super) fn details(&self, name: &str) -> Vec<u8> {
        format!("{}more:{name}", self.prefix).into_bytes()
    }

    /// A record.
    pub(super) fn record(&self, name: &str) -> Vec<u8> {
        format!("{}record:{name}", self.prefix).into_bytes()
    }

    /// The names of all records.
    pub(super) fn records(&self) -> Vec<u8> {
        format!("{}records", self.prefix).into_bytes()
    }

    /// Which records end by themselves, and when.
    pub(super) fn lapses(&self) -> Vec<u8> {
        format!("{}lapses", self.prefix).into_bytes()
    }

    /// Where changes of records are told.
    pub(super) fn changes(&self) -> Vec<u8> {
        format!("{}changes", self.prefix).into_bytes()
    }

    /// Where a client is told of its grants.
    pub(super) fn channel(&self, client: &str) -> Vec<u8> {
        format!("{}push:{client}", self.prefix).into_bytes()
    }
}

/// FNV-1a: even, and the same in every client for ever.
fn bucket(name: &str) -> u8 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    u8::try_from((hash ^ (hash >> 32)) % u64::from(SHARDS)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_in_a_name_do_not_steer_its_slot() {
        let name = Name::new(&Namespace::default(), "a{b}c").unwrap();
        let shard = Shard::of(&name, false);
        let key = String::from_utf8(shard.summary(name.as_str())).unwrap();
        assert_eq!(key, "leasehold:{default}:name:a{b}c");
        assert_eq!(&key[shard.prefix()..], "a{b}c");
    }

    #[test]
    fn names_are_spread_over_all_shards() {
        let space = Namespace::default();
        let shard = |n: u32| Shard::of(&Name::new(&space, format!("order/{n}")).unwrap(), true);
        let used: std::collections::HashSet<_> = (0..2000).map(shard).collect();
        assert_eq!(used.len(), usize::from(SHARDS));
        assert_eq!(Shard::all(&space, true).len(), usize::from(SHARDS));
    }
}
