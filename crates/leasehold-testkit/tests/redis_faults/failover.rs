//! Primaries that die: what a successor that knows everything, and one that
//! does not, mean to those who hold and wait.

use std::time::Duration;

use leasehold::{Guard, Locks, Standing};
use leasehold_testkit::contest::{Contest, NAMES, is_guarded};
use leasehold_testkit::proxy::{Fault, FaultProxy, Way};
use leasehold_testkit::server::{Fleet, Server, ask};

use super::{BOUND, Checked, LONG, proxy, until};

/// R6, R7, R15: clients contend over a failover. What the successor never
/// heard of is lost with its primary; fences grow over all of it, everybody
/// gets in again, whoever held before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_replace_a_primary_amid_a_contest() -> Checked {
    let mut fleet = Fleet::watched(2)?;
    let contest = Contest::start(&format!("{}?retry=forever:20ms", fleet.url())).await?;
    contest.proceeds(5).await?;
    let old = fleet.kill_primary()?;
    contest.proceeds(5).await?;
    assert_ne!(fleet.primary()?, old);
    contest.end().await.map(drop)
}

/// R6, R7, R9: the same in a cluster, where one part fails and two go on. Each
/// part that fails is asked again, but nobody is sent back and forth for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_replaces_a_primary_amid_a_contest() -> Checked {
    let mut fleet = Fleet::cluster()?;
    let contest = Contest::start(&format!("{}?retry=forever:20ms", fleet.url())).await?;
    contest.proceeds(5).await?;
    let old = home_of(&mut fleet, NAMES[0])?;
    fleet.servers()[old].kill()?;
    fleet.await_successor(old)?;
    contest.proceeds(5).await?;
    let moved: u64 = fleet.servers().iter().map(moves).sum();
    assert!(moved < 500, "{moved} requests went to the wrong server");
    contest.end().await.map(drop)
}

