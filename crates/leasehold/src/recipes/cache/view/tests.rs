//! Random lives of a store, of news about it that are late or lost, and of lists that
//! are read page by page meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::name::Namespace;

/// How many records there may be, on how long pages.
const KEYS: u8 = 8;
const PAGE: usize = 3;
/// A view that has not settled after so many rounds never will.
const ROUNDS: usize = 500;

/// Versions by key.
type Values = BTreeMap<u8, u64>;

#[derive(Clone, Debug)]
enum Step {
    Write(u8),
    Delete(u8),
    /// A failover: the last writes are lost.
    LoseWrites(usize),
    /// So many news arrive.
    Deliver(usize),
    /// The news that are on their way are lost; there is word of that.
    LoseNews,
    Disconnect,
    Reconnect,
    Ask,
    /// Each record is as it was when the question left, or as it is now.
    Answer(u8, u8),
    Fail,
}

#[derive(Clone, Copy, Debug)]
enum News {
    Stored(u8, u64),
    Deleted(u8, u64),
    Resync,
}

/// What was asked.
#[derive(Debug)]
enum Question {
    Page(Option<u8>),
    Look(Vec<Name>),
}

fn scope() -> Scope {
    Scope::below(&Namespace::default(), "n", 1)
}

fn name(key: u8) -> Name {
    Name::new(&Namespace::default(), format!("n/{key}")).unwrap()
}

fn key(name: &Name) -> u8 {
    name.as_str()[2..].parse().unwrap()
}

fn entry(version: u64) -> CacheEntry<u64> {
    CacheEntry::new(version, 1, Ok(Arc::new(version)))
}

/// A store, a view of it, and whoever listens to that.
struct Life {
    view: CacheView<u64>,
    store: Values,
    /// What the store had before each change.
    before: Vec<Values>,
    version: u64,
    news: VecDeque<News>,
    /// The question that is open, and what the store had when it left.
    open: Option<(Question, Values)>,
    /// How far the list is, and what the store had when it began.
    list_from: Option<(Option<u8>, Values)>,
    /// What the events come to.
    told: Values,
    highest: Values,
    live: bool,
    /// The store has lost writes since all was told: only then a version may be smaller
    /// than one before.
    rewound: bool,
}

impl Life {
    fn new(records: usize) -> Self {
        Self {
            view: CacheView::new(CacheBounds { records, bytes: usize::MAX }),
            store: Values::new(),
            before: Vec::new(),
            version: 0,
            news: VecDeque::new(),
            open: None,
            list_from: None,
            told: Values::new(),
            highest: Values::new(),
            live: false,
            rewound: false,
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Write(key) => self.write(*key),
            Step::Delete(key) => self.delete(*key),
            Step::LoseWrites(some) => self.lose_writes(*some),
            Step::Deliver(some) => (0..*some).for_each(|_| self.deliver()),
            Step::LoseNews => self.news = VecDeque::from([News::Resync]),
            Step::Disconnect => {
                let event = self.view.disconnect();
                self.hear(event);
            }
            Step::Reconnect => self.view.reconnect(),
            Step::Ask => self.ask(),
            Step::Answer(now, hidden) => self.answer(*now, *hidden),
            Step::Fail => self.fail(),
        }
        self.is_right_when_quiet();
    }

    fn write(&mut self, key: u8) {
        self.change();
        self.store.insert(key, self.version);
        self.news.push_back(News::Stored(key, self.version));
    }

    fn delete(&mut self, key: u8) {
        if self.store.contains_key(&key) {
            self.change();
            self.store.remove(&key);
            self.news.push_back(News::Deleted(key, self.version));
        }
    }

    fn change(&mut self) {
        self.before.push(self.store.clone());
        self.version += 1;
    }

    fn lose_writes(&mut self, some: usize) {
        if some == 0 || some > self.before.len() {
            return;
        }
        self.before.truncate(self.before.len() - some + 1);
        self.store = self.before.pop().unwrap();
        // That is seen as a break of all connections.
        self.news.push_back(News::Resync);
        self.fail();
        self.rewound = true;
    }

    /// What was asked is not answered, and the list ends.
    fn fail(&mut self) {
        let Some((question, _)) = self.open.take() else { return };
        if self.list_from.is_some() && matches!(question, Question::Page(_)) {
            let event = self.view.miss();
            self.hear(event);
        }
        self.finish();
    }

    fn deliver(&mut self) {
        let events = match self.news.pop_front() {
            None => Vec::new(),
            Some(News::Stored(key, version)) => self.view.stored(name(key), entry(version)),
            Some(News::Deleted(key, version)) => {
                self.view.deleted(&name(key), version).into_iter().collect()
            }
            Some(News::Resync) => self.view.miss().into_iter().collect(),
        };
        self.hear(events);
    }

