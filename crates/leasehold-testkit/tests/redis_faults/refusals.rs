//! Servers that refuse: what a caller is told, and that it ends.

use std::fs;
use std::thread;
use std::time::Duration;

use leasehold::{ErrorKind, Locks};
use leasehold_testkit::contest::Contest;
use leasehold_testkit::server::{Fleet, Plan, Server, ask};

use super::{BOUND, Checked, LONG, until};

/// One client that gives up at once, and one that does not.
async fn hasty_and_patient(url: &str) -> Checked<(Locks, Locks)> {
    let open = |retry| leasehold::open(format!("{url}?retry={retry}"));
    Ok((open("none").await?, open("forever:20ms").await?))
}

/// The hasty one is told why; the patient one gets in once it is over.
async fn refuses(url: &str, why: &str, heal: impl FnOnce() -> Checked) -> Checked {
    let (hasty, patient) = hasty_and_patient(url).await?;
    refuses_both(&hasty, &patient, why, heal).await
}

async fn refuses_both(
    hasty: &Locks,
    patient: &Locks,
    why: &str,
    heal: impl FnOnce() -> Checked,
) -> Checked {
    let error = hasty.mutex("n").try_lock().await.expect_err("it should be refused");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(why), "{error}");
    let waiting = tokio::spawn(patient.mutex("n").ttl(LONG).lock().within(BOUND).into_future());
    heal()?;
    waiting.await??.release().await?;
    Ok(())
}

/// R2: without memory nobody gets in, but who is in gets out.
#[tokio::test]
async fn a_lease_can_be_released_when_memory_is_out() -> Checked {
    let server = Server::redis()?;
    let (hasty, patient) = hasty_and_patient(&server.url()).await?;
    let held = hasty.mutex("held").ttl(LONG).lock().await?;
    let read = hasty.rwlock("read").ttl(LONG).read().await?;
    ask(&server, &["CONFIG", "SET", "maxmemory", "1"])?;
    let free = || ask(&server, &["CONFIG", "SET", "maxmemory", "0"]).map(drop);
    held.release().await?;
    read.release().await?;
    refuses_both(&hasty, &patient, "out of memory", || Ok(free()?)).await
}

/// R2: the server cannot save and takes no writes.
#[tokio::test]
async fn a_server_that_cannot_save_says_so() -> Checked {
    let server = Server::start(Plan::redis().args(["--save", "3600 1"]))?;
    // Where the file shall go there is a folder already.
    let file = server.folder().join("dump.rdb");
    fs::create_dir(&file)?;
    ask(&server, &["BGSAVE"])?;
    let failed = || async { Ok(persistence(&server)?.contains("bgsave_status:err")) };
    until("a save fails", failed).await?;
    let heal = || {
        fs::remove_dir(&file)?;
        ask(&server, &["BGSAVE"])?;
        Ok(())
    };
    refuses(&server.url(), "cannot save to disk", heal).await
}

fn persistence(server: &Server) -> Checked<String> {
    Ok(ask(server, &["INFO", "persistence"])?)
}

/// R2: a primary that wants replicas has none.
#[tokio::test]
async fn a_server_without_its_replicas_says_so() -> Checked {
    let server = Server::start(Plan::redis().args(["--min-replicas-to-write", "1"]))?;
    let heal = || Ok(ask(&server, &["CONFIG", "SET", "min-replicas-to-write", "0"]).map(drop)?);
    refuses(&server.url(), "too few replicas", heal).await
}

/// R2: somebody's script runs for ever.
#[tokio::test]
async fn a_server_that_is_kept_busy_says_so() -> Checked {
    let server = Server::start(Plan::redis().args(["--busy-reply-threshold", "10"]))?;
    let (hasty, patient) = hasty_and_patient(&server.url()).await?;
    let addr = server.addr();
    let script = thread::spawn(move || endless(addr));
    let busy = || async { Ok(ask(&server, &["PING"]).is_err()) };
    until("the server is busy", busy).await?;
    let heal = || Ok(ask(&server, &["SCRIPT", "KILL"]).map(drop)?);
    refuses_both(&hasty, &patient, "keeps the server busy", heal).await?;
    assert!(script.join().is_ok_and(|ended| ended.is_err()), "it was killed");
    Ok(())
}

