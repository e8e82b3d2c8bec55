//! What a cache knows, and what it makes of what it hears and reads. It asks nobody:
//! whoever drives it says what was told, what was asked, and what came of it.
//!
//! Of each record the news come in their order, perhaps late; of what is missing
//! there is word. Lists and looks come from another way, so an answer may be older
//! than what was told since it was asked for, and news may be older than an answer.
//! Versions decide: those of one record only grow. What they cannot decide is looked
//! at by itself. That is so for a record that a list does not have: it may have been
//! made since the store began to walk through its names.

use std::collections::BTreeSet;

use super::chunks::Chunks;
use super::entry::CacheEntry;
use super::event::{CacheEvent, StaleReason};
use super::snapshot::Snapshot;
use crate::engine::Scope;
use crate::error::Error;
use crate::name::{Name, NameMap};

/// So many records that were found gone are remembered, and up to twice as many. News
/// are not further behind than that: an engine keeps no more of them.
const GONE_KEPT: usize = 4096;

/// How much a cache may hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheBounds {
    pub(super) records: usize,
    pub(super) bytes: usize,
}

/// One part of a list, as it was answered.
#[derive(Debug)]
pub(super) struct CachePage<T> {
    /// The records that come after this name.
    pub(super) after: Option<Name>,
    pub(super) records: Vec<(Name, CacheEntry<T>)>,
    /// Whether others come behind them.
    pub(super) more: bool,
}

/// What a cache knows.
#[derive(Debug)]
pub(super) struct CacheView<T> {
    bounds: CacheBounds,
    entries: Chunks<CacheEntry<T>>,
    bytes: usize,
    /// The last version told of each record since the question that is open was
    /// asked; its answer may be older.
    told: Option<NameMap<u64>>,
    /// Records to be looked at.
    doubts: BTreeSet<Name>,
    /// The versions of what was found gone, by a look, of which news may still come:
    /// the last ones, and those before.
    gone: [NameMap<u64>; 2],
    /// Why it may lack changes, if it does.
    stale: Option<StaleReason>,
    /// A list that begins now is needed.
    missed: bool,
    disconnected: bool,
    /// Something did not fit since the last list began.
    too_large: bool,
    /// Something was removed after that: it may fit now.
    room: bool,
}

impl<T> CacheView<T> {
    pub(super) fn new(bounds: CacheBounds) -> Self {
        Self {
            bounds,
            entries: Chunks::default(),
            bytes: 0,
            told: None,
            doubts: BTreeSet::new(),
            gone: Default::default(),
            stale: Some(StaleReason::Starting),
            missed: true,
            disconnected: false,
            too_large: false,
            room: false,
        }
    }

    pub(super) fn get(&self, text: &str) -> Option<&CacheEntry<T>> {
        self.entries.get(text)
    }

