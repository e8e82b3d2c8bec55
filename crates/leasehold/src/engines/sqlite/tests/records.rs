//! Records, where it takes a clock that stands still, a death or a restart.

use super::*;
use crate::claim::Store;
use crate::engine::RecordEvent;

fn put(text: &str) -> Store {
    Store::put(name(text), text.into())
}

fn bound(text: &str, ticket: &Ticket) -> Store {
    Store { bound_to: Some(ticket.clone()), ..put(text) }
}

fn brief(text: &str, ttl: Duration) -> Store {
    Store { ttl: Some(ttl), ..put(text) }
}

async fn store(engine: &Sqlite, store: Store) -> u64 {
    RecordStore::store(engine, store).await.unwrap().unwrap()
}

async fn is_there(engine: &Sqlite, text: &str) -> bool {
    RecordStore::load(engine, name(text)).await.unwrap().is_some()
}

async fn watch(engine: &Sqlite, text: &str) -> Box<dyn RecordEvents> {
    RecordStore::watch(engine, Scope::below(&Namespace::default(), text, 1)).await.unwrap()
}

async fn next(events: &mut Box<dyn RecordEvents>) -> RecordEvent {
    let next = tokio::time::timeout(secs(10), events.next()).await;
    next.expect("news in time").expect("an open engine")
}

/// Lets seconds pass until there is news.
#[expect(clippy::disallowed_methods, reason = "the store's thread needs real time for each tick")]
async fn next_later(rig: &Rig, events: &mut Box<dyn RecordEvents>) -> RecordEvent {
    let ticking = async {
        loop {
            rig.clock.advance(secs(1));
            // Slow enough that no change is forgotten before it was seen.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        event = next(events) => event,
        () = ticking => unreachable!("it never ends"),
    }
}

#[tokio::test]
async fn a_bound_record_goes_with_a_holder_that_dies() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let lock = ticket("lock");
    take(&a, &lock).await;
    let mut events = watch(&b, "member").await;
    store(&a, bound("member/a", &lock)).await;
    assert!(matches!(next(&mut events).await, RecordEvent::Stored(..)));
    assert!(is_there(&b, "member/a").await);
    a.die().await;
    // The clock stands still: no poll and no expiry can have told.
    assert!(
        matches!(next(&mut events).await, RecordEvent::Deleted(it, _) if it == name("member/a"))
    );
    assert!(!is_there(&b, "member/a").await);
    assert_eq!(count(&b, "SELECT count(*) FROM records").await, 0);
}

#[tokio::test]
async fn a_record_of_the_dead_is_not_there_even_if_nobody_has_noticed() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let lock = ticket("lock");
    take(&a, &lock).await;
    store(&a, bound("n", &lock)).await;
    a.die().await;
    assert!(!is_there(&b, "n").await);
    let fresh = put("n").expecting(crate::claim::Expect::Absent);
    store(&b, fresh).await;
    give_back(&b, &lock).await;
    assert!(is_there(&b, "n").await, "the new one is not bound");
}

#[tokio::test]
async fn a_reader_among_others_takes_its_records_along() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let (first, second) = (ticket("lock").in_mode(Mode::Read), ticket("lock").in_mode(Mode::Read));
    granted(a.acquire(Claim { ttl: secs(600), ..claim(&first) }).await.unwrap());
    granted(a.acquire(claim(&second)).await.unwrap());
    store(&a, bound("r/1", &first)).await;
    store(&a, bound("r/2", &second)).await;
    let mut events = watch(&b, "r").await;
    rig.clock.advance(TTL);
    assert!(!is_there(&b, "r/2").await && is_there(&b, "r/1").await);
    let gone = next_later(&rig, &mut events).await;
    assert!(matches!(gone, RecordEvent::Deleted(it, _) if it == name("r/2")));
}

