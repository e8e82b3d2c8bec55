//! Gate, handoff, hold and schedule under every order of steps that shuttle
//! tries: the library's own sources (see `build.rs`), with shuttle's mutexes
//! and tasks below them. A lost wake-up is a deadlock, and shuttle reports it.

// The library's files are here for what is tested of them.
#![allow(
    dead_code,
    unexpected_cfgs,
    unreachable_pub,
    clippy::redundant_pub_crate,
    clippy::disallowed_methods
)]

mod below;

pub(crate) use below::{claim, clock, engine, home, name, notify, oneshot};

mod gate {
    include!(concat!(env!("OUT_DIR"), "/gate.rs"));
}

mod detached {
    include!(concat!(env!("OUT_DIR"), "/detached.rs"));
}

mod hold {
    include!(concat!(env!("OUT_DIR"), "/hold.rs"));
}

mod mutant {
    include!(concat!(env!("OUT_DIR"), "/mutant.rs"));
}

mod shrink {
    include!(concat!(env!("OUT_DIR"), "/shrink.rs"));
}

mod schedule {
    include!(concat!(env!("OUT_DIR"), "/schedule.rs"));
}

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shuttle::future::{block_on, spawn};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};

use crate::claim::{Grant, Mode, Ticket};
use crate::clock::{Clock, Moment};
use crate::detached::{Detached, Handoff};
use crate::gate::Gate;
use crate::hold::{Hold, PriorStanding, Terms};
use crate::home::Handle;
use crate::name::Name;
use crate::schedule::Schedule;

/// Each test: many schedules at random, then many that favour rare orders.
fn explore(test: fn()) {
    shuttle::check_random(test, 2_000);
    shuttle::check_pct(test, 2_000, 3);
}

fn name() -> Name {
    Name::new(&leasehold::Namespace::default(), "n").expect("a good name")
}

/// Enters, counts who is inside, and lets others run before it leaves.
async fn visit(gate: Gate, inside: Arc<AtomicUsize>, visits: Arc<AtomicUsize>) {
    let pass = gate.enter(&name()).await;
    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two have the turn");
    shuttle::future::yield_now().await;
    inside.fetch_sub(1, Ordering::SeqCst);
    visits.fetch_add(1, Ordering::SeqCst);
    drop(pass);
}

/// Polls with a waker that nobody hears.
fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Polled `polls` times, then dropped, with whatever it was given.
async fn leave(gate: Gate, polls: usize) {
    let name = name();
    let mut entering = Box::pin(gate.enter(&name));
    for _ in 0..polls {
        if poll(&mut entering).is_ready() {
            return;
        }
        shuttle::future::yield_now().await;
    }
}

#[test]
fn the_gate_admits_one_at_a_time_and_loses_no_turn() {
    explore(|| {
        let (gate, inside, visits) = (Gate::default(), Arc::default(), Arc::default());
        let visitors: Vec<_> = (0..3)
            .map(|_| spawn(visit(gate.clone(), Arc::clone(&inside), Arc::clone(&visits))))
            .collect();
        block_on(async {
            for visitor in visitors {
                visitor.await.expect("no panic");
            }
        });
        assert_eq!(visits.load(Ordering::SeqCst), 3);
        assert!(gate.holder(&name()).is_none());
    });
}

#[test]
fn those_who_leave_the_line_at_any_point_block_nobody() {
    explore(|| {
        let (gate, inside, visits) = (Gate::default(), Arc::default(), Arc::default());
        let leavers: Vec<_> = [1, 2].map(|polls| spawn(leave(gate.clone(), polls))).into();
        let visitors: Vec<_> = (0..2)
            .map(|_| spawn(visit(gate.clone(), Arc::clone(&inside), Arc::clone(&visits))))
            .collect();
        block_on(async {
            for task in leavers.into_iter().chain(visitors) {
                task.await.expect("no panic");
            }
        });
        assert_eq!(visits.load(Ordering::SeqCst), 2);
    });
}

