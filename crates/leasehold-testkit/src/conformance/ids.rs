//! Ids: unique over all clients, whatever engine, clocks and leases do.

use std::collections::HashSet;
use std::time::Duration;

use leasehold::engine::{Eviction, RawRecord, Store as Write, Target};
use leasehold::ids::{Layout, SegmentIds, Snowflake, SnowflakeIds, TestWall};
use leasehold::{Error, ErrorKind, Locks};
use tokio::task::JoinSet;

use super::check::{Check, Outcome, check, ensure};
use super::patience::eventually;
use super::recipe::Client;
use super::store::Store;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(an_engine_has_ids_or_says_that_it_has_not),
        check!(segments_of_all_clients_are_unique_and_rise),
        check!(a_crowd_on_an_empty_stock_waits_and_nobody_fails),
        check!(what_was_not_used_is_given_back),
        check!(nothing_is_given_back_below_what_another_has),
        check!(start_maximum_and_stride_are_kept),
        check!(an_engine_that_went_back_is_jumped_over),
        check!(workers_of_all_clients_differ_and_so_do_their_ids),
        check!(a_worker_number_is_kept_over_a_restart_if_it_is_free),
        check!(a_number_that_is_held_is_not_given_again),
        check!(numbers_come_and_go_without_overlap),
        check!(a_restart_with_the_clock_behind_repeats_nothing),
        check!(steps_of_the_clock_repeat_nothing),
        check!(a_lost_lease_stops_the_generator).of_known_leases(),
        check!(an_overtaken_holder_cannot_move_the_mark),
    ]
}

/// A layout with one worker number, so that everyone wants the same.
const ONE: Layout = Layout::new(41, 0, 12);
const TTL: Duration = Duration::from_secs(30);

/// A client of an engine with records, or there is nothing to check.
macro_rules! client {
    ($store:expr) => {{
        let client = $store.open().await?;
        if client.engine().records().is_none() {
            return Ok(());
        }
        client
    }};
}

async fn an_engine_has_ids_or_says_that_it_has_not(store: Store) -> Outcome {
    let locks = store.open().await?;
    let has = locks.engine().records().is_some();
    let segment = locks.ids("t").segment().open().await.err();
    let snowflake = locks.ids("t").snowflake().open().await.err();
    for error in [segment, snowflake] {
        match error {
            None => ensure!(has, "ids without records"),
            Some(error) if has => return Err(error.into()),
            Some(error) => ensure!(error.kind() == ErrorKind::Unsupported, "{error:?}"),
        }
    }
    Ok(())
}

/// All are different, and each list rises.
fn unique(lists: &[Vec<u64>]) -> Outcome {
    let mut seen = HashSet::new();
    for list in lists {
        ensure!(list.is_sorted(), "ids of one generator went back");
        let twice = list.iter().find(|id| !seen.insert(**id));
        ensure!(twice.is_none(), "{twice:?} was made twice");
    }
    Ok(())
}

async fn some(ids: &SegmentIds, count: usize) -> Result<Vec<u64>, Error> {
    let mut list = Vec::with_capacity(count);
    for _ in 0..count {
        list.push(ids.next().await?);
    }
    Ok(list)
}

async fn segments_of_all_clients_are_unique_and_rise(store: Store) -> Outcome {
    drop(client!(store));
    let mut tasks = JoinSet::new();
    for client in store.open_many(3).await? {
        let ids = client.ids("t").segment().step(7).step_max(50).open().await?;
        for _ in 0..2 {
            let (ids, client) = (ids.clone(), client.clone());
            tasks.spawn(async move {
                let list = some(&ids, 300).await;
                drop(client);
                list
            });
        }
    }
    let lists = tasks.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
    unique(&lists)
}

async fn a_crowd_on_an_empty_stock_waits_and_nobody_fails(store: Store) -> Outcome {
    let client = client!(store);
    let ids = client.ids("t").segment().step(100).open().await?;
    let mut tasks = JoinSet::new();
    for _ in 0..1_000 {
        let ids = ids.clone();
        tasks.spawn(async move { some(&ids, 3).await });
    }
    unique(&tasks.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?)
}