    /// As its task does: lists when something was missed, looks where there is doubt.
    fn ask(&mut self) {
        if self.open.is_some() {
            return;
        }
        if self.list_from.is_none() && self.view.is_due() {
            self.view.begin();
            self.list_from = Some((None, self.store.clone()));
        }
        let doubts = self.view.doubts(2);
        let question = match &self.list_from {
            Some((after, _)) if *after != Some(u8::MAX) => Question::Page(*after),
            _ if !doubts.is_empty() => Question::Look(doubts),
            _ => return self.finish(),
        };
        self.view.ask();
        self.open = Some((question, self.store.clone()));
    }

    fn finish(&mut self) {
        if self.list_from.take().is_some() {
            let event = self.view.finish();
            self.hear(event);
        }
    }

    fn answer(&mut self, now: u8, hidden: u8) {
        let Some((question, then)) = self.open.take() else { return };
        let found = |key: u8| {
            let from = if now >> key & 1 == 1 { &self.store } else { &then };
            from.get(&key).copied().map(entry)
        };
        let events = match question {
            Question::Look(names) => {
                let looked = names.into_iter().map(|name| (name.clone(), found(key(&name))));
                let looked = looked.collect();
                self.view.looked(looked)
            }
            Question::Page(after) => {
                let (_, past) = self.list_from.clone().unwrap();
                // A store may walk through its names as they were when the list began.
                let shown = |key: &u8| hidden >> *key & 1 == 0 || past.contains_key(key);
                let keys = (0..KEYS).filter(|key| after.is_none_or(|after| *key > after));
                let listed = keys.filter(shown).filter_map(|key| Some((name(key), found(key)?)));
                let mut records: Vec<_> = listed.collect();
                let more = records.len() > PAGE;
                records.truncate(PAGE);
                let next = records.last().filter(|_| more).map_or(u8::MAX, |(name, _)| key(name));
                self.list_from = Some((Some(next), past));
                self.view.listed(&scope(), CachePage { after: after.map(name), records, more })
            }
        };
        self.hear(events);
    }

    fn hear(&mut self, events: impl IntoIterator<Item = CacheEvent<u64>>) {
        for event in events {
            match event {
                CacheEvent::Added { name, new } => self.hear_value(&name, None, new.version()),
                CacheEvent::Changed { name, old, new } => {
                    self.hear_value(&name, Some(old.version()), new.version());
                }
                CacheEvent::Removed { name, old } => {
                    assert_eq!(self.told.remove(&key(&name)), Some(old.version()), "V3");
                }
                CacheEvent::Synced => {
                    assert!(!self.live, "told twice");
                    self.live = true;
                    self.rewound &= !self.news.is_empty();
                }
                CacheEvent::Stale(_) => self.live = false,
                CacheEvent::Snapshot(_) => panic!("not from a view"),
            }
        }
        assert_eq!(self.live, self.view.stale().is_none(), "V4");
    }

    fn hear_value(&mut self, name: &Name, old: Option<u64>, new: u64) {
        assert_eq!(self.told.insert(key(name), new), old, "V3");
        let highest = self.highest.insert(key(name), new);
        let rises = highest.is_none_or(|highest| highest < new);
        assert!(rises || self.rewound, "V2: {new} after {highest:?}");
    }

    fn seen(&self) -> Values {
        let snapshot = self.view.snapshot();
        snapshot.iter().map(|(name, entry)| (key(name), entry.version())).collect()
    }

    /// V1 and V3.
    fn is_right_when_quiet(&self) {
        assert_eq!(self.seen(), self.told, "V3");
        assert!(!self.live || !self.view.disconnected, "V1: nothing would be told");
        let quiet = self.news.is_empty() && self.view.doubts.is_empty() && self.open.is_none();
        if quiet && self.view.stale().is_none() {
            assert_eq!(self.seen(), self.store, "V1");
        }
    }

    /// All that is on its way arrives, and the view is driven until it rests.
    fn settle(&mut self) {
        self.step(&Step::Reconnect);
        for _ in 0..ROUNDS {
            self.step(&Step::Deliver(usize::from(KEYS)));
            self.step(&Step::Ask);
            self.step(&Step::Answer(u8::MAX, 0));
            let busy = self.view.missed || !self.view.doubts.is_empty();
            if !busy && self.news.is_empty() && self.list_from.is_none() {
                return;
            }
        }
        panic!("it never settles");
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..KEYS).prop_map(Step::Write),
        4 => (0..KEYS).prop_map(Step::Delete),
        1 => (1_usize..4).prop_map(Step::LoseWrites),
        6 => (1_usize..5).prop_map(Step::Deliver),
        1 => Just(Step::LoseNews),
        1 => Just(Step::Disconnect),
        2 => Just(Step::Reconnect),
        12 => Just(Step::Ask),
        10 => (any::<u8>(), any::<u8>()).prop_map(|(now, hidden)| Step::Answer(now, hidden)),
        1 => Just(Step::Fail),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn it_has_what_the_store_has_and_tells_all_of_it(
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut life = Life::new(usize::MAX);
        steps.iter().for_each(|step| life.step(step));
        life.settle();
        prop_assert!(life.live, "V4");
        prop_assert_eq!(life.seen(), life.store, "V1");
    }

