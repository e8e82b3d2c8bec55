//! Watchers: they hear of every change, or that they have missed some.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use leasehold::claim::{Ending, RawRecord, Store};
use leasehold::engine::{Eviction, RecordEvent, RecordEvents, Scope, Target};
use leasehold::{Engine, Name, Profile};

use super::check::{Check, Outcome, check};
use super::patience::HOUR;
use super::records::{
    Pair, bind_briefly, bound, children, end, gone, hold, keeps_bonds, name, next, put, records,
    store, times_records,
};
use super::store::Store as Shared;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(a_watcher_sees_every_change_of_a_record_in_order),
        check!(a_watcher_that_lags_far_behind_is_told_to_load_again),
        check!(a_large_value_is_watched_too),
        check!(a_dropped_call_for_the_next_change_loses_nothing),
        check!(the_version_of_an_end_lies_between_those_of_two_values),
        check!(who_leaves_out_what_is_older_ends_with_what_is_stored),
    ]
}

async fn a_watcher_sees_every_change_of_a_record_in_order(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    // Where records are nodes, what is above one is a record, too.
    store(&pair.a, put("w/too/deep", "x")).await?;
    let mut events = records(&pair.b).watch(children("w")).await?;
    let (mut expected, dates) = (Vec::new(), dates_deletions(pair.a.profile()));
    for at in 0..300 {
        let engine = if at % 3 == 0 { &pair.b } else { &pair.a };
        let text = format!("w/{}", at % 7);
        store(engine, put("elsewhere", "x")).await?;
        store(engine, put("w/too/deep", "x")).await?;
        if at % 10 == 9 {
            let version = store(engine, put(&text, "x")).await?;
            expected.push(RecordEvent::Stored(name(&text), RawRecord::new("x".into(), version)));
            let end = store(engine, Store::delete(name(&text))).await?;
            let end = if dates { end } else { 0 };
            expected.push(RecordEvent::Deleted(name(&text), end));
        } else {
            let value = at.to_string();
            let version = store(engine, put(&text, &value)).await?;
            expected.push(RecordEvent::Stored(name(&text), RawRecord::new(value.into(), version)));
        }
    }
    hears(&mut events, expected, Vec::new(), dates).await;
    Ok(())
}

/// Whether a watcher is told the very version of a deletion. A bare node that goes says
/// none: the one that is told lies behind it, and before that of the next value.
fn dates_deletions(profile: &Profile) -> bool {
    !profile.raw_records || profile.scheme != "zookeeper"
}

/// The rest of what is expected, the changes of each record in their turn; what
/// is missing has a `Resync` in its place.
async fn hears(
    events: &mut Box<dyn RecordEvents>,
    mut expected: Vec<RecordEvent>,
    heard: Vec<RecordEvent>,
    dates: bool,
) {
    let (mut heard, mut gaps) = (heard.into_iter(), HashSet::new());
    while !expected.is_empty() {
        let event = match heard.next() {
            Some(event) => event,
            None => next(events).await,
        };
        let event = match event {
            RecordEvent::Deleted(name, _) if !dates => RecordEvent::Deleted(name, 0),
            event => event,
        };
        match changed(&event).cloned() {
            None => gaps.extend(expected.iter().filter_map(changed).cloned()),
            Some(name) => {
                let gap = gaps.remove(&name);
                strike(&mut expected, &event, &name, gap);
            }
        }
    }
}

/// Takes a change off the list, and those of the same record that a gap ate.
fn strike(expected: &mut Vec<RecordEvent>, event: &RecordEvent, name: &Name, gap: bool) {
    let at = expected.iter().position(|it| it == event).expect("a change that was made");
    let skips = |it: &RecordEvent| changed(it) == Some(name);
    let skipped = expected[..at].iter().filter(|it| skips(it)).count();
    assert!(skipped == 0 || gap, "{skipped} changes were left out before {event:?}");
    let later = expected.split_off(at + 1);
    expected.retain(|it| !skips(it));
    expected.extend(later);
}

