//! Storms: clients contend while the server is shaken, again and again.

use std::time::Duration;

use leasehold_testkit::check;
use leasehold_testkit::contest::{Contest, NAMES};
use leasehold_testkit::history::{History, Recorder};
use leasehold_testkit::holder::{Holder, Orders};
use leasehold_testkit::proxy::{Fault, Way};
use leasehold_testkit::server::{Plan, Server, ask};

use super::{BOUND, Checked, LONG, info, proxy};

/// Waiters keep at it whatever happens.
const PATIENT: &str = "retry=forever:20ms";
/// For leases that nobody may be left to release.
const SHORT: Duration = Duration::from_secs(3);

fn url(server: &Server) -> String {
    format!("{}?{PATIENT}", server.url())
}

/// No client has left a connection or a subscription.
fn is_left_clean(server: &Server) -> Checked {
    let clients = ask(server, &["CLIENT", "LIST"])?;
    assert!(!clients.contains("name=leasehold"), "{clients}");
    let channels = ask(server, &["PUBSUB", "CHANNELS"])?;
    assert!(!channels.contains("leasehold"), "{channels}");
    Ok(())
}

/// R4: scripts are forgotten all the time, also between the commands of one
/// pipeline; nobody notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_forgotten_every_10_ms_are_nobodys_problem() -> Checked {
    let server = Server::redis()?;
    // Without a retry: it must not even be needed.
    let contest = Contest::start(&format!("{}?retry=none", server.url())).await?;
    let flush = || ask(&server, &["SCRIPT", "FLUSH"]).map(drop).map_err(Into::into);
    contest.shake(100, Duration::from_millis(10), flush).await?;
    check::all(&contest.end().await?)?;
    assert!(ask(&server, &["INFO", "errorstats"])?.contains("errorstat_NOSCRIPT"));
    is_left_clean(&server)
}

/// R14, R16: connections for commands and for pushes die all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_killed_every_50_ms_keep_nobody_out() -> Checked {
    let server = Server::redis()?;
    let contest = Contest::start(&url(&server)).await?;
    let kill = || {
        ask(&server, &["CLIENT", "KILL", "TYPE", "normal"])?;
        ask(&server, &["CLIENT", "KILL", "TYPE", "pubsub"])?;
        Ok(())
    };
    let before = info(&server, "stats", "total_connections_received")?;
    contest.shake(40, Duration::from_millis(50), kill).await?;
    let after = info(&server, "stats", "total_connections_received")?;
    assert!(after > before + 200, "hardly anyone had to come back: {before} {after}");
    check::all(&contest.end().await?)?;
    is_left_clean(&server)
}

/// The same with processes among the rivals, which are killed as well. Nobody
/// tells a waiter that the holder has died; it looks when it renews its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_killed_amid_killed_connections_block_nobody_for_long() -> Checked {
    let server = Server::redis()?;
    let contest = Contest::start_with(&url(&server), SHORT).await?;
    let recorder = Recorder::open(contest.history())?;
    let orders = Orders::new(&url(&server), NAMES[0]).ttl(SHORT);
    let orders = orders.history(contest.history()).register(contest.register(NAMES[0]));
    let mut holders = Vec::new();
    for _ in 0..2 {
        holders.push(Holder::spawn(orders.clone().rounds(u32::MAX))?);
    }
    for holder in &mut holders {
        holder.granted()?;
    }
    let kill = || ask(&server, &["CLIENT", "KILL", "TYPE", "normal"]).map(drop).map_err(Into::into);
    for mut holder in holders {
        contest.shake(5, Duration::from_millis(50), kill).await?;
        recorder.kill(holder.pid());
        holder.kill()?;
    }
    contest.proceeds(3).await?;
    Ok(check::all(&contest.end().await?)?)
}

/// Replies are lost after the server has acted: nobody is locked out by a
/// grant of its own that it never heard of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_replies_lock_nobody_out() -> Checked {
    let server = Server::redis()?;
    let proxy = proxy(&server)?;
    let contest = Contest::start(&format!("{}?{PATIENT}", server.url_via(proxy.addr()))).await?;
    let lose = || {
        let lost = proxy.counts().replies.lost;
        proxy.set(Way::Replies, Fault::BlackHole);
        proxy.wait_for(BOUND, |counts| counts.replies.lost > lost);
        proxy.heal();
        Ok(())
    };
    contest.shake(30, Duration::from_millis(50), lose).await?;
    check::all(&contest.end().await?)?;
    is_left_clean(&server)
}

/// Kills the server and starts it again, a few times.
async fn restarts(plan: Plan, ttl: Duration) -> Checked<History> {
    let mut server = Server::start(plan)?;
    let contest = Contest::start_with(&url(&server), ttl).await?;
    for _ in 0..3 {
        contest.proceeds(3).await?;
        server.kill()?;
        server.restart()?;
    }
    contest.proceeds(3).await?;
    let history = contest.end().await?;
    is_left_clean(&server)?;
    Ok(history)
}

/// A server that writes before it answers forgets nothing: not a lease, not a
/// place, not a fence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_server_is_killed_and_no_lease_with_it() -> Checked {
    Ok(check::all(&restarts(Plan::redis_durable(), LONG).await?)?)
}

/// A server that syncs every second may answer before it writes, while an
/// earlier write is on its way to the disk. Then a restart forgets a grant, or
/// brings back a lease that was released: it blocks until its ttl is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_syncs_every_second_is_killed_and_fences_still_grow() -> Checked {
    let plan = Plan::redis().args(["--appendonly", "yes", "--appendfsync", "everysec"]);
    restarts(plan, SHORT).await.map(drop)
}

/// R5: a server that keeps nothing forgets leases, so two may believe they
/// hold; the fence grows all the same and the register lets one of them in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgetful_server_is_killed_and_fences_still_grow() -> Checked {
    restarts(Plan::redis(), LONG).await.map(drop)
}
