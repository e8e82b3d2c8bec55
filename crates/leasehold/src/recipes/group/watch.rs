//! Who comes and goes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::member::Member;
use crate::name::Name;
use crate::recipes::cache::{Cache, CacheEntry, CacheEvent, CacheEvents, Snapshot, StaleReason};
use crate::recipes::present_record::PresentValue;

/// What happens in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupEvent {
    /// Somebody is here who was not.
    Joined(Member),
    /// A member says something else about itself.
    Changed(Member),
    /// Somebody is not here any more.
    Left(Member),
    /// All who are here have been told, and the watch follows the group.
    Synced,
    /// The watch may lack changes, until it is `Synced` again.
    Stale(StaleReason),
}

/// Who is here, kept as the store has it, and who comes and goes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// use leasehold::GroupEvent;
///
/// let workers = locks.group("workers");
/// let mut watch = workers.watch().await?;
/// let me = workers.join("node-1", "10.0.0.7:8080").await?;
/// loop {
///     match watch.next().await {
///         Some(GroupEvent::Joined(member)) => {
///             println!("{} has come", member.id);
///             break;
///         }
///         other => println!("{other:?}"),
///     }
/// }
/// assert_eq!(watch.members().len(), 1);
/// # me.leave().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct GroupWatch {
    path: Arc<str>,
    cache: Cache<PresentValue>,
    events: CacheEvents<PresentValue>,
    /// Who was told to be here, with the mark that says which of all who had this id.
    told: BTreeMap<Name, (Arc<str>, Member)>,
    ahead: VecDeque<GroupEvent>,
}

impl GroupWatch {
    pub(super) fn new(path: Arc<str>, cache: Cache<PresentValue>) -> Self {
        let events = cache.events();
        Self { path, cache, events, told: BTreeMap::new(), ahead: VecDeque::new() }
    }

    /// Who is here now, by id in byte order, as far as is known.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        let all = self.cache.snapshot();
        all.iter().filter_map(|(name, entry)| self.member(name, entry)).map(|it| it.1).collect()
    }

    /// The next event: first a `Joined` for each who is here, then who comes and goes.
    /// Who was away for a ttl and came back has left and joined. `None` once the locks
    /// were shut down.
    ///
    /// # Cancel safety
    ///
    /// A dropped call loses nothing: the next one returns it.
    pub async fn next(&mut self) -> Option<GroupEvent> {
        loop {
            if let Some(event) = self.ahead.pop_front() {
                return Some(event);
            }
            let event = self.events.next().await?;
            self.take(event);
        }
    }

    fn take(&mut self, event: CacheEvent<PresentValue>) {
        match event {
            CacheEvent::Snapshot(all) => self.take_all(&all),
            CacheEvent::Added { name, new } | CacheEvent::Changed { name, new, .. } => {
                self.is_here(&name, &new);
            }
            CacheEvent::Removed { name, .. } => self.has_left(&name),
            CacheEvent::Synced => self.ahead.push_back(GroupEvent::Synced),
            CacheEvent::Stale(reason) => self.ahead.push_back(GroupEvent::Stale(reason)),
        }
    }

    fn take_all(&mut self, all: &Snapshot<PresentValue>) {
        let gone = self.told.keys().filter(|name| all.get(name.as_str()).is_none());
        let gone: Vec<Name> = gone.cloned().collect();
        gone.iter().for_each(|name| self.has_left(name));
        all.iter().for_each(|(name, entry)| self.is_here(name, entry));
    }

    /// What is no member any more has left; what is none is left out.
    fn is_here(&mut self, name: &Name, entry: &CacheEntry<PresentValue>) {
        let Some((mark, member)) = self.member(name, entry) else { return self.has_left(name) };
        match self.told.insert(name.clone(), (Arc::clone(&mark), member.clone())) {
            Some((before, told)) if before == mark && told == member => {}
            Some((before, _)) if before == mark => {
                self.ahead.push_back(GroupEvent::Changed(member));
            }
            before => {
                self.ahead.extend(before.map(|(_, told)| GroupEvent::Left(told)));
                self.ahead.push_back(GroupEvent::Joined(member));
            }
        }
    }

    fn has_left(&mut self, name: &Name) {
        let told = self.told.remove(name);
        self.ahead.extend(told.map(|(_, member)| GroupEvent::Left(member)));
    }

    fn member(&self, name: &Name, entry: &CacheEntry<PresentValue>) -> Option<(Arc<str>, Member)> {
        let value = entry.value().ok()?;
        let member = Member::of(&self.path, name, &value)?;
        Some((Arc::clone(&value.mark), member))
    }
}