fn changed(event: &RecordEvent) -> Option<&Name> {
    match event {
        RecordEvent::Stored(name, _) | RecordEvent::Deleted(name, _) => Some(name),
        _ => None,
    }
}

async fn a_watcher_that_lags_far_behind_is_told_to_load_again(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut events = records(&pair.b).watch(children("w")).await?;
    for _ in 0..50 {
        let writes = (0..100).map(|at| records(&pair.a).store(put("w/n", &at.to_string())));
        for write in writes {
            let _ = write.await?;
        }
    }
    let mut seen = Vec::new();
    while !seen.contains(&RecordEvent::Resync) {
        seen.push(next(&mut events).await);
    }
    store(&pair.a, put("w/n", "last")).await?;
    loop {
        if let RecordEvent::Stored(_, record) = next(&mut events).await
            && record.value == b"last"
        {
            return Ok(());
        }
    }
}

async fn a_large_value_is_watched_too(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut events = records(&pair.b).watch(children("w")).await?;
    let version = store(&pair.a, Store::put(name("w/n"), vec![7; 512 * 1024])).await?;
    let expected = RecordEvent::Stored(name("w/n"), RawRecord::new(vec![7; 512 * 1024], version));
    assert!(next(&mut events).await == expected);
    Ok(())
}

/// Polls a few times and lets go, unless there is something.
async fn poll_and_drop(events: &mut Box<dyn RecordEvents>, times: usize) -> Option<RecordEvent> {
    let mut next = events.next();
    for _ in 0..times {
        let once = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx)));
        if let Poll::Ready(event) = once.await {
            return event;
        }
        tokio::task::yield_now().await;
    }
    None
}

async fn a_dropped_call_for_the_next_change_loses_nothing(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut events = records(&pair.b).watch(children("w")).await?;
    let (mut expected, mut seen) = (Vec::new(), Vec::new());
    for at in 0..100 {
        let version = store(&pair.a, put("w/n", "x")).await?;
        expected.push(RecordEvent::Stored(name("w/n"), RawRecord::new("x".into(), version)));
        seen.extend(poll_and_drop(&mut events, at % 7).await);
    }
    hears(&mut events, expected, seen, true).await;
    Ok(())
}

/// How a record comes to its end.
#[derive(Clone, Copy, Debug)]
enum RecordEnd {
    Deleted,
    TimeUp,
    LeaseReleased,
    LeaseExpired,
    LeaseEvicted,
    LeaseOfAnotherClient,
}

impl RecordEnd {
    /// The ways that records of this engine come to their end.
    fn all(profile: &Profile) -> impl Iterator<Item = Self> {
        let is_kept = move |way: &Self| match way {
            Self::TimeUp => times_records(profile),
            Self::LeaseOfAnotherClient => keeps_bonds(profile),
            _ => true,
        };
        Self::ALL.into_iter().filter(is_kept)
    }

    const ALL: [Self; 6] = [
        Self::Deleted,
        Self::TimeUp,
        Self::LeaseReleased,
        Self::LeaseExpired,
        Self::LeaseEvicted,
        Self::LeaseOfAnotherClient,
    ];

    /// Stores a record that ends in this way, and sees to it that it does.
    async fn play(self, pair: &Pair, text: &str) -> Outcome {
        match self {
            Self::Deleted => {
                store(&pair.a, put(text, "1")).await?;
                store(&pair.b, Store::delete(name(text))).await?;
            }
            Self::TimeUp => {
                let mut brief = put(text, "1");
                brief.ttl = Some(pair.short());
                store(&pair.a, brief).await?;
            }
            Self::LeaseExpired => {
                bind_briefly([&pair.a; 2], "lock/expires", text, pair.short()).await?;
            }
            Self::LeaseReleased => self.play_lease(&pair.a, &pair.a, text).await?,
            Self::LeaseEvicted => self.play_lease(&pair.a, &pair.a, text).await?,
            Self::LeaseOfAnotherClient => self.play_lease(&pair.a, &pair.b, text).await?,
        }
        gone(&pair.b, text).await
    }

