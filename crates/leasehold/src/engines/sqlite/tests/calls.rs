//! Roll calls: who is looked at, and when.

use super::*;
use crate::engines::kit::waiters::TicketStatus;

/// Lets the thread of the store work, which keeps real time.
async fn breathe() {
    let clock = Clock::System;
    clock.sleep_until(clock.now().after(Duration::from_millis(5))).await;
}

/// A client that nobody cleans up for, with somebody who waits behind each of these
/// leases, which are not renewed.
async fn behind(rig: &Rig, poll: Duration, ends: &[(String, Duration)]) -> (Sqlite, Vec<Ticket>) {
    let mut options = rig.options();
    (options.sweep, options.poll) = (Duration::MAX, poll);
    let engine = Sqlite::open(options, rig.clock.clone().into()).await.unwrap();
    let mut waits = Vec::new();
    for (name, ttl) in ends {
        let fixed = Claim { renewed: false, ttl: *ttl, ..claim(&ticket(name)) };
        granted(engine.acquire(fixed).await.unwrap());
        waits.push(ticket(name));
        queue(&engine, &waits[waits.len() - 1]).await;
    }
    (engine, waits)
}

fn looks(engine: &Sqlite, ticket: &Ticket) -> bool {
    matches!(engine.context.tickets.glance(ticket.id), TicketStatus::Look)
}

/// A row that cannot be read makes its waiter look, if anybody reads it.
#[tokio::test]
async fn a_name_that_may_have_opened_is_looked_at_alone() {
    let rig = Rig::new();
    let ends = [("a".to_owned(), secs(20)), ("b".to_owned(), secs(5))];
    let (engine, waits) = behind(&rig, secs(600), &ends).await;
    count(&engine, "UPDATE names SET state = '#' WHERE name = 'a' RETURNING 1").await;
    let wait = Handle::current().spawn(engine.wait(waits[1].clone(), Moment::NEVER));
    breathe().await;
    rig.clock.advance(secs(5));
    assert!(matches!(wait.await.unwrap().unwrap(), Wake::Look));
    assert!(!looks(&engine, &waits[0]), "its time has not come");
    let wait = Handle::current().spawn(engine.wait(waits[0].clone(), Moment::NEVER));
    rig.clock.advance(secs(15));
    assert!(matches!(wait.await.unwrap().unwrap(), Wake::Look));
}

#[tokio::test]
async fn names_that_open_all_the_time_do_not_put_off_the_call_for_all() {
    let rig = Rig::new();
    let part = Duration::from_millis(100);
    let name = |at: u32| (format!("job/{at}"), part * at);
    let ends: Vec<_> = (1..60).map(name).chain([("lost".to_owned(), TTL)]).collect();
    let (engine, waits) = behind(&rig, secs(1), &ends).await;
    let (other, lost) = (rig.open().await, &waits[59]);
    let wait = Handle::current().spawn(engine.wait(lost.clone(), Moment::NEVER));
    engine.listener.abort();
    breathe().await;
    let evicted = Eviction::new(lost.name.clone(), crate::engine::Target::All, "root", "stuck");
    other.evict(evicted.unwrap()).await.unwrap();
    for _ in 0..30 {
        rig.clock.advance(part);
        breathe().await;
    }
    assert!(wait.is_finished(), "nobody has looked for three seconds");
}

/// A reader behind a writer: there is room for it, and it is not its turn.
#[tokio::test]
async fn who_fits_but_is_not_next_has_nothing_to_look_for() {
    let rig = Rig::new();
    let as_mode = |mode| Ticket::new(name("n"), mode);
    let (engine, other) = (rig.open().await, rig.open().await);
    take(&other, &as_mode(Mode::Read)).await;
    queue(&other, &as_mode(Mode::Write)).await;
    let ours = as_mode(Mode::Read);
    queue(&engine, &ours).await;
    let _wait = Handle::current().spawn(engine.wait(ours.clone(), Moment::NEVER));
    for _ in 0..3 {
        rig.clock.advance(secs(1));
        breathe().await;
        let status = engine.context.tickets.glance(ours.id);
        let TicketStatus::Waiting(_, outlook) = status else { panic!("{status:?}") };
        assert!(outlook.look_at > rig.clock.now(), "it would be looked at again and again");
    }
}