#[tokio::test]
async fn a_lost_ring_only_delays() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let mut events = watch(&b, "w").await;
    for file in rig.dir.path().join("locks.db-clients").read_dir().unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|it| it == "sock") {
            std::fs::remove_file(path).unwrap();
        }
    }
    store(&a, put("w/1")).await;
    let early = tokio::time::timeout(Duration::from_millis(100), events.next()).await;
    assert!(early.is_err(), "the ring has arrived: {early:?}");
    assert!(matches!(next_later(&rig, &mut events).await, RecordEvent::Stored(..)));
}

/// Keeps the store busy until it is told to go on.
struct Stall(std::sync::mpsc::Sender<()>, std::sync::mpsc::Receiver<()>);

impl StoreCommand for Stall {
    type Answer = ();

    fn is_quick(&self) -> bool {
        false
    }

    fn run(&mut self, _: &mut StoreTransaction<'_>) -> Trial<()> {
        self.0.send(()).unwrap();
        self.1.recv().unwrap();
        Ok(())
    }
}

#[tokio::test]
async fn a_call_that_was_dropped_while_it_read_costs_no_time() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let mut events = watch(&b, "w").await;
    store(&a, put("w/1")).await;
    let ((begun, has_begun), (go_on, told)) =
        (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let stalled = Handle::current().spawn(b.context.handle.ask(Stall(begun, told)));
    while has_begun.try_recv().is_err() {
        tokio::task::yield_now().await;
    }
    // Long enough for the ring to arrive; the read it leads to has to wait.
    let dropped = tokio::time::timeout(Duration::from_millis(200), events.next()).await;
    assert!(dropped.is_err(), "the store was not busy: {dropped:?}");
    go_on.send(()).unwrap();
    stalled.await.unwrap().unwrap();
    // The clock stands still: no poll can have helped.
    assert!(matches!(next(&mut events).await, RecordEvent::Stored(..)));
}

#[tokio::test]
async fn a_watcher_that_was_struck_off_the_list_comes_back() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let mut events = watch(&b, "w").await;
    count(&a, "DELETE FROM watchers RETURNING 1").await;
    store(&a, put("w/1")).await;
    assert_eq!(next_later(&rig, &mut events).await, RecordEvent::Resync);
    store(&a, put("w/2")).await;
    assert!(matches!(next(&mut events).await, RecordEvent::Stored(it, _) if it == name("w/2")));
}

/// Lets minutes pass until so many watchers are on the list.
async fn watchers_become(rig: &Rig, engine: &Sqlite, left: i64) {
    for _ in 0..1000 {
        if count(engine, "SELECT count(*) FROM watchers").await == left {
            return;
        }
        rig.clock.advance(secs(10));
        tokio::task::yield_now().await;
    }
    panic!("there are still watchers that should have gone");
}

#[tokio::test]
async fn watching_leaves_nothing_behind() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let events = watch(&b, "w").await;
    store(&a, put("w/1")).await;
    assert_eq!(count(&a, "SELECT count(*) FROM changes").await, 1);
    drop(events);
    while count(&a, "SELECT count(*) FROM watchers").await > 0 {
        tokio::task::yield_now().await;
    }
    store(&a, put("w/2")).await;
    assert_eq!(count(&a, "SELECT count(*) FROM changes").await, 1, "nobody watched the second");
    a.close().await.unwrap();
    assert_eq!(count(&b, "SELECT count(*) FROM changes").await, 0);
    b.close().await.unwrap();
    assert_eq!(rig.files(), ["locks.db", "locks.db-gate"]);
}

#[tokio::test]
async fn a_dead_watcher_leaves_the_list_although_nothing_changes() {
    let rig = Rig::new();
    let (a, b, c) = (rig.open().await, rig.open().await, rig.open().await);
    let (_alive, _dead) = (watch(&b, "w").await, watch(&c, "w").await);
    c.die().await;
    watchers_become(&rig, &a, 1).await;
    b.close().await.unwrap();
    watchers_become(&rig, &a, 0).await;
    a.close().await.unwrap();
    assert_eq!(rig.files(), ["locks.db", "locks.db-gate"]);
}

