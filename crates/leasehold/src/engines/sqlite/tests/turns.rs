//! Turns, sessions and what remains.

use super::*;
use crate::claim::Predecessor;
use crate::engine::{Event, Loss, Target};

async fn granted_by_push(engine: &Sqlite, ticket: &Ticket) -> (u64, Predecessor) {
    match engine.wait(ticket.clone(), Moment::NEVER).await.unwrap() {
        Wake::Granted { fence, predecessor } => (fence, predecessor),
        Wake::Look => panic!("nothing was pushed"),
    }
}

#[tokio::test]
async fn a_release_hands_over_to_another_client() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let (first, second) = (ticket("job"), ticket("job"));
    let grant = take(&a, &first).await;
    queue(&b, &second).await;
    let wait = Handle::current().spawn(b.wait(second.clone(), Moment::NEVER));
    tokio::task::yield_now().await;
    assert_eq!(give_back(&a, &first).await, Released::Released);
    match wait.await.unwrap().unwrap() {
        Wake::Granted { fence, predecessor } => {
            assert!(fence > grant.fence);
            assert_eq!(predecessor, Predecessor::Released);
        }
        Wake::Look => panic!("nothing was pushed"),
    }
    assert_eq!(give_back(&b, &second).await, Released::Released);
}

#[tokio::test]
async fn a_hand_over_before_the_wait_is_kept() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let (first, second, third) = (ticket("job"), ticket("job"), ticket("job"));
    take(&a, &first).await;
    queue(&b, &second).await;
    queue(&a, &third).await;
    give_back(&a, &first).await;
    let (fence, _) = granted_by_push(&b, &second).await;
    give_back(&b, &second).await;
    let (later, _) = granted_by_push(&a, &third).await;
    assert!(later > fence);
}

#[tokio::test]
async fn a_lost_message_is_found_by_renewal() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let (first, second) = (ticket("job"), ticket("job"));
    take(&a, &first).await;
    queue(&b, &second).await;
    b.listener.abort();
    tokio::task::yield_now().await;
    give_back(&a, &first).await;
    let answer = b.renew(vec![Refresh::new(second.clone(), TTL)]).await.remove(0);
    assert!(matches!(answer, Renewal::Held { .. }), "{answer:?}");
}

#[tokio::test]
async fn a_lost_message_is_found_by_a_slow_look() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let (first, second) = (ticket("job"), ticket("job"));
    take(&a, &first).await;
    queue(&b, &second).await;
    b.listener.abort();
    let wait = Handle::current().spawn(b.wait(second.clone(), Moment::NEVER));
    give_back(&a, &first).await;
    while !wait.is_finished() {
        rig.clock.advance(Duration::from_millis(500));
        tokio::task::yield_now().await;
    }
    assert!(matches!(wait.await.unwrap().unwrap(), Wake::Look));
    assert!(take(&b, &second).await.fence > 0);
}

#[tokio::test]
async fn a_wait_ends_when_the_holder_expires() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let (first, second) = (ticket("job"), ticket("job"));
    granted(a.acquire(Claim { renewed: false, ttl: secs(5), ..claim(&first) }).await.unwrap());
    queue(&b, &second).await;
    let wait = Handle::current().spawn(b.wait(second.clone(), Moment::NEVER));
    tokio::task::yield_now().await;
    rig.clock.advance(secs(5));
    // Either the slow look finds it or the owner's own sweep hands it over.
    wait.await.unwrap().unwrap();
    assert_eq!(take(&b, &second).await.predecessor, Predecessor::Expired);
}

