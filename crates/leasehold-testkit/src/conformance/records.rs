//! Records: versioned values, over two clients of one store.

use std::sync::Arc;
use std::time::Duration;

use leasehold::claim::{
    Claim, Ending, Owner, Refresh, Renewal, Stance, Ticket, Verdict, Wake, Wants,
};
use leasehold::engine::profile::{Grants, WakeUp};
use leasehold::engine::{
    Eviction, Expect, Page, RawRecord, RecordEvent, RecordEvents, RecordStore, Scope, Store, Target,
};
use leasehold::{
    Clock, Engine, Error, ErrorKind, Mode, Moment, Name, Namespace, Profile, Released,
};
use tokio::task::JoinSet;

use super::check::{Check, Outcome, check, ensure};
use super::patience::{self, HOUR, PATIENCE};
use super::recipe::Client;
use super::store::Store as Shared;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(an_engine_keeps_records_or_says_that_it_does_not),
        check!(racing_writers_lose_no_update),
        check!(a_write_that_expects_something_else_is_told_what_is_there),
        check!(a_version_is_never_used_twice).when(times_records),
        check!(a_value_goes_when_its_time_is_up_and_watchers_hear_of_it).when(times_records),
        check!(a_new_value_has_a_time_of_its_own).when(times_records),
        check!(a_bound_record_goes_with_the_release),
        check!(a_bound_record_goes_when_the_lease_expires),
        check!(a_bound_record_stays_for_as_long_as_its_lease_is_renewed).when(times_records),
        check!(a_bound_record_goes_with_an_eviction).when(keeps_bonds),
        check!(a_raw_record_that_is_bound_goes_once_its_holder_hears_of_an_eviction)
            .when(|p| p.raw_records),
        check!(what_a_raw_record_cannot_keep_is_refused).when(|p| p.raw_records),
        check!(a_list_is_in_order_whatever_lies_below_what).when(|p| p.raw_records),
        check!(a_bound_record_stays_when_its_lease_is_converted)
            .when(|p| p.convert && keeps_bonds(p)),
        check!(a_record_that_was_written_anew_outlives_the_old_lease),
        check!(adding_is_atomic_over_all_clients),
        check!(a_sum_that_does_not_fit_changes_nothing),
        check!(a_sum_may_go_below_zero_and_back),
        check!(a_list_has_what_is_below_the_path_and_not_too_deep).when(takes_any_name),
        check!(a_long_list_comes_in_pages),
        check!(a_heavy_page_ends_early),
        check!(a_record_is_stored_with_a_release_only_if_the_lease_was_still_ours)
            .when(keeps_bonds),
        check!(an_unlisted_record_is_like_any_other_to_who_knows_its_name).when(times_records),
        check!(whoever_is_served_next_does_not_see_what_the_release_deletes),
        check!(a_release_that_is_repeated_deletes_nothing_of_the_next_holder),
        check!(a_release_of_a_lost_lease_deletes_nothing),
        check!(whoever_hears_of_a_deletion_by_a_release_finds_the_name_free),
        check!(a_release_may_delete_what_is_not_there),
        check!(permits_that_are_given_back_delete_a_record).when(|p| p.grants == Grants::Counted),
        check!(a_reader_that_was_a_writer_deletes_a_record_as_it_leaves).when(|p| p.convert),
        check!(a_waiter_that_leaves_the_queue_stores_nothing),
        check!(an_ending_that_cannot_be_stored_releases_nothing),
        check!(a_grant_brings_the_record_of_its_name).when(|p| p.wake == WakeUp::Push),
        check!(a_value_that_is_too_large_is_refused_with_the_limit),
    ]
}

/// Whether a record can have a ttl: a bare node of ZooKeeper has none.
pub(super) fn times_records(profile: &Profile) -> bool {
    !profile.raw_records || profile.scheme != "zookeeper"
}

/// Whether whoever reads a record can tell that the lease has ended that it is bound to.
pub(super) const fn keeps_bonds(profile: &Profile) -> bool {
    !profile.raw_records
}

/// Whether a record can have every name: paths have no empty segment.
const fn takes_any_name(profile: &Profile) -> bool {
    !profile.raw_records
}

/// Two clients of one store.
pub(super) struct Pair {
    pub(super) a: Arc<dyn Engine>,
    pub(super) b: Arc<dyn Engine>,
    _clients: Vec<Client>,
}

impl Pair {
    /// `None` if the engine keeps no records, and there is nothing to check.
    pub(super) async fn new(shared: &Shared) -> Outcome<Option<Self>> {
        let clients = shared.open_many(2).await?;
        let (a, b) = (clients[0].engine(), clients[1].engine());
        Ok(a.records().is_some().then_some(Self { a, b, _clients: clients }))
    }

