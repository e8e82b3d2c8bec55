//! The contract, straight on the engine: every verb may be repeated.

use leasehold::claim::{Ending, Refresh, Renewal, Stance, Ticket, Wake};
use leasehold::engine::profile::{Fencing, Liveness, Order, WakeUp};
use leasehold::{Clock, ErrorKind, Mode, Moment, Profile, Released};
use tokio::time::sleep;

use super::check::{Check, Outcome, check, ensure};
use super::direct::Direct;
use super::patience::{HOUR, eventually};
use super::store::Store;

/// A lease that lives on a connection ends with it and with nothing else.
fn outlives_its_client(profile: &Profile) -> bool {
    profile.liveness != Liveness::Connection
}

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(a_repeated_claim_is_granted_with_the_same_fence),
        check!(a_candidacy_is_granted_like_a_lock),
        check!(a_candidacy_takes_its_name_alone),
        check!(a_repeated_claim_keeps_its_place).when(|p| p.order == Order::Fifo),
        check!(a_grant_is_dated_when_it_was_asked_for),
        check!(a_try_leaves_nothing_behind),
        check!(a_renewal_of_an_unknown_ticket_is_gone),
        check!(a_renewal_brings_nothing_back_after_a_release),
        check!(a_renewal_brings_nothing_back_after_an_expiry).when(outlives_its_client),
        check!(a_renewal_touches_no_successor).when(outlives_its_client),
        check!(renewals_are_answered_in_order),
        check!(a_second_release_finds_nothing),
        check!(a_release_by_a_stranger_touches_nobody),
        check!(a_release_after_the_expiry_touches_no_successor).when(outlives_its_client),
        check!(a_release_under_way_touches_no_successor),
        check!(a_release_gives_up_a_place_in_the_queue),
        check!(a_release_comes_from_the_ticket_alone).when(outlives_its_client),
        check!(a_turn_comes_with_a_wake_up).when(|p| p.wake == WakeUp::Push),
        check!(a_turn_of_an_earlier_place_is_not_taken_for_one_of_the_present)
            .when(|p| a_turn_runs_out(p) && p.order == Order::Fifo)
            .of_a_queue(),
        check!(a_renewal_by_less_takes_nothing_away).when(only_extends),
    ]
}

/// Where a place lives as long as its client's session, or others keep the
/// queue, a turn waits for whoever lives; such engines do not know how a holder
/// ended either.
fn a_turn_runs_out(profile: &Profile) -> bool {
    outlives_its_client(profile) && profile.predecessor
}

/// A borrowed row has the end that was last asked for, and a lock of a
/// connection has none: there the guard follows. The library asks for no less.
fn only_extends(profile: &Profile) -> bool {
    outlives_its_client(profile) && profile.fencing != Fencing::None
}

async fn a_repeated_claim_is_granted_with_the_same_fence(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    for claim in [direct.claim(Mode::Exclusive), direct.waiting(Mode::Exclusive)] {
        // As if the reply to the first had been lost.
        let first = direct.granted(claim.clone()).await?;
        let again = direct.granted(claim.clone()).await?;
        ensure!(first.fence == again.fence, "{} and then {}", first.fence, again.fence);
        ensure!(direct.census().await? == (1, 0), "it waits for its own ghost");
        direct.release(&claim.ticket).await?;
    }
    Ok(())
}

async fn a_candidacy_is_granted_like_a_lock(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let candidacy = |value: &[u8]| {
        let mut claim = direct.claim(Mode::Exclusive);
        claim.candidate = Some(value.into());
        claim
    };
    for value in [&b"10.0.0.1:80"[..], b"", b"\xff\0\nmode=read"] {
        let claim = candidacy(value);
        let first = direct.granted(claim.clone()).await?;
        let again = direct.granted(claim.clone()).await?;
        ensure!(first.fence == again.fence, "{} and then {}", first.fence, again.fence);
        direct.busy(candidacy(b"another")).await?;
        direct.busy(direct.claim(Mode::Exclusive)).await?;
        ensure!(direct.release(&claim.ticket).await? == Released::Released, "it was ours");
        ensure!(direct.release(&claim.ticket).await? == Released::AlreadyLost, "twice");
        let lock = direct.claim(Mode::Exclusive);
        direct.granted(lock.clone()).await?;
        direct.busy(candidacy(value)).await?;
        direct.release(&lock.ticket).await?;
    }
    Ok(())
}

async fn a_candidacy_takes_its_name_alone(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    for mode in [Mode::Read, Mode::Write, Mode::Permits { take: 1, of: 2 }] {
        let mut claim = direct.claim(mode);
        claim.candidate = Some(b"me"[..].into());
        let error = direct.engine.acquire(claim).await.err().ok_or("others lead beside it")?;
        let refused = matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported);
        ensure!(refused, "{error:?}");
    }
    Ok(())
}