#[tokio::test]
async fn renewing_ten_thousand_tickets_writes_one_row_per_ttl() {
    let rig = Rig::new();
    let engine = rig.open().await;
    let tickets: Vec<_> = (0..10_000).map(|at| ticket(&format!("name/{at}"))).collect();
    let ttl = |at: usize| if at.is_multiple_of(2) { secs(30) } else { secs(40) };
    for (at, one) in tickets.iter().enumerate() {
        granted(engine.acquire(Claim { ttl: ttl(at), ..claim(one) }).await.unwrap());
    }
    rig.clock.advance(secs(10));
    let before = count(&engine, "SELECT total_changes()").await;
    let batch = tickets.iter().enumerate().map(|(at, one)| Refresh::new(one.clone(), ttl(at)));
    let answers = engine.renew(batch.collect()).await;
    let after = count(&engine, "SELECT total_changes()").await;
    assert_eq!(after - before, 2, "one row for each ttl");
    for (at, answer) in answers.iter().enumerate() {
        assert!(
            matches!(answer, Renewal::Held { ttl: left, .. } if *left == ttl(at)),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn a_session_that_has_expired_is_never_revived() {
    let rig = Rig::new();
    let engine = rig.open().await;
    let (old, new) = (ticket("old"), ticket("new"));
    take(&engine, &old).await;
    rig.clock.advance(TTL);
    assert_eq!(take(&engine, &new).await.ttl, TTL);
    let answers = engine.renew(vec![Refresh::new(old, TTL), Refresh::new(new, TTL)]).await;
    assert!(matches!(answers[..], [Renewal::Gone, Renewal::Held { .. }]), "{answers:?}");
}

#[tokio::test]
async fn a_grant_says_what_is_left_of_its_session() {
    let rig = Rig::new();
    let engine = rig.open().await;
    take(&engine, &ticket("a")).await;
    rig.clock.advance(secs(3));
    assert_eq!(take(&engine, &ticket("b")).await.ttl, secs(27));
    rig.clock.advance(secs(3));
    assert_eq!(take(&engine, &ticket("c")).await.ttl, secs(30));
}

#[tokio::test]
async fn a_fixed_lease_lives_by_itself() {
    let rig = Rig::new();
    let engine = rig.open().await;
    let (fixed, kept) = (ticket("fixed"), ticket("kept"));
    granted(engine.acquire(Claim { renewed: false, ..claim(&fixed) }).await.unwrap());
    take(&engine, &kept).await;
    rig.clock.advance(secs(20));
    engine.renew(vec![Refresh::new(kept.clone(), TTL)]).await;
    rig.clock.advance(secs(10));
    assert_eq!(give_back(&engine, &fixed).await, Released::AlreadyLost);
    assert_eq!(give_back(&engine, &kept).await, Released::Released);
}

#[tokio::test]
async fn an_eviction_reaches_holders_here_and_elsewhere() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let mut heard = (a.events(), b.events());
    let (mine, yours) = (ticket("mine"), ticket("yours"));
    take(&a, &mine).await;
    take(&b, &yours).await;
    for one in [&mine, &yours] {
        let eviction = Eviction::new(one.name.clone(), Target::All, "root", "stuck").unwrap();
        assert_eq!(a.evict(eviction).await.unwrap().leases.len(), 1);
    }
    for (events, ticket) in [(&mut heard.0, &mine), (&mut heard.1, &yours)] {
        let Some(Event::TicketLost(id, loss)) = events.next().await else { panic!("no event") };
        assert_eq!(id, ticket.id);
        assert_eq!(loss, Loss::Evicted { actor: "root".into(), reason: "stuck".into() });
    }
    assert_eq!(give_back(&b, &yours).await, Released::AlreadyLost);
}

#[tokio::test]
async fn an_eviction_is_found_by_renewal_if_the_message_is_lost() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let mut heard = b.events();
    let one = ticket("job");
    take(&b, &one).await;
    b.listener.abort();
    tokio::task::yield_now().await;
    let eviction = Eviction::new(one.name.clone(), Target::All, "root", "stuck").unwrap();
    a.evict(eviction).await.unwrap();
    let answers = b.renew(vec![Refresh::new(one.clone(), TTL)]).await;
    assert!(matches!(answers[..], [Renewal::Gone]), "{answers:?}");
    assert!(matches!(heard.next().await, Some(Event::TicketLost(id, _)) if id == one.id));
}

#[tokio::test]
async fn nothing_remains_after_the_linger() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let tickets: Vec<_> = (0..200).map(|at| ticket(&format!("name/{at}"))).collect();
    for (at, one) in tickets.iter().enumerate() {
        let renewed = at % 3 > 0;
        granted(a.acquire(Claim { renewed, ..claim(one) }).await.unwrap());
    }
    for one in &tickets[100..] {
        give_back(&a, one).await;
    }
    drop(a.close().await);
    rig.clock.advance(secs(200));
    let rows = "SELECT (SELECT count(*) FROM names) + (SELECT count(*) FROM sessions) \
                + (SELECT count(*) FROM losses)";
    // Its own sweeps come by the real clock; a third client's opening counts too.
    for _ in 0..40 {
        rig.open().await.close().await.unwrap();
        rig.clock.advance(secs(61));
    }
    assert_eq!(count(&b, rows).await, 0);
}

#[tokio::test]
async fn odd_names_are_only_names() {
    let rig = Rig::new();
    let engine = rig.open().await;
    let long = "x".repeat(255);
    let odd =
        ["%", "_", "a%", "a_", "ab", "a'b\"c`", "\\", "é", "e\u{301}", "a ", "日本", "🦀", &long];
    for text in odd {
        take(&engine, &ticket(text)).await;
    }
    let page = |prefix: &str| {
        let selector = Selector::Prefix(Namespace::default(), prefix.into());
        engine.inspect(selector, Page { after: None, size: 100 })
    };
    let mut sorted = odd.map(str::to_owned);
    sorted.sort();
    let shown = |listing: Listing| {
        listing.names.iter().map(|status| status.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(shown(page("").await.unwrap()), sorted);
    assert_eq!(shown(page("a%").await.unwrap()), ["a%"]);
    assert_eq!(shown(page("_").await.unwrap()), ["_"]);
}

#[tokio::test]
async fn listings_come_in_pages() {
    let rig = Rig::new();
    let engine = rig.open().await;
    for text in ["b/1", "b/2", "b/3", "a", "c"] {
        take(&engine, &ticket(text)).await;
    }
    let selector = Selector::Prefix(Namespace::default(), "b/".into());
    let first = engine.inspect(selector.clone(), Page { after: None, size: 2 }).await.unwrap();
    assert!(first.more && first.names.len() == 2);
    let after = Page { after: Some(first.names[1].name.clone()), size: 2 };
    let second = engine.inspect(selector, after).await.unwrap();
    assert!(!second.more && second.names[0].name.as_str() == "b/3");
    assert!(second.names[0].is_busy());
}

#[tokio::test]
async fn a_renewal_of_other_tickets_does_not_swallow_an_eviction() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let mut heard = b.events();
    let (evicted, kept) = (ticket("evicted"), ticket("kept"));
    take(&b, &evicted).await;
    take(&b, &kept).await;
    b.listener.abort();
    tokio::task::yield_now().await;
    let eviction = Eviction::new(evicted.name.clone(), Target::All, "root", "stuck").unwrap();
    a.evict(eviction).await.unwrap();
    let answers = b.renew(vec![Refresh::new(kept.clone(), TTL)]).await;
    assert!(matches!(answers[..], [Renewal::Held { .. }]), "{answers:?}");
    let answers = b.renew(vec![Refresh::new(evicted.clone(), TTL)]).await;
    assert!(matches!(answers[..], [Renewal::Gone]), "{answers:?}");
    assert!(matches!(heard.next().await, Some(Event::TicketLost(id, _)) if id == evicted.id));
}
