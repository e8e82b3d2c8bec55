//! What the memory engine keeps of names that nobody holds, and how it lists many.

use std::sync::Arc;
use std::time::Duration;

use super::{Memory, lock};
use crate::claim::{Claim, Ending, Mode, Owner, Refresh, Store, Ticket};
use crate::clock::TestClock;
use crate::engine::{Engine, Eviction, Page, RecordEvent, RecordStore, Scope, Selector, Target};
use crate::name::{Name, Namespace};

const SECOND: Duration = Duration::from_secs(1);
const MANY: usize = 3_500;

fn memory() -> (Memory, TestClock) {
    let clock = TestClock::new();
    (Memory::new(clock.clone().into()), clock)
}

fn name(text: impl Into<Arc<str>>) -> Name {
    Name::new(&Namespace::default(), text).unwrap()
}

async fn take(memory: &Memory, name: Name, ttl: Duration) -> Ticket {
    let ticket = Ticket::new(name, Mode::Exclusive);
    let claim = Claim::new(ticket.clone(), Owner::new("me"), ttl);
    memory.acquire(claim).await.unwrap();
    ticket
}

async fn evict(memory: &Memory, ticket: &Ticket) {
    let eviction = Eviction::new(ticket.name.clone(), Target::All, "ops", "stuck").unwrap();
    assert_eq!(memory.evict(eviction).await.unwrap().leases.len(), 1);
}

/// How many names it knows, and room for how many.
fn size(memory: &Memory) -> (usize, usize) {
    lock(&memory.state).names.size()
}

#[tokio::test]
async fn many_names_that_were_released_leave_nothing_at_once() {
    let (memory, _clock) = memory();
    let mut tickets = Vec::new();
    for n in 0..MANY {
        tickets.push(take(&memory, name(format!("n{n}")), SECOND).await);
    }
    for ticket in tickets {
        memory.release(ticket, Ending::new()).await.unwrap();
    }
    let (names, room) = size(&memory);
    assert!(names == 0 && room < MANY, "{room}");
    let state = lock(&memory.state);
    assert!(state.lingering.is_empty() && state.waiters.is_empty());
}

/// Nobody asks for anything any more; and what stays for a day does not keep what
/// stays for a minute.
#[tokio::test]
async fn what_lingers_goes_by_itself_in_its_time() {
    let (memory, clock) = memory();
    let cron = take(&memory, name("cron"), SECOND).await;
    memory.release(cron, Ending::closed_for(86_400 * SECOND)).await.unwrap();
    for n in 0..MANY {
        let ticket = take(&memory, name(format!("n{n}")), 10 * SECOND).await;
        evict(&memory, &ticket).await;
    }
    clock.advance(59 * SECOND);
    assert_eq!(size(&memory).0, MANY + 1, "those who come after it must hear of it");
    clock.advance(12 * SECOND);
    while size(&memory).0 > 1 {
        tokio::task::yield_now().await;
    }
    assert!(size(&memory).1 < MANY, "room for many was given back");
    clock.advance(86_400 * SECOND);
    while size(&memory).0 > 0 {
        tokio::task::yield_now().await;
    }
    assert!(lock(&memory.state).lingering.is_empty());
}

#[tokio::test]
async fn a_name_that_is_taken_again_before_it_is_forgotten_stays() {
    let (memory, clock) = memory();
    evict(&memory, &take(&memory, name("n"), 10 * SECOND).await).await;
    clock.advance(50 * SECOND);
    let held = take(&memory, name("n"), 3600 * SECOND).await;
    clock.advance(20 * SECOND);
    take(&memory, name("another"), SECOND).await;
    assert!(lock(&memory.state).names.get(&held.name).is_some());
    memory.release(held.clone(), Ending::new()).await.unwrap();
    assert!(lock(&memory.state).names.get(&held.name).is_none(), "it ended well");
}

#[tokio::test]
async fn records_whose_time_is_up_go_although_nobody_looks() {
    let (memory, clock) = memory();
    for n in 0..MANY {
        let mut store = Store::put(name(format!("r/{n}")), Vec::new());
        store.ttl = Some(10 * SECOND);
        memory.store(store).await.unwrap().unwrap();
    }
    clock.advance(25 * SECOND);
    let left = || lock(&memory.state).records.size();
    while left().0 > 0 {
        tokio::task::yield_now().await;
    }
    assert!(left().1 < MANY, "{:?}", left());
}