/// How often a server had to send somebody elsewhere.
fn moves(server: &Server) -> u64 {
    let stats = ask(server, &["INFO", "errorstats"]).unwrap_or_default();
    let count = stats.lines().find_map(|line| line.strip_prefix("errorstat_MOVED:count="));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The primary that has the counter of a name's shard.
fn home_of(fleet: &mut Fleet, name: &str) -> Checked<usize> {
    let list = "return table.concat(redis.call('KEYS', ARGV[1]), ' ')";
    for at in 0..3 {
        for pattern in [format!("*:name:{name}"), "*fence".into()] {
            if !ask(&fleet.servers()[at], &["EVAL", list, "0", &pattern])?.is_empty() {
                return Ok(at);
            }
        }
    }
    Err("nobody has it".into())
}

/// A primary and a replica that can be cut off from it. A replica that is only
/// stopped finds in its socket what the primary sent before it died.
struct Torn {
    proxy: FaultProxy,
    fleet: Fleet,
}

impl Torn {
    async fn new() -> Checked<Self> {
        let mut fleet = Fleet::replicated(1)?;
        let proxy = proxy(&fleet.servers()[0])?;
        let replica = &fleet.servers()[1];
        ask(replica, &["REPLICAOF", "127.0.0.1", &proxy.addr().port().to_string()])?;
        let synced = || async {
            let info = ask(replica, &["INFO", "replication"])?;
            let port = format!("master_port:{}", proxy.addr().port());
            Ok(info.contains("master_link_status:up") && info.contains(&port))
        };
        until("the replica follows", synced).await?;
        Ok(Self { proxy, fleet })
    }

    fn url(&self, options: &str) -> String {
        format!("{}?timeout=1s&{options}", self.fleet.url())
    }

    /// From now on the replica hears nothing.
    fn cut(&self) {
        self.proxy.set(Way::Replies, Fault::BlackHole);
    }

    /// The primary dies, and the replica is made the next one.
    fn fail_over(&mut self) -> Checked {
        let lost = self.proxy.counts().replies.lost;
        assert!(lost > 0, "the fault did not bite: the replica was told");
        self.fleet.servers()[0].kill()?;
        ask(&self.fleet.servers()[1], &["REPLICAOF", "NO", "ONE"])?;
        Ok(())
    }
}

async fn is_lost(guard: &Guard) -> Checked {
    let standing = tokio::time::timeout(BOUND, guard.lost()).await?;
    assert!(matches!(standing, Standing::Lost(_)), "{standing:?}");
    Ok(())
}

/// R6: key not replicated, primary dies, replica promoted, lock lost. The
/// engine cannot prevent it. The holder is told as soon as it is connected
/// again; the fence of the next one is larger, so a register that has seen it
/// refuses the first.
#[tokio::test]
async fn a_lock_that_was_not_replicated_is_lost_and_the_fence_guards() -> Checked {
    let mut torn = Torn::new().await?;
    let url = torn.url("retry=forever:20ms");
    let (one, two) = (leasehold::open(&url).await?, leasehold::open(&url).await?);
    torn.cut();
    let first = one.mutex("n").ttl(LONG).lock().await?;
    torn.proxy.wait_for(BOUND, |counts| counts.replies.lost > 0);
    torn.fail_over()?;
    let second = two.mutex("n").ttl(LONG).lock().within(BOUND).await?;
    is_lost(&first).await?;
    is_guarded(&first, &second)
}

/// R15: the primary was cut off and replaced, but lives. Whoever still talks to
/// it holds what another holds at the new one; the register knows who came
/// later.
#[tokio::test]
async fn an_old_primary_that_still_grants_is_refused_at_the_register() -> Checked {
    let mut torn = Torn::new().await?;
    torn.cut();
    ask(&torn.fleet.servers()[1], &["REPLICAOF", "NO", "ONE"])?;
    let open = |at: usize, torn: &mut Torn| leasehold::open(torn.fleet.servers()[at].url());
    let (old, new) = (open(0, &mut torn).await?, open(1, &mut torn).await?);
    let first = old.mutex("n").ttl(LONG).lock().await?;
    let second = new.mutex("n").ttl(LONG).lock().await?;
    first.check()?;
    is_guarded(&first, &second)
}

/// R6: what `?replicas=1` does about it. Nobody is granted what only the
/// primary knows; what the primary granted is given back.
#[tokio::test]
async fn a_lock_that_was_not_replicated_is_not_granted_if_one_replica_must_know() -> Checked {
    let torn = Torn::new().await?;
    let url = torn.url("retry=none&replicas=1");
    let (one, two) = (leasehold::open(&url).await?, leasehold::open(torn.url("")).await?);
    one.mutex("n").ttl(LONG).lock().await?.release().await?;
    torn.cut();
    let error = one.mutex("n").ttl(LONG).lock().await.expect_err("nobody confirmed it");
    assert!(error.to_string().contains("only 0 of 1 replicas confirmed it"), "{error}");
    two.mutex("n").ttl(LONG).lock().within(BOUND).await?.release().await?;
    Ok(())
}

/// R6: the same for layouts of others, and for a lease that is handed over.
#[tokio::test]
async fn replicas_must_know_of_borrowed_locks_and_of_those_handed_over() -> Checked {
    for layout in ["string", "redisson", "native"] {
        let torn = Torn::new().await?;
        let url = torn.url(&format!("retry=none&layout={layout}"));
        let (one, two) =
            (leasehold::open(format!("{url}&replicas=1")).await?, leasehold::open(&url).await?);
        let held = two.mutex("n").ttl(LONG).lock().await?;
        let waiter = tokio::spawn(one.mutex("n").ttl(LONG).lock().into_future());
        queued(&two, layout).await?;
        torn.cut();
        held.release().await?;
        let error = tokio::time::timeout(BOUND, waiter).await??.expect_err("nobody confirmed it");
        assert!(
            error.to_string().contains("only 0 of 1 replicas confirmed it"),
            "{layout}: {error}"
        );
    }
    Ok(())
}

/// Until somebody waits; where nobody is seen to wait it asks again anyway.
async fn queued(locks: &Locks, layout: &str) -> Checked {
    while layout == "native" && locks.status("n").await?.waiters.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// R6: what Redlock does about it. One node of three forgets, as a stale
/// successor would; the other two remember.
#[tokio::test]
async fn a_lock_on_a_majority_outlives_one_node_that_forgets() -> Checked {
    let mut nodes = [Server::redis()?, Server::redis()?, Server::redis()?];
    let hosts = nodes.each_ref().map(|node| node.addr().to_string()).join(",");
    let url = format!("redlock://{hosts}?quarantine=0s&node_timeout=5s");
    let (one, two) = (leasehold::open(&url).await?, leasehold::open(&url).await?);
    let guard = one.mutex("n").ttl(LONG).lock().await?;
    nodes[0].kill()?;
    nodes[0].restart()?;
    assert!(ask(&nodes[0], &["DBSIZE"])?.contains("(0)"), "the fault did not bite");
    assert!(two.mutex("n").ttl(LONG).try_lock().await?.is_none(), "two of three remember");
    guard.check()?;
    guard.release().await?;
    works(&two).await
}

async fn works(locks: &Locks) -> Checked {
    locks.mutex("n").ttl(LONG).lock().within(BOUND).await?.release().await?;
    Ok(())
}
