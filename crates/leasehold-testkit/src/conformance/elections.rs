//! Elections: one leads, the others see who, and a successor follows.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex as Cell, PoisonError};

use leasehold::engine::{Eviction, Target};
use leasehold::{Error, ErrorKind, Leadership, Locks, Observed, Observer, Reign, Released};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, PATIENCE, eventually, idle};
use super::recipe::Client;
use super::store::Store;
use crate::faulty_records::BadLuck;
use crate::sweep::Sweep;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(an_engine_elects_who_says_something_or_says_why_not),
        check!(one_leads_at_a_time_and_fences_grow),
        check!(an_observer_sees_the_leader_then_nobody_then_the_next),
        check!(an_observer_who_comes_late_sees_the_leader),
        check!(a_proclamation_is_seen_and_the_last_one_stays),
        check!(a_proclamation_whose_reply_is_lost_is_made_once),
        check!(a_proclamation_that_comes_late_changes_nothing),
        check!(an_observer_that_missed_something_reads_it_again),
        check!(a_leader_whose_time_is_up_is_nobody_any_more).of_known_leases(),
        check!(an_evicted_candidate_follows_and_leads_again).of_known_leases(),
        check!(candidates_lead_in_turn),
        check!(work_is_dropped_with_the_lead).of_known_leases(),
        check!(who_is_requeued_leads_again_after_a_loss).of_known_leases(),
        check!(a_record_of_something_else_is_not_written_over),
        check!(a_campaign_dropped_at_any_point_leaves_nothing),
    ]
}

/// A client of an engine with records, or there is nothing to check.
macro_rules! client {
    ($store:expr) => {{
        let client = $store.open().await?;
        if client.engine().records().is_none() {
            return Ok(());
        }
        client
    }};
}

async fn an_engine_elects_who_says_something_or_says_why_not(store: Store) -> Outcome {
    let locks = store.open().await?;
    let has = locks.engine().records().is_some();
    let election = locks.election("n").ttl(HOUR);
    election.campaign("").await?.resign().await?;
    let refused = |error: &Error| error.kind() == ErrorKind::Unsupported;
    match election.campaign("me").await {
        Ok(reign) => ensure!(has, "fence {} says what nobody can read", reign.fence()),
        Err(error) => ensure!(!has && refused(&error), "{error:?}"),
    }
    match election.observe().await {
        Ok(_) => ensure!(has, "sees what is not there"),
        Err(error) => ensure!(!has && refused(&error), "{error:?}"),
    }
    idle(&locks.mutex("n")).await
}

async fn one_leads_at_a_time_and_fences_grow(store: Store) -> Outcome {
    let clients = store.open_many(2).await?;
    if clients[0].engine().records().is_none() {
        return Ok(());
    }
    let (leads, newest) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut tasks = JoinSet::new();
    for at in 0..6 {
        let election = clients[at % 2].election("n").ttl(HOUR);
        let (leads, newest) = (Arc::clone(&leads), Arc::clone(&newest));
        tasks.spawn(async move {
            let mut fences = Vec::new();
            for round in 0..3 {
                let reign = election.campaign(format!("{at}/{round}")).within(PATIENCE).await?;
                ensure!(leads.fetch_add(1, Ordering::AcqRel) == 0, "two lead");
                newest.fetch_add(1, Ordering::AcqRel);
                fences.push(reign.fence());
                leads.fetch_sub(1, Ordering::AcqRel);
                reign.resign().await?;
            }
            ensure!(fences.is_sorted_by(|a, b| a < b), "fences went back: {fences:?}");
            Outcome::Ok(())
        });
    }
    for done in tasks.join_all().await {
        done?;
    }
    ensure!(newest.load(Ordering::Acquire) == 18, "not everybody led");
    idle(&clients[0].mutex("n")).await
}

/// Looks on until it is as wanted; nothing that was seen may go back.
async fn sees(observer: &mut Observer, wanted: impl Fn(&Observed) -> bool) -> Outcome<Observed> {
    let mut newest = 0;
    loop {
        let observed =
            timeout(PATIENCE, observer.next()).await.map_err(|_| "not seen in time")??;
        let observed = observed.ok_or("the locks are open")?;
        if let Observed::Leader(leader) = &observed {
            ensure!(leader.fence >= newest, "fence {} after {newest}", leader.fence);
            newest = leader.fence;
        }
        if wanted(&observed) {
            return Ok(observed);
        }
    }
}

async fn sees_leader(observer: &mut Observer, value: &str) -> Outcome<u64> {
    let is = |it: &Observed| matches!(it, Observed::Leader(leader) if &*leader.value == value);
    match sees(observer, is).await? {
        Observed::Leader(leader) => Ok(leader.fence),
        other => Err(format!("{other:?} is no leader").into()),
    }
}