    /// A ttl that is meant to run out.
    pub(super) fn short(&self) -> Duration {
        patience::short(self.a.profile())
    }
}

async fn an_engine_keeps_records_or_says_that_it_does_not(shared: Shared) -> Outcome {
    let locks = shared.open().await?;
    let stored = locks.record::<u32>("n").set(&1).await;
    match (locks.engine().records(), stored) {
        (Some(_), stored) => ensure!(stored.is_ok(), "{stored:?}"),
        (None, Ok(_)) => return Err("stored, although there are no records".into()),
        (None, Err(error)) => ensure!(error.kind() == ErrorKind::Unsupported, "{error:?}"),
    }
    Ok(())
}

pub(super) fn name(text: &str) -> Name {
    Name::new(&Namespace::default(), text).expect("a good name")
}

pub(super) fn records(engine: &Arc<dyn Engine>) -> &dyn RecordStore {
    engine.records().expect("records")
}

pub(super) fn put(text: &str, value: &str) -> Store {
    Store::put(name(text), value.into())
}

pub(super) fn bound(text: &str, ticket: &Ticket) -> Store {
    let mut store = put(text, "bound");
    store.bound_to = Some(ticket.clone());
    store
}

/// Stores what cannot fail to be stored.
pub(super) async fn store(engine: &Arc<dyn Engine>, store: Store) -> Result<u64, Error> {
    Ok(records(engine).store(store).await?.expect("no conflict"))
}

async fn load(engine: &Arc<dyn Engine>, text: &str) -> Result<Option<String>, Error> {
    let found = records(engine).load(name(text)).await?;
    Ok(found.map(|record| String::from_utf8(record.value).expect("text")))
}

pub(super) async fn hold(
    engine: &Arc<dyn Engine>,
    lock: &str,
    ttl: Duration,
) -> Result<Ticket, Error> {
    hold_as(engine, lock, ttl, Mode::Exclusive).await
}

