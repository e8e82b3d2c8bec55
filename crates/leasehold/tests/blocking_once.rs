//! Work that is done once, for threads.
#![cfg(feature = "once")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use leasehold::ErrorKind;
use leasehold::blocking::Locks;
use leasehold::engine::{Eviction, Target};
use leasehold::once::{
    Done, Fingerprint, Key, OnBusy, OnCrash, OnceError, Refusal, TokenKeys, Turn,
};

const SECOND: Duration = Duration::from_secs(1);
const ANY: Fingerprint = Fingerprint::none();

type Tested<T = ()> = Result<T, Box<dyn std::error::Error>>;
type Ran = Result<Done, OnceError<String>>;

fn paid(_: Turn) -> Result<&'static str, String> {
    Ok("paid")
}

#[test]
fn of_sixteen_threads_one_works_and_all_hear_of_it() -> Tested {
    let locks = Locks::memory();
    let once = locks.once("pay");
    let runs = AtomicU32::new(0);
    let work = |turn: Turn| {
        runs.fetch_add(1, Ordering::AcqRel);
        // The work may block, on locks of the same client too.
        let guard = locks.mutex("stock").lock().map_err(|error| error.to_string())?;
        assert!(turn.check().is_ok() && guard.fence() > 0);
        Ok::<_, String>(format!("fence {}", turn.fence()))
    };
    let all: Vec<Ran> = thread::scope(|scope| {
        let pay = || once.clone().on_busy(OnBusy::Wait(60 * SECOND)).blocking_run("k", ANY, work);
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(pay)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let all = all.into_iter().collect::<Result<Vec<_>, _>>()?;
    assert!(all.iter().all(|done| done.outcome == all[0].outcome));
    assert_eq!(all.iter().filter(|done| !done.replayed).count(), 1);
    assert_eq!(runs.into_inner(), 1);
    Ok(())
}

#[test]
fn while_one_is_at_it_others_are_told_or_wait_for_a_while() -> Tested {
    let once = Locks::memory().once("pay");
    let ((begun, has_begun), (go, may_go)) = (mpsc::channel(), mpsc::channel());
    let first = thread::spawn({
        let once = once.clone();
        move || {
            once.blocking_run("k", ANY, |_| {
                begun.send(()).map_err(|error| error.to_string())?;
                may_go.recv().map_err(|error| error.to_string())?;
                Ok::<_, String>("paid")
            })
        }
    });
    has_begun.recv()?;
    for busy in [OnBusy::Refuse, OnBusy::Wait(SECOND / 100)] {
        let refused = once.clone().on_busy(busy).blocking_run("k", ANY, paid);
        let refused = refused.expect_err("one is at it");
        assert!(matches!(refused, OnceError::Refused(Refusal::Running(_))), "{refused:?}");
    }
    assert!(once.blocking_outcome("k", ANY)?.is_none());
    go.send(())?;
    assert!(!first.join().expect("no panic")?.replayed);
    assert!(once.blocking_run("k", ANY, paid)?.replayed);
    Ok(())
}

#[test]
fn failures_are_run_again_and_operators_settle_and_forget() -> Tested {
    let once = Locks::memory().once("pay").on_crash(OnCrash::Unknown);
    let failed = once.blocking_run("k", ANY, |_| Err::<&str, _>("no money"));
    assert!(matches!(failed, Err(OnceError::Failed("no money"))));
    assert!(!once.blocking_run("k", ANY, paid)?.replayed);
    once.blocking_forget("k")?;
    assert_eq!(once.blocking_settle("k", ANY, "seen to")?.outcome, b"seen to");
    assert_eq!(once.blocking_run("k", ANY, paid)?.outcome, b"seen to");
    Ok(())
}

#[test]
fn a_token_is_redeemed_once() -> Tested {
    let tokens = Locks::memory().once("orders").tokens(TokenKeys::new(1, &[7; 32])?);
    let token = tokens.issue("ann", 60 * SECOND);
    let stolen = tokens.blocking_redeem(&token, "bob", ANY, paid);
    assert!(matches!(stolen, Err(OnceError::Refused(Refusal::Token(_)))));
    assert!(!tokens.blocking_redeem(&token, "ann", ANY, paid)?.replayed);
    assert!(tokens.blocking_redeem(&token, "ann", ANY, paid)?.replayed);
    Ok(())
}

#[test]
fn what_is_done_under_a_lost_lease_is_not_recorded() -> Tested {
    let locks = Locks::memory();
    let late = late_run(&locks, &locks.once("pay")).expect_err("evicted");
    assert!(matches!(&late, OnceError::Unrecorded { cause, .. } if cause.is_lost()), "{late:?}");
    assert_eq!(locks.once("pay").blocking_run("k", ANY, paid)?.outcome, b"paid");
    Ok(())
}

/// That the work began is written down, and is no outcome.
#[test]
fn the_mark_of_a_run_is_not_taken_for_its_outcome() -> Tested {
    let locks = Locks::memory();
    let once = locks.once("pay").on_crash(OnCrash::Unknown);
    let late = late_run(&locks, &once).expect_err("evicted");
    assert!(matches!(&late, OnceError::Unrecorded { cause, .. } if cause.is_lost()), "{late:?}");
    let refused = once.blocking_run("k", ANY, paid).expect_err("nobody knows what became of it");
    assert!(matches!(refused, OnceError::Refused(Refusal::Unknown { .. })), "{refused:?}");
    Ok(())
}

#[test]
fn a_failure_leaves_what_an_earlier_request_came_to() -> Tested {
    for crash in [OnCrash::Rerun, OnCrash::Unknown] {
        let once = Locks::memory().once("pay").on_crash(crash);
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds);
        let click = |seconds| Key::trace("ann", "phone", at(seconds), 60 * SECOND);
        assert!(!once.blocking_run(click(0), ANY, paid)?.replayed);
        let failed = once.blocking_run(click(60), ANY, |_| Err::<&str, _>("no money"));
        assert!(matches!(failed, Err(OnceError::Failed("no money"))), "{failed:?}");
        let again = once.blocking_run(click(0), ANY, paid)?;
        assert!(again.replayed && again.outcome == b"paid", "{crash:?}: {again:?}");
        assert!(!once.blocking_run(click(60), ANY, paid)?.replayed, "it may be tried again");
    }
    Ok(())
}

/// What it covered has come to the end of its time, and the key is free all the same.
#[test]
fn a_failure_that_outlives_an_earlier_outcome_gives_its_key_back() -> Tested {
    let once = Locks::memory().once("pay").on_crash(OnCrash::Unknown).keep(SECOND);
    let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds);
    let click = |seconds| Key::trace("ann", "phone", at(seconds), 60 * SECOND);
    assert!(!once.blocking_run(click(0), ANY, paid)?.replayed);
    let failed = once.blocking_run(click(60), ANY, |_| {
        // Until that outcome is over.
        let (_never, told) = mpsc::channel::<()>();
        let _ = told.recv_timeout(SECOND + SECOND / 10);
        Err::<&str, _>("no money")
    });
    assert!(matches!(failed, Err(OnceError::Failed("no money"))), "{failed:?}");
    let again = once.on_busy(OnBusy::Refuse).blocking_run(click(60), ANY, paid)?;
    assert!(!again.replayed, "{again:?}");
    Ok(())
}

