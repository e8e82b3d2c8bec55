//! Long lines of waiters: a step is about as many rows as with a short one.

use super::*;

/// What the store has written so far, in rows.
async fn written(engine: &Sqlite) -> i64 {
    count(engine, "SELECT total_changes()").await
}

/// The longest text of a name.
async fn longest(engine: &Sqlite) -> i64 {
    count(engine, "SELECT max(length(state)) FROM names").await
}

/// A holder and a line behind it.
async fn lined_up(engine: &Sqlite, count: usize) -> Vec<Ticket> {
    let tickets: Vec<_> = (0..=count).map(|_| ticket("job")).collect();
    take(engine, &tickets[0]).await;
    for one in &tickets[1..] {
        queue(engine, one).await;
    }
    tickets
}

/// The rows that one more waiter writes, and then a hand-over.
async fn cost_behind(waiters: usize) -> (i64, i64, i64) {
    let rig = Rig::new();
    let engine = rig.open().await;
    let tickets = lined_up(&engine, waiters).await;
    let before = written(&engine).await;
    queue(&engine, &ticket("job")).await;
    let joined = written(&engine).await;
    give_back(&engine, &tickets[0]).await;
    let handed = written(&engine).await;
    (joined - before, handed - joined, longest(&engine).await)
}

#[tokio::test]
async fn a_step_writes_the_same_behind_ten_and_behind_a_thousand() {
    let (short, long) = (cost_behind(10).await, cost_behind(1000).await);
    assert_eq!((short.0, short.1), (long.0, long.1));
    assert!(long.2 <= short.2 + 8, "the text of the name grows: {short:?}, {long:?}");
}

#[tokio::test]
async fn a_long_line_is_served_in_the_order_it_came() {
    let rig = Rig::new();
    let engine = rig.open().await;
    let tickets = lined_up(&engine, 60).await;
    for pair in tickets.windows(2) {
        give_back(&engine, &pair[0]).await;
        let wake = engine.wait(pair[1].clone(), Moment::NEVER).await.unwrap();
        assert!(matches!(wake, Wake::Granted { .. }), "{wake:?}");
    }
    give_back(&engine, &tickets[60]).await;
    assert_eq!(count(&engine, "SELECT count(*) FROM seats").await, 0);
}

/// More readers than one look at the line brings.
#[tokio::test]
async fn a_writer_lets_all_readers_in_at_once() {
    let rig = Rig::new();
    let engine = rig.open().await;
    let name = name("job");
    let writer = Ticket::new(name.clone(), Mode::Write);
    take(&engine, &writer).await;
    let readers: Vec<_> = (0..300).map(|_| Ticket::new(name.clone(), Mode::Read)).collect();
    for reader in &readers {
        queue(&engine, reader).await;
    }
    give_back(&engine, &writer).await;
    for reader in &readers {
        let wake = engine.wait(reader.clone(), Moment::NEVER).await.unwrap();
        assert!(matches!(wake, Wake::Granted { .. }), "{wake:?}");
    }
}

#[tokio::test]
async fn whoever_leaves_the_middle_of_a_line_is_not_served() {
    let rig = Rig::new();
    let engine = rig.open().await;
    let tickets = lined_up(&engine, 60).await;
    for one in &tickets[1..59] {
        assert_eq!(give_back(&engine, one).await, Released::Released);
    }
    give_back(&engine, &tickets[0]).await;
    let wake = engine.wait(tickets[59].clone(), Moment::NEVER).await.unwrap();
    assert!(matches!(wake, Wake::Granted { .. }), "{wake:?}");
}

#[tokio::test]
async fn the_dead_are_swept_out_of_a_line_though_the_holder_lives() {
    let rig = Rig::new();
    let (a, b, c) = (rig.open().await, rig.open().await, rig.open().await);
    take(&a, &ticket("job")).await;
    for _ in 0..200 {
        queue(&b, &ticket("job")).await;
    }
    let last = ticket("job");
    queue(&c, &last).await;
    b.die().await;
    for _ in 0..8 {
        rig.open().await.close().await.unwrap();
    }
    assert_eq!(count(&a, "SELECT count(*) FROM seats").await, 1);
    let status = c.inspect(Selector::Name(name("job")), Page::default()).await.unwrap();
    assert_eq!(status.names[0].waiters.len(), 1);
}

/// Lets the thread of the store work, which keeps real time.
async fn breathe() {
    let clock = Clock::System;
    clock.sleep_until(clock.now().after(Duration::from_millis(5))).await;
}

/// Nobody told them; one call for all finds who was served, portion by portion.
#[tokio::test]
async fn one_look_finds_lost_messages_of_many() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let held: Vec<_> = (0..300).map(|at| ticket(&format!("job/{at}"))).collect();
    let waiting: Vec<_> = (0..300).map(|at| ticket(&format!("job/{at}"))).collect();
    for (one, other) in held.iter().zip(&waiting) {
        take(&a, one).await;
        queue(&b, other).await;
    }
    b.listener.abort();
    let spawn = |one: &Ticket| Handle::current().spawn(b.wait(one.clone(), Moment::NEVER));
    let waits: Vec<_> = waiting.iter().map(spawn).collect();
    for one in &held[..150] {
        give_back(&a, one).await;
    }
    // Long before anything expires.
    for _ in 0..10 {
        rig.clock.advance(TTL / 50);
        breathe().await;
    }
    while !waits[..150].iter().all(|wait| wait.is_finished()) {
        breathe().await;
    }
    assert!(waits[150..].iter().all(|wait| !wait.is_finished()), "their turn has not come");
}