async fn an_observer_sees_the_leader_then_nobody_then_the_next(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let mut observer = theirs.election("n").observe().await?;
    sees(&mut observer, |it| *it == Observed::Nobody).await?;
    for value in ["first", "second"] {
        let reign = ours.election("n").ttl(HOUR).label("a host").campaign(value).await?;
        let fence = sees_leader(&mut observer, value).await?;
        ensure!(fence == reign.fence(), "{fence} is not that of the reign");
        ensure!(reign.resign().await? == Released::Released, "it was lost");
        sees(&mut observer, |it| *it == Observed::Nobody).await?;
    }
    Ok(())
}

async fn an_observer_who_comes_late_sees_the_leader(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let reign = ours.election("n").ttl(HOUR).label("a host").campaign("me").await?;
    let mut observer = theirs.election("n").observe().await?;
    let seen = sees(&mut observer, |_| true).await?;
    let Observed::Leader(leader) = seen else { return Err(format!("{seen:?}").into()) };
    ensure!((&*leader.value, &*leader.label) == ("me", "a host"), "{leader:?}");
    ensure!(leader.fence == reign.fence(), "{leader:?}");
    Ok(reign.check()?)
}

async fn a_proclamation_is_seen_and_the_last_one_stays(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let mut observer = theirs.election("n").observe().await?;
    let mut reign = ours.election("n").ttl(HOUR).campaign("0").await?;
    for number in 1..=20 {
        reign.proclaim(number.to_string()).await?;
    }
    sees_leader(&mut observer, "20").await?;
    let mut late = theirs.election("n").observe().await?;
    let seen = sees(&mut late, |_| true).await?;
    ensure!(matches!(&seen, Observed::Leader(it) if &*it.value == "20"), "{seen:?}");
    Ok(reign.check()?)
}

async fn a_proclamation_whose_reply_is_lost_is_made_once(store: Store) -> Outcome {
    client!(store);
    let luck = BadLuck::default();
    let (ours, theirs) = store.open_twisted(luck.clone()).await?;
    luck.lose(1);
    let mut reign = ours.election("n").ttl(HOUR).campaign("first").await?;
    ensure!(luck.losses() == 1, "nothing was lost");
    let before = version(&theirs).await?;
    luck.lose(2);
    reign.proclaim("second").await?;
    ensure!(luck.losses() > 1, "nothing was lost");
    ensure!(version(&theirs).await? > before, "it was not said");
    let mut observer = theirs.election("n").observe().await?;
    sees_leader(&mut observer, "second").await?;
    Ok(reign.check()?)
}

async fn version(locks: &Locks) -> Outcome<u64> {
    let store = locks.engine();
    let records = store.records().ok_or("no records")?;
    let found = records.load(locks.name("n")?).await?;
    Ok(found.ok_or("nothing is there")?.version)
}

/// A request that stood still on its way is carried out after the next one.
async fn a_proclamation_that_comes_late_changes_nothing(store: Store) -> Outcome {
    client!(store);
    let luck = BadLuck::default();
    let (ours, theirs) = store.open_twisted(luck.clone()).await?;
    luck.delay(1);
    let mut reign = ours.election("n").ttl(HOUR).campaign("first").await?;
    luck.delay(1);
    reign.proclaim("second").await?;
    reign.proclaim("third").await?;
    let before = version(&theirs).await?;
    ensure!(luck.deliver().await? == 2, "nothing was late");
    ensure!(version(&theirs).await? == before, "it was written over");
    let mut observer = theirs.election("n").observe().await?;
    sees_leader(&mut observer, "third").await?;
    Ok(reign.check()?)
}

async fn an_observer_that_missed_something_reads_it_again(store: Store) -> Outcome {
    let theirs = client!(store);
    let luck = BadLuck::default();
    let (ours, _below) = store.open_twisted(luck.clone()).await?;
    let mut observer = ours.election("n").observe().await?;
    sees(&mut observer, |it| *it == Observed::Nobody).await?;
    luck.miss(u32::MAX);
    let mut reign = theirs.election("n").ttl(HOUR).campaign("first").await?;
    sees_leader(&mut observer, "first").await?;
    reign.proclaim("second").await?;
    sees_leader(&mut observer, "second").await?;
    reign.resign().await?;
    sees(&mut observer, |it| *it == Observed::Nobody).await?;
    ensure!(luck.misses() > 2, "only {} gaps", luck.misses());
    Ok(())
}

async fn a_leader_whose_time_is_up_is_nobody_any_more(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let mut observer = theirs.election("n").observe().await?;
    let brief = ours.election("n").ttl(ours.brief()).renew(false);
    let mut old = None;
    // On a machine that stands still its time may be up before it has spoken.
    while old.is_none() {
        match brief.campaign("old").await {
            Ok(reign) => old = Some(reign),
            Err(error) => ensure!(error.is_lost(), "{error:?}"),
        }
    }
    let old = old.ok_or("somebody led")?;
    let next = theirs.election("n").ttl(HOUR).campaign("new").within(PATIENCE).await?;
    ensure!(old.check().is_err(), "two lead");
    ensure!(next.fence() > old.fence(), "fences went back");
    let fence = sees_leader(&mut observer, "new").await?;
    ensure!(fence == next.fence(), "{fence} is not that of the reign");
    let mut old = old;
    let error = old.proclaim("still here").await.err().ok_or("spoke without the lead")?;
    ensure!(error.is_lost(), "{error:?}");
    Ok(next.check()?)
}

