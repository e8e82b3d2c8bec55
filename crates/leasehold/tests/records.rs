//! The typed handle on records.
//!
//! What every engine that keeps records must do is checked by the conformance
//! suite of the testkit.
#![cfg(all(feature = "sqlite", feature = "records"))]

mod util;

use std::time::Duration;

use leasehold::{Change, Error, ErrorKind, Locks, TestClock, Watch};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use util::block_on;

type Outcome = Result<(), Error>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Stock {
    left: u32,
}

async fn next<T: serde::de::DeserializeOwned>(watch: &mut Watch<T>) -> Change<T> {
    let change = tokio::time::timeout(Duration::from_secs(10), watch.next()).await;
    change.expect("in time").expect("good values").expect("open locks")
}

#[tokio::test]
async fn a_record_is_created_read_changed_and_deleted() -> Outcome {
    let locks = Locks::memory();
    let stock = locks.record::<Stock>("stock/42");
    assert_eq!(stock.get().await?, None);
    let first = stock.create(&Stock { left: 3 }).await?.expect("nothing there");
    let found = stock.create(&Stock { left: 9 }).await?.expect_err("there already");
    assert_eq!(found.map(|it| (it.value.left, it.version)), Some((3, first)));
    let second = stock.set_if(first, &Stock { left: 2 }).await?.expect("the right version");
    assert!(stock.set_if(first, &Stock { left: 1 }).await?.is_err());
    assert!(stock.delete_if(first).await?.is_err());
    assert!(stock.delete_if(second).await?.is_ok());
    assert_eq!(stock.get().await?, None);
    stock.set(&Stock { left: 1 }).await?;
    stock.delete().await?;
    assert_eq!(stock.get().await?, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_from_many_tasks_are_all_counted() -> Outcome {
    let locks = Locks::memory();
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let sold = locks.record::<u64>("sold").attempts(1000);
        tasks.spawn(async move {
            for _ in 0..100 {
                sold.update(|count| Some(count.unwrap_or(0) + 1)).await.expect("an update");
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(locks.record::<u64>("sold").get().await?.map(|it| it.value), Some(800));
    Ok(())
}

#[tokio::test]
async fn an_update_can_delete() -> Outcome {
    let locks = Locks::memory();
    let stock = locks.record::<Stock>("stock/42");
    stock.set(&Stock { left: 1 }).await?;
    let after = stock.update(|found| found.filter(|stock| stock.left > 1)).await?;
    assert_eq!(after, None);
    assert_eq!(stock.get().await?, None);
    Ok(())
}

#[tokio::test]
async fn an_update_that_is_always_outrun_says_so() -> Outcome {
    let locks = Locks::memory();
    let stock = locks.record::<u32>("stock/42").attempts(3);
    stock.set(&0).await?;
    let (faster, mut tries) = (stock.clone(), 0);
    let outrun = stock.update(|found| {
        tries += 1;
        // Memory answers at once, so that somebody else can be this quick.
        let write = std::pin::pin!(faster.set(&tries));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(write.poll(&mut cx).is_ready());
        found
    });
    let error = outrun.await.expect_err("outrun");
    assert_eq!((error.kind(), tries), (ErrorKind::TimedOut, 3));
    assert!(error.to_string().contains("each of 3 times"), "{error}");
    assert!(error.to_string().contains("stock/42"), "{error}");
    assert_eq!(stock.get().await?.map(|it| it.value), Some(3), "the faster one's");
    Ok(())
}

#[tokio::test]
async fn a_ttl_and_a_lease_end_a_record() -> Outcome {
    let clock = TestClock::new();
    let locks = Locks::memory_on(clock.clone());
    let brief = locks.record::<u32>("brief").ttl(Duration::from_secs(5));
    brief.set(&1).await?;
    clock.advance(Duration::from_secs(4));
    assert!(brief.get().await?.is_some());
    clock.advance(Duration::from_secs(1));
    assert!(brief.get().await?.is_none());
    let guard = locks.mutex("leader").lock().await?;
    let address = locks.record::<String>("leader").bound_to(&guard);
    address.set(&"10.0.0.1".into()).await?;
    assert!(address.get().await?.is_some());
    guard.release().await?;
    assert!(address.get().await?.is_none());
    assert_eq!(address.set(&"late".into()).await.expect_err("no lease").kind(), ErrorKind::NotHeld);
    Ok(())
}

#[tokio::test]
async fn a_record_is_not_bound_to_a_lease_of_another_engine() -> Outcome {
    let (locks, others) = (Locks::memory(), Locks::memory());
    let guard = others.mutex("leader").lock().await?;
    let record = locks.record::<u32>("leader").bound_to(&guard);
    assert_eq!(record.set(&1).await.expect_err("another engine").kind(), ErrorKind::Invalid);
    Ok(())
}

#[tokio::test]
async fn records_go_where_their_names_are_routed() -> Outcome {
    let (safe, fast) = (Locks::memory(), Locks::memory());
    let locks = safe.route("cache/", &fast);
    locks.record::<u32>("cache/1").set(&1).await?;
    assert!(fast.record::<u32>("cache/1").get().await?.is_some());
    assert!(safe.record::<u32>("cache/1").get().await?.is_none());
    assert_eq!(locks.records::<u32>("cache").list(1).await?.len(), 1);
    let guard = locks.mutex("cache/lock").lock().await?;
    locks.record::<u32>("cache/2").bound_to(&guard).set(&2).await?;
    Ok(())
}

#[tokio::test]
async fn a_long_list_is_read_to_its_end() -> Outcome {
    let locks = Locks::memory();
    for at in 0..250_u32 {
        locks.record(format!("n/{at:03}")).set(&at).await?;
    }
    let all = locks.records::<u32>("n").list(usize::MAX).await?;
    assert!(all.iter().map(|(_, it)| it.value).eq(0..250));
    Ok(())
}

#[tokio::test]
async fn a_watch_tells_what_changes() -> Outcome {
    let locks = Locks::memory();
    let price = locks.record::<u32>("price/apple");
    let mut one = price.watch().await?;
    let mut all = locks.records::<u32>("price").watch(1).await?;
    let version = price.set(&3).await?;
    locks.record("price/pear").set(&4).await?;
    price.delete().await?;
    let Change::Stored(name, found) = next(&mut one).await else { panic!("stored first") };
    assert_eq!((name.as_str(), found.value, found.version), ("price/apple", 3, version));
    let Change::Deleted(gone, end) = next(&mut one).await else { panic!("deleted then") };
    assert_eq!((&gone, end > version), (&name, true));
    assert!(matches!(next(&mut all).await, Change::Stored(..)));
    assert!(matches!(next(&mut all).await, Change::Stored(it, _) if it.as_str() == "price/pear"));
    assert_eq!(next(&mut all).await, Change::Deleted(name, end));
    locks.shutdown(Duration::from_secs(1)).await?;
    assert_eq!(all.next().await?, None);
    Ok(())
}

#[tokio::test]
async fn what_is_not_of_the_type_is_an_error_with_its_name() -> Outcome {
    let locks = Locks::memory();
    locks.record::<String>("price").set(&"three".into()).await?;
    let error = locks.record::<u32>("price").get().await.expect_err("no number");
    assert_eq!(error.kind(), ErrorKind::Unexpected);
    assert!(error.to_string().contains("record: price"), "{error}");
    let error = locks.record::<u32>("two\nlines").get().await.expect_err("no name");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    Ok(())
}

#[test]
fn futures_need_no_runtime_around_them() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let locks = runtime.block_on(async { leasehold::open(url).await }).expect("a store");
    drop(runtime);
    let count = locks.record::<u32>("n");
    let mut watch = block_on(count.watch()).expect("a watch");
    let stored = block_on(count.update(|n| Some(n.unwrap_or(0) + 1))).expect("an update");
    assert_eq!(stored.map(|it| it.value), Some(1));
    let change = block_on(watch.next()).expect("a value");
    assert!(matches!(change, Some(Change::Stored(_, it)) if it.value == 1));
}