async fn hold_as(
    engine: &Arc<dyn Engine>,
    lock: &str,
    ttl: Duration,
    mode: Mode,
) -> Result<Ticket, Error> {
    let ticket = Ticket::new(name(lock), mode);
    let mut claim = Claim::new(ticket.clone(), Owner::new("test"), ttl);
    claim.renewed = false;
    match engine.acquire(claim).await? {
        Verdict::Granted(_) => Ok(ticket),
        Verdict::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

/// Looks until it is gone.
pub(super) async fn gone(engine: &Arc<dyn Engine>, text: &str) -> Outcome {
    let look = async {
        while load(engine, text).await?.is_some() {
            tokio::task::yield_now().await;
        }
        Ok(())
    };
    tokio::time::timeout(PATIENCE, look).await.expect("gone in time")
}

pub(super) async fn next(events: &mut Box<dyn RecordEvents>) -> RecordEvent {
    let event = tokio::time::timeout(PATIENCE, events.next()).await;
    event.expect("news in time").expect("an open engine")
}

/// The next change is the end of this record: its version.
pub(super) async fn end(events: &mut Box<dyn RecordEvents>, text: &str) -> u64 {
    match next(events).await {
        RecordEvent::Deleted(gone, version) if gone == name(text) => version,
        other => panic!("{other:?} is not the end of {text}"),
    }
}

pub(super) fn children(path: &str) -> Scope {
    Scope::below(&Namespace::default(), path, 1)
}

/// Adds one by reading and writing back, until nobody was faster.
async fn increment(engine: &Arc<dyn Engine>, text: &str) -> Outcome {
    let mut found = records(engine).load(name(text)).await?;
    loop {
        let expect = found.as_ref().map_or(Expect::Absent, |it| Expect::Version(it.version));
        let value = found.map_or(0, |it| number(&it)) + 1;
        let write = put(text, &value.to_string()).expecting(expect);
        match records(engine).store(write).await? {
            Ok(_) => return Ok(()),
            Err(instead) => found = instead,
        }
        tokio::task::yield_now().await;
    }
}

fn number(record: &RawRecord) -> u64 {
    std::str::from_utf8(&record.value).expect("text").parse().expect("a number")
}

async fn racing_writers_lose_no_update(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut tasks = JoinSet::new();
    for task in 0..16 {
        let engine = Arc::clone(if task % 2 == 0 { &pair.a } else { &pair.b });
        tasks.spawn(async move {
            for _ in 0..25 {
                increment(&engine, "n").await.expect("an increment");
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(load(&pair.a, "n").await?.as_deref(), Some("400"));
    Ok(())
}

async fn a_write_that_expects_something_else_is_told_what_is_there(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let first = store(&pair.a, put("n", "1")).await?;
    let found = Err(Some(RawRecord::new("1".into(), first)));
    let write = |expect| records(&pair.b).store(put("n", "2").expecting(expect));
    assert_eq!(write(Expect::Absent).await?, found);
    assert_eq!(write(Expect::Version(first + 1)).await?, found);
    let second = write(Expect::Version(first)).await?.expect("the right version");
    assert!(second > first);
    let delete = |version| {
        records(&pair.a).store(Store::delete(name("n")).expecting(Expect::Version(version)))
    };
    assert!(delete(first).await?.is_err());
    assert!(delete(second).await?.is_ok());
    assert_eq!(write(Expect::Version(second)).await?, Err(None));
    Ok(())
}

async fn a_version_is_never_used_twice(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut versions = vec![store(&pair.a, put("n", "1")).await?];
    versions.push(store(&pair.b, Store::delete(name("n"))).await?);
    versions.push(store(&pair.a, put("n", "2")).await?);
    let mut brief = put("n", "3");
    brief.ttl = Some(pair.short());
    versions.push(store(&pair.b, brief).await?);
    gone(&pair.a, "n").await?;
    versions.push(store(&pair.a, put("n", "4")).await?);
    versions.push(store(&pair.a, put("other", "5")).await?);
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    Ok(())
}

async fn a_value_goes_when_its_time_is_up_and_watchers_hear_of_it(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut events = records(&pair.b).watch(Scope::name(&name("n"))).await?;
    let mut brief = put("n", "1");
    brief.ttl = Some(pair.short());
    store(&pair.a, brief).await?;
    assert_eq!(load(&pair.b, "n").await?.as_deref(), Some("1"));
    assert!(matches!(next(&mut events).await, RecordEvent::Stored(..)));
    gone(&pair.b, "n").await?;
    end(&mut events, "n").await;
    Ok(())
}

async fn a_new_value_has_a_time_of_its_own(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut brief = put("n", "1");
    brief.ttl = Some(pair.short());
    store(&pair.a, brief.clone()).await?;
    store(&pair.a, put("n", "2")).await?;
    brief.name = name("m");
    store(&pair.a, brief).await?;
    gone(&pair.a, "m").await?;
    assert_eq!(load(&pair.a, "n").await?.as_deref(), Some("2"));
    Ok(())
}

async fn a_bound_record_goes_with_the_release(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let ticket = hold(&pair.a, "lock", HOUR).await?;
    let mut events = records(&pair.b).watch(children("member")).await?;
    store(&pair.a, bound("member/a", &ticket)).await?;
    store(&pair.a, put("member/b", "free")).await?;
    assert!(matches!(next(&mut events).await, RecordEvent::Stored(..)));
    assert!(matches!(next(&mut events).await, RecordEvent::Stored(..)));
    pair.a.release(ticket, Ending::new()).await?;
    assert_eq!(load(&pair.b, "member/a").await?, None, "gone as the release is answered");
    end(&mut events, "member/a").await;
    assert_eq!(load(&pair.b, "member/b").await?.as_deref(), Some("free"));
    Ok(())
}

async fn a_bound_record_goes_when_the_lease_expires(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut events = records(&pair.b).watch(children("member")).await?;
    let (ticket, _) = bind_briefly([&pair.a; 2], "lock", "member/a", pair.short()).await?;
    assert!(matches!(next(&mut events).await, RecordEvent::Stored(..)));
    gone(&pair.b, "member/a").await?;
    end(&mut events, "member/a").await;
    let stored = records(&pair.a).store(bound("member/a", &ticket)).await;
    assert_eq!(stored.expect_err("the lease is over").kind(), ErrorKind::NotHeld);
    Ok(())
}

/// A record bound to a lease that ends soon: as soon as the machine allows.
pub(super) async fn bind_briefly(
    [holder, by]: [&Arc<dyn Engine>; 2],
    lock: &str,
    text: &str,
    mut ttl: Duration,
) -> Result<(Ticket, Duration), Error> {
    loop {
        let ticket = hold(holder, lock, ttl).await?;
        match store(by, bound(text, &ticket)).await {
            Ok(_) => return Ok((ticket, ttl)),
            // A busy machine took longer than the lease lasts.
            Err(error) if error.kind() == ErrorKind::NotHeld && ttl < PATIENCE => ttl *= 2,
            Err(error) => return Err(error),
        }
    }
}

async fn a_bound_record_stays_for_as_long_as_its_lease_is_renewed(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut ttl = pair.short();
    loop {
        let ticket;
        (ticket, ttl) = bind_briefly([&pair.a; 2], "lock", "member/a", ttl).await?;
        let renewed = pair.a.renew(vec![Refresh::new(ticket, HOUR)]).await;
        if let [Renewal::Held { .. }] = renewed[..] {
            break;
        }
        // It was over before it was renewed.
        ensure!(ttl < PATIENCE, "{renewed:?}");
        ttl *= 2;
    }
    // Outlasts what the lease would have lasted for.
    let mut brief = put("n", "1");
    brief.ttl = Some(2 * ttl);
    store(&pair.a, brief).await?;
    gone(&pair.b, "n").await?;
    assert!(load(&pair.b, "member/a").await?.is_some());
    Ok(())
}

async fn a_bound_record_goes_with_an_eviction(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let ticket = hold(&pair.a, "lock", HOUR).await?;
    store(&pair.a, bound("member/a", &ticket)).await?;
    pair.b.evict(Eviction::new(name("lock"), Target::All, "ops", "stuck")?).await?;
    assert_eq!(load(&pair.a, "member/a").await?, None);
    let stored = records(&pair.a).store(bound("member/a", &ticket)).await;
    assert_eq!(stored.expect_err("the lease is gone").kind(), ErrorKind::NotHeld);
    assert_eq!(load(&pair.a, "member/a").await?, None);
    Ok(())
}

async fn a_raw_record_that_is_bound_goes_once_its_holder_hears_of_an_eviction(
    shared: Shared,
) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let ticket = hold(&pair.a, "lock", HOUR).await?;
    store(&pair.a, bound("member/a", &ticket)).await?;
    pair.b.evict(Eviction::new(name("lock"), Target::All, "ops", "stuck")?).await?;
    gone(&pair.b, "member/a").await?;
    let stored = records(&pair.a).store(bound("member/a", &ticket)).await;
    assert_eq!(stored.expect_err("the lease is gone").kind(), ErrorKind::NotHeld);
    Ok(())
}

async fn what_a_raw_record_cannot_keep_is_refused(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let unsupported = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("records=raw"), "{error}");
    };
    let ticket = hold(&pair.a, "lock", HOUR).await?;
    let elsewhere = records(&pair.b).store(bound("n", &ticket)).await;
    unsupported(elsewhere.expect_err("nobody would see to it"));
    let mut brief = put("n", "1");
    brief.ttl = Some(HOUR);
    if !times_records(pair.a.profile()) {
        let stored = records(&pair.a).store(brief.clone()).await;
        unsupported(stored.expect_err("it has no time"));
        let released = pair.a.release(ticket.clone(), Ending::storing(brief)).await;
        unsupported(released.expect_err("it has no time"));
    }
    let mut both = bound("n", &ticket);
    both.ttl = Some(HOUR);
    unsupported(records(&pair.a).store(both).await.expect_err("it would outlive its holder"));
    assert_eq!(load(&pair.b, "n").await?, None);
    assert_eq!(pair.a.release(ticket, Ending::new()).await?, Released::Released);
    let space = Namespace::new("elsewhere")?;
    let elsewhere = records(&pair.a).load(Name::new(&space, "n")?).await;
    assert_eq!(elsewhere.expect_err("there is one only").kind(), ErrorKind::Invalid);
    let all = Scope::below(&space, "", usize::MAX);
    let listed = records(&pair.a).list(all.clone(), Page::default()).await;
    assert_eq!(listed.expect_err("there is one only").kind(), ErrorKind::Invalid);
    let watched = records(&pair.a).watch(all).await;
    assert_eq!(watched.expect_err("there is one only").kind(), ErrorKind::Invalid);
    Ok(())
}

/// What is above a node is a node, so all of these are there.
async fn a_list_is_in_order_whatever_lies_below_what(shared: Shared) -> Outcome {
    const TREE: [&str; 9] = ["a", "a!b", "a!b/c", "a/b", "a/b/c", "a/b0", "a/b0/d/e", "a0", "b"];
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    for text in TREE {
        store(&pair.a, put(text, text)).await?;
    }
    store(&pair.a, put("a/b0/d", "")).await?;
    let mut tree = TREE.to_vec();
    tree.insert(6, "a/b0/d");
    assert_eq!(listed(&pair.b, "", usize::MAX).await, tree);
    assert_eq!(listed(&pair.b, "", 1).await, ["a", "a!b", "a0", "b"]);
    assert_eq!(listed(&pair.b, "a", 1).await, ["a/b", "a/b0"]);
    assert_eq!(listed(&pair.b, "a", 2).await, ["a/b", "a/b/c", "a/b0", "a/b0/d"]);
    assert_eq!(listed(&pair.b, "a", 0).await, ["a"]);
    assert_eq!(listed(&pair.b, "none", 9).await, [""; 0]);
    for size in 1..5 {
        let (mut seen, mut page) = (Vec::new(), Page::default());
        page.size = size;
        loop {
            let all = Scope::below(&Namespace::default(), "", usize::MAX);
            let found = records(&pair.b).list(all, page.clone()).await?;
            seen.extend(found.records.iter().map(|(name, _)| name.as_str().to_owned()));
            if !found.more {
                break;
            }
            page.after = found.records.last().map(|(name, _)| name.clone());
        }
        assert_eq!(seen, tree, "in pages of {size}");
    }
    Ok(())
}

async fn a_bound_record_stays_when_its_lease_is_converted(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut ticket = hold_as(&pair.a, "lock", HOUR, Mode::Write).await?;
    store(&pair.a, bound("member/a", &ticket)).await?;
    store(&pair.b, bound("member/b", &ticket)).await?;
    pair.a.convert(ticket.clone(), Mode::Read).await?;
    ticket.mode = Mode::Read;
    for text in ["member/a", "member/b"] {
        assert!(load(&pair.b, text).await?.is_some(), "{text} went, and its lease is held");
    }
    store(&pair.a, bound("member/c", &ticket)).await?;
    pair.a.release(ticket, Ending::new()).await?;
    for text in ["member/a", "member/b", "member/c"] {
        gone(&pair.b, text).await?;
    }
    Ok(())
}

async fn a_record_that_was_written_anew_outlives_the_old_lease(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let ticket = hold(&pair.a, "lock", HOUR).await?;
    store(&pair.a, bound("n", &ticket)).await?;
    store(&pair.b, put("n", "free")).await?;
    pair.a.release(ticket, Ending::new()).await?;
    assert_eq!(load(&pair.a, "n").await?.as_deref(), Some("free"));
    Ok(())
}

async fn adding_is_atomic_over_all_clients(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let engine = Arc::clone(if task % 2 == 0 { &pair.a } else { &pair.b });
        tasks.spawn(async move {
            let mut sums = Vec::new();
            for _ in 0..50 {
                sums.push(records(&engine).add(name("n"), 3).await.expect("a sum"));
            }
            sums
        });
    }
    let mut sums = tasks.join_all().await.concat();
    sums.sort_unstable();
    let expected: Vec<i64> = (1..=400).map(|n| 3 * n).collect();
    assert_eq!(sums, expected);
    Ok(())
}

async fn a_sum_that_does_not_fit_changes_nothing(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    for (text, most, more) in [("top", i64::MAX - 1, 2), ("bottom", i64::MIN + 1, -2)] {
        records(&pair.a).add(name(text), most).await?;
        for more in [more, most] {
            let error = records(&pair.b).add(name(text), more).await.expect_err("too large");
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("64 bits"), "{error}");
        }
        assert_eq!(records(&pair.a).add(name(text), 0).await?, most);
        assert_eq!(records(&pair.b).add(name(text), more.signum()).await?, most + more.signum());
    }
    for odd in ["x", "-", "+1", "--1", "1-1", "1.5", "9223372036854775808"] {
        store(&pair.a, put("word", odd)).await?;
        let error = records(&pair.a).add(name("word"), 1).await.expect_err("no number");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("no number"), "{odd}: {error}");
        assert_eq!(load(&pair.b, "word").await?.as_deref(), Some(odd));
    }
    Ok(())
}