async fn what_was_not_used_is_given_back(store: Store) -> Outcome {
    let client = client!(store);
    let ids = client.ids("t").segment().open().await?;
    ensure!(some(&ids, 3).await? == [1, 2, 3], "they begin with 1");
    ids.close().await?;
    ensure!(ids.next().await.is_err(), "it is closed");
    let again = client.ids("t").segment().open().await?;
    let next = again.next().await?;
    ensure!(next == 4, "the rest was given back, but {next} comes after 3");
    // The last clone does the same without being asked.
    drop(again);
    let unused = async || -> Result<u64, Error> {
        let ids = client.ids("t").segment().open().await?;
        let next = ids.next().await?;
        ids.close().await.map(|()| next)
    };
    let before = unused().await?;
    ensure!(unused().await? == before + 1, "a close gives back");
    Ok(())
}

async fn nothing_is_given_back_below_what_another_has(store: Store) -> Outcome {
    let client = client!(store);
    let a = client.ids("t").segment().step(10).open().await?;
    let b = client.ids("t").segment().step(10).open().await?;
    let first = some(&a, 2).await?;
    let second = some(&b, 2).await?;
    a.close().await?;
    let c = client.ids("t").segment().step(10).open().await?;
    unique(&[first, second, some(&c, 30).await?, some(&b, 30).await?])
}

async fn start_maximum_and_stride_are_kept(store: Store) -> Outcome {
    let client = client!(store);
    let ids = client.ids("a").segment().step(2).start(1_000).max(1_003).open().await?;
    ensure!(some(&ids, 4).await? == [1_000, 1_001, 1_002, 1_003], "from start to max");
    let end = ids.next().await.expect_err("used up");
    ensure!(end.kind() == ErrorKind::Invalid && end.to_string().contains("1003"), "{end:?}");
    // A later start jumps, an earlier one changes nothing.
    let late = client.ids("a").segment().start(5_000).open().await?;
    ensure!(late.next().await? == 5_000, "a start may be raised");
    let early = client.ids("a").segment().start(1).open().await?;
    ensure!(early.next().await? > 5_000, "numbers never come again");
    let ids = client.ids("b").segment().among(2, 3).start(10).open().await?;
    ensure!(some(&ids, 3).await? == [11, 14, 17], "above multiples of the stride");
    ensure!(ids.batch(2).await? == [20, 23], "batches too");
    Ok(())
}

async fn an_engine_that_went_back_is_jumped_over(store: Store) -> Outcome {
    let client = client!(store);
    let ids = client.ids("t").segment().step(10).step_max(10).open().await?;
    let mut list = some(&ids, 35).await?;
    // As after a backup was restored.
    write(&client, "ids/t", "3").await?;
    list.extend(some(&ids, 35).await?);
    unique(&[list])
}

async fn write(client: &Client, name: &str, value: &str) -> Outcome {
    let engine = client.engine();
    let records = engine.records().ok_or("no records")?;
    let stored = records.store(Write::put(client.name(name)?, value.into())).await?;
    ensure!(stored.is_ok(), "{stored:?}");
    Ok(())
}

async fn load(client: &Client, name: &str) -> Outcome<Option<RawRecord>> {
    let engine = client.engine();
    Ok(engine.records().ok_or("no records")?.load(client.name(name)?).await?)
}

async fn many(ids: &SnowflakeIds, count: usize) -> Result<Vec<u64>, Error> {
    let mut list = ids.batch(count / 2).await?;
    while list.len() < count {
        list.push(ids.next().await?);
    }
    Ok(list)
}

async fn workers_of_all_clients_differ_and_so_do_their_ids(store: Store) -> Outcome {
    drop(client!(store));
    let mut tasks = JoinSet::new();
    for client in store.open_many(3).await? {
        for count in [1, 2] {
            let open = client.ids("t").snowflake().workers(count);
            let client = client.clone();
            tasks.spawn(async move {
                let ids = open.open().await?;
                let list = many(&ids, 20_000).await?;
                drop(client);
                Ok::<_, Error>((ids, list))
            });
        }
    }
    let all = tasks.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
    let workers: Vec<u32> = all.iter().flat_map(|(ids, _)| ids.workers()).collect();
    let different: HashSet<_> = workers.iter().collect();
    ensure!(workers.len() == 9 && different.len() == 9, "{workers:?}");
    unique(&all.into_iter().map(|(_, list)| list).collect::<Vec<_>>())
}

async fn a_worker_number_is_kept_over_a_restart_if_it_is_free(store: Store) -> Outcome {
    let client = client!(store);
    let open = || client.ids("t").snowflake().sticky("pod-3");
    let first = open().open().await?;
    let (number, made) = (first.workers(), many(&first, 100).await?);
    let beside = open().open().await?;
    ensure!(beside.workers() != number, "it was not free");
    first.close().await?;
    let again = open().open().await?;
    ensure!(again.workers() == number, "{:?}, not {number:?}", again.workers());
    unique(&[made.clone(), many(&beside, 100).await?])?;
    unique(&[[made, many(&again, 100).await?].concat()])
}

