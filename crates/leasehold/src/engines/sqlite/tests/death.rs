//! Clients that die, and machines that restart.

use super::super::upkeep::FENCE_JUMP;
use super::*;
use crate::claim::Predecessor;

#[tokio::test]
async fn a_dead_holder_is_noticed_at_once() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let (kept, fixed) = (ticket("kept"), ticket("fixed"));
    take(&a, &kept).await;
    granted(a.acquire(Claim { renewed: false, ..claim(&fixed) }).await.unwrap());
    assert!(matches!(b.acquire(claim(&ticket("kept"))).await.unwrap(), Verdict::Busy(_)));
    a.die().await;
    for text in ["kept", "fixed"] {
        assert_eq!(take(&b, &ticket(text)).await.predecessor, Predecessor::Expired);
    }
    b.close().await.unwrap();
    assert_eq!(rig.files(), ["locks.db", "locks.db-gate"]);
}

#[tokio::test]
async fn a_waiter_learns_of_a_death_by_the_socket() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let (first, second) = (ticket("job"), ticket("job"));
    take(&a, &first).await;
    queue(&b, &second).await;
    let wait = Handle::current().spawn(b.wait(second.clone(), Moment::NEVER));
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    a.die().await;
    // The clock stands still: no poll and no expiry can have ended the wait.
    wait.await.unwrap().unwrap();
    assert_eq!(take(&b, &second).await.predecessor, Predecessor::Expired);
}

#[tokio::test]
async fn a_dead_waiter_does_not_keep_its_place() {
    let rig = Rig::new();
    let (a, b, c) = (rig.open().await, rig.open().await, rig.open().await);
    let (first, second, third) = (ticket("job"), ticket("job"), ticket("job"));
    take(&a, &first).await;
    queue(&b, &second).await;
    queue(&c, &third).await;
    b.die().await;
    give_back(&a, &first).await;
    let wake = c.wait(third.clone(), Moment::NEVER).await.unwrap();
    assert!(matches!(wake, Wake::Granted { .. } | Wake::Look));
    take(&c, &third).await;
}

#[tokio::test]
async fn a_lock_delay_is_waited_out_after_a_death() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    granted(a.acquire(Claim { lock_delay: secs(10), ..claim(&ticket("job")) }).await.unwrap());
    a.die().await;
    let Verdict::Busy(busy) = b.acquire(claim(&ticket("job"))).await.unwrap() else {
        panic!("granted within the lock delay")
    };
    assert_eq!(busy.recheck_in, Some(secs(10)));
    rig.clock.advance(secs(10));
    take(&b, &ticket("job")).await;
}

#[tokio::test]
async fn leases_left_by_a_closed_client_run_out_by_their_ttl() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    take(&a, &ticket("job")).await;
    a.close().await.unwrap();
    assert!(matches!(b.acquire(claim(&ticket("job"))).await.unwrap(), Verdict::Busy(_)));
    rig.clock.advance(TTL);
    take(&b, &ticket("job")).await;
}

#[tokio::test]
async fn a_removed_lock_file_is_not_a_death() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    take(&a, &ticket("job")).await;
    for entry in rig.dir.path().join("locks.db-clients").read_dir().unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert!(matches!(b.acquire(claim(&ticket("job"))).await.unwrap(), Verdict::Busy(_)));
    let found = a.examine().await.unwrap();
    assert!(found.iter().any(|finding| finding.message.contains("removed the lock file")));
}

fn booted(rig: &Rig, boot: &str) -> SqliteOptions {
    let mut options = rig.options();
    options.host.boot = Some(boot.into());
    options
}

#[tokio::test]
async fn fences_jump_over_a_restart_of_the_machine() {
    let rig = Rig::new();
    let before = Sqlite::open(booted(&rig, "one"), rig.clock.clone().into()).await.unwrap();
    let fence = take(&before, &ticket("held")).await.fence;
    let delayed = Claim { lock_delay: secs(50), ..claim(&ticket("delayed")) };
    granted(before.acquire(delayed).await.unwrap());
    let closed = ticket("closed");
    take(&before, &closed).await;
    before.release(closed, Ending::closed_for(secs(100))).await.unwrap();
    before.die().await;
    // The new clock starts a day later than zero, like every test clock.
    let clock = TestClock::new();
    let after = Sqlite::open(booted(&rig, "two"), clock.clone().into()).await.unwrap();
    assert!(take(&after, &ticket("held")).await.fence > fence + FENCE_JUMP);
    for text in ["delayed", "closed"] {
        let busy = after.acquire(claim(&ticket(text))).await.unwrap();
        assert!(matches!(busy, Verdict::Busy(_)), "{text}: {busy:?}");
    }
    clock.advance(secs(101));
    for text in ["delayed", "closed"] {
        take(&after, &ticket(text)).await;
    }
}

#[tokio::test]
async fn fences_do_not_jump_within_a_boot() {
    let rig = Rig::new();
    let first = rig.open().await;
    let fence = take(&first, &ticket("job")).await.fence;
    first.close().await.unwrap();
    let second = rig.open().await;
    assert_eq!(take(&second, &ticket("other")).await.fence, fence + 1);
}

const CHILD: &str = "LEASEHOLD_TEST_CHILD";

/// Not a test: the process that the next one kills.
#[tokio::test]
async fn child_that_is_killed() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let engine = Sqlite::open(SqliteOptions::new(&path), Clock::System).await.unwrap();
    take(&engine, &ticket("job")).await;
    std::fs::write(format!("{path}.ready"), "").unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_frees_its_leases_at_once() {
    let rig = Rig::new();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "engines::sqlite::tests::death::child_that_is_killed"])
        .env(CHILD, rig.path())
        .stdout(std::process::Stdio::null())
        .spawn();
    let mut child = child.unwrap();
    let clock = Clock::System;
    while !rig.dir.path().join("locks.db.ready").exists() {
        clock.sleep_until(clock.now().after(Duration::from_millis(5))).await;
    }
    let mut options = rig.options();
    options.poll = secs(600);
    let engine = Sqlite::open(options, Clock::System).await.unwrap();
    let one = ticket("job");
    queue(&engine, &one).await;
    let wait = Handle::current().spawn(engine.wait(one.clone(), Moment::NEVER));
    clock.sleep_until(clock.now().after(Duration::from_millis(50))).await;
    assert!(!wait.is_finished());
    let killed = clock.now();
    child.kill().unwrap();
    wait.await.unwrap().unwrap();
    let noticed = clock.now().since(killed);
    assert_eq!(take(&engine, &one).await.predecessor, Predecessor::Expired);
    assert!(noticed < secs(15), "half the ttl, on a very slow machine: {noticed:?}");
    child.wait().unwrap();
}