async fn a_sum_may_go_below_zero_and_back(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    // Around zero, around what a number with a fraction holds exactly, and beyond.
    const AMOUNTS: [i64; 9] =
        [-1, -9, 10, 0, 1 << 53, -(1 << 54), i64::MIN >> 1, i64::MAX >> 1, i64::MAX >> 1];
    let mut sum = 0;
    for (at, amount) in AMOUNTS.into_iter().enumerate() {
        sum += amount;
        let engine = if at % 2 == 0 { &pair.a } else { &pair.b };
        assert_eq!(records(engine).add(name("n"), amount).await?, sum, "after {amount}");
        assert_eq!(load(&pair.b, "n").await?, Some(sum.to_string()));
    }
    assert_eq!(records(&pair.a).add(name("fresh"), i64::MIN).await?, i64::MIN);
    assert_eq!(records(&pair.b).add(name("fresh"), i64::MAX).await?, -1);
    Ok(())
}

const TRICKY: [&str; 10] = ["%", "_", "a", "a/", "a/b", "a/b/c", "a/b/c/d", "a0", "ab", "b/c"];

async fn listed(engine: &Arc<dyn Engine>, path: &str, depth: usize) -> Vec<String> {
    let scope = Scope::below(&Namespace::default(), path, depth);
    let found = records(engine).list(scope, Page::default()).await.expect("a list");
    assert!(!found.more);
    found.records.iter().map(|(name, _)| name.as_str().to_owned()).collect()
}