async fn a_repeated_claim_keeps_its_place(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let (held, first) = (direct.claim(Mode::Exclusive), direct.waiting(Mode::Exclusive));
    direct.granted(held.clone()).await?;
    direct.busy(first.clone()).await?;
    direct.busy(direct.waiting(Mode::Exclusive)).await?;
    direct.busy(first.clone()).await?;
    ensure!(direct.census().await? == (1, 2), "it queued twice: {:?}", direct.census().await?);
    direct.release(&held.ticket).await?;
    direct.granted(first).await?;
    Ok(())
}

async fn a_grant_is_dated_when_it_was_asked_for(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let before = Clock::System.now();
    let grant = direct.granted(direct.claim(Mode::Exclusive)).await?;
    let after = Clock::System.now();
    let dated = (before..=after).contains(&grant.sent_at);
    ensure!(dated, "{:?} is not in {before:?}..{after:?}", grant.sent_at);
    ensure!(grant.ttl <= HOUR, "longer than asked for: {:?}", grant.ttl);
    Ok(())
}

async fn a_try_leaves_nothing_behind(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let held = direct.claim(Mode::Exclusive);
    direct.granted(held.clone()).await?;
    let tried = direct.claim(Mode::Exclusive);
    let busy = direct.busy(tried.clone()).await?;
    ensure!(busy.place.is_none(), "a try has a place in the queue: {busy:?}");
    ensure!(direct.census().await? == (1, 0), "a try has queued");
    direct.release(&held.ticket).await?;
    ensure!(direct.census().await? == (0, 0), "a try was granted later");
    is_gone(&direct, &tried.ticket).await
}

async fn is_gone(direct: &Direct, ticket: &Ticket) -> Outcome {
    let answer = direct.renew(ticket).await?;
    ensure!(matches!(answer, Renewal::Gone), "{answer:?} instead of Gone");
    Ok(())
}

async fn a_renewal_of_an_unknown_ticket_is_gone(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    is_gone(&direct, &direct.claim(Mode::Exclusive).ticket).await?;
    ensure!(direct.census().await? == (0, 0), "the renewal took the name");
    Ok(())
}

async fn a_renewal_brings_nothing_back_after_a_release(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let claim = direct.claim(Mode::Exclusive);
    direct.granted(claim.clone()).await?;
    direct.release(&claim.ticket).await?;
    is_gone(&direct, &claim.ticket).await?;
    ensure!(direct.census().await? == (0, 0), "a dead lease came back");
    Ok(())
}

async fn a_renewal_brings_nothing_back_after_an_expiry(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let claim = direct.fixed(direct.short());
    direct.granted(claim.clone()).await?;
    eventually("the expiry", || async { Ok(direct.census().await? == (0, 0)) }).await?;
    is_gone(&direct, &claim.ticket).await?;
    ensure!(direct.census().await? == (0, 0), "a dead lease came back");
    Ok(())
}

async fn a_renewal_touches_no_successor(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let (first, next) = (direct.claim(Mode::Exclusive), direct.fixed(2 * direct.short()));
    direct.granted(first.clone()).await?;
    direct.release(&first.ticket).await?;
    direct.granted(next).await?;
    is_gone(&direct, &first.ticket).await?;
    eventually("the successor's own expiry", || async { Ok(direct.census().await? == (0, 0)) })
        .await
}

async fn renewals_are_answered_in_order(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let (held, queued) = (direct.claim(Mode::Exclusive), direct.waiting(Mode::Exclusive));
    let unknown = direct.claim(Mode::Exclusive);
    direct.granted(held.clone()).await?;
    direct.busy(queued.clone()).await?;
    let refresh = [&unknown, &queued, &held].map(|it| Refresh::new(it.ticket.clone(), HOUR));
    let answers = direct.engine.renew(refresh.to_vec()).await;
    let expected = matches!(
        answers.as_slice(),
        [Renewal::Gone, Renewal::Queued(_) | Renewal::Gone, Renewal::Held { .. }]
    );
    ensure!(expected, "{answers:?}");
    ensure!(direct.engine.renew(Vec::new()).await.is_empty(), "an answer without a question");
    Ok(())
}

async fn a_second_release_finds_nothing(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let claim = direct.claim(Mode::Exclusive);
    direct.granted(claim.clone()).await?;
    let answers = (direct.release(&claim.ticket).await?, direct.release(&claim.ticket).await?);
    ensure!(answers == (Released::Released, Released::AlreadyLost), "{answers:?}");
    Ok(())
}

async fn a_release_by_a_stranger_touches_nobody(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let claim = direct.claim(Mode::Exclusive);
    direct.granted(claim.clone()).await?;
    let stranger = direct.claim(Mode::Exclusive).ticket;
    let answer = direct.release(&stranger).await?;
    ensure!(answer == Released::AlreadyLost, "{answer:?}");
    ensure!(direct.census().await? == (1, 0), "a stranger released it");
    Ok(())
}