/// Work that is evicted in the middle, and goes on to its end.
fn late_run(locks: &Locks, once: &leasehold::once::Once) -> Ran {
    once.blocking_run("k", ANY, |turn| {
        let name = locks.name("once/pay/k").expect("a name");
        let eviction = Eviction::new(name, Target::All, "me", "test").expect("an eviction");
        locks.evict(eviction).expect("evicted");
        while turn.check().is_ok() {
            thread::yield_now();
        }
        Ok::<_, String>("too late")
    })
}

#[test]
fn inside_a_runtime_blocking_is_refused() -> Tested {
    let once = Locks::memory().once("pay");
    let tokens = once.tokens(TokenKeys::new(1, &[7; 32])?);
    let token = tokens.issue("ann", 60 * SECOND);
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let refusals = runtime.block_on(async {
        let run = once.blocking_run("k", ANY, paid).map(drop);
        let redeem = tokens.blocking_redeem(&token, "ann", ANY, paid).map(drop);
        let others = [once.blocking_outcome("k", ANY).map(drop), once.blocking_forget("k")];
        let others = others.map(|refused| refused.map_err(OnceError::<String>::Refused));
        [run, redeem].into_iter().chain(others).collect::<Vec<_>>()
    });
    for refused in refusals {
        let Err(OnceError::Refused(Refusal::Engine(error))) = refused else { panic!("ran") };
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    assert!(once.blocking_outcome("k", ANY)?.is_none(), "nothing ran");
    Ok(())
}
