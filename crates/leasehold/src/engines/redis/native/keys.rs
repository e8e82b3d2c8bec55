//! Where things are: the names of keys and channels.

use std::sync::Arc;

use crate::name::{Name, Namespace};

/// In a cluster a namespace is spread over this many slots, each with a fence
/// counter of its own; all keys of a name are in one of them.
const SHARDS: u8 = 64;

/// What all keys of an engine begin with, and over how many slots they are
/// spread.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    prefix: Arc<str>,
    database: i64,
    spread: bool,
}

impl Ground {
    pub(super) fn new(prefix: &str, database: i64, spread: bool) -> Self {
        Self { prefix: prefix.into(), database, spread }
    }

    /// The shard of a name.
    pub(super) fn shard(&self, name: &Name) -> Shard {
        self.numbered(name.namespace(), bucket(name.as_str()))
    }

    /// All shards of a namespace.
    pub(super) fn shards(&self, space: &Namespace) -> Vec<Shard> {
        let count = if self.spread { SHARDS } else { 1 };
        (0..count).map(|number| self.numbered(space, number)).collect()
    }

    /// Neither a prefix nor a namespace has braces, so the server hashes what
    /// we put into them.
    fn numbered(&self, space: &Namespace, number: u8) -> Shard {
        let (prefix, space) = (&*self.prefix, space.as_str());
        let prefix = if self.spread {
            format!("{prefix}{{{space}/{number}}}:")
        } else {
            [prefix, "{", space, "}:"].concat()
        };
        Shard { prefix: prefix.into(), database: self.database, spread: self.spread }
    }
}

/// The keys of one hash slot that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Shard {
    prefix: Arc<str>,
    database: i64,
    spread: bool,
}

impl Shard {
    /// Whether it is one of many.
    pub(super) const fn is_spread(&self) -> bool {
        self.spread
    }

    /// Made for every verb: in one go, without the machinery of formats.
    fn key(&self, kind: &str, name: &str) -> Vec<u8> {
        [&*self.prefix, kind, name].concat().into_bytes()
    }

    /// The last fence or version.
    pub(super) fn counter(&self) -> Vec<u8> {
        self.key("fence", "")
    }

    /// The names in use.
    pub(super) fn index(&self) -> Vec<u8> {
        self.key("index", "")
    }

    /// The summary of a name.
    pub(super) fn summary(&self, name: &str) -> Vec<u8> {
        self.key("name:", name)
    }

    /// How much of a summary key is not the name.
    pub(super) fn prefix(&self) -> usize {
        self.prefix.len() + "name:".len()
    }

    /// The queue, the readers and the permits of a name.
    pub(super) fn details(&self, name: &str) -> Vec<u8> {
        self.key("more:", name)
    }

    /// A record.
    pub(super) fn record(&self, name: &str) -> Vec<u8> {
        self.key("record:", name)
    }

    /// The names of all records.
    pub(super) fn records(&self) -> Vec<u8> {
        self.key("records", "")
    }

    /// Which records end by themselves, and when.
    pub(super) fn lapses(&self) -> Vec<u8> {
        self.key("lapses", "")
    }

    /// Where changes of records are told; channels know no databases.
    pub(super) fn changes(&self) -> Vec<u8> {
        format!("{}changes:{}", self.prefix, self.database).into_bytes()
    }

    /// Where a client is told of its grants.
    pub(super) fn channel(&self, client: &str) -> Vec<u8> {
        self.key("push:", client)
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
        let shard = Ground::new("leasehold:", 0, false).shard(&name);
        let key = String::from_utf8(shard.summary(name.as_str())).unwrap();
        assert_eq!(key, "leasehold:{default}:name:a{b}c");
        assert_eq!(&key[shard.prefix()..], "a{b}c");
    }

    #[test]
    fn names_are_spread_over_all_shards() {
        let space = Namespace::default();
        let ground = Ground::new("leasehold:", 0, true);
        let shard = |n: u32| ground.shard(&Name::new(&space, format!("order/{n}")).unwrap());
        let used: std::collections::HashSet<_> = (0..2000).map(shard).collect();
        assert_eq!(used.len(), usize::from(SHARDS));
        assert_eq!(ground.shards(&space).len(), usize::from(SHARDS));
    }
}