/// Something that must be released exactly once, whoever ends up with it.
struct Lease(Arc<AtomicUsize>);

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// What reaches a future: a lease, or the news that it was taken back.
enum Delivery {
    Done(Lease),
    TakenBack,
}

/// As the library delivers: asks, puts it down, and takes it back at some point.
async fn deliver(handoff: Arc<Handoff<Delivery>>, released: Arc<AtomicUsize>) {
    handoff.set_asking(true);
    shuttle::future::yield_now().await;
    shuttle::future::yield_now().await;
    handoff.set_asking(false);
    let fetched = handoff.is_awaited_here();
    handoff.put(Delivery::Done(Lease(released)));
    if fetched {
        return;
    }
    shuttle::future::yield_now().await;
    if let Some(unfetched) = handoff.take_back() {
        drop(unfetched);
        handoff.put(Delivery::TakenBack);
    }
    handoff.settled().await;
}

#[test]
fn a_result_reaches_its_taker_or_is_taken_back_and_is_released_once() {
    explore(|| {
        let released = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&released);
        let call = Detached::new(Handle, |handoff| deliver(handoff, counted));
        match block_on(call) {
            Delivery::Done(lease) => {
                assert_eq!(released.load(Ordering::SeqCst), 0, "released while it is ours");
                drop(lease);
            }
            Delivery::TakenBack => {}
        }
        assert_eq!(released.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_result_whose_taker_leaves_at_any_point_is_released_once() {
    explore(|| {
        let released = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&released);
        let mut call = Box::pin(Detached::new(Handle, |handoff| deliver(handoff, counted)));
        let taker = spawn(async move {
            for _ in 0..2 {
                if let Poll::Ready(delivery) = poll(&mut call) {
                    return drop(delivery);
                }
                shuttle::future::yield_now().await;
            }
        });
        block_on(taker).expect("no panic");
        block_on(home::idle());
        assert_eq!(released.load(Ordering::SeqCst), 1);
    });
}

/// A future that is polled once and then neither polled nor dropped.
#[test]
fn a_task_that_nobody_polls_goes_on_at_home() {
    explore(|| {
        let released = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&released);
        let call = Detached::of(Handle, async move {
            shuttle::future::yield_now().await;
            drop(Lease(counted));
        });
        let mut call = Box::pin(call);
        assert!(poll(&mut call).is_pending());
        block_on(home::idle());
        assert_eq!(released.load(Ordering::SeqCst), 1);
        assert!(poll(&mut call).is_ready());
    });
}

#[test]
fn whoever_waits_for_the_taker_hears_that_it_left() {
    explore(|| {
        let call = Detached::<()>::new(Handle, |handoff| async move { handoff.abandoned().await });
        let mut call = Box::pin(call);
        assert!(poll(&mut call).is_pending());
        drop(call);
        block_on(home::idle());
    });
}

fn hold() -> Arc<Hold> {
    let ttl = Duration::from_secs(30);
    let terms = Terms {
        ttl,
        lock_delay: Duration::ZERO,
        renewed: true,
        max_hold: None,
        hold_at_least: Duration::ZERO,
    };
    let clock = Clock::Test(leasehold::TestClock::new());
    let now = clock.now();
    let hold = Arc::new(Hold::new(Ticket::new(name(), Mode::Exclusive), None, terms, clock));
    assert!(hold.granted(&Grant::new(1, ttl, now), Duration::ZERO));
    hold
}

/// The keeper's loop, but for time: what is not due at once never is.
async fn keep(schedule: Arc<Schedule>, looks: Arc<AtomicUsize>) {
    while let Some(next) = schedule.sleep_until() {
        if next > Moment::default() {
            schedule.alarmed().await;
            continue;
        }
        let due = schedule.due(next, usize::MAX);
        due.iter().for_each(|hold| schedule.forget(hold));
        looks.fetch_add(due.len(), Ordering::SeqCst);
    }
}

#[test]
fn the_keeper_sees_every_hold_that_is_due_and_its_own_end() {
    explore(|| {
        let (schedule, looks) = (Arc::new(Schedule::new()), Arc::new(AtomicUsize::new(0)));
        let keeper = spawn(keep(Arc::clone(&schedule), Arc::clone(&looks)));
        let holders: Vec<_> = (0..2)
            .map(|_| {
                let schedule = Arc::clone(&schedule);
                shuttle::thread::spawn(move || schedule.keep_now(&hold()))
            })
            .collect();
        holders.into_iter().for_each(|holder| holder.join().expect("no panic"));
        block_on(async {
            while looks.load(Ordering::SeqCst) < 2 {
                shuttle::future::yield_now().await;
            }
        });
        schedule.close();
        block_on(keeper).expect("no panic");
        assert_eq!(looks.load(Ordering::SeqCst), 2, "a hold was seen twice");
    });
}

#[test]
fn a_hold_that_ends_while_it_is_kept_does_not_stay_in_the_schedule() {
    explore(|| {
        let (schedule, hold) = (Arc::new(Schedule::new()), hold());
        let (plan, kept) = (Arc::clone(&schedule), Arc::clone(&hold));
        let keeper = shuttle::thread::spawn(move || plan.keep_now(&kept));
        // As the core lets go: the end first, then the schedule.
        hold.give_back();
        schedule.forget(&hold);
        keeper.join().expect("no panic");
        assert!(schedule.all().is_empty(), "it is looked after for ever");
    });
}

#[test]
fn verbs_of_one_ticket_take_turns_and_none_waits_for_ever() {
    explore(|| {
        let (hold, busy) = (hold(), Arc::new(AtomicUsize::new(0)));
        let verbs: Vec<_> = (0..3)
            .map(|_| {
                let (hold, busy) = (Arc::clone(&hold), Arc::clone(&busy));
                spawn(async move {
                    hold.turn().await;
                    assert_eq!(busy.fetch_add(1, Ordering::SeqCst), 0, "two verbs at once");
                    shuttle::future::yield_now().await;
                    busy.fetch_sub(1, Ordering::SeqCst);
                    hold.end_turn();
                })
            })
            .collect();
        block_on(async {
            for verb in verbs {
                verb.await.expect("no panic");
            }
        });
    });
}

#[test]
fn whoever_waits_for_the_end_of_a_lease_hears_it() {
    explore(|| {
        let hold = hold();
        let watcher = Arc::clone(&hold);
        let watch = spawn(async move { watcher.ended().await });
        assert!(hold.lose(leasehold::Loss::Gone, leasehold::Moment::NEVER));
        assert_eq!(hold.give_back(), PriorStanding::Ended, "what is lost is not given back");
        block_on(watch).expect("no panic");
    });
}

/// That these tests can fail: whoever looks first and listens then may miss it.
#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_up_that_is_lost_is_found_out() {
    explore(|| {
        let (done, news) = (Arc::new(AtomicUsize::new(0)), Arc::new(notify::Notify::new()));
        let (seen, heard) = (Arc::clone(&done), Arc::clone(&news));
        let waiter = spawn(async move {
            if seen.load(Ordering::SeqCst) == 0 {
                heard.notified().await;
            }
        });
        done.store(1, Ordering::SeqCst);
        news.notify_waiters();
        block_on(waiter).expect("no panic");
    });
}

#[test]
fn the_last_share_ends_a_lease_exactly_once() {
    explore(|| {
        let hold = hold();
        assert!(hold.share());
        let other = Arc::clone(&hold);
        let first = shuttle::thread::spawn(move || usize::from(other.unshare()));
        let second = Arc::clone(&hold);
        let second = shuttle::thread::spawn(move || {
            // A third guard may come and go; it must not revive what has ended.
            let shared = second.share();
            usize::from(second.unshare()) + usize::from(shared && second.unshare())
        });
        let last = first.join().expect("no panic") + second.join().expect("no panic");
        assert_eq!(last, 1, "the last guard was told so {last} times");
    });
}