async fn a_list_has_what_is_below_the_path_and_not_too_deep(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    for text in TRICKY.into_iter().rev() {
        store(&pair.a, put(text, text)).await?;
    }
    let elsewhere = Namespace::new("elsewhere")?;
    store(&pair.a, Store::put(Name::new(&elsewhere, "a/x")?, Vec::new())).await?;
    assert_eq!(listed(&pair.b, "", usize::MAX).await, TRICKY);
    assert_eq!(listed(&pair.b, "", 1).await, ["%", "_", "a", "a0", "ab"]);
    assert_eq!(listed(&pair.b, "a", 1).await, ["a/", "a/b"]);
    assert_eq!(listed(&pair.b, "a/", 1).await, ["a/", "a/b"]);
    assert_eq!(listed(&pair.b, "a", 2).await, ["a/", "a/b", "a/b/c"]);
    assert_eq!(listed(&pair.b, "a", usize::MAX).await, ["a/", "a/b", "a/b/c", "a/b/c/d"]);
    assert_eq!(listed(&pair.b, "a", 0).await, ["a"]);
    assert_eq!(listed(&pair.b, "%", 9).await, [""; 0]);
    assert_eq!(listed(&pair.b, "_", 9).await, [""; 0]);
    Ok(())
}

async fn a_long_list_comes_in_pages(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    for at in 0..25 {
        store(&pair.a, put(&format!("p/{at:02}"), "x")).await?;
        store(&pair.a, put(&format!("p/{at:02}/deep"), "x")).await?;
    }
    let (mut seen, mut page) = (Vec::new(), Page::default());
    page.size = 10;
    loop {
        let found = records(&pair.b).list(children("p"), page.clone()).await?;
        assert!(found.records.len() <= 10);
        seen.extend(found.records.iter().map(|(name, _)| name.clone()));
        if !found.more {
            break;
        }
        page.after = seen.last().cloned();
    }
    let expected: Vec<Name> = (0..25).map(|at| name(&format!("p/{at:02}"))).collect();
    assert_eq!(seen, expected);
    Ok(())
}