    pub(super) fn snapshot(&self) -> Snapshot<T> {
        Snapshot::new(self.entries.clone())
    }

    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) const fn stale(&self) -> Option<StaleReason> {
        self.stale
    }

    /// Whether changes were missed since the last list began, and all can be listed.
    pub(super) const fn is_due(&self) -> bool {
        self.missed && !self.disconnected
    }

    /// Whether something did not fit since the last list began.
    pub(super) const fn is_too_large(&self) -> bool {
        self.too_large
    }

    /// What to do about it.
    pub(super) fn too_large_error(&self) -> Error {
        let CacheBounds { records, bytes } = self.bounds;
        Error::invalid(format!(
            "there is more than the cache may hold, {records} records and {bytes} bytes: allow \
             more (limit, max_bytes), take fewer (depth), or their names alone (keys_only)"
        ))
    }

    /// Some of the records that have to be looked at.
    pub(super) fn doubts(&self, most: usize) -> Vec<Name> {
        self.doubts.iter().take(most).cloned().collect()
    }

    /// A list begins: what was missed before is made good by it.
    pub(super) fn begin(&mut self) {
        (self.missed, self.too_large, self.room) = (false, false, false);
    }

    /// What was found gone long ago is forgotten.
    fn age(&mut self) {
        self.gone.swap(0, 1);
        self.gone[0].clear();
    }

    /// A question leaves: what is told from now on is news beside its answer.
    pub(super) fn ask(&mut self) {
        self.told = Some(NameMap::default());
    }

    /// Changes were missed.
    pub(super) fn miss(&mut self) -> Option<CacheEvent<T>> {
        self.missed = true;
        self.turn_stale(StaleReason::Missed)
    }

    /// The connection is gone.
    pub(super) fn disconnect(&mut self) -> Option<CacheEvent<T>> {
        self.disconnected = true;
        self.turn_stale(StaleReason::Disconnected)
    }

    /// The connection is back.
    pub(super) fn reconnect(&mut self) {
        self.missed |= self.disconnected;
        self.disconnected = false;
    }

    /// Nothing more will come.
    pub(super) fn close(&mut self) -> Option<CacheEvent<T>> {
        self.turn_stale(StaleReason::Closed)
    }

    fn turn_stale(&mut self, reason: StaleReason) -> Option<CacheEvent<T>> {
        let starts = self.stale == Some(StaleReason::Starting) && reason != StaleReason::Closed;
        if starts || self.stale == Some(reason) {
            return None;
        }
        self.stale = Some(reason);
        Some(CacheEvent::Stale(reason))
    }

    /// A list ends. If all was read, and no doubt is left, what is known is what the
    /// store has, and what comes is news. Otherwise there has to be another one.
    pub(super) fn finish(&mut self) -> Option<CacheEvent<T>> {
        self.missed |= !self.doubts.is_empty() || self.too_large && self.room;
        if self.missed || self.disconnected {
            return None;
        }
        if self.too_large {
            return self.turn_stale(StaleReason::TooLarge);
        }
        self.stale.take().map(|_| CacheEvent::Synced)
    }

    /// Whether an answer is older than what was told since.
    fn is_old(told: &NameMap<u64>, name: &Name, version: u64) -> bool {
        told.get(name).is_some_and(|told| *told > version)
    }

    fn note(&mut self, name: &Name, version: u64) {
        if let Some(told) = &mut self.told {
            let last = told.entry(name.clone()).or_default();
            *last = version.max(*last);
        }
    }

    /// Whether a record with this version was found gone: by now, or only then?
    fn is_in_doubt(&self, name: &Name, version: u64) -> bool {
        let gone = self.gone.iter().filter_map(|gone| gone.get(name)).max();
        gone.is_some_and(|gone| version <= *gone)
    }

    fn forget(&mut self, name: &Name) {
        for gone in &mut self.gone {
            gone.remove(name);
        }
    }

    /// It was told that a record was deleted.
    pub(super) fn deleted(&mut self, name: &Name, version: u64) -> Option<CacheEvent<T>> {
        self.note(name, version);
        if !self.is_in_doubt(name, version) {
            self.forget(name);
        }
        let known = self.entries.get(name.as_str())?;
        if known.version() <= version { self.remove(name) } else { None }
    }

    /// What was told since the question that is answered now.
    fn answered(&mut self) -> NameMap<u64> {
        self.told.take().unwrap_or_default()
    }
}

impl<T> CacheView<T> {
    /// It was told that a record has this value.
    pub(super) fn stored(&mut self, name: Name, entry: CacheEntry<T>) -> Vec<CacheEvent<T>> {
        self.note(&name, entry.version());
        match self.entries.get(name.as_str()) {
            Some(known) if entry.version() <= known.version() => Vec::new(),
            None if self.is_in_doubt(&name, entry.version()) => {
                self.doubts.insert(name);
                Vec::new()
            }
            _ => self.put(name, entry),
        }
    }

