//! Where things are: the names of keys and channels.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use redis::{RedisWrite, ToRedisArgs, ToSingleRedisArg};

use crate::mutant::{self, Mutant};
use crate::name::{Name, Namespace};

/// In a cluster a namespace is spread over this many slots, each with a fence
/// counter of its own; all keys of a name are in one of them.
const SHARDS: u8 = 64;

/// What all keys of an engine begin with, and over how many slots they are
/// spread.
#[derive(Clone, Debug)]
pub(super) struct KeySpace {
    prefix: Arc<str>,
    database: i64,
    spread: bool,
    /// The shards of namespaces that were asked for: every verb needs one.
    known: Arc<Mutex<HashMap<Namespace, Arc<[Shard]>>>>,
}

/// Of how many namespaces the shards are remembered.
const KNOWN: usize = 64;

impl KeySpace {
    pub(super) fn new(prefix: &str, database: i64, spread: bool) -> Self {
        Self { prefix: prefix.into(), database, spread, known: Arc::default() }
    }

    /// The shard of a name.
    pub(super) fn shard(&self, name: &Name) -> Shard {
        let (space, mut known) =
            (name.namespace(), self.known.lock().unwrap_or_else(PoisonError::into_inner));
        if !known.contains_key(space) && known.len() >= KNOWN {
            known.clear();
        }
        let shards = known.entry(space.clone()).or_insert_with(|| self.shards(space).into());
        let number = if self.spread { bucket(name.as_str()) } else { 0 };
        shards[usize::from(number)].clone()
    }

    /// Where a client is told of its grants: one channel for everything, but in a
    /// cluster one in each slot, where alone it can be published.
    pub(super) fn channel(&self, shard: &Shard, client: &str) -> Vec<u8> {
        let apart = self.spread || mutant::lives(Mutant::ChannelPerNamespace);
        let before = if apart { &shard.prefix } else { &self.prefix };
        [before, "push:", client].concat().into_bytes()
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

    fn key<'a>(&'a self, kind: &'a str, name: &'a str) -> KeyParts<'a> {
        KeyParts([&self.prefix, kind, name])
    }

    /// The last fence or version.
    pub(super) fn counter(&self) -> KeyParts<'_> {
        self.key("fence", "")
    }

    /// The names in use.
    pub(super) fn index(&self) -> KeyParts<'_> {
        self.key("index", "")
    }

    /// The summary of a name.
    pub(super) fn summary<'a>(&'a self, name: &'a str) -> KeyParts<'a> {
        self.key("name:", name)
    }

    /// How much of a summary key is not the name.
    pub(super) fn prefix(&self) -> usize {
        self.prefix.len() + "name:".len()
    }

    /// The queue, the readers and the permits of a name.
    pub(super) fn details<'a>(&'a self, name: &'a str) -> KeyParts<'a> {
        self.key("more:", name)
    }

    /// A record.
    pub(super) fn record<'a>(&'a self, name: &'a str) -> KeyParts<'a> {
        self.key("record:", name)
    }

    /// The names of all records.
    pub(super) fn records(&self) -> KeyParts<'_> {
        self.key("records", "")
    }

    /// Which records end by themselves, and when.
    pub(super) fn lapses(&self) -> KeyParts<'_> {
        self.key("lapses", "")
    }

    /// Where changes of records are told; channels know no databases.
    pub(super) fn changes(&self) -> Vec<u8> {
        format!("{}changes:{}", self.prefix, self.database).into_bytes()
    }

    /// Any key of this shard begins with it, and is in the same slot.
    pub(super) fn slot(&self) -> &[u8] {
        self.prefix.as_bytes()
    }
}

/// A key in its parts: put together where it is sent, and nowhere else.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyParts<'a>([&'a str; 3]);

impl KeyParts<'_> {
    pub(super) fn to_vec(self) -> Vec<u8> {
        self.0.concat().into_bytes()
    }
}

impl ToRedisArgs for KeyParts<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let mut word = out.writer_for_next_arg();
        for part in self.0 {
            // It goes to memory.
            let _ = word.write_all(part.as_bytes());
        }
    }
}

impl ToSingleRedisArg for KeyParts<'_> {}

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
        let shard = KeySpace::new("leasehold:", 0, false).shard(&name);
        let key = String::from_utf8(shard.summary(name.as_str()).to_vec()).unwrap();
        assert_eq!(key, "leasehold:{default}:name:a{b}c");
        assert_eq!(&key[shard.prefix()..], "a{b}c");
    }

    #[test]
    fn every_namespace_has_its_own_shards_however_many_there_are() {
        let key_space = KeySpace::new("leasehold:", 0, false);
        for n in (0..2 * KNOWN).chain(0..2) {
            let name = Name::new(&Namespace::new(format!("s{n}")).unwrap(), "a").unwrap();
            let key = key_space.shard(&name).counter().to_vec();
            assert_eq!(key, format!("leasehold:{{s{n}}}:fence").into_bytes());
            assert!(key_space.known.lock().unwrap().len() <= KNOWN);
        }
    }

    #[test]
    fn names_are_spread_over_all_shards() {
        let space = Namespace::default();
        let key_space = KeySpace::new("leasehold:", 0, true);
        let shard = |n: u32| key_space.shard(&Name::new(&space, format!("order/{n}")).unwrap());
        let used: std::collections::HashSet<_> = (0..2000).map(shard).collect();
        assert_eq!(used.len(), usize::from(SHARDS));
        assert_eq!(key_space.shards(&space).len(), usize::from(SHARDS));
    }
}
