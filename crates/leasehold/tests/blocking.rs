//! The same locks for threads.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use leasehold::blocking::{self, Locks};
use leasehold::engine::{Eviction, Target};
use leasehold::{ErrorKind, Mode, Owner, Released, Standing, TestClock};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);

type Outcome = leasehold::Result<()>;

/// Waits until somebody stands in the queue.
fn await_waiter(locks: &Locks, name: &str) {
    while locks.status(name).expect("status").waiters.is_empty() {
        thread::yield_now();
    }
}

#[test]
fn a_plain_thread_locks_tries_runs_and_releases() -> Outcome {
    let locks = blocking::open("memory:")?;
    let order = locks.mutex("order/42");
    let guard = order.lock()?;
    assert!(order.try_lock()?.is_none());
    guard.check()?;
    assert_eq!(guard.release()?, Released::Released);
    assert!(order.run(|guard| guard.fence())? > 0);
    assert!(order.status()?.holders.is_empty());
    locks.shutdown(SECOND)
}

#[test]
fn a_wait_ends_at_its_limit_and_says_who_held_it() -> Outcome {
    let locks = Locks::memory();
    let order = locks.mutex("order/42").label("alice");
    let _guard = order.lock()?;
    let limited = order.clone().within(Duration::from_millis(10));
    let error = limited.lock().expect_err("held");
    assert!(error.is_timed_out() && error.to_string().contains("held by alice"), "{error}");
    let tried = order.attempts(2).every(Duration::from_millis(1)).lock();
    assert!(tried.expect_err("held").is_timed_out());
    let impatient = locks.wait_limit(Duration::from_millis(1)).mutex("order/42");
    assert!(impatient.lock().expect_err("held").is_timed_out());
    Ok(())
}

#[test]
fn two_threads_exclude_each_other() -> Outcome {
    let locks = Locks::memory();
    let guard = locks.mutex("order/42").lock()?;
    let other = thread::spawn({
        let order = locks.mutex("order/42");
        move || order.run(|guard| guard.fence())
    });
    await_waiter(&locks, "order/42");
    let fence = guard.fence();
    drop(guard);
    assert!(other.join().expect("no panic")? > fence);
    Ok(())
}