#[tokio::test]
async fn a_long_list_is_complete_in_order_and_by_pages_of_any_size() {
    let (memory, _clock) = memory();
    let other = Namespace::new("other").unwrap();
    for n in 0..MANY {
        take(&memory, name(format!("n/{:05}", n * 7919 % MANY)), SECOND).await;
    }
    for text in ["m", "n", "n0", "o"] {
        take(&memory, name(text), SECOND).await;
    }
    take(&memory, Name::new(&other, "n/00000").unwrap(), SECOND).await;
    let wanted: Vec<_> = (0..MANY).map(|n| name(format!("n/{n:05}"))).collect();
    for size in [70, 1000, 2999, MANY, usize::MAX] {
        let (mut seen, mut page) = (Vec::new(), Page { after: None, size });
        loop {
            let of = Selector::Prefix(Namespace::default(), "n/".into());
            let found = memory.inspect(of, page).await.unwrap();
            assert!(found.names.len() == size || !found.more, "{size}");
            seen.extend(found.names.into_iter().map(|status| status.name));
            if !found.more {
                break;
            }
            page = Page { after: seen.last().cloned(), size };
        }
        assert_eq!(seen, wanted, "pages of {size}");
    }
    for text in ["p", "tab\t"] {
        let of = Selector::Prefix(Namespace::default(), text.into());
        let found = memory.inspect(of, Page::default()).await.unwrap();
        assert!(found.names.is_empty() && !found.more);
    }
}

/// What was bound to a lease that has expired is on no page, whoever looks first.
#[tokio::test]
async fn a_page_of_records_shows_what_is_there_at_that_moment() {
    let (memory, clock) = memory();
    for n in 0..MANY {
        let mut store = Store::put(name(format!("r/{n:05}")), Vec::new());
        if n % 2 == 0 {
            store.bound_to = Some(take(&memory, name(format!("l/{n}")), 10 * SECOND).await);
        }
        memory.store(store).await.unwrap().unwrap();
    }
    memory.store(Store::put(name("r/00001/deep"), Vec::new())).await.unwrap().unwrap();
    clock.advance(11 * SECOND);
    let (mut seen, mut page) = (Vec::new(), Page { after: None, size: 800 });
    loop {
        let found = memory.list(Scope::below(&Namespace::default(), "r", 1), page).await.unwrap();
        seen.extend(found.records.into_iter().map(|(name, _)| name));
        if !found.more {
            break;
        }
        page = Page { after: seen.last().cloned(), size: 800 };
    }
    let wanted: Vec<_> =
        (0..MANY).filter(|n| n % 2 == 1).map(|n| name(format!("r/{n:05}"))).collect();
    assert_eq!(seen, wanted);
}

/// The version of the end of this record.
fn end(event: Option<RecordEvent>, n: u32) -> u64 {
    match event {
        Some(RecordEvent::Deleted(gone, version)) if gone == name(format!("r/{n}")) => version,
        other => panic!("{other:?} is not the end of r/{n}"),
    }
}

/// A watcher looks when a lease may have ended, and not at all of them all the time.
#[tokio::test]
async fn what_is_bound_goes_when_its_lease_ends_and_others_are_not_looked_at() {
    let (memory, clock) = memory();
    let mut leases = Vec::new();
    for n in 0..100 {
        let mut store = Store::put(name(format!("r/{n}")), Vec::new());
        leases.push(take(&memory, name(format!("l/{n}")), (10 + n) * SECOND).await);
        store.bound_to = leases.last().cloned();
        memory.store(store).await.unwrap().unwrap();
    }
    let mut changes = memory.watch(Scope::below(&Namespace::default(), "r", 1)).await.unwrap();
    clock.advance(9 * SECOND);
    memory.renew(vec![Refresh::new(leases[0].clone(), 60 * SECOND)]).await;
    assert_eq!(lock(&memory.state).records.look_at(), clock.now().after(SECOND));
    clock.advance(3 * SECOND);
    let mut ended = Vec::new();
    for n in [1, 2] {
        ended.push(end(changes.next().await, n));
    }
    let next = lock(&memory.state).records.look_at();
    assert_eq!(next, clock.now().after(SECOND), "the first goes on");
    memory.release(leases[3].clone(), Ending::new()).await.unwrap();
    ended.push(end(changes.next().await, 3));
    assert!(ended.is_sorted_by(|a, b| a < b), "{ended:?}");
    assert!(lock(&memory.state).records.look_at() > next);
}
