//! `LeaderLatch`, `etcdctl elect` and our candidacies, whose value is all there is to
//! read in their entries.

use std::sync::Arc;

use leasehold::claim::{Claim, Ending, Owner, Stance, Ticket, Verdict, Wake};
use leasehold::engine::{Eviction, Target};
use leasehold::{Engine, Locks, Mode, Moment, Observed, Observer, Released};
use leasehold_testkit::contest::{BOUND, Checked, until};
use leasehold_testkit::server::Server;

use crate::etcdctl::{Ctl, NAME};
use crate::stage::{LONG, NOW, PATH, Stage, token};

/// What we propose: it reads like none of ours, and has more than a line.
const VALUE: &[u8] = b"10.0.0.7:8080";

/// A candidacy that waits until it leads.
fn candidacy(locks: &Locks, name: &str) -> Checked<Claim> {
    let ticket = Ticket::new(locks.name(name)?, Mode::Exclusive);
    let mut claim = Claim::new(ticket, Owner::new("ours"), LONG);
    claim.stance = Stance::Wait { until: Moment::NEVER };
    claim.candidate = Some(VALUE.into());
    Ok(claim)
}

/// The fence of a reign, if it leads at once.
async fn leads(engine: &Arc<dyn Engine>, claim: &Claim) -> Checked<Option<u64>> {
    match engine.acquire(claim.clone()).await? {
        Verdict::Granted(grant) => Ok(Some(grant.fence)),
        Verdict::Busy(_) => Ok(None),
    }
}