    #[test]
    fn what_does_not_fit_is_told_and_what_fits_again_is_there(
        steps in proptest::collection::vec(step(), 1..120),
        records in 1_usize..6,
    ) {
        let mut life = Life::new(records);
        for step in &steps {
            life.step(step);
            prop_assert!(life.view.len() <= records);
        }
        life.settle();
        // It looks again after a while.
        life.view.missed = true;
        life.settle();
        let fits = life.store.len() <= records;
        prop_assert_eq!(life.live, fits, "{:?}", life.view.stale());
        let seen = life.seen();
        prop_assert!(seen.iter().all(|(key, version)| life.store.get(key) == Some(version)));
        prop_assert!(!fits || seen == life.store, "V1");
    }
}

/// A view of what the store has, as a list of it says.
fn listed(values: &[(u8, u64)]) -> CacheView<u64> {
    let mut view = CacheView::new(CacheBounds { records: 10, bytes: 20 });
    list(&mut view, values);
    view
}

fn list(view: &mut CacheView<u64>, values: &[(u8, u64)]) -> Vec<CacheEvent<u64>> {
    view.begin();
    view.ask();
    let records = values.iter().map(|(key, version)| (name(*key), entry(*version))).collect();
    view.listed(&scope(), CachePage { after: None, records, more: false })
}

#[test]
fn a_deletion_that_is_older_than_what_was_listed_is_no_news() {
    let mut view = listed(&[(1, 7)]);
    assert!(view.deleted(&name(1), 5).is_none());
    assert!(view.deleted(&name(1), 9).is_some());
}

#[test]
fn bytes_are_counted_and_given_back() {
    let heavy = |version| CacheEntry::new(version, 12, Ok(Arc::new(version)));
    let mut view = listed(&[]);
    assert!(matches!(view.finish(), Some(CacheEvent::Synced)));
    assert!(matches!(view.stored(name(1), heavy(1))[..], [CacheEvent::Added { .. }]));
    let stale = view.stored(name(2), heavy(2));
    assert!(matches!(stale[..], [CacheEvent::Stale(StaleReason::TooLarge)]));
    assert!(matches!(view.stored(name(1), entry(3))[..], [CacheEvent::Changed { .. }]));
    assert!(matches!(view.stored(name(2), heavy(4))[..], [CacheEvent::Added { .. }]));
    assert_eq!((view.len(), view.bytes), (2, 13));
    list(&mut view, &[(1, 3), (2, 4)]);
    assert!(matches!(view.finish(), Some(CacheEvent::Synced)), "all of it fits");
    assert!(view.deleted(&name(2), 5).is_some());
    assert_eq!((view.len(), view.bytes), (1, 1));
}

#[test]
fn what_was_found_gone_is_looked_at_if_older_news_of_it_come() {
    let mut view = listed(&[(1, 4)]);
    list(&mut view, &[]);
    view.ask();
    assert_eq!(view.looked(vec![(name(1), None)]).len(), 1);
    assert!(view.stored(name(1), entry(4)).is_empty());
    assert_eq!(view.doubts(9), [name(1)]);
    view.ask();
    let found = view.looked(vec![(name(1), Some(entry(4)))]);
    assert!(matches!(found[..], [CacheEvent::Added { .. }]), "the store has it after all");
}

#[test]
fn a_record_that_a_list_lacks_is_looked_at_before_it_is_given_up() {
    let mut view = listed(&[(1, 1), (2, 2)]);
    assert!(view.finish().is_some());
    list(&mut view, &[(1, 1)]);
    assert_eq!(view.doubts(9), [name(2)]);
    view.ask();
    let events = view.looked(vec![(name(2), None)]);
    assert!(matches!(events[..], [CacheEvent::Removed { .. }]));
    assert_eq!(view.len(), 1);
    assert!(view.finish().is_none() && view.stale().is_none(), "it was live all the time");
    list(&mut view, &[]);
    assert!(view.finish().is_none() && view.is_due(), "what could not be looked at is listed anew");
}

#[test]
fn an_answer_does_not_undo_what_was_told_since_it_was_asked_for() {
    for found in [Some(entry(4)), None] {
        let mut view = listed(&[(1, 4)]);
        list(&mut view, &[]);
        view.ask();
        assert_eq!(view.stored(name(1), entry(6)).len(), 1);
        assert!(view.looked(vec![(name(1), found)]).is_empty());
        assert_eq!(view.get("n/1").map(CacheEntry::version), Some(6));
    }
}