async fn a_heavy_page_ends_early(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    for at in 0..6 {
        store(&pair.a, Store::put(name(&format!("p/{at}")), vec![0; 1024 * 1024])).await?;
    }
    let found = records(&pair.b).list(children("p"), Page::default()).await?;
    assert!(found.more && found.records.len() == 4, "{} records", found.records.len());
    let last = found.records.last().expect("some").0.clone();
    let rest = records(&pair.b).list(children("p"), Page::after(last)).await?;
    assert!(!rest.more && rest.records.len() == 2);
    Ok(())
}

async fn a_record_is_stored_with_a_release_only_if_the_lease_was_still_ours(
    shared: Shared,
) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let ticket = hold(&pair.a, "job", HOUR).await?;
    let ending = |value: &str| Ending::storing(put("job", value));
    assert_eq!(pair.a.release(ticket.clone(), ending("done")).await?, Released::Released);
    assert_eq!(load(&pair.b, "job").await?.as_deref(), Some("done"));
    assert_eq!(pair.a.release(ticket, ending("again")).await?, Released::AlreadyLost);
    let (late, _) = bind_briefly([&pair.a, &pair.b], "job", "alive", pair.short()).await?;
    gone(&pair.b, "alive").await?;
    assert_eq!(pair.a.release(late, ending("late")).await?, Released::AlreadyLost);
    assert_eq!(load(&pair.b, "job").await?.as_deref(), Some("done"));
    Ok(())
}

fn unlisted(value: &str, ttl: Duration) -> Store {
    let mut store = put("job", value);
    (store.ttl, store.unlisted) = (Some(ttl), true);
    store
}

async fn an_unlisted_record_is_like_any_other_to_who_knows_its_name(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let first = store(&pair.a, unlisted("1", HOUR).expecting(Expect::Absent)).await?;
    let ticket = hold(&pair.b, "job", HOUR).await?;
    let ending = || Ending::storing(unlisted("2", HOUR));
    assert_eq!(pair.b.release(ticket.clone(), ending()).await?, Released::Released);
    assert_eq!(pair.b.release(ticket, ending()).await?, Released::AlreadyLost);
    let late = unlisted("late", HOUR).expecting(Expect::Version(first));
    let found = records(&pair.a).store(late).await?.expect_err("another version");
    let found = found.expect("a record");
    assert_eq!((&found.value[..], found.version > first), (&b"2"[..], true));
    let brief = unlisted("3", pair.short()).expecting(Expect::Version(found.version));
    store(&pair.a, brief).await?;
    gone(&pair.b, "job").await
}

