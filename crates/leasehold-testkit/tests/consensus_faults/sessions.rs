//! Sessions that are ended, cut off or outlived.

use leasehold::Standing;
use leasehold_testkit::contest::{BOUND, Checked, is_guarded, until};
use leasehold_testkit::proxy::Fault;
use leasehold_testkit::server::{Ensemble, Plan, Server};
use leasehold_testkit::znodes::{Stat, Znodes};

use super::{BRIEF, LONG, NAME, is_lost, open, proxy, queued, stands};

/// The only node in line.
fn node(server: &Server) -> Checked<(String, Stat)> {
    let mut znodes = Znodes::connect(server.addr())?;
    let nodes = znodes.children(NAME)?;
    let [node] = nodes.as_slice() else { return Err(format!("one node: {nodes:?}").into()) };
    let stat = znodes.stat(&format!("{NAME}/{node}"))?.ok_or("it is gone")?;
    Ok((node.clone(), stat))
}

/// Z1: it is told at once, nothing is made again behind its back, and the same
/// client can lock anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_whose_session_is_ended_is_lost_and_stays_lost() -> Checked {
    let server = Server::zookeeper()?;
    let locks = open(&server.url()).await?;
    let guard = locks.mutex(NAME).ttl(LONG).lock().await?;
    let (_, stat) = node(&server)?;
    Znodes::end_session(server.addr(), stat.owner)?;
    is_lost(&guard).await?;
    assert!(Znodes::connect(server.addr())?.children(NAME)?.is_empty(), "it was made again");
    let next = locks.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
    is_guarded(&guard, &next)?;
    assert_ne!(node(&server)?.1.owner, stat.owner);
    Ok(())
}

/// Z1: a waiter joins again by itself, in a new session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_session_is_ended_joins_again() -> Checked {
    let server = Server::zookeeper()?;
    let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
    let guard = one.mutex(NAME).ttl(LONG).lock().await?;
    let holder = node(&server)?.1.owner;
    let waiting = tokio::spawn(two.mutex(NAME).ttl(LONG).lock().within(BOUND).into_future());
    queued(&one, 1).await?;
    let owners = || -> Checked<Vec<i64>> {
        let mut znodes = Znodes::connect(server.addr())?;
        let nodes = znodes.children(NAME)?;
        let mut stats = Vec::new();
        for node in nodes {
            stats.extend(znodes.stat(&format!("{NAME}/{node}"))?);
        }
        Ok(stats.iter().map(|stat| stat.owner).filter(|owner| *owner != holder).collect())
    };
    let before = owners()?;
    Znodes::end_session(server.addr(), before[0])?;
    until("it joins again", || async {
        let now = owners()?;
        Ok(now.len() == 1 && now != before)
    })
    .await?;
    guard.check()?;
    let fence = guard.fence();
    guard.release().await?;
    assert!(waiting.await??.fence() > fence);
    Ok(())
}

/// Another connection has taken the session to another server, and the one it was
/// on answers pings still: it is taken back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_was_moved_to_another_server_goes_on() -> Checked {
    let mut ensemble = Ensemble::zookeeper(3)?;
    let leader = ensemble.leader()?;
    let leads = ensemble.servers()[leader].addr();
    let locks = open(&ensemble.servers()[(leader + 1) % 3].url()).await?;
    let guard = locks.mutex(NAME).ttl(LONG).lock().await?;
    let (_, stat) = node(&ensemble.servers()[leader])?;
    let _elsewhere = Znodes::move_session(leads, stat.owner)?;
    let other = locks.mutex("/other").ttl(LONG).lock().within(BOUND).await?;
    other.release().await?;
    guard.check()?;
    assert_eq!(node(&ensemble.servers()[leader])?.1, stat, "it holds with another node");
    guard.release().await?;
    Ok(())
}

/// Z1: cut off for longer than the session. It says so before anybody else can
/// get in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_cut_off_gives_up_before_the_server_does() -> Checked {
    let server = Server::zookeeper()?;
    let proxy = proxy(&server)?;
    let one = open(&server.url_via(proxy.addr())).await?;
    let two = open(&server.url()).await?;
    for _ in 0..3 {
        let guard = one.mutex(NAME).ttl(BRIEF).lock().within(BOUND).await?;
        proxy.set_both(Fault::BlackHole);
        let next = two.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
        let standing = guard.standing();
        assert!(matches!(standing, Standing::Lost(_)), "two holders: {standing:?}");
        is_guarded(&guard, &next)?;
        proxy.reset_all();
        proxy.heal();
        next.release().await?;
    }
    Ok(())
}

/// A short cut costs nothing but doubt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_cut_off_for_a_moment_goes_on() -> Checked {
    let server = Server::zookeeper()?;
    let proxy = proxy(&server)?;
    let locks = open(&server.url_via(proxy.addr())).await?;
    let guard = locks.mutex(NAME).ttl(10 * BRIEF).lock().await?;
    let before = node(&server)?;
    proxy.set_both(Fault::BlackHole);
    stands(&guard, Standing::Jeopardy).await?;
    proxy.reset_all();
    proxy.heal();
    stands(&guard, Standing::Held).await?;
    assert_eq!(node(&server)?, before, "it holds with another node");
    Ok(())
}

/// Z9, Z4: the server stands still for longer than the session. Its clients know
/// without being told; afterwards nobody takes the old node for its own, even if
/// the server hears of them before it looks at its clock, and keeps the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_ends_while_the_server_stands_still_and_is_not_adopted() -> Checked {
    let mut server = Server::zookeeper()?;
    let locks = open(&server.url()).await?;
    for _ in 0..3 {
        let guard = locks.mutex(NAME).ttl(BRIEF).lock().within(BOUND).await?;
        let (old, _) = node(&server)?;
        server.pause()?;
        is_lost(&guard).await?;
        assert!(!server.answers(), "the fault did not bite");
        server.resume()?;
        let next = locks.mutex(NAME).ttl(BRIEF).lock().within(BOUND).await?;
        is_guarded(&guard, &next)?;
        let (new, now) = node(&server)?;
        assert_ne!(new, old, "it took over the node that was lost");
        assert_eq!(u64::try_from(now.czxid)?, next.fence());
        next.release().await?;
    }
    Ok(())
}

/// Z13: the leader answers although nobody follows it any more. What it says proves
/// nothing: the others may have another leader by now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_nobody_follows_proves_nothing() -> Checked {
    let mut ensemble = Ensemble::start(&Plan::zookeeper().args(["syncLimit=3000"]), 3)?;
    let leader = ensemble.leader()?;
    let locks = open(&ensemble.servers()[leader].url()).await?;
    let guard = locks.mutex(NAME).ttl(2 * BRIEF).lock().within(BOUND).await?;
    for follower in [1, 2] {
        ensemble.servers()[(leader + follower) % 3].pause()?;
    }
    is_lost(&guard).await?;
    let answer = ensemble.servers()[leader].say("srvr")?;
    assert!(answer.contains("Mode: leader"), "it has noticed: {answer}");
    Ok(())
}