    async fn play_lease(
        self,
        holder: &Arc<dyn Engine>,
        writer: &Arc<dyn Engine>,
        text: &str,
    ) -> Outcome {
        let ticket = hold(holder, "lock", HOUR).await?;
        store(writer, bound(text, &ticket)).await?;
        if matches!(self, Self::LeaseEvicted) {
            writer.evict(Eviction::new(name("lock"), Target::All, "ops", "stuck")?).await?;
        } else {
            holder.release(ticket, Ending::new()).await?;
        }
        Ok(())
    }
}

async fn the_version_of_an_end_lies_between_those_of_two_values(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut events = records(&pair.b).watch(children("w")).await?;
    for way in RecordEnd::all(pair.a.profile()) {
        let text = format!("w/{way:?}");
        way.play(&pair, &text).await?;
        let RecordEvent::Stored(_, before) = next(&mut events).await else {
            panic!("{way:?}: stored first")
        };
        let ended = end(&mut events, &text).await;
        let after = store(&pair.a, put(&text, "2")).await?;
        let RecordEvent::Stored(_, found) = next(&mut events).await else {
            panic!("{way:?}: stored anew")
        };
        assert_eq!(found.version, after, "{way:?}");
        let versions = [before.version, ended, after];
        assert!(versions.is_sorted_by(|a, b| a < b), "{way:?}: {versions:?}");
    }
    Ok(())
}

/// What a reader makes of what it hears and reads: only what is newer counts.
#[derive(Debug, Default)]
struct NewestSeen {
    version: u64,
    value: Option<Vec<u8>>,
}

impl NewestSeen {
    fn apply(&mut self, version: u64, value: Option<&[u8]>) {
        if version > self.version {
            *self = Self { version, value: value.map(<[u8]>::to_vec) };
        }
    }

    async fn read(&mut self, engine: &Arc<dyn Engine>, text: &str) -> Outcome {
        if let Some(found) = records(engine).load(name(text)).await? {
            self.apply(found.version, Some(&found.value));
        }
        Ok(())
    }

    /// Hears of everything up to this version.
    async fn hear(
        &mut self,
        engine: &Arc<dyn Engine>,
        events: &mut Box<dyn RecordEvents>,
        upto: u64,
    ) -> Outcome {
        loop {
            let version = match next(events).await {
                RecordEvent::Stored(_, found) => {
                    self.apply(found.version, Some(&found.value));
                    found.version
                }
                RecordEvent::Deleted(_, version) => {
                    self.apply(version, None);
                    version
                }
                _ => {
                    self.read(engine, "n").await?;
                    self.version
                }
            };
            if version >= upto {
                return Ok(());
            }
        }
    }
}

async fn who_leaves_out_what_is_older_ends_with_what_is_stored(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut events = records(&pair.b).watch(Scope::name(&name("n"))).await?;
    let mut seen = NewestSeen::default();
    for round in 0..6 {
        for way in RecordEnd::all(pair.a.profile()) {
            if round == 0 || matches!(way, RecordEnd::Deleted | RecordEnd::LeaseReleased) {
                way.play(&pair, "n").await?;
            }
        }
        let value = format!("round {round}");
        let version = store(&pair.a, put("n", &value)).await?;
        // It has read what is new before it hears of what was old.
        seen.read(&pair.b, "n").await?;
        seen.hear(&pair.b, &mut events, version).await?;
        assert_eq!(seen.value.as_deref(), Some(value.as_bytes()), "{seen:?}");
    }
    let version = store(&pair.a, Store::delete(name("n"))).await?;
    seen.hear(&pair.b, &mut events, version).await?;
    let dated = if dates_deletions(pair.a.profile()) { version } else { seen.version.max(version) };
    assert_eq!((seen.version, seen.value), (dated, None));
    Ok(())
}