#[tokio::test]
async fn a_dead_watcher_leaves_the_list_even_if_its_ring_seemed_to_arrive() {
    let rig = Rig::new();
    let (a, c) = (rig.open().await, rig.open().await);
    let _dead = watch(&c, "w").await;
    c.die().await;
    // Its socket may still be open here: then the ring arrives at nobody.
    store(&a, put("w/1")).await;
    watchers_become(&rig, &a, 0).await;
}

#[tokio::test]
async fn what_nobody_watches_is_not_written_down() {
    let rig = Rig::new();
    let a = rig.open().await;
    let _events = watch(&a, "w").await;
    store(&a, put("elsewhere")).await;
    store(&a, put("w/too/deep")).await;
    assert_eq!(count(&a, "SELECT count(*) FROM changes").await, 0);
    store(&a, put("w/1")).await;
    assert_eq!(count(&a, "SELECT count(*) FROM changes").await, 1);
}

#[tokio::test]
async fn old_changes_are_forgotten_and_who_has_not_read_them_is_told() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let mut events = watch(&b, "w").await;
    store(&a, put("w/1")).await;
    rig.clock.advance(secs(120));
    while count(&a, "SELECT count(*) FROM changes").await > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(next(&mut events).await, RecordEvent::Resync);
}

#[tokio::test]
async fn what_is_over_is_swept_a_little_at_a_time_until_nothing_is_left() {
    let rig = Rig::new();
    let a = rig.open().await;
    for at in 0..200 {
        store(&a, brief(&format!("n/{at}"), secs(5))).await;
    }
    rig.clock.advance(secs(5));
    assert!(!is_there(&a, "n/7").await, "gone before it is swept");
    while count(&a, "SELECT count(*) FROM records").await > 0 {
        rig.clock.advance(secs(3));
    }
}

#[tokio::test]
async fn records_survive_a_restart_and_bound_ones_do_not() {
    let rig = Rig::new();
    let on = |boot: &str| {
        let mut options = rig.options();
        options.host.boot = Some(boot.into());
        options
    };
    let before = Sqlite::open(on("one"), rig.clock.clone().into()).await.unwrap();
    let lock = ticket("lock");
    take(&before, &lock).await;
    let version = store(&before, put("kept")).await;
    store(&before, bound("bound", &lock)).await;
    store(&before, brief("brief", secs(1000))).await;
    store(&before, brief("briefer", secs(1))).await;
    before.die().await;
    let clock = TestClock::new();
    let after = Sqlite::open(on("two"), clock.clone().into()).await.unwrap();
    assert!(is_there(&after, "kept").await && is_there(&after, "brief").await);
    assert!(!is_there(&after, "bound").await);
    assert!(store(&after, put("kept")).await > version);
    clock.advance(secs(1000));
    assert!(!is_there(&after, "brief").await && !is_there(&after, "briefer").await);
    assert!(is_there(&after, "kept").await);
}

/// Says how careful SQLite is with the commit of its transaction.
struct Care(bool);

impl StoreCommand for Care {
    type Answer = i64;

    fn is_lasting(&self) -> bool {
        self.0
    }

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<i64> {
        Ok(transaction.db.query_row("PRAGMA synchronous", [], |row| row.get(0))?)
    }
}

/// 1 is NORMAL, which leaves the last commits to the memory; 2 is FULL.
#[tokio::test]
async fn a_commit_that_has_to_last_waits_for_the_disk_and_no_other_does() {
    use super::super::records::{AddRecord, StoreRecord};
    let rig = Rig::new();
    let engine = rig.open().await;
    for _ in 0..2 {
        assert_eq!(engine.context.handle.ask(Care(false)).await.unwrap(), 1);
        assert_eq!(engine.context.handle.ask(Care(true)).await.unwrap(), 2);
    }
    assert!(AddRecord(name("ids"), 1).is_lasting(), "a number may be given out twice");
    assert!(StoreRecord(put("mark").lasting()).is_lasting(), "it may be run twice");
    assert!(!StoreRecord(put("mark")).is_lasting());
}