/// The fence of a reign that is waited for.
async fn will_lead(engine: &Arc<dyn Engine>, claim: &Claim) -> Checked<u64> {
    let wait = engine.wait(claim.ticket.clone(), Moment::NEVER);
    match tokio::time::timeout(BOUND, wait).await?? {
        Wake::Granted { fence, .. } => Ok(fence),
        _ => Ok(leads(engine, claim).await?.ok_or("it does not lead")?),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_latch_of_curator_waits_for_our_candidacy_and_reads_who_leads() -> Checked {
    let mut stage = Stage::new().await?;
    let (engine, claim) = (stage.ours.engine(), candidacy(&stage.ours, PATH)?);
    let fence = leads(&engine, &claim).await?.ok_or("nobody else is there")?;
    assert_eq!(stage.java.leader(PATH)?.as_bytes(), VALUE);
    stage.java.ask("latch", PATH, BOUND, NOW)?;
    until("it stands in line", || async { Ok(stage.line(PATH)? == 2) }).await?;
    let status = stage.ours.status(PATH).await?;
    assert_eq!(
        (&*status.holders[0].label, status.holders[0].fence),
        ("10.0.0.7:8080", Some(fence))
    );
    assert_eq!(&*status.waiters[0].label, "java");
    assert_eq!(engine.release(claim.ticket, Ending::new()).await?, Released::Released);
    assert!(token(stage.java.granted()?)? > fence);
    assert_eq!(stage.java.leader(PATH)?, "java");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_candidacy_waits_for_a_latch_of_curator() -> Checked {
    let mut stage = Stage::new().await?;
    let theirs = token(stage.java.lock("latch", PATH, BOUND, NOW)?)?;
    let (engine, claim) = (stage.ours.engine(), candidacy(&stage.ours, PATH)?);
    assert_eq!(leads(&engine, &claim).await?, None, "two leaders");
    assert_eq!(stage.java.leader(PATH)?, "java");
    assert!(stage.java.unlock("latch", PATH)?.is_some(), "it led");
    assert!(will_lead(&engine, &claim).await? > theirs);
    assert_eq!(stage.java.leader(PATH)?.as_bytes(), VALUE);
    Ok(())
}

/// One client has both; the kind of an election is the URL's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn candidacies_and_locks_of_one_client_have_nodes_of_their_kinds() -> Checked {
    let server = Server::zookeeper()?;
    for (options, word) in [("", "latch-"), ("&election=selector", "lock-")] {
        let locks = leasehold::open(format!("{}?names=raw{options}", server.url())).await?;
        let mut znodes = leasehold_testkit::znodes::Znodes::connect(server.addr())?;
        let (engine, claim) = (locks.engine(), candidacy(&locks, "/elections/a")?);
        assert!(engine.profile().candidates_in_entries);
        let guard = locks.mutex("/locks/a").ttl(LONG).lock().await?;
        leads(&engine, &claim).await?.ok_or("nobody else is there")?;
        for (path, word) in [("/elections/a", word), ("/locks/a", "lock-")] {
            let nodes = znodes.children(path)?;
            let [node] = nodes.as_slice() else { return Err(format!("one: {nodes:?}").into()) };
            assert!(node.starts_with("_c_") && node.contains(&format!("-{word}0")), "{node}");
            let bytes = znodes.get(&format!("{path}/{node}"))?.ok_or("it is gone")?;
            assert_eq!(bytes == VALUE, path == "/elections/a", "{path}");
        }
        guard.release().await?;
        assert_eq!(engine.release(claim.ticket.clone(), Ending::new()).await?, Released::Released);
        assert!(znodes.children("/elections/a")?.is_empty());
    }
    Ok(())
}

/// It is found by its key, though nothing of ours is in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidacy_is_found_by_its_key_when_it_is_evicted_or_given_back() -> Checked {
    for server in [Server::zookeeper()?, Server::etcd()?] {
        let url = format!("{}?names=raw", server.url());
        let (one, two) = (leasehold::open(&url).await?, leasehold::open(&url).await?);
        let (engine, claim) = (one.engine(), candidacy(&one, PATH)?);
        leads(&engine, &claim).await?.ok_or("nobody else is there")?;
        let eviction =
            Eviction::new(two.name(PATH)?, Target::Lease(claim.ticket.id), "ann", "stuck")?;
        assert_eq!(two.evict(eviction).await?.leases.len(), 1, "{url}");
        assert_eq!(engine.release(claim.ticket, Ending::new()).await?, Released::AlreadyLost);
        let claim = candidacy(&one, PATH)?;
        let fence = leads(&engine, &claim).await?.ok_or("it is free")?;
        // As if its reply had been lost.
        assert_eq!(leads(&engine, &claim).await?, Some(fence));
        let released = two.engine().release(claim.ticket, Ending::new()).await?;
        assert_eq!(released, Released::Released, "{url}: another client gives it back");
        assert!(!one.status(PATH).await?.is_busy(), "{url}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_elect_observes_what_we_propose_and_waits_for_us() -> Checked {
    let server = Server::etcd()?;
    let ours = leasehold::open(format!("{}?names=raw", server.url())).await?;
    let (engine, claim) = (ours.engine(), candidacy(&ours, NAME)?);
    let fence = leads(&engine, &claim).await?.ok_or("nobody else is there")?;
    let observer = Ctl::spawn(&server, &["elect", "-l", NAME])?;
    let key = observer.granted()?;
    assert!(key.starts_with(&format!("{NAME}/")), "{key}");
    assert_eq!(observer.granted()?.as_bytes(), VALUE);
    let candidate = Ctl::spawn(&server, &["elect", NAME, "theirs"])?;
    until("it waits", || async { Ok(ours.status(NAME).await?.waiters.len() == 1) }).await?;
    let ask = Eviction::new(ours.name(NAME)?, Target::All, "ann", "a fix is waiting")?;
    assert!(ours.evict(ask.asking()).await?.leases.is_empty(), "what is proposed is left alone");
    let status = ours.status(NAME).await?;
    assert_eq!(
        (&*status.holders[0].label, status.holders[0].fence),
        ("10.0.0.7:8080", Some(fence))
    );
    assert_eq!(&*status.waiters[0].label, "theirs");
    assert_eq!(engine.release(claim.ticket, Ending::new()).await?, Released::Released);
    assert!(candidate.granted()?.starts_with(NAME));
    assert_eq!(candidate.granted()?, "theirs");
    Ok(())
}

/// Looks on until it sees this leader; its fence.
async fn sees(observer: &mut Observer, value: &str) -> Checked<u64> {
    loop {
        let observed = tokio::time::timeout(BOUND, observer.next()).await??;
        match observed.ok_or("the locks are open")? {
            Observed::Leader(leader) if &*leader.value == value => return Ok(leader.fence),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_election_and_a_latch_of_curator_lead_in_turn_and_see_each_other() -> Checked {
    let mut stage = Stage::new().await?;
    let election = stage.ours.election(PATH).ttl(LONG);
    let mut observer = election.observe().await?;
    let mut reign = election.campaign("ours").within(BOUND).await?;
    let mut newest = 0;
    for _ in 0..3 {
        assert_eq!(stage.java.leader(PATH)?, "ours");
        assert_eq!(sees(&mut observer, "ours").await?, reign.fence());
        stage.java.ask("latch", PATH, BOUND, NOW)?;
        until("it stands in line", || async { Ok(stage.line(PATH)? == 2) }).await?;
        reign.check()?;
        let fence = reign.fence();
        assert!(fence > newest, "{fence} after {newest}");
        assert_eq!(reign.resign().await?, Released::Released);
        let theirs = token(stage.java.granted()?)?;
        assert!(theirs > fence, "{theirs} after {fence}");
        assert_eq!(sees(&mut observer, "java").await?, theirs);
        let next = tokio::spawn(election.campaign("ours").within(BOUND).into_future());
        until("we stand in line", || async { Ok(stage.line(PATH)? == 2) }).await?;
        assert!(!next.is_finished(), "two lead");
        assert!(stage.java.unlock("latch", PATH)?.is_some(), "it led");
        (reign, newest) = (next.await??, theirs);
    }
    let refused = reign.proclaim("something else").await.expect_err("it is written once");
    assert_eq!(refused.kind(), leasehold::ErrorKind::Unsupported);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_election_and_etcdctl_lead_in_turn_and_see_each_other() -> Checked {
    let server = Server::etcd()?;
    let ours = leasehold::open(format!("{}?names=raw", server.url())).await?;
    let election = ours.election(NAME).ttl(LONG);
    let mut observer = election.observe().await?;
    let reign = election.campaign("ours").within(BOUND).await?;
    assert_eq!(sees(&mut observer, "ours").await?, reign.fence());
    let candidate = Ctl::spawn(&server, &["elect", NAME, "theirs"])?;
    until("it waits", || async { Ok(ours.status(NAME).await?.waiters.len() == 1) }).await?;
    let fence = reign.fence();
    assert_eq!(reign.resign().await?, Released::Released);
    assert!(candidate.granted()?.starts_with(NAME));
    assert_eq!(candidate.granted()?, "theirs");
    assert!(sees(&mut observer, "theirs").await? > fence);
    let next = tokio::spawn(election.campaign("ours").within(BOUND).into_future());
    until("we wait", || async { Ok(ours.status(NAME).await?.waiters.len() == 1) }).await?;
    drop(candidate);
    let next = tokio::time::timeout(4 * BOUND, next).await???;
    assert_eq!(sees(&mut observer, "ours").await?, next.fence());
    Ok(())
}
