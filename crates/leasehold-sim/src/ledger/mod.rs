//! The ledger: what users have seen and what servers hold, compared whenever
//! all is at rest. Its checks are the promises of `ARCHITECTURE.md`, by number.

mod entry;
mod recipes;
mod truth;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold::{Fenced, Mode};

pub use self::entry::{Entry, Proof};
pub use self::recipes::Run;
use self::recipes::Tallies;
pub use self::truth::{Stand, Truth};
use crate::schedule::Millis;
use crate::story::Story;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which: `I1`, or the word for a promise of a recipe.
    pub rule: &'static str,
    /// How.
    pub how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.how)
    }
}

/// All that is known of a run.
#[derive(Debug)]
pub struct Ledger {
    story: Arc<Story>,
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    entries: BTreeMap<u64, Entry>,
    next: u64,
    marks: BTreeMap<String, Marks>,
    registers: BTreeMap<String, Arc<Fenced<u64>>>,
    accepted: BTreeMap<String, u64>,
    /// Clients that were shut down, with all their leases.
    shut: BTreeSet<u8>,
    /// Until when a lease on a name may have been taken away unseen.
    evicting: BTreeMap<String, Millis>,
    tallies: Tallies,
    broken: Vec<Broken>,
    grants: u64,
}

/// The largest fences that have been seen on a name.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    any: u64,
    /// Of those who may not share.
    alone: u64,
}

impl Ledger {
    /// An empty one.
    #[must_use]
    pub fn new(story: Arc<Story>) -> Arc<Self> {
        Arc::new(Self { story, pages: Mutex::default() })
    }

    /// A user has a guard. Its number in the ledger.
    pub fn enter(&self, mut entry: Entry) -> u64 {
        let mut pages = self.pages();
        entry.evicted = pages.evicting.get(&entry.name).is_some_and(|until| entry.since <= *until);
        pages.grants += 1;
        self.story.tell(|| format!("user {} has {entry}", entry.user));
        // Whoever was cut off between its grant and the push of it hears of a smaller
        // fence than the next one has, which was granted meanwhile.
        if entry.is_ok()
            && !entry.evicted
            && let Err(how) = pages.rise(&entry)
        {
            pages.breaks("I2", how, &self.story);
        }
        pages.file(entry)
    }

    /// A user lets go, or changes the mode: from now on the guard proves nothing.
    pub fn leave(&self, number: u64) -> Option<Entry> {
        self.pages().entries.remove(&number)
    }

    /// The guard is back from a change of mode.
    pub fn return_to(&self, entry: Entry) -> u64 {
        self.pages().file(entry)
    }

    /// Looks at one entry.
    pub fn entry<T>(&self, number: u64, look: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.pages().entries.get_mut(&number).map(look)
    }

    /// The label under which the servers know a lease that was entered again.
    #[must_use]
    pub fn label_of(&self, client: u8, name: &str, fence: u64) -> Option<String> {
        let pages = self.pages();
        let is_it = |it: &&Entry| it.user.client == client && it.name == name && it.fence == fence;
        pages.entries.values().find(is_it).map(|it| it.label.clone())
    }

    /// A client has died, and its guards with it.
    pub fn bury(&self, client: u8) {
        let mut pages = self.pages();
        let dead: Vec<u64> = pages
            .entries
            .iter()
            .filter(|(_, entry)| entry.user.client == client)
            .map(|(number, _)| *number)
            .collect();
        for number in dead {
            if let Some(entry) = pages.entries.remove(&number) {
                pages.tallies.keep(entry);
            }
        }
    }

    /// An operator takes a name away until then, from whoever has it: those who
    /// had it may not know yet, and prove nothing any more.
    pub fn evict(&self, name: &str, until: Millis) {
        let mut pages = self.pages();
        let on = pages.entries.values_mut().filter(|entry| entry.name == name);
        on.for_each(|entry| entry.evicted = true);
        pages.evicting.insert(name.to_owned(), until);
    }

