//! Something odd in the place of a key of ours: who asks for it is told, and
//! nobody else notices.

use std::collections::HashMap;
use std::time::Duration;

use leasehold::{ErrorKind, Guard, Locks};
use leasehold_testkit::server::{Server, ask};

use super::{BOUND, Checked, LONG, calls};

const COUNTERS: u32 = 40;
const ROUNDS: u32 = 25;
/// Microseconds of an hour.
const HOUR: u64 = 3_600_000_000;

/// Makes what is asked meanwhile go together.
fn gather(server: &Server) -> Checked {
    ask(server, &["CLIENT", "PAUSE", "100", "ALL"])?;
    Ok(())
}

/// R21: a record that somebody has set by hand is asked for beside others, in
/// the same calls. No other is written twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_odd_record_makes_no_other_write_happen_twice() -> Checked {
    let server = Server::redis()?;
    let locks = leasehold::open(server.url()).await?;
    ask(&server, &["SET", "leasehold:{default}:record:odd", "{\"a\": 1}"])?;
    let before = calls(&server).unwrap_or(0);
    for round in 0..ROUNDS {
        gather(&server)?;
        let odd = tokio::spawn(create(locks.clone(), "odd".into()));
        let mut counted = Vec::new();
        for n in 0..COUNTERS {
            counted.push(tokio::spawn(count(locks.clone(), format!("hits/{n}"))));
            counted.push(tokio::spawn(create(locks.clone(), format!("new/{round}/{n}"))));
        }
        let error = odd.await?.expect_err("it is no record");
        assert_eq!(error.kind(), ErrorKind::Unexpected, "{error}");
        for done in counted {
            assert!(done.await??, "somebody else was faster, and there is nobody else");
        }
    }
    for n in 0..COUNTERS {
        let found = locks.record::<u32>(format!("hits/{n}")).get().await?;
        assert_eq!(found.map(|record| record.value), Some(ROUNDS), "hits/{n}");
    }
    let verbs = u64::from(ROUNDS * (2 * COUNTERS + 1));
    assert!(calls(&server)? - before < verbs, "nothing went together: the fault did not bite");
    Ok(())
}

async fn count(locks: Locks, name: String) -> leasehold::Result<bool> {
    let engine = locks.engine();
    let name = locks.name(&name)?;
    let records = engine.records().expect("redis has records");
    records.add(name, 1).await.map(|_| true)
}

async fn create(locks: Locks, name: String) -> leasehold::Result<bool> {
    Ok(locks.record::<u32>(name).create(&7).await?.is_ok())
}

/// R21, R5: the counter is ahead of the clock (which was set back, or a floor
/// was set), and one name of a call is in use by somebody else. What is granted
/// in that call has numbers that are never given again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_of_a_call_with_an_odd_name_are_not_drawn_again() -> Checked {
    let server = Server::redis()?;
    let locks = leasehold::open(server.url()).await?;
    locks.mutex("warm").lock().await?.release().await?;
    let fence = ask(&server, &["GET", "leasehold:{default}:fence"])?.parse::<u64>()? + HOUR;
    ask(&server, &["SET", "leasehold:{default}:fence", &fence.to_string()])?;
    ask(&server, &["HSET", "leasehold:{default}:name:odd", "a", "1"])?;
    let mut last = HashMap::new();
    for _ in 0..10 {
        gather(&server)?;
        let lock = |name: String| tokio::spawn(try_lock(locks.clone(), name));
        let mut asked: Vec<_> = (0..20).map(|n| lock(format!("f/{n}"))).collect();
        let odd = lock("odd".into());
        asked.extend((20..30).map(|n| lock(format!("f/{n}"))));
        let error = odd.await?.expect_err("it is no lock");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        for asked in asked {
            let guard = asked.await??.ok_or("nobody else holds it")?;
            grows(&mut last, &guard);
            guard.release().await?;
        }
    }
    Ok(())
}

async fn try_lock(locks: Locks, name: String) -> leasehold::Result<Option<Guard>> {
    locks.mutex(name).ttl(LONG).try_lock().await
}

fn grows(last: &mut HashMap<String, u64>, guard: &Guard) {
    let before = last.insert(guard.name().as_str().to_owned(), guard.fence());
    assert!(before < Some(guard.fence()), "{} after {before:?}", guard.fence());
}

/// R21: a lease whose key was overwritten cannot be released, and that does not
/// change: it is not asked for again and again.
#[tokio::test]
async fn a_release_that_is_refused_for_good_is_not_repeated() -> Checked {
    let server = Server::redis()?;
    let locks = leasehold::open(server.url()).await?;
    let guard = locks.mutex("n").ttl(LONG).lock().await?;
    ask(&server, &["DEL", "leasehold:{default}:name:n"])?;
    ask(&server, &["HSET", "leasehold:{default}:name:n", "a", "1"])?;
    let before = calls(&server)?;
    let error = guard.release().await.expect_err("somebody else has the key");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    // Time for a repetition to show itself: one comes every 200 ms.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked = calls(&server)? - before;
    assert!(asked < 5, "asked {asked} times");
    tokio::time::timeout(BOUND, locks.mutex("other").lock()).await??.release().await?;
    Ok(())
}