async fn evict(locks: &Client) -> Outcome {
    let all = Eviction::new(locks.name("n")?, Target::All, "ann", "a test")?;
    locks.evict(all).await?;
    Ok(())
}

async fn an_evicted_candidate_follows_and_leads_again(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let mut candidacy = ours.election("n").ttl(HOUR).stand("me")?;
    let first = timeout(PATIENCE, candidacy.leading()).await??;
    evict(&theirs).await?;
    let second = timeout(PATIENCE, candidacy.leading()).await??;
    ensure!(second > first, "fence {second} after {first}");
    timeout(PATIENCE, candidacy.withdraw()).await??;
    idle(&theirs.mutex("n")).await
}

async fn candidates_lead_in_turn(store: Store) -> Outcome {
    client!(store);
    let clients = store.open_many(2).await?;
    let mut standing = Vec::new();
    for at in 0..4 {
        standing.push(clients[at % 2].election("n").ttl(HOUR).stand(format!("{at}"))?);
    }
    let mut newest = 0;
    while !standing.is_empty() {
        let leads = |it: &leasehold::Candidacy| matches!(it.state(), Leadership::Leading { .. });
        let one = || async { Ok(standing.iter().any(leads)) };
        eventually("somebody leads", one).await?;
        ensure!(standing.iter().filter(|it| leads(it)).count() == 1, "two lead");
        let at = standing.iter().position(leads).ok_or("the lead was lost")?;
        let candidacy = standing.remove(at);
        let Leadership::Leading { fence } = candidacy.state() else {
            return Err("the lead was lost".into());
        };
        ensure!(fence > newest, "fence {fence} after {newest}");
        newest = fence;
        timeout(PATIENCE, candidacy.withdraw()).await??;
    }
    idle(&clients[0].mutex("n")).await
}

async fn work_is_dropped_with_the_lead(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let election = ours.election("n").ttl(HOUR);
    let endless = async |reign: &mut Reign| {
        evict(&theirs).await.map_err(|why| why.to_string())?;
        std::future::pending::<()>().await;
        Ok::<u64, String>(reign.fence())
    };
    let error = timeout(PATIENCE, election.lead("me", endless)).await?.err();
    let error = error.ok_or("the work went on")?;
    ensure!(error.is_lost() && error.to_string().contains("ann"), "{error:?}");
    idle(&theirs.mutex("n")).await
}

async fn who_is_requeued_leads_again_after_a_loss(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let fences = Arc::new(Cell::new(Vec::new()));
    let (seen, other) = (Arc::clone(&fences), theirs.clone());
    let terms = async move |reign: &mut Reign| {
        let term = {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(reign.fence());
            seen.len()
        };
        match term {
            1 => ControlFlow::Continue(()),
            2 => {
                let _ = evict(&other).await;
                std::future::pending().await
            }
            _ => ControlFlow::Break(()),
        }
    };
    let requeue = ours.election("n").ttl(HOUR).requeue();
    timeout(PATIENCE, requeue.lead("me", terms)).await??;
    let fences = fences.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure!(fences.len() == 3 && fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    idle(&theirs.mutex("n")).await
}

async fn a_record_of_something_else_is_not_written_over(store: Store) -> Outcome {
    let locks = client!(store);
    locks.record::<String>("n").set(&"a price".into()).await?;
    let error = locks.election("n").ttl(HOUR).campaign("me").await.err();
    let error = error.ok_or("it was written over")?;
    ensure!(error.kind() == ErrorKind::Unexpected, "{error:?}");
    let left = locks.record::<String>("n").get().await?.map(|it| it.value);
    ensure!(left.as_deref() == Some("a price"), "{left:?}");
    idle(&locks.mutex("n")).await
}

async fn a_campaign_dropped_at_any_point_leaves_nothing(store: Store) -> Outcome {
    let (ours, other) = (client!(store), store.open().await?);
    let swept = tokio::task::spawn_blocking(move || {
        let make = || ours.election("n").ttl(HOUR).campaign("me").into_future();
        let verify = async |_| nothing_is_left(&other).await.map_err(|why| why.to_string());
        Sweep::default().run(make, verify)
    });
    let report = swept.await?;
    match report {
        // An engine without I/O answers at once.
        Ok(_) | Err(crate::sweep::Failure::NothingToCancel) => Ok(()),
        Err(failure) => Err(failure.into()),
    }
}

async fn nothing_is_left(locks: &Client) -> Outcome {
    locks.election("n").ttl(HOUR).campaign("next").within(PATIENCE).await?.resign().await?;
    idle(&locks.mutex("n")).await?;
    let record = locks.record::<serde_json::Value>("n");
    eventually("no record", || async { Ok(record.get().await?.is_none()) }).await
}