#[test]
fn sixteen_threads_count_without_losing_one() -> Outcome {
    let locks = Locks::memory();
    let counter = std::sync::atomic::AtomicU64::new(0);
    let count = || -> Outcome {
        let mutex = locks.mutex("counter");
        for _ in 0..100 {
            let guard = mutex.lock()?;
            // A load and a store, not an addition: only the lock keeps them together.
            let seen = counter.load(std::sync::atomic::Ordering::Relaxed);
            thread::yield_now();
            counter.store(seen + 1, std::sync::atomic::Ordering::Relaxed);
            drop(guard);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(count)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    assert_eq!(counter.into_inner(), 1600);
    Ok(())
}

#[test]
fn a_guard_may_be_dropped_on_another_thread() -> Outcome {
    let locks = Locks::memory();
    let order = locks.mutex("order/42");
    let guard = order.lock()?;
    thread::spawn(move || drop(guard)).join().expect("no panic");
    order.within(LONG).lock().map(drop)
}

#[test]
fn inside_a_runtime_blocking_is_refused_and_says_what_to_do() {
    let locks = Locks::memory();
    let order = locks.mutex("order/42");
    let guard = order.lock().expect("free");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    runtime.block_on(async {
        let refusals = [
            blocking::open("memory:").map(drop).expect_err("refused"),
            order.lock().map(drop).expect_err("refused"),
            order.try_lock().map(drop).expect_err("refused"),
            order.run(|_| ()).expect_err("refused"),
            locks.status("order/42").map(drop).expect_err("refused"),
            guard.release().map(drop).expect_err("refused"),
        ];
        for error in refusals {
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("await"), "{error}");
        }
        let free = locks.as_async().mutex("order/42").lock().within(LONG).await;
        drop(free.expect("a refused release gives back all the same"));
    });
}

#[test]
fn a_thread_of_spawn_blocking_can_block_on_the_async_lock() {
    let locks = Locks::memory();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    let work = runtime.spawn_blocking(move || {
        let refused = locks.mutex("order/42").lock().map(drop);
        let order = locks.as_async().mutex("order/42");
        let locked = tokio::runtime::Handle::current().block_on(order.lock().into_future());
        (refused, locked.map(drop))
    });
    let (refused, locked) = runtime.block_on(work).expect("no panic");
    assert_eq!(refused.expect_err("it cannot be told from a worker").kind(), ErrorKind::Invalid);
    locked.expect("free");
}

#[test]
fn a_call_that_waits_leaves_the_park_token_of_its_thread_alone() -> Outcome {
    let locks = Locks::memory();
    let order = locks.mutex("order/42");
    let _guard = order.lock()?;
    thread::current().unpark();
    let waited = order.clone().within(Duration::from_millis(10)).lock();
    assert!(waited.expect_err("held").is_timed_out());
    thread::park(); // would wait for ever without its token
    Ok(())
}

#[test]
fn a_thread_re_enters_what_it_holds_until_the_last_guard() -> Outcome {
    let locks = Locks::memory();
    let order = locks.mutex("order/42").reentrant();
    let outer = order.lock()?;
    let inner = locks.mutex("order/42").reentrant().try_lock()?.expect("this thread holds it");
    assert_eq!(outer.fence(), inner.fence());
    drop(outer);
    inner.check()?;
    assert!(locks.mutex("order/42").try_lock()?.is_none(), "others do not enter");
    assert_eq!(inner.release()?, Released::Released);
    assert!(locks.mutex("order/42").try_lock()?.is_some());
    Ok(())
}

#[test]
fn another_thread_does_not_re_enter() -> Outcome {
    let locks = Locks::memory();
    let order = locks.mutex("order/42").reentrant();
    let guard = order.lock()?;
    let other = thread::spawn({
        let order = order.clone();
        move || order.run(|guard| guard.fence())
    });
    await_waiter(&locks, "order/42");
    let inner = order.within(LONG).lock()?;
    let fence = guard.fence();
    drop((guard, inner));
    assert!(other.join().expect("no panic")? > fence);
    Ok(())
}

#[test]
fn threads_that_come_and_go_never_inherit_a_lease() -> Outcome {
    let locks = Locks::memory();
    let order = locks.mutex("order/42").reentrant();
    thread::spawn({
        let order = order.clone();
        // The system may give the number of this thread to the next ones.
        move || order.lock().map(std::mem::forget)
    })
    .join()
    .expect("no panic")?;
    for _ in 0..50 {
        let order = order.clone();
        let entered = thread::spawn(move || order.try_lock().map(|guard| guard.is_some()));
        assert!(!entered.join().expect("no panic")?);
    }
    Ok(())
}

#[test]
fn a_writing_thread_may_read_and_a_reading_one_may_not_write() -> Outcome {
    let locks = Locks::memory();
    let catalogue = locks.rwlock("catalogue").reentrant();
    let write = catalogue.write()?;
    assert_eq!(catalogue.read()?.fence(), write.fence());
    drop(write);
    let _read = catalogue.read()?;
    assert_eq!(catalogue.write().expect_err("would wait for itself").kind(), ErrorKind::Invalid);
    Ok(())
}

#[test]
fn a_thread_takes_several_names_again() -> Outcome {
    let (locks, cache) = (Locks::memory(), Locks::memory());
    let locks = locks.route("cache/", &cache);
    let all = locks.all(["b", "a", "cache/1"]).reentrant();
    let outer = all.lock()?;
    let inner = all.within(LONG).lock()?;
    let fences = |guards: &blocking::Guards<_>| -> Vec<u64> {
        guards.iter().map(blocking::Guard::fence).collect()
    };
    assert_eq!(fences(&outer), fences(&inner));
    drop(inner);
    outer.check()?;
    assert!(locks.all(["cache/1"]).try_lock()?.is_none());
    assert_eq!(outer.release()?, Released::Released);
    Ok(())
}

#[test]
fn a_thread_is_named_as_the_holder_unless_a_label_is_set() -> Outcome {
    let locks = Locks::memory();
    let holder = |order: blocking::Mutex<blocking::ThisThread>| {
        let _guard = order.lock()?;
        Ok::<_, leasehold::Error>(order.status()?.holders[0].label.to_string())
    };
    let (plain, named) = (locks.mutex("a").reentrant(), locks.mutex("b").label("me").reentrant());
    let worker = thread::Builder::new().name("worker-7".into());
    let seen = worker.spawn(move || (holder(plain), holder(named))).expect("a thread");
    let (plain, named) = seen.join().expect("no panic");
    assert!(plain?.ends_with("/worker-7"));
    assert_eq!(named?, "me");
    Ok(())
}

#[test]
fn an_owner_is_more_than_a_thread() -> Outcome {
    let owned = Locks::memory().owned_by(&Owner::new("checkout"));
    let outer = owned.mutex("order/42").lock()?;
    let order = owned.mutex("order/42");
    let inner = thread::spawn(move || order.lock().map(|guard| guard.fence()));
    assert_eq!(inner.join().expect("no panic")?, outer.fence());
    Ok(())
}

#[test]
fn a_fixed_lease_is_extended_and_its_end_is_waited_for() -> Outcome {
    let clock = TestClock::new();
    let locks = Locks::memory_on(clock.clone());
    let guard = locks.mutex("job").ttl(30 * SECOND).renew(false).lock()?;
    clock.advance(20 * SECOND);
    guard.extend(30 * SECOND)?;
    clock.advance(20 * SECOND);
    guard.check()?;
    let ended = thread::scope(|scope| {
        let watch = scope.spawn(|| guard.lost_within(3600 * SECOND));
        clock.advance(10 * SECOND);
        watch.join().expect("no panic")
    });
    assert!(matches!(ended?, Some(Standing::Lost(_))));
    assert!(guard.run(|_| ()).expect_err("over").is_lost());
    Ok(())
}

#[test]
fn work_under_a_lost_lease_is_told_so() -> Outcome {
    let locks = Locks::memory();
    let (evicted, done) = mpsc::channel();
    let worker = thread::spawn({
        let order = locks.mutex("order/42");
        move || order.run(|guard| (done.recv().expect("a sign"), guard.check().is_err()))
    });
    while locks.status("order/42")?.holders.is_empty() {
        thread::yield_now();
    }
    locks.evict(Eviction::new(locks.name("order/42")?, Target::All, "me", "test")?)?;
    evicted.send(()).expect("it waits");
    assert!(worker.join().expect("no panic").expect_err("evicted").is_lost());
    Ok(())
}

#[test]
fn a_writer_becomes_a_reader_and_permits_are_counted() -> Outcome {
    let locks = Locks::memory();
    let catalogue = locks.rwlock("catalogue");
    let mut guard = catalogue.write()?;
    assert!(catalogue.try_read()?.is_none());
    guard.convert(Mode::Read)?;
    assert!(catalogue.try_read()?.is_some());
    let downloads = locks.semaphore("downloads", 2);
    let _one = downloads.acquire(1)?;
    assert!(downloads.try_acquire(2)?.is_none());
    downloads.try_acquire(1).map(|left| assert!(left.is_some()))
}

#[test]
fn guards_and_recipes_go_where_their_types_say() {
    fn movable<T: Send + Sync + 'static>() {}
    fn shared<T: Sync>() {}
    movable::<blocking::Guard>();
    movable::<blocking::Guards>();
    movable::<blocking::Mutex<blocking::ThisThread>>();
    movable::<blocking::All<blocking::ThisThread>>();
    shared::<blocking::Guard<blocking::ThisThread>>();
}