fn one(locks: &Locks, clock: &TestWall) -> Snowflake {
    locks.ids("t").snowflake().layout(ONE).ttl(TTL).clock(clock.clone())
}

async fn a_number_that_is_held_is_not_given_again(store: Store) -> Outcome {
    let client = client!(store);
    let clock = TestWall::running();
    let held = one(&client, &clock).open().await?;
    let refused = one(&client, &clock).open().await.expect_err("there is one number");
    ensure!(refused.kind() == ErrorKind::Unavailable, "{refused:?}");
    held.next().await?;
    Ok(())
}

async fn numbers_come_and_go_without_overlap(store: Store) -> Outcome {
    drop(client!(store));
    let mut tasks = JoinSet::new();
    for client in store.open_many(3).await? {
        tasks.spawn(async move {
            let mut made = Vec::new();
            for _ in 0..15 {
                // Four numbers for three: one is always free.
                let ids = client.ids("t").snowflake().layout(Layout::new(41, 2, 12));
                let ids = ids.open().await?;
                made.push(many(&ids, 50).await?);
                ids.close().await?;
            }
            Ok::<_, Error>(made)
        });
    }
    let lists = tasks.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
    unique(&lists.concat())
}

async fn a_restart_with_the_clock_behind_repeats_nothing(store: Store) -> Outcome {
    let client = client!(store);
    let clock = TestWall::running();
    let first = one(&client, &clock).open().await?;
    let mut made = many(&first, 5_000).await?;
    first.close().await?;
    clock.step(-400);
    let second = one(&client, &clock).open().await?;
    made.extend(many(&second, 5_000).await?);
    second.close().await?;
    clock.step(-3_600_000);
    let refused = one(&client, &clock).open().await.expect_err("an hour behind");
    ensure!(refused.to_string().contains("behind"), "{refused:?}");
    clock.step(2 * 3_600_000);
    let third = one(&client, &clock).open().await?;
    made.extend(many(&third, 100).await?);
    unique(&[made])
}

async fn steps_of_the_clock_repeat_nothing(store: Store) -> Outcome {
    let client = client!(store);
    let clock = TestWall::running();
    let ids = one(&client, &clock).open().await?;
    let mut made = many(&ids, 100).await?;
    clock.step(-400);
    made.extend(many(&ids, 9_000).await?);
    clock.step(3_600_000);
    made.extend(many(&ids, 100).await?);
    clock.step(-3_600_000);
    let refused = ids.next().await.expect_err("an hour behind");
    ensure!(refused.kind() == ErrorKind::Unavailable, "{refused:?}");
    clock.step(3_600_000);
    made.extend(many(&ids, 100).await?);
    unique(&[made])
}

async fn a_lost_lease_stops_the_generator(store: Store) -> Outcome {
    let client = client!(store);
    let clock = TestWall::running();
    let ids = one(&client, &clock).open().await?;
    let mut made = many(&ids, 100).await?;
    let name = client.name("ids/t/worker/0")?;
    client.evict(Eviction::new(name, Target::All, "test", "to see it stop")?).await?;
    let lost = || async { Ok(ids.next().await.is_err_and(|error| error.is_lost())) };
    eventually("the generator stops", lost).await?;
    ensure!(ids.try_next().is_err() && ids.batch(1).await.is_err(), "for good");
    // Its mark may be ahead of the clock, by as much as the lease had left.
    clock.step(31_000);
    let next = one(&client, &clock).open().await?;
    made.extend(many(&next, 100).await?);
    unique(&[made])
}

async fn an_overtaken_holder_cannot_move_the_mark(store: Store) -> Outcome {
    let client = client!(store);
    let clock = TestWall::running();
    let ids = one(&client, &clock).open().await?;
    ids.next().await?;
    // As a later holder does, of whom this one has not heard.
    let mark = (clock.millis() + 7_200_000).to_string() + " 18446744073709551615";
    write(&client, "ids/t/worker/0", &mark).await?;
    // It must ask for more before it can go on.
    clock.step(3_600_000);
    let lost = ids.next().await.expect_err("overtaken");
    ensure!(lost.is_lost(), "{lost:?}");
    drop(ids);
    let found = load(&client, "ids/t/worker/0").await?.ok_or("the mark is gone")?;
    ensure!(found.value == mark.as_bytes(), "the mark was changed");
    Ok(())
}