fn endless(addr: std::net::SocketAddr) -> redis::RedisResult<()> {
    let mut connection = redis::Client::open(format!("redis://{addr}"))?.get_connection()?;
    redis::cmd("EVAL").arg("while true do end").arg(0).query(&mut connection)
}

/// R2: the server reads its data.
#[tokio::test]
async fn a_server_that_is_loading_says_so() -> Checked {
    let slow =
        ["--enable-debug-command", "local", "--loading-process-events-interval-bytes", "1024"];
    let server = Server::start(Plan::redis().args(slow))?;
    let (hasty, patient) = hasty_and_patient(&server.url()).await?;
    let many = "for i = 1, 2000 do redis.call('SET', i, string.rep('x', 100)) end";
    ask(&server, &["EVAL", many, "0"])?;
    let delay = |micros| ask(&server, &["CONFIG", "SET", "key-load-delay", micros]);
    delay("2000")?;
    let addr = server.addr();
    let loading = thread::spawn(move || reload(addr));
    let busy = || async { Ok(ask(&server, &["GET", "1"]).is_err()) };
    until("the server is loading", busy).await?;
    refuses_both(&hasty, &patient, "loading its data", || Ok(delay("0").map(drop)?)).await?;
    loading.join().map_err(|_| "the thread died")??;
    Ok(())
}

fn reload(addr: std::net::SocketAddr) -> redis::RedisResult<()> {
    let mut connection = redis::Client::open(format!("redis://{addr}"))?.get_connection()?;
    redis::cmd("DEBUG").arg("RELOAD").query(&mut connection)
}

/// R8: the primary becomes a replica under its users. They follow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demoted_primary_is_left_for_the_new_one() -> Checked {
    let mut fleet = Fleet::replicated(1)?;
    let url = format!("{}?retry=forever:20ms", fleet.url());
    let keeper = leasehold::open(format!("{url}&replicas=1")).await?;
    let kept = keeper.mutex("kept").ttl(LONG).lock().await?;
    let contest = Contest::start(&url).await?;
    contest.proceeds(3).await?;
    let [old, new] = fleet.servers() else { return Err("two servers".into()) };
    ask(old, &["FAILOVER", "TO", "127.0.0.1", &new.port().to_string()])?;
    let demoted = || async { Ok(ask(old, &["INFO", "replication"])?.contains("role:slave")) };
    until("the primary is demoted", demoted).await?;
    contest.proceeds(5).await?;
    leasehold_testkit::check::all(&contest.end().await?)?;
    let refused = ask(old, &["INFO", "errorstats"])?.contains("errorstat_READONLY");
    assert!(refused, "nobody asked the old one");
    assert!(keeper.mutex("kept").try_lock().await?.is_none(), "it is still held");
    kept.release().await?;
    Ok(())
}

/// R12: a part of the cluster has no server left. Callers are told in time,
/// and a holder stays one until its deadline.
#[tokio::test]
async fn a_cluster_that_is_down_says_so_and_holders_keep_their_time() -> Checked {
    let mut fleet = Fleet::cluster()?;
    let url = format!("{}?retry=none&timeout=500ms", fleet.url());
    let locks = leasehold::open(url).await?;
    let guard = locks.mutex("n").ttl(Duration::from_secs(10)).lock().await?;
    for at in [0, 3] {
        fleet.servers()[at].kill()?;
    }
    let survivor = &fleet.servers()[1];
    let down = || async { Ok(ask(survivor, &["CLUSTER", "INFO"])?.contains("cluster_state:fail")) };
    until("the cluster is down", down).await?;
    guard.check()?;
    let error = locks.mutex("m").try_lock().await.expect_err("it should be refused");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let standing = tokio::time::timeout(BOUND, guard.lost()).await?;
    assert!(matches!(standing, leasehold::Standing::Lost(_)), "{standing:?}");
    Ok(())
}
