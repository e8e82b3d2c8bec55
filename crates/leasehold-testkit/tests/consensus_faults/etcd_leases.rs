//! Leases of an etcd that run out, and keep-alives that do not get through.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use leasehold::Standing;
use leasehold_testkit::contest::{BOUND, Checked, is_guarded, until};
use leasehold_testkit::holder::{Hold, Holder, Orders};
use leasehold_testkit::proxy::Fault;
use leasehold_testkit::server::Server;
use serde_json::{Value, json};

use super::store::Store;
use super::{BRIEF, LONG, NAME, PATIENT, is_lost, open, proxy};

/// E1: a waiter stands still until its lease has ended, and goes on after the
/// holder has left and somebody else has come. It must not take the name for its
/// own because the key before it is gone: its own is gone, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_lease_has_ended_does_not_believe_that_it_holds() -> Checked {
    let server = Server::etcd()?;
    let locks = open(&server.url()).await?;
    let line = async |count| {
        until("the line", || async { Ok(Store::Etcd.line(&server)?.len() == count) }).await
    };
    let guard = locks.mutex(NAME).ttl(LONG).lock().await?;
    let url = format!("{}?{PATIENT}", server.url());
    let mut waiter = Holder::spawn(Orders::new(&url, NAME).ttl(BRIEF).hold(Hold::UntilTold))?;
    line(2).await?;
    waiter.stop()?;
    line(1).await?;
    guard.release().await?;
    let other = locks.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
    waiter.cont()?;
    // It has looked, and stands in line again.
    line(2).await?;
    let fence = other.fence();
    other.release().await?;
    assert!(waiter.granted()? > fence, "it held what it had lost");
    Ok(())
}

/// E1: the same replay fools the `Lock` call of etcd 3.4, so it is the fault that
/// it should be: it is answered with a key that is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_replay_fools_the_lock_call_of_etcd() -> Checked {
    let server = Server::etcd()?;
    let locks = open(&server.url()).await?;
    let line = async |count| {
        until("the line", || async { Ok(Store::Etcd.line(&server)?.len() == count) }).await
    };
    let guard = locks.mutex(NAME).ttl(LONG).lock().await?;
    let addr = server.addr();
    let lease = call(addr, "lease/grant", &json!({ "TTL": 2 }))?["ID"].clone();
    // `/n`, as JSON wants bytes.
    let order = json!({ "name": "L24=", "lease": lease });
    let locking = tokio::task::spawn_blocking(move || call(addr, "lock/lock", &order));
    line(2).await?;
    line(1).await?;
    guard.release().await?;
    let answer = locking.await??;
    assert!(answer["key"].is_string(), "it noticed: {answer}");
    assert!(Store::Etcd.line(&server)?.is_empty(), "it has a key");
    Ok(())
}

/// One call of etcd's JSON gateway.
fn call(addr: SocketAddr, verb: &str, body: &Value) -> Checked<Value> {
    let body = body.to_string();
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(BOUND))?;
    let length = body.len();
    write!(stream, "POST /v3/{verb} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let (_, answer) = reply.split_once("\r\n\r\n").ok_or("no answer")?;
    Ok(serde_json::from_str(answer)?)
}

/// E1: somebody revokes the lease; all that lived on it is lost, at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_lease_is_revoked_is_told() -> Checked {
    let server = Server::etcd()?;
    let locks = open(&server.url()).await?;
    let guard = locks.mutex(NAME).ttl(LONG).lock().await?;
    let leases = server.tell(&["lease", "list"])?;
    for lease in leases.lines().skip(1) {
        server.tell(&["lease", "revoke", lease])?;
    }
    is_lost(&guard).await?;
    let next = locks.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
    is_guarded(&guard, &next)
}

/// How many hold what goes with one lease.
const MANY: usize = 1500;

/// What a server has counted, over all labels that say this.
pub(crate) fn counted(addr: SocketAddr, metric: &str, label: &str) -> Checked<u64> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(BOUND))?;
    write!(stream, "GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let is_it = |line: &&str| line.starts_with(metric) && line.contains(label);
    let lines = reply.lines().filter(is_it);
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    Ok(counts.sum::<f64>() as u64)
}

/// The transactions that a server was asked for.
fn transactions(addr: SocketAddr) -> Checked<u64> {
    counted(addr, "grpc_server_started_total", "grpc_method=\"Txn\"")
}

/// E10: the server is asked for little by those who have lost theirs, and goes on to
/// serve everybody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_that_go_with_one_lease_ask_for_little() -> Checked {
    let server = Server::etcd()?;
    let addr = server.addr();
    let locks = leasehold::open(format!("{}?retry=none", server.url())).await?;
    let mut taking = tokio::task::JoinSet::new();
    for at in 0..MANY {
        let mutex = locks.mutex(format!("n/{at}")).ttl(LONG);
        taking.spawn(mutex.lock().into_future());
    }
    let mut guards = Vec::new();
    while let Some(guard) = taking.join_next().await {
        guards.push(guard??);
    }
    let watched = || async {
        Ok(counted(addr, "etcd_debugging_mvcc_watcher_total", "")? >= u64::try_from(MANY)?)
    };
    until("all are watched", watched).await?;
    let before = transactions(addr)?;
    for lease in server.tell(&["lease", "list"])?.lines().skip(1) {
        server.tell(&["lease", "revoke", lease])?;
    }
    for guard in &guards {
        is_lost(guard).await?;
    }
    locks.mutex("next").ttl(LONG).lock().await?.release().await?;
    drop(guards);
    locks.mutex("next").ttl(LONG).lock().await?.release().await?;
    locks.shutdown(BOUND).await?;
    let asked = transactions(addr)? - before;
    assert!(asked < 50, "{asked} transactions for what has gone by itself");
    Ok(())
}

/// E4: the connection stands, and nothing comes through. The guard counts for
/// itself, and says so before anybody else can get in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swallowed_keep_alives_end_a_guard_before_its_lease() -> Checked {
    let server = Server::etcd()?;
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

/// E4: nobody holds anything any more, and no lease is kept alive for nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lease_outlives_its_client() -> Checked {
    let server = Server::etcd()?;
    let leases = || Ok(server.tell(&["lease", "list"])?.lines().skip(1).count());
    let locks = open(&server.url()).await?;
    let guard = locks.mutex(NAME).ttl(LONG).lock().await?;
    let count: Checked<usize> = leases();
    assert!(count? > 0, "it lives on no lease");
    guard.release().await?;
    locks.shutdown(BOUND).await?;
    until("no lease is left", || async { Ok(leases()? == 0) }).await
}
