//! The keys of a server, and what time it is there.

use std::collections::{BTreeMap, VecDeque};

use super::{Bytes, Reply};

/// What a key holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(Bytes),
    /// In the order in which a small hash is kept.
    Hash(Vec<(Bytes, Bytes)>),
    List(VecDeque<Bytes>),
    Sorted(BTreeMap<Bytes, f64>),
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) value: Value,
    /// In milliseconds since 1970.
    pub(crate) expires: Option<i64>,
}

/// A channel, and whether it is one of a shard.
pub(crate) type Channel = (bool, Bytes);

/// All keys. What has expired is gone at the next look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Db {
    pub(super) keys: BTreeMap<Bytes, Entry>,
    /// Microseconds since 1970.
    pub(crate) now: u64,
    /// Seconds since it was started.
    pub(crate) uptime: u64,
    pub(crate) id: String,
    /// Whether it takes no more.
    pub(crate) is_full: bool,
    /// Whether it follows another, and takes no writes.
    pub(crate) is_replica: bool,
    pub(crate) refusals: u64,
    /// Whether the script that runs has written already.
    pub(crate) is_dirty: bool,
    pub(crate) said: Vec<(Channel, Bytes)>,
    /// Which connections hear what.
    pub(crate) hearers: BTreeMap<Channel, Vec<u64>>,
}

pub(crate) fn wrong_type() -> Reply {
    Reply::error("WRONGTYPE Operation against a key holding the wrong kind of value")
}

pub(crate) fn no_integer() -> Reply {
    Reply::error("ERR value is not an integer or out of range")
}

/// What is there of one type, or an error; and the same made if nothing is.
macro_rules! typed {
    ($get:ident, $make:ident, $kind:ident, $type:ty) => {
        pub(crate) fn $get(&mut self, key: &[u8]) -> Result<Option<&mut $type>, Reply> {
            match self.entry(key).map(|entry| &mut entry.value) {
                None => Ok(None),
                Some(Value::$kind(it)) => Ok(Some(it)),
                Some(_) => Err(wrong_type()),
            }
        }

        pub(crate) fn $make(&mut self, key: &[u8]) -> Result<&mut $type, Reply> {
            if self.entry(key).is_none() {
                self.put(key, Value::$kind(Default::default()), None);
            }
            self.$get(key).map(|it| it.expect("it was put there"))
        }
    };
}

impl Db {
    typed!(hash, make_hash, Hash, Vec<(Bytes, Bytes)>);
    typed!(list, make_list, List, VecDeque<Bytes>);
    typed!(sorted, make_sorted, Sorted, BTreeMap<Bytes, f64>);

    pub(crate) fn text(&mut self, key: &[u8]) -> Result<Option<&mut Bytes>, Reply> {
        match self.entry(key).map(|entry| &mut entry.value) {
            None => Ok(None),
            Some(Value::Text(it)) => Ok(Some(it)),
            Some(_) => Err(wrong_type()),
        }
    }

    pub(crate) fn millis(&self) -> i64 {
        i64::try_from(self.now / 1_000).unwrap_or(i64::MAX)
    }

    /// What is there and has not expired.
    pub(crate) fn entry(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let now = self.millis();
        let over = self.keys.get(key)?.expires.is_some_and(|at| at <= now);
        if over {
            self.keys.remove(key);
        }
        self.keys.get_mut(key)
    }

    pub(crate) fn put(&mut self, key: &[u8], value: Value, expires: Option<i64>) {
        self.keys.insert(key.to_vec(), Entry { value, expires });
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.entry(key).is_some() && self.keys.remove(key).is_some()
    }

    /// A collection without members is no key.
    pub(crate) fn tidy(&mut self, key: &[u8]) {
        let is_empty = self.keys.get(key).is_some_and(|entry| match &entry.value {
            Value::Text(_) => false,
            Value::Hash(all) => all.is_empty(),
            Value::List(all) => all.is_empty(),
            Value::Sorted(all) => all.is_empty(),
        });
        if is_empty {
            self.keys.remove(key);
        }
    }

    /// All that have not expired, in order.
    pub(crate) fn alive(&mut self) -> Vec<Bytes> {
        let now = self.millis();
        self.keys.retain(|_, entry| entry.expires.is_none_or(|at| at > now));
        self.keys.keys().cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
    }

    /// How much all keys and values are.
    pub(crate) fn size(&mut self) -> usize {
        let mut size = self.alive().iter().map(Vec::len).sum();
        for entry in self.keys.values() {
            size += match &entry.value {
                Value::Text(text) => text.len(),
                Value::Hash(all) => {
                    all.iter().map(|(field, value)| field.len() + value.len()).sum()
                }
                Value::List(all) => all.iter().map(Vec::len).sum(),
                Value::Sorted(all) => all.keys().map(|member| member.len() + 8).sum(),
            };
        }
        size
    }
}