    /// Whether leases on this name may be taken away.
    #[must_use]
    pub fn is_evicting(&self, name: &str) -> bool {
        self.pages().evicting.contains_key(name)
    }

    /// A client is shut down: it gives all its leases back.
    pub fn shut(&self, client: u8) {
        self.pages().shut.insert(client);
    }

    /// Whether this client was shut down.
    #[must_use]
    pub fn is_shut(&self, client: u8) -> bool {
        self.pages().shut.contains(&client)
    }

    /// Compares what users believe with each other, and with the servers.
    pub fn check(&self, truth: &dyn Truth, now: Millis) {
        let mut pages = self.pages();
        let believed = |entry: &&Entry| !entry.evicted && entry.is_ok();
        let sure: Vec<Entry> = pages.entries.values().filter(believed).cloned().collect();
        for entry in &sure {
            if let Some(how) = entry.outlives() {
                pages.breaks("I6", how, &self.story);
            }
            if let Stand::Missing(how) = truth.stand(entry, now) {
                pages.breaks("I6", format!("{entry}, but {how}"), &self.story);
            }
        }
        if let Some(how) = truth.overlong() {
            pages.breaks("limits", how, &self.story);
        }
        for (at, one) in sure.iter().enumerate() {
            let others: Vec<&Entry> = sure[at + 1..].iter().collect();
            if let Some(how) = one.overlaps(&others) {
                pages.breaks("I1", how, &self.story);
            }
        }
    }

    /// Something is not as promised.
    pub fn breaks(&self, rule: &'static str, how: impl Into<String>) {
        self.pages().breaks(rule, how.into(), &self.story);
    }

    /// What was broken so far.
    #[must_use]
    pub fn broken(&self) -> Vec<Broken> {
        self.pages().broken.clone()
    }

    /// How many guards users have had.
    #[must_use]
    pub fn grants(&self) -> u64 {
        self.pages().grants
    }

    /// The register that is protected by a name.
    #[must_use]
    pub fn register(&self, name: &str) -> Arc<Fenced<u64>> {
        Arc::clone(self.pages().registers.entry(name.to_owned()).or_default())
    }

    /// A write was accepted, and the register shows this: I3.
    pub fn accepted(&self, name: &str, shows: u64) {
        let mut pages = self.pages();
        let count = pages.accepted.entry(name.to_owned()).or_default();
        *count += 1;
        let count = *count;
        if shows != count {
            let how = format!("{name}: {count} writes were accepted, and {shows} are there");
            pages.breaks("I3", how, &self.story);
        }
    }

    /// The tallies of recipes.
    pub fn tallies<T>(&self, work: impl FnOnce(&mut Tallies) -> T) -> T {
        work(&mut self.pages().tallies)
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    fn file(&mut self, entry: Entry) -> u64 {
        self.next += 1;
        self.entries.insert(self.next, entry);
        self.next
    }

    /// A fence is larger than that of every earlier grant that conflicts.
    fn rise(&mut self, entry: &Entry) -> Result<(), String> {
        let again = |other: &Entry| {
            other.user.client == entry.user.client
                && other.name == entry.name
                && other.fence == entry.fence
        };
        if entry.owned && self.entries.values().any(again) {
            return Ok(());
        }
        let marks = self.marks.entry(entry.name.clone()).or_default();
        let floor = match entry.mode {
            Mode::Exclusive | Mode::Write => marks.any,
            Mode::Read => marks.alone,
            // Permits are held side by side, in any order.
            _ => 0,
        };
        if entry.fence <= floor {
            return Err(format!("{entry} after {floor}"));
        }
        marks.any = marks.any.max(entry.fence);
        if matches!(entry.mode, Mode::Exclusive | Mode::Write) {
            marks.alone = marks.alone.max(entry.fence);
        }
        Ok(())
    }

    fn breaks(&mut self, rule: &'static str, how: String, story: &Story) {
        if self.broken.iter().any(|it| it.rule == rule) {
            return;
        }
        story.tell(|| format!("BROKEN {rule}: {how}"));
        self.broken.push(Broken { rule, how });
    }
}