fn deleting(text: &str) -> Ending {
    Ending::storing(Store::delete(name(text)))
}

/// A claim that waits in line, and whose grant brings the record.
fn in_line(ticket: &Ticket) -> Claim {
    let mut claim = Claim::new(ticket.clone(), Owner::new("next"), HOUR);
    claim.stance = Stance::Wait { until: Moment::NEVER };
    claim.wants = Wants::LeaseAndRecord;
    claim
}

/// Waits in line until the name is granted: the record that the grant brings.
async fn served(engine: &Arc<dyn Engine>, ticket: &Ticket) -> Outcome<Option<RawRecord>> {
    loop {
        match engine.acquire(in_line(ticket)).await? {
            Verdict::Granted(grant) => return Ok(grant.record),
            Verdict::Busy(busy) => {
                let until = busy.recheck_in.map(|pause| Clock::System.now().after(pause));
                engine.wait(ticket.clone(), until.unwrap_or(Moment::NEVER)).await?;
            }
        }
    }
}

async fn whoever_is_served_next_does_not_see_what_the_release_deletes(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    for _ in 0..5 {
        let ticket = hold(&pair.a, "job", HOUR).await?;
        store(&pair.a, put("job", "old")).await?;
        let next = Ticket::new(name("job"), Mode::Exclusive);
        assert!(matches!(pair.b.acquire(in_line(&next)).await?, Verdict::Busy(_)));
        let released = tokio::spawn(pair.a.release(ticket, deleting("job")));
        assert_eq!(served(&pair.b, &next).await?, None, "the grant brings what was deleted");
        assert_eq!(load(&pair.b, "job").await?, None, "it is there, and was deleted");
        assert_eq!(released.await??, Released::Released);
        pair.b.release(next, Ending::new()).await?;
    }
    Ok(())
}

async fn a_release_that_is_repeated_deletes_nothing_of_the_next_holder(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let ticket = hold(&pair.a, "job", HOUR).await?;
    store(&pair.a, put("job", "old")).await?;
    assert_eq!(pair.a.release(ticket.clone(), deleting("job")).await?, Released::Released);
    let next = hold(&pair.b, "job", HOUR).await?;
    store(&pair.b, put("job", "new")).await?;
    assert_eq!(pair.a.release(ticket, deleting("job")).await?, Released::AlreadyLost);
    assert_eq!(load(&pair.a, "job").await?.as_deref(), Some("new"));
    assert_eq!(pair.b.release(next, deleting("job")).await?, Released::Released);
    assert_eq!(load(&pair.a, "job").await?, None);
    Ok(())
}

async fn a_release_of_a_lost_lease_deletes_nothing(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let ticket = hold(&pair.a, "job", HOUR).await?;
    store(&pair.a, put("job", "old")).await?;
    pair.b.evict(Eviction::new(name("job"), Target::All, "ops", "stuck")?).await?;
    assert_eq!(load(&pair.b, "job").await?.as_deref(), Some("old"));
    let next = Ticket::new(name("job"), Mode::Exclusive);
    assert_eq!(served(&pair.b, &next).await?.map(|it| it.value), Some("old".into()));
    store(&pair.b, put("job", "new")).await?;
    assert_eq!(pair.a.release(ticket, deleting("job")).await?, Released::AlreadyLost);
    assert_eq!(load(&pair.b, "job").await?.as_deref(), Some("new"));
    Ok(())
}

/// Deletion and release are one change: nobody sees the one without the other.
async fn whoever_hears_of_a_deletion_by_a_release_finds_the_name_free(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut events = records(&pair.b).watch(Scope::name(&name("job"))).await?;
    for _ in 0..10 {
        let ticket = hold(&pair.a, "job", HOUR).await?;
        store(&pair.a, put("job", "old")).await?;
        let released = tokio::spawn(pair.a.release(ticket, deleting("job")));
        while !matches!(next(&mut events).await, RecordEvent::Deleted(..)) {}
        let ticket = hold(&pair.b, "job", HOUR).await?;
        pair.b.release(ticket, Ending::new()).await?;
        assert_eq!(released.await??, Released::Released);
    }
    Ok(())
}

async fn a_release_may_delete_what_is_not_there(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut events = records(&pair.b).watch(Scope::name(&name("job"))).await?;
    for _ in 0..2 {
        let ticket = hold(&pair.a, "job", HOUR).await?;
        assert_eq!(pair.a.release(ticket, deleting("job")).await?, Released::Released);
        assert_eq!(load(&pair.b, "job").await?, None);
    }
    let first = store(&pair.b, put("job", "1").expecting(Expect::Absent)).await?;
    let event = next(&mut events).await;
    assert!(matches!(event, RecordEvent::Stored(..)), "nothing was deleted: {event:?}");
    let ticket = hold(&pair.a, "job", HOUR).await?;
    assert_eq!(pair.a.release(ticket, deleting("job")).await?, Released::Released);
    let write = put("job", "2").expecting(Expect::Version(first));
    assert_eq!(records(&pair.b).store(write).await?, Err(None));
    Ok(())
}