async fn a_release_after_the_expiry_touches_no_successor(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let (first, next) = (direct.fixed(direct.short()), direct.claim(Mode::Exclusive));
    direct.granted(first.clone()).await?;
    eventually("the expiry", || async { Ok(direct.census().await? == (0, 0)) }).await?;
    direct.granted(next.clone()).await?;
    let answer = direct.release(&first.ticket).await?;
    ensure!(answer == Released::AlreadyLost, "{answer:?}");
    let still = direct.renew(&next.ticket).await?;
    ensure!(matches!(still, Renewal::Held { .. }), "the successor lost it: {still:?}");
    Ok(())
}

/// A release that compares first and deletes later lets a successor in between.
async fn a_release_under_way_touches_no_successor(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let (first, next) = (direct.fixed(direct.short()), direct.claim(Mode::Exclusive));
    direct.granted(first.clone()).await?;
    let release = tokio::spawn(direct.engine.release(first.ticket, Ending::new()));
    eventually("a free name", || async { Ok(direct.granted(next.clone()).await.is_ok()) }).await?;
    release.await??;
    let still = direct.renew(&next.ticket).await?;
    ensure!(matches!(still, Renewal::Held { .. }), "the successor lost it: {still:?}");
    Ok(())
}

async fn a_release_gives_up_a_place_in_the_queue(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let (held, queued) = (direct.claim(Mode::Exclusive), direct.waiting(Mode::Exclusive));
    direct.granted(held.clone()).await?;
    direct.busy(queued.clone()).await?;
    direct.release(&queued.ticket).await?;
    ensure!(direct.census().await? == (1, 0), "the place is still there");
    direct.release(&held.ticket).await?;
    ensure!(direct.census().await? == (0, 0), "a waiter that left was served");
    Ok(())
}

/// Another client of the store has no private state about the lease.
async fn a_release_comes_from_the_ticket_alone(store: Store) -> Outcome {
    let (direct, other) = (Direct::new(&store).await?, Direct::new(&store).await?);
    let claim = direct.claim(Mode::Exclusive);
    direct.granted(claim.clone()).await?;
    let answer = other.release(&claim.ticket).await?;
    ensure!(answer == Released::Released, "{answer:?}");
    // A session may go on to say `Held` here: it has heard of no loss.
    ensure!(direct.census().await? == (0, 0), "it is still held");
    Ok(())
}

async fn a_turn_comes_with_a_wake_up(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let (held, queued) = (direct.claim(Mode::Exclusive), direct.waiting(Mode::Exclusive));
    direct.granted(held.clone()).await?;
    direct.busy(queued.clone()).await?;
    let until = Clock::System.now().after(super::patience::PATIENCE);
    let wait = tokio::spawn(direct.engine.wait(queued.ticket.clone(), until));
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    direct.release(&held.ticket).await?;
    wait.await??;
    ensure!(Clock::System.now() < until, "nothing woke it");
    eventually("the grant", || async { Ok(direct.granted(queued.clone()).await.is_ok()) }).await
}

/// A turn that nobody took runs out, and the same ticket queues again behind
/// the next holder: it must not hear of the old turn, or be able to tell.
async fn a_turn_of_an_earlier_place_is_not_taken_for_one_of_the_present(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let mut waiter = direct.fixed(direct.short());
    waiter.stance = Stance::Wait { until: Moment::NEVER };
    let first = direct.claim(Mode::Exclusive);
    direct.granted(first.clone()).await?;
    direct.busy(waiter.clone()).await?;
    direct.release(&first.ticket).await?;
    eventually("the turn runs out", || async { Ok(direct.census().await? == (0, 0)) }).await?;
    let next = direct.granted(direct.claim(Mode::Exclusive)).await?;
    let place = direct.busy(waiter.clone()).await?.place.ok_or("it has no place")?;
    let until = Clock::System.now().after(direct.short());
    let wake = direct.engine.wait(waiter.ticket.clone(), until).await?;
    if let Wake::Granted { fence, .. } = wake {
        ensure!(fence <= place.floor, "{fence} is believed beside {}", next.fence);
    }
    ensure!(place.floor == 0 || place.floor >= next.fence, "{place:?} above {next:?}");
    direct.release(&waiter.ticket).await?;
    Ok(())
}

async fn a_renewal_by_less_takes_nothing_away(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let claim = direct.fixed(HOUR);
    direct.granted(claim.clone()).await?;
    let mut less = Refresh::new(claim.ticket.clone(), direct.short());
    less.renewed = false;
    let answers = direct.engine.renew(vec![less]).await;
    let [Renewal::Held { ttl, sent_at }] = answers[..] else {
        return Err(format!("{answers:?}").into());
    };
    let until = Clock::System.now().after(2 * direct.short());
    while Clock::System.now() < until {
        sleep(direct.short() / 10).await;
        ensure!(direct.census().await? == (1, 0), "it ended early");
    }
    ensure!(sent_at.after(ttl) > until, "it says that it ran out: {ttl:?}");
    Ok(())
}