    /// A part of a list was answered.
    pub(super) fn listed(&mut self, scope: &Scope, page: CachePage<T>) -> Vec<CacheEvent<T>> {
        let told = self.answered();
        self.doubt_missing(scope, &page, &told);
        let mut events = Vec::new();
        for (name, entry) in page.records {
            let known = self.entries.get(name.as_str()).map(CacheEntry::version);
            if Self::is_old(&told, &name, entry.version()) || known == Some(entry.version()) {
                continue;
            }
            if known.is_some_and(|known| entry.version() < known) {
                self.doubts.insert(name);
            } else {
                events.extend(self.put(name, entry));
            }
        }
        events
    }

    /// What a page does not have, although it would stand on it, has gone or is not
    /// on the store's list yet.
    fn doubt_missing(&mut self, scope: &Scope, page: &CachePage<T>, told: &NameMap<u64>) {
        let last = page.records.last().filter(|_| page.more).map(|(name, _)| name);
        let mut listed = page.records.iter().map(|(name, _)| name).peekable();
        let known = self.entries.after(page.after.as_ref().map(Name::as_str));
        for (name, _) in known.take_while(|(name, _)| last.is_none_or(|last| *name <= last)) {
            while listed.next_if(|listed| *listed < name).is_some() {}
            let is_there = listed.peek() == Some(&name) || told.contains_key(name);
            if scope.covers(name) && !is_there {
                self.doubts.insert(name.clone());
            }
        }
    }

    /// Records were looked at, one by one, after [`Self::ask`].
    pub(super) fn looked(
        &mut self,
        found: Vec<(Name, Option<CacheEntry<T>>)>,
    ) -> Vec<CacheEvent<T>> {
        let told = self.answered();
        let events = found.into_iter().flat_map(|(name, entry)| {
            self.doubts.remove(&name);
            match entry {
                Some(entry) if Self::is_old(&told, &name, entry.version()) => Vec::new(),
                None if told.contains_key(&name) => Vec::new(),
                None => self.lose(&name),
                Some(entry) => self.find(name, entry),
            }
        });
        events.collect()
    }

    /// It is not there: news of what was there before may still come.
    fn lose(&mut self, name: &Name) -> Vec<CacheEvent<T>> {
        if let Some(known) = self.entries.get(name.as_str()) {
            let version = known.version();
            if self.gone[0].len() >= GONE_KEPT {
                self.age();
            }
            self.gone[0].insert(name.clone(), version);
        }
        self.remove(name).into_iter().collect()
    }

    /// It is there. A store that has lost writes shows an older one: it is right.
    fn find(&mut self, name: Name, entry: CacheEntry<T>) -> Vec<CacheEvent<T>> {
        self.forget(&name);
        let known = self.entries.get(name.as_str());
        if known.is_some_and(|known| known.version() == entry.version()) {
            return Vec::new();
        }
        self.put(name, entry)
    }

    fn remove(&mut self, name: &Name) -> Option<CacheEvent<T>> {
        let old = self.entries.remove(name.as_str())?;
        self.bytes -= old.weight();
        self.room = true;
        Some(CacheEvent::Removed { name: name.clone(), old })
    }

    /// Takes a value in, if it fits.
    fn put(&mut self, name: Name, new: CacheEntry<T>) -> Vec<CacheEvent<T>> {
        let known = self.entries.get(name.as_str());
        let (old_weight, count) =
            known.map_or((0, self.len() + 1), |known| (known.weight(), self.len()));
        let bytes = self.bytes - old_weight + new.weight();
        let grows = known.is_none() || new.weight() > old_weight;
        if grows && (count > self.bounds.records || bytes > self.bounds.bytes) {
            return self.refuse();
        }
        self.bytes = bytes;
        vec![match self.entries.insert(name.clone(), new.clone()) {
            Some(old) => CacheEvent::Changed { name, old, new },
            None => CacheEvent::Added { name, new },
        }]
    }

    fn refuse(&mut self) -> Vec<CacheEvent<T>> {
        (self.too_large, self.room) = (true, false);
        // While it reads anew, the end of that says so.
        let synced = self.stale.is_none();
        let event = synced.then(|| self.turn_stale(StaleReason::TooLarge)).flatten();
        event.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