async fn permits_that_are_given_back_delete_a_record(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let ticket = hold_as(&pair.a, "job", HOUR, Mode::Permits { take: 3, of: 5 }).await?;
    store(&pair.b, put("job", "old")).await?;
    assert_eq!(pair.a.release(ticket.clone(), deleting("job")).await?, Released::Released);
    assert_eq!(load(&pair.b, "job").await?, None);
    store(&pair.b, put("job", "new")).await?;
    assert_eq!(pair.a.release(ticket, deleting("job")).await?, Released::AlreadyLost);
    assert_eq!(load(&pair.b, "job").await?.as_deref(), Some("new"));
    Ok(())
}

async fn a_reader_that_was_a_writer_deletes_a_record_as_it_leaves(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let ticket = hold_as(&pair.a, "job", HOUR, Mode::Write).await?;
    store(&pair.a, put("job", "old")).await?;
    pair.a.convert(ticket.clone(), Mode::Read).await?;
    let ticket = ticket.in_mode(Mode::Read);
    assert_eq!(pair.a.release(ticket, deleting("job")).await?, Released::Released);
    assert_eq!(load(&pair.b, "job").await?, None);
    Ok(())
}

async fn a_waiter_that_leaves_the_queue_stores_nothing(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let holder = hold(&pair.a, "job", HOUR).await?;
    let waiter = Ticket::new(name("job"), Mode::Exclusive);
    let mut claim = Claim::new(waiter.clone(), Owner::new("waiter"), HOUR);
    claim.stance = Stance::Wait { until: Moment::NEVER };
    assert!(matches!(pair.b.acquire(claim).await?, Verdict::Busy(_)));
    let ending = Ending::storing(put("job", "never"));
    assert_eq!(pair.b.release(waiter, ending).await?, Released::Released);
    assert_eq!(load(&pair.b, "job").await?, None);
    pair.a.release(holder, Ending::new()).await?;
    Ok(())
}

async fn an_ending_that_cannot_be_stored_releases_nothing(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let ticket = hold(&pair.a, "job", HOUR).await?;
    for bad in [
        put("job", "x").expecting(Expect::Absent),
        bound("job", &ticket),
        Store::put(name("job"), vec![0; 1024 * 1024 + 1]),
    ] {
        let error = pair.a.release(ticket.clone(), Ending::storing(bad)).await.expect_err("bad");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    assert_eq!(pair.a.release(ticket, Ending::new()).await?, Released::Released);
    Ok(())
}

async fn a_grant_brings_the_record_of_its_name(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let ask = |ticket: &Ticket, wait: bool| {
        let mut claim = Claim::new(ticket.clone(), Owner::new("test"), HOUR);
        claim.wants = Wants::LeaseAndRecord;
        if wait {
            claim.stance = Stance::Wait { until: Moment::NEVER };
        }
        claim
    };
    let (first, second) =
        (hold(&pair.a, "job", HOUR).await?, Ticket::new(name("job"), Mode::Exclusive));
    pair.a.release(first, Ending::storing(put("job", "1"))).await?;
    let third = Ticket::new(name("job"), Mode::Exclusive);
    let Verdict::Granted(grant) = pair.b.acquire(ask(&second, false)).await? else {
        panic!("it is free")
    };
    assert_eq!(grant.record.map(|record| record.value), Some("1".into()));
    assert!(matches!(pair.a.acquire(ask(&third, true)).await?, Verdict::Busy(_)));
    pair.b.release(second, Ending::storing(put("job", "2"))).await?;
    let wake = pair.a.wait(third.clone(), Moment::NEVER).await?;
    assert!(matches!(wake, Wake::Granted { .. }));
    assert_eq!(load(&pair.a, "job").await?.as_deref(), Some("2"), "as the last holder left it");
    let Verdict::Granted(grant) = pair.a.acquire(ask(&third, true)).await? else {
        panic!("it is ours")
    };
    assert_eq!(grant.record.map(|record| record.value), Some("2".into()));
    Ok(())
}

async fn a_value_that_is_too_large_is_refused_with_the_limit(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    store(&pair.a, Store::put(name("n"), vec![1; 1024 * 1024])).await?;
    let error = records(&pair.a).store(Store::put(name("n"), vec![1; 1024 * 1024 + 1])).await;
    let error = error.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("at most 1048576 (1 MiB)"), "{error}");
    Ok(())
}
