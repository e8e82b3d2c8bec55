//! News that are late: of a place in the queue that has ended since.

use std::time::Duration;

use leasehold::claim::{Claim, Refresh, Renewal, Stance, Ticket, Verdict, Wake};
use leasehold::{Clock, Guard, Locks, Mode, Moment, Owner};
use leasehold_testkit::proxy::{Fault, Way};
use leasehold_testkit::server::Server;
use tokio::task::JoinHandle;

use super::{BOUND, Checked, LONG, calls, proxy, until};

/// How long a lease or a place lasts that is to run out.
const SHORT: Duration = Duration::from_secs(3);
/// The connection of a client on which it hears of grants.
const PUSHES: u64 = 1;

/// Somebody who waits for `n`, and is in the queue behind others.
async fn waits(
    waiter: &Locks,
    ttl: Duration,
    seen_by: &Locks,
    as_number: usize,
) -> Checked<JoinHandle<leasehold::Result<Guard>>> {
    let waiting = tokio::spawn(waiter.mutex("n").ttl(ttl).lock().within(BOUND).into_future());
    let queued = || async { Ok(seen_by.status("n").await?.waiters.len() == as_number) };
    until("it queues", queued).await?;
    Ok(waiting)
}

/// R19: the reply to a claim is late by more than a ttl, while grants are told in
/// time. The lease is handed over and runs out before its waiter hears that it
/// waits: by then the name is somebody else's.
#[tokio::test]
async fn a_grant_that_ran_out_is_not_taken_for_one_of_the_next_place() -> Checked {
    let server = Server::redis()?;
    let proxy = proxy(&server)?;
    let near = leasehold::open(server.url()).await?;
    let patient = "?retry=forever:100ms&timeout=1s&connect=1s";
    let far = leasehold::open(server.url_via(proxy.addr()) + patient).await?;
    far.mutex("warm").lock().await?.release().await?;
    let holder = near.mutex("n").ttl(LONG).lock().await?;

    proxy.spare(PUSHES);
    proxy.set(Way::Replies, Fault::Hold);
    let late = waits(&far, SHORT, &near, 1).await?;
    let next = waits(&near, LONG, &near, 2).await?;
    let told = proxy.counts().replies.passed;
    holder.release().await?;
    proxy.wait_for(BOUND, |counts| counts.replies.passed > told);
    let next = next.await??;
    assert!(proxy.counts().replies.held > 0, "the fault did not bite");
    proxy.heal();

    until("it queues again", || async { Ok(near.status("n").await?.waiters.len() == 1) }).await?;
    let before = calls(&server)?;
    // Time for a storm to show itself.
    tokio::time::sleep(SHORT).await;
    assert!(!late.is_finished(), "two hold it: {:?} beside {}", late.await, next.fence());
    let asked = calls(&server)? - before;
    assert!(asked < 100, "{asked} calls of one who waits");
    next.check()?;
    let fence = next.fence();
    next.release().await?;
    let late = late.await??;
    assert!(late.fence() > fence, "{} after {fence}", late.fence());
    assert_eq!(near.status("n").await?.holders[0].fence, Some(late.fence()));
    late.release().await?;
    Ok(())
}

/// R19: the same at the engine, without a fault: whoever claims again with the
/// same ticket is not told of what the ticket had before.
#[tokio::test]
async fn a_place_says_which_grants_cannot_be_meant_for_it() -> Checked {
    let server = Server::redis()?;
    let (one, two) = (leasehold::open(server.url()).await?, leasehold::open(server.url()).await?);
    let engine = one.engine();
    let holder = two.mutex("n").ttl(LONG).lock().await?;
    let ticket = Ticket::new(one.name("n")?, Mode::Exclusive);
    let mut claim = Claim::new(ticket.clone(), Owner::new("late"), SHORT / 3);
    claim.stance = Stance::Wait { until: Moment::NEVER };
    assert!(matches!(engine.acquire(claim.clone()).await?, Verdict::Busy(_)));
    holder.release().await?;
    // Handed over, and run out.
    let winner = two.mutex("n").ttl(LONG).lock().within(BOUND).await?;
    let Verdict::Busy(busy) = engine.acquire(claim).await? else { panic!("two hold it") };
    assert_eq!(busy.place.map(|place| place.floor >= winner.fence()), Some(true));
    let soon = Clock::System.now().after(Duration::from_millis(100));
    assert!(matches!(engine.wait(ticket.clone(), soon).await?, Wake::Look), "it was told of both");
    let renewals = engine.renew(vec![Refresh::new(ticket, LONG)]).await;
    let [Renewal::Queued(place)] = &renewals[..] else { panic!("{renewals:?}") };
    assert!(place.floor >= winner.fence());
    winner.check()?;
    winner.release().await?;
    Ok(())
}
