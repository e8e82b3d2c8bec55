//! Redlock against its critics: real servers, one fault proxy each. RL1 and
//! RL2 (a server whose clock jumps) need a clock of their own below the server
//! and are not here; what the engine makes of a jump is a unit test of it.

// Waits for real processes and sockets; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use std::time::Duration;

use leasehold::engine::profile::{Fencing, Survives};
use leasehold::{Effect, ErrorKind, Guard, Locks, Mode};
use leasehold_testkit::holder::{Hold, Holder, Orders};
use leasehold_testkit::server::Plan;
use leasehold_testkit::{Fault, FaultProxy, Register, Server, Way, check};
use redis::Commands;
use tokio::time::{Instant, sleep, timeout};

/// How long to wait for what must come. It is a bound, not an expectation.
const PATIENCE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// A ttl that is meant to run out, or to be renewed.
const SHORT: Duration = Duration::from_secs(2);
/// Where the mutex `n` is on each server.
const KEY: &str = "lock:n";

/// Servers that know nothing of each other, each behind a proxy.
struct Nodes {
    proxies: Vec<FaultProxy>,
    servers: Vec<Server>,
}

impl Nodes {
    fn new(count: usize) -> Self {
        Self::start(count, Plan::redis())
    }

    /// On a thread that no runtime has: proxies bring their own.
    fn start(count: usize, plan: Plan) -> Self {
        let started = std::thread::spawn(move || {
            let servers: Vec<Server> =
                (0..count).map(|_| Server::start(plan.clone()).unwrap()).collect();
            let proxy = |server: &Server| FaultProxy::to(server.addr()).unwrap();
            Self { proxies: servers.iter().map(proxy).collect(), servers }
        });
        started.join().unwrap()
    }

    fn url(&self, options: &str) -> String {
        let hosts: Vec<String> = self.proxies.iter().map(|it| it.addr().to_string()).collect();
        // A proxy may pass only what is sent after its fault is lifted, so the
        // client must not give up on a connection too late.
        format!("redlock://{}?key=lock:{{name}}&timeout=1s&{options}", hosts.join(","))
    }

    /// A client that gives up on a round soon and on a request never.
    async fn hasty(&self) -> Locks {
        let hosts: Vec<String> = self.proxies.iter().map(|it| it.addr().to_string()).collect();
        let options = "quarantine=0s&node_timeout=300ms&timeout=60s&retry=forever:20ms";
        let url = format!("redlock://{}?key=lock:{{name}}&{options}", hosts.join(","));
        leasehold::open(url).await.unwrap()
    }

    /// A client that no proxy stands in the way of.
    async fn direct(&self) -> Locks {
        let hosts: Vec<String> = self.servers.iter().map(|it| it.addr().to_string()).collect();
        let options = "quarantine=0s&node_timeout=10s";
        let url = format!("redlock://{}?key=lock:{{name}}&{options}", hosts.join(","));
        leasehold::open(url).await.unwrap()
    }

    /// How many scripts a server has run.
    fn calls(&self, node: usize) -> u64 {
        let info: String =
            self.peek(node, |it| redis::cmd("INFO").arg("commandstats").query(it).unwrap());
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        line.and_then(|rest| rest.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
    }

    /// How long a server keeps the lock.
    fn left(&self, node: usize) -> Duration {
        let millis: i64 = self.peek(node, |it| it.pttl(KEY).unwrap());
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// How long most servers keep it.
    fn kept(&self) -> Duration {
        let mut left: Vec<Duration> = (0..self.servers.len()).map(|node| self.left(node)).collect();
        left.sort_unstable();
        left[left.len() - left.len() / 2 - 1]
    }

    /// A client of servers that have nothing to forget.
    async fn open(&self) -> Locks {
        leasehold::open(self.url("quarantine=0s&node_timeout=10s")).await.unwrap()
    }

    fn peek<T>(&self, node: usize, look: impl FnOnce(&mut redis::Connection) -> T) -> T {
        let client = redis::Client::open(self.servers[node].url()).unwrap();
        look(&mut client.get_connection().unwrap())
    }

    fn has(&self, node: usize) -> bool {
        self.peek(node, |it| it.exists(KEY).unwrap())
    }

    fn holders(&self) -> usize {
        (0..self.servers.len()).filter(|node| self.has(*node)).count()
    }

    fn forget(&self, node: usize) {
        let removed: u32 = self.peek(node, |it| it.del(KEY).unwrap());
        assert_eq!(removed, 1, "the fault did not bite");
    }

    fn cut(&self, nodes: impl IntoIterator<Item = usize>) {
        nodes.into_iter().for_each(|node| self.proxies[node].set_both(Fault::Reset));
    }

    fn heal(&self) {
        self.proxies.iter().for_each(FaultProxy::heal);
    }

    /// Kills a server, which forgets everything, and starts it anew.
    fn crash(&mut self, node: usize) {
        self.servers[node].kill().unwrap();
        self.servers[node].restart().unwrap();
    }
}

async fn eventually(what: &str, mut probe: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !probe() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

async fn locked(locks: &Locks) -> Guard {
    locks.mutex("n").ttl(HOUR).lock().within(PATIENCE).await.unwrap()
}

/// Asks until the name is granted or a client is well enough to say no.
async fn try_lock(locks: &Locks) -> Option<Guard> {
    locks.mutex("n").ttl(SHORT).try_lock().await.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_majority_is_a_lock_and_its_fences_grow() {
    let nodes = Nodes::new(3);
    let (one, two) = (nodes.open().await, nodes.open().await);
    assert_eq!(one.profile().survives, Survives::Failover);
    assert_eq!(one.profile().fencing, Fencing::Clocked, "these servers keep nothing");
    let mut last = 0;
    for locks in [&one, &two, &one, &two] {
        let guard = locked(locks).await;
        assert!(guard.fence() > last, "{} after {last}", guard.fence());
        assert!(two.mutex("n").try_lock().await.unwrap().is_none(), "two holders");
        last = guard.fence();
        guard.release().await.unwrap();
    }
    eventually("no residue", || nodes.holders() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_and_even_numbers_are_refused() {
    let nodes = Nodes::new(3);
    let refused = nodes.open().await.semaphore("s", 2).acquire(1).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused:?}");
    let even = leasehold::open("redlock://127.0.0.1:1,127.0.0.1:2").await.unwrap_err();
    assert_eq!(even.kind(), ErrorKind::Invalid, "{even:?}");
}

/// Where readers and the writer of `n` are, and the counters.
const TENANTS: &str = "leasehold-quorum:default:rw:n";
const COUNTERS: &str = "leasehold-quorum:default";

impl Nodes {
    /// A client of layout 1 asks each node for `n`. It hears a word and what goes with
    /// it, or that its script fails on what it finds.
    fn ask_as_layout_1(&self, mode: &str) -> Vec<redis::RedisResult<(String, String)>> {
        let script = redis::Script::new(include_str!("redlock/layout_1.lua"));
        let ask = |it: &mut redis::Connection| {
            let mut call = script.prepare_invoke();
            call.key(KEY).key(TENANTS).key(COUNTERS);
            call.arg("0123456789abcdef0123000000000001").arg(mode).arg(3_600_000);
            // The floor, the counter of `n`, an inscription, no quarantine.
            call.arg(1).arg(113).arg("3:old").arg(0);
            let said: Vec<String> = call.invoke(it)?;
            Ok((said[0].clone(), said[1].clone()))
        };
        (0..self.servers.len()).map(|node| self.peek(node, ask)).collect()
    }

    /// All that says who has `n`; counters stay.
    fn clear(&self) {
        for node in 0..self.servers.len() {
            let _: () = self.peek(node, |it| it.del(&[KEY, TENANTS]).unwrap());
        }
    }
}

/// Asks in every mode, and for a look, and is refused because of this layout.
async fn is_refused(locks: &Locks, layout: &str) {
    let answers = [
        ("a mutex", locks.mutex("n").try_lock().await.map(drop)),
        ("a reader", locks.rwlock("n").try_read().await.map(drop)),
        ("a writer", locks.rwlock("n").try_write().await.map(drop)),
        ("a look", locks.status("n").await.map(drop)),
    ];
    for (what, answer) in answers {
        let error = answer.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{what}: {error}");
        let text = error.to_string();
        assert!(text.contains(&format!("has layout {layout:?}")), "{what}: {text}");
        assert!(text.contains("run the same release everywhere"), "{what}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_earlier_release_holds_is_refused_with_what_to_do() {
    let nodes = Nodes::new(3);
    let locks = nodes.open().await;
    // The same on all nodes, so that a majority has it, and far above the clock.
    for node in 0..3 {
        let _: () = nodes.peek(node, |it| it.hset(COUNTERS, 113, 1_u64 << 51).unwrap());
    }
    let mut numbers = Vec::new();
    for mode in ["x", "r", "w"] {
        for said in nodes.ask_as_layout_1(mode) {
            let (word, number) = said.unwrap();
            assert_eq!(word, "vote");
            numbers.push(number.parse::<u64>().unwrap());
        }
        is_refused(&locks, "1").await;
        nodes.clear();
    }
    // The counters are those of both.
    let guard = locked(&locks).await;
    assert!(numbers.iter().all(|number| guard.fence() > *number), "{} {numbers:?}", guard.fence());
}

/// The script of the earlier release is what decides there.
#[tokio::test(flavor = "multi_thread")]
async fn what_we_hold_an_earlier_release_does_not_get() {
    let nodes = Nodes::new(3);
    let locks = nodes.open().await;
    let guard = locked(&locks).await;
    eventually("all nodes have it", || nodes.holders() == 3).await;
    for (mode, word) in [("x", "busy"), ("r", "kind"), ("w", "kind")] {
        for said in nodes.ask_as_layout_1(mode) {
            assert_eq!(said.unwrap().0, word, "two holders");
        }
    }
    guard.check().unwrap();
    guard.release().await.unwrap();
    eventually("free", || nodes.holders() == 0).await;
    let reader = locks.rwlock("n").ttl(HOUR).read().await.unwrap();
    let has = |node| nodes.peek(node, |it| it.exists::<_, bool>(TENANTS).unwrap());
    eventually("all nodes have it", || (0..3).all(has)).await;
    for mode in ["x", "r", "w"] {
        for said in nodes.ask_as_layout_1(mode) {
            let error = said.expect_err("two holders").to_string();
            assert!(error.contains("LAYOUT"), "{error}");
        }
    }
    reader.check().unwrap();
}

/// Nobody knows how it reads; it says whose it is all the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_later_release_holds_is_refused_with_what_to_do() {
    let nodes = Nodes::new(3);
    let locks = nodes.open().await;
    for node in 0..3 {
        let theirs = "leasehold:3:in its own words";
        let _: () = nodes.peek(node, |it| it.set_ex(KEY, theirs, 3600).unwrap());
    }
    is_refused(&locks, "3").await;
    assert_eq!(nodes.holders(), 3, "theirs was removed");
    nodes.clear();
    for node in 0..3 {
        let theirs = ["0123456789abcdef0123000000000001", "leasehold:3:in its own words"];
        let _: () = nodes.peek(node, |it| it.hset(TENANTS, theirs[0], theirs[1]).unwrap());
    }
    is_refused(&locks, "3").await;
    nodes.clear();
    drop(locked(&locks).await);
}

/// Two releases in one hash: ours goes on, and what it does not know stays as long as
/// it was to stay.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_beside_another_layout_is_renewed_and_shortens_nothing() {
    let nodes = Nodes::new(3);
    let locks = nodes.open().await;
    let reader = locks.rwlock("n").ttl(SHORT).read().await.unwrap();
    let has = |node| nodes.peek(node, |it| it.exists::<_, bool>(TENANTS).unwrap());
    eventually("all nodes have it", || (0..3).all(has)).await;
    for node in 0..3 {
        let _: () = nodes.peek(node, |it| it.hset(TENANTS, "theirs", "leasehold:3:words").unwrap());
        let kept: bool = nodes.peek(node, |it| it.pexpire(TENANTS, 3_600_000).unwrap());
        assert!(kept, "it has gone");
    }
    let before: Vec<u64> = (0..3).map(|node| nodes.calls(node)).collect();
    eventually("a renewal", || (0..3).all(|node| nodes.calls(node) > before[node])).await;
    reader.check().unwrap();
    reader.release().await.unwrap();
    for node in 0..3 {
        let left: i64 = nodes.peek(node, |it| it.pttl(TENANTS).unwrap());
        assert!(left > 3_000_000, "cut to {left} ms");
        let fields: Vec<String> = nodes.peek(node, |it| it.hkeys(TENANTS).unwrap());
        assert_eq!(fields, ["theirs"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_keep_everything_make_strict_fences() {
    let plan = Plan::redis().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let nodes = Nodes::start(3, plan);
    // They vote at once, whatever the quarantine.
    let locks = leasehold::open(nodes.url("node_timeout=10s")).await.unwrap();
    assert_eq!(locks.profile().fencing, Fencing::Strict);
    drop(locked(&locks).await);
}

/// Clients of other libraries set the key if it is not there, with an expiry.
#[tokio::test(flavor = "multi_thread")]
async fn clients_of_other_libraries_are_excluded_and_exclude() {
    let nodes = Nodes::new(3);
    let locks = nodes.open().await;
    let set = |node: usize| -> Option<String> {
        let options = ["foreign-token", "NX", "PX", "3600000"];
        nodes.peek(node, |it| redis::cmd("SET").arg(KEY).arg(&options).query(it).unwrap())
    };
    let guard = locked(&locks).await;
    eventually("all nodes have it", || nodes.holders() == 3).await;
    assert_eq!([set(0), set(1), set(2)], [None, None, None], "a stranger got in");
    guard.release().await.unwrap();
    eventually("free", || nodes.holders() == 0).await;
    assert!(set(0).is_some() && set(1).is_some());
    assert!(locks.mutex("n").try_lock().await.unwrap().is_none(), "a stranger holds two of three");
    eventually("no residue", || !nodes.has(2)).await;
    assert!(nodes.has(0) && nodes.has(1), "the stranger's lock was removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn rl3_replies_that_come_after_the_ttl_are_no_grant() {
    let nodes = Nodes::new(3);
    let locks = leasehold::open(nodes.url("quarantine=0s&node_timeout=60s&retry=none"));
    let locks = locks.await.unwrap();
    nodes.proxies.iter().for_each(|proxy| proxy.set(Way::Replies, Fault::Hold));
    let mutex = locks.mutex("n").ttl(SHORT).renew(false);
    let late = mutex.try_lock().await;
    assert!(!matches!(late, Ok(Some(_))), "granted by replies that were never seen: {late:?}");
    let held = |proxy: &FaultProxy| proxy.counts().replies.held > 0;
    assert!(nodes.proxies.iter().filter(|proxy| held(proxy)).count() >= 2, "no fault");
    nodes.heal();
    drop(locked(&nodes.open().await).await);
}

/// A whole process stands still.
#[tokio::test(flavor = "multi_thread")]
async fn rl3_a_process_that_sleeps_through_its_ttl_is_overtaken_by_a_larger_fence() {
    let nodes = Nodes::new(3);
    let folder = tempfile::tempdir().unwrap();
    let orders = Orders::new(&nodes.url("quarantine=0s&node_timeout=60s"), "n");
    let orders = orders.ttl(SHORT).hold(Hold::UntilTold).register(folder.path().join("r"));
    let mut holder = Holder::spawn(orders).unwrap();
    let old = holder.granted().unwrap();
    holder.stop().unwrap();
    // Its lease must run out: it cannot renew.
    let next = locked(&nodes.open().await).await;
    assert!(next.fence() > old);
    let register = Register::open(folder.path().join("r")).unwrap();
    assert_eq!(register.read(next.fence()).unwrap(), Some(0), "the late holder wrote too early");
    holder.cont().unwrap();
    holder.kill().unwrap();
    check::register(&register.accesses().unwrap()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rl4_a_holder_that_pauses_after_its_check_is_stopped_by_the_fence_alone() {
    let nodes = Nodes::new(3);
    let locks = nodes.open().await;
    let folder = tempfile::tempdir().unwrap();
    let register = Register::open(folder.path().join("register")).unwrap();
    let late = locks.mutex("n").ttl(SHORT).renew(false).lock().await.unwrap();
    let saw = register.read(late.fence()).unwrap().unwrap();
    late.lost().await;
    let next = locked(&locks).await;
    let mut unfenced = 0;
    assert!(
        register.write(next.fence(), register.read(next.fence()).unwrap().unwrap(), 7).unwrap()
    );
    unfenced += 7;
    // The pause is over; it does not look at its guard again.
    assert!(!register.write(late.fence(), saw, 1).unwrap(), "a late writer got through");
    let overwritten = unfenced == 7;
    assert!(overwritten, "a resource without a fence would take the late write now");
    assert!(late.check().unwrap_err().is_lost());
    check::register(&register.accesses().unwrap()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rl5_a_request_that_arrives_late_leaves_no_ghost() {
    let nodes = Nodes::new(3);
    let locks = nodes.open().await;
    drop(locked(&locks).await);
    nodes.proxies[2].set(Way::Requests, Fault::Hold);
    let first = locked(&locks).await;
    let fence = first.fence();
    first.release().await.unwrap();
    let other = leasehold::open(nodes.url("quarantine=0s&node_timeout=200ms")).await.unwrap();
    let second = locked(&other).await;
    assert!(second.fence() > fence);
    second.release().await.unwrap();
    assert!(nodes.proxies[2].counts().requests.held > 0, "no fault");
    nodes.heal();
    // The ttl is an hour: it goes because it is removed.
    eventually("no ghost", || nodes.holders() == 0).await;
    drop(locked(&locks).await);
}

/// All servers must be older than the quarantine before a test can begin.
async fn wait_until_old(nodes: &Nodes, age: u64) {
    let up = |node: usize| -> u64 {
        let info: String =
            nodes.peek(node, |it| redis::cmd("INFO").arg("server").query(it).unwrap());
        let line = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"));
        line.unwrap().trim().parse().unwrap()
    };
    eventually("old servers", || (0..nodes.servers.len()).all(|node| up(node) >= age)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rl6_a_node_that_forgot_does_not_vote_until_all_leases_have_ended() {
    let mut nodes = Nodes::new(5);
    wait_until_old(&nodes, 9).await;
    let url = nodes.url("quarantine=8s&node_timeout=10s");
    let careful = leasehold::open(&url).await.unwrap();
    let too_long = careful.mutex("n").ttl(HOUR).lock().await.unwrap_err();
    assert_eq!(too_long.kind(), ErrorKind::Invalid, "longer than any node remembers");
    nodes.cut([3, 4]);
    let ttl = Duration::from_secs(8);
    let held = careful.mutex("n").ttl(ttl).renew(false).lock().within(PATIENCE).await.unwrap();
    assert_eq!(nodes.holders(), 3);
    nodes.crash(2);
    nodes.heal();
    assert!(!nodes.has(2), "the fault did not bite");
    // Without the quarantine, a second holder gets in.
    let careless = nodes.open().await;
    let control = timeout(PATIENCE, careless.mutex("n").ttl(SHORT).lock()).await.unwrap().unwrap();
    let both = held.check().is_ok();
    assert!(control.fence() > held.fence(), "the fence tells them apart");
    control.release().await.unwrap();
    // With it, nobody does as long as the first lease runs.
    let other = leasehold::open(&url).await.unwrap();
    let mut refused = 0;
    while held.check().is_ok() {
        let second = try_lock(&other).await;
        assert!(second.is_none() || held.check().is_err(), "two holders");
        refused += 1;
    }
    assert!(!both || refused > 0, "the second part of the test did not run");
    drop(other.mutex("n").ttl(SHORT).lock().within(PATIENCE).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn rl7_a_node_that_syncs_every_write_keeps_the_lock_over_a_crash() {
    let plan = Plan::redis().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let mut nodes = Nodes::start(5, plan);
    let locks = leasehold::open(nodes.url("node_timeout=10s")).await.unwrap();
    nodes.cut([3, 4]);
    let held = locks.mutex("n").ttl(HOUR).renew(false).lock().within(PATIENCE).await.unwrap();
    nodes.crash(2);
    nodes.heal();
    assert!(nodes.has(2), "it forgot the lock");
    let other = leasehold::open(nodes.url("node_timeout=10s")).await.unwrap();
    assert!(other.mutex("n").try_lock().await.unwrap().is_none(), "two holders");
    held.check().unwrap();
    let fence = held.fence();
    held.release().await.unwrap();
    assert!(locked(&other).await.fence() > fence);
}

#[tokio::test(flavor = "multi_thread")]
async fn rl8_a_lease_is_taken_to_the_nodes_that_miss_it() {
    let nodes = Nodes::new(5);
    let locks = nodes.open().await;
    nodes.cut([3, 4]);
    let held = locks.mutex("n").ttl(SHORT).lock().within(PATIENCE).await.unwrap();
    assert_eq!(nodes.holders(), 3);
    nodes.heal();
    eventually("a lease on all nodes", || nodes.holders() == 5).await;
    nodes.forget(0);
    nodes.forget(1);
    assert!(nodes.open().await.mutex("n").try_lock().await.unwrap().is_none(), "two holders");
    eventually("a lease on all nodes again", || nodes.holders() == 5).await;
    held.check().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rl9_what_most_nodes_have_forgotten_is_lost_and_not_brought_back() {
    let nodes = Nodes::new(5);
    let locks = nodes.open().await;
    let held = locks.mutex("n").ttl(SHORT).lock().within(PATIENCE).await.unwrap();
    eventually("a lease on all nodes", || nodes.holders() == 5).await;
    (0..3).for_each(|node| nodes.forget(node));
    timeout(PATIENCE, held.lost()).await.unwrap();
    assert!(held.check().unwrap_err().is_lost());
    assert!((0..3).all(|node| !nodes.has(node)), "it was set anew");
    drop(locked(&locks).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn rl10_a_slow_minority_costs_nothing_and_is_told_all_the_same() {
    let nodes = Nodes::new(5);
    let options = "quarantine=0s&node_timeout=600s&timeout=600s";
    let hosts: Vec<String> = nodes.proxies.iter().map(|it| it.addr().to_string()).collect();
    let url = format!("redlock://{}?key=lock:{{name}}&{options}", hosts.join(","));
    let locks = leasehold::open(url).await.unwrap();
    nodes.proxies[3].set(Way::Requests, Fault::Hold);
    nodes.proxies[4].set(Way::Replies, Fault::Hold);
    for _ in 0..20 {
        // Whoever waits for the slowest node waits for ten minutes.
        let guard = timeout(PATIENCE, locked(&locks)).await.unwrap();
        timeout(PATIENCE, guard.release()).await.unwrap().unwrap();
    }
    assert!(nodes.proxies[3].counts().requests.held > 0, "no fault");
    assert!(nodes.proxies[4].counts().replies.held > 0, "no fault");
    nodes.heal();
    eventually("no residue on the slow nodes either", || nodes.holders() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rl11_validity_counts_from_the_request_and_not_from_its_replies() {
    let nodes = Nodes::new(3);
    let locks = nodes.open().await;
    drop(locked(&locks).await);
    let delay = Duration::from_millis(500);
    nodes.proxies.iter().for_each(|proxy| proxy.set(Way::Replies, Fault::Delay(delay)));
    let ttl = Duration::from_secs(60);
    let guard = locks.mutex("n").ttl(ttl).lock().within(PATIENCE).await.unwrap();
    let left = guard.remaining();
    assert!(left <= ttl - delay, "{left:?} of {ttl:?} after replies that took {delay:?}");
    assert!(nodes.proxies.iter().all(|proxy| proxy.counts().replies.delayed > 0), "no fault");
}

#[tokio::test(flavor = "multi_thread")]
async fn rl12_a_claim_that_fails_leaves_nothing_on_any_node() {
    let nodes = Nodes::new(5);
    let locks = nodes.open().await;
    for node in 0..3 {
        let _: () = nodes.peek(node, |it| it.set_ex(KEY, "someone else", 3600).unwrap());
    }
    assert!(locks.mutex("n").ttl(HOUR).try_lock().await.unwrap().is_none(), "two of five");
    eventually("no residue", || nodes.holders() == 3).await;
    assert!((0..3).all(|node| nodes.has(node)), "someone else's lock was removed");
}

/// Some servers get the first three rounds of a ticket at once, and after them
/// the clean-ups of two.
async fn granted_among_late_requests(nodes: &Nodes, locks: Locks, slow: &[usize]) -> Guard {
    let fast = (0..3).find(|node| !slow.contains(node)).unwrap();
    let before: Vec<u64> = (0..3).map(|node| nodes.calls(node)).collect();
    let since = |node: usize| nodes.calls(node) - before[node];
    slow.iter().for_each(|node| nodes.proxies[*node].set(Way::Requests, Fault::Hold));
    let asked = tokio::spawn(async move { locked(&locks).await });
    // Twice locked and unlocked.
    eventually("a third round", || since(fast) >= 5).await;
    nodes.heal();
    let guard = timeout(PATIENCE, asked).await.unwrap().unwrap();
    eventually("late clean-ups", || slow.iter().all(|node| since(*node) >= 5)).await;
    guard
}

/// A client whose connections and scripts are there, on counters of `n` that
/// nobody has drawn from: servers that are late have the larger numbers, and
/// nothing is asked of them twice.
async fn warm(nodes: &Nodes) -> Locks {
    let locks = nodes.hasty().await;
    drop(locks.mutex("warm").lock().within(PATIENCE).await.unwrap());
    eventually("warm nodes", || (0..3).all(|node| nodes.calls(node) >= 2)).await;
    locks
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_clean_up_leaves_the_next_round_alone() {
    let nodes = Nodes::new(3);
    let (locks, other) = (warm(&nodes).await, nodes.direct().await);
    let guard = granted_among_late_requests(&nodes, locks, &[0, 2]).await;
    assert!(try_lock(&other).await.is_none(), "two holders");
    assert!(nodes.holders() >= 2, "it stands on {}", nodes.holders());
    guard.check().unwrap();
    guard.release().await.unwrap();
    eventually("no residue", || nodes.holders() == 0).await;
}

/// Two votes are all there are: one that is cleaned away is one too many.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_clean_up_leaves_the_next_round_alone_beside_a_stranger() {
    let nodes = Nodes::new(3);
    let (locks, other) = (warm(&nodes).await, nodes.direct().await);
    let _: () = nodes.peek(1, |it| it.set_ex(KEY, "someone else", 3600).unwrap());
    let guard = granted_among_late_requests(&nodes, locks, &[2]).await;
    nodes.forget(1);
    assert!(try_lock(&other).await.is_none(), "two holders");
    assert!(nodes.has(0) && nodes.has(2), "a vote was cleaned away");
    guard.check().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_by_nothing_takes_nothing_away() {
    let nodes = Nodes::new(3);
    let guard = locked(&nodes.open().await).await;
    eventually("all nodes have it", || nodes.holders() == 3).await;
    // Refused or not: the lease is as it was.
    let _ = guard.extend(Duration::ZERO).await;
    assert!(try_lock(&nodes.direct().await).await.is_none(), "two holders");
    assert!(nodes.kept() > HOUR / 2, "cut to {:?}", nodes.kept());
    guard.check().unwrap();
}

/// A lease that was extended for long is renewed for less, and then the holder
/// is cut off.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_after_a_long_extension_shortens_nothing() {
    let nodes = Nodes::new(3);
    let locks = nodes.open().await;
    let guard = locks.mutex("n").ttl(SHORT).lock().within(PATIENCE).await.unwrap();
    eventually("all nodes have it", || nodes.holders() == 3).await;
    guard.extend(HOUR).await.unwrap();
    let before: Vec<u64> = (0..3).map(|node| nodes.calls(node)).collect();
    eventually("a renewal", || (0..3).all(|node| nodes.calls(node) > before[node])).await;
    nodes.cut(0..3);
    let believed = guard.remaining();
    assert!(believed <= nodes.kept() + SHORT, "{believed:?}, but kept for {:?}", nodes.kept());
    let other = nodes.direct().await;
    let second = other.mutex("n").ttl(SHORT).lock().within(2 * SHORT).await;
    assert!(second.is_err() || guard.check().is_err(), "two holders");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_extension_is_longer_than_nodes_may_be_trusted_to_remember() {
    let nodes = Nodes::new(3);
    wait_until_old(&nodes, 9).await;
    let ttl = Duration::from_secs(8);
    let locks = leasehold::open(nodes.url("quarantine=8s&node_timeout=10s")).await.unwrap();
    let guard = locks.mutex("n").ttl(ttl).renew(false).lock().within(PATIENCE).await.unwrap();
    // Refused, or cut down to what can be kept.
    let _ = guard.extend(HOUR).await;
    assert!(guard.remaining() <= ttl, "{:?} of {ttl:?}", guard.remaining());
    assert!((0..3).all(|node| nodes.left(node) <= ttl), "a node keeps it for longer");
}

/// One node refuses us, another answers too late: whether the writer has become a
/// reader is not known, and it must not go on to believe that it writes alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_conversion_that_most_nodes_may_have_made_leaves_no_writer() {
    let nodes = Nodes::new(3);
    let url = nodes.url("quarantine=0s&node_timeout=5s&retry=none");
    let locks = leasehold::open(url).await.unwrap();
    let mut guard = locks.rwlock("n").ttl(HOUR).write().await.unwrap();
    // No script may be run there any more.
    let acl = ["SETUSER", "default", "-eval", "-evalsha"];
    nodes.peek(1, |it| redis::cmd("ACL").arg(&acl).exec(it).unwrap());
    nodes.proxies[2].set(Way::Replies, Fault::Hold);
    let error = guard.convert(Mode::Read).await.unwrap_err();
    assert!(nodes.proxies[2].counts().replies.held > 0, "no fault");
    assert_eq!(error.effect(), Effect::Unknown, "{error:?}");
    assert_eq!(guard.mode(), Mode::Read, "readers may stand beside it");
    nodes.heal();
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_nodes_say_why_each_of_them_is_missing() {
    let nodes = Nodes::new(3);
    let url = nodes.url("quarantine=1h&node_timeout=1s&retry=none");
    let locks = leasehold::open(url).await.unwrap();
    nodes.proxies[2].set(Way::Replies, Fault::Hold);
    let error = locks.mutex("n").ttl(SHORT).try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let text = error.to_string();
    assert!(nodes.proxies[2].counts().replies.held > 0, "no fault");
    for proxy in &nodes.proxies {
        assert!(text.contains(&proxy.addr().to_string()), "{} is not in {text}", proxy.addr());
    }
    assert_eq!(text.matches("does not vote until").count(), 2, "{text}");
    assert!(text.starts_with("only 0 of 3 nodes count"), "{text}");
    nodes.heal();
}

/// Four clients add to a register while nodes die and come back empty, one at
/// a time. Exclusion may depend on time; the register may not lose an update.
#[tokio::test(flavor = "multi_thread")]
async fn no_update_is_lost_while_nodes_are_killed_and_restarted() {
    let mut nodes = Nodes::new(5);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("register");
    wait_until_old(&nodes, 4).await;
    let url = nodes.url("quarantine=3s&node_timeout=500ms&retry=forever:20ms");
    let end = Instant::now() + Duration::from_secs(14);
    let workers: Vec<_> =
        (0..4).map(|_| tokio::spawn(add_until(end, url.clone(), path.clone()))).collect();
    let mut crashes = 0;
    while Instant::now() < end {
        nodes.crash(crashes % 5);
        crashes += 1;
        // The quarantine must end before the next one falls.
        sleep(Duration::from_millis(4500)).await;
    }
    let mut added = 0;
    for worker in workers {
        added += timeout(PATIENCE, worker).await.unwrap().unwrap();
    }
    let accesses = Register::open(&path).unwrap().accesses().unwrap();
    check::register(&accesses).unwrap();
    assert!(crashes >= 2 && added > 20, "{added} updates over {crashes} crashes prove little");
}

async fn add_until(end: Instant, url: String, path: std::path::PathBuf) -> u32 {
    let (locks, register) = (leasehold::open(url).await.unwrap(), Register::open(path).unwrap());
    let mut added = 0;
    while Instant::now() < end {
        let asked = locks.mutex("n").ttl(SHORT).lock().within(Duration::from_secs(5)).await;
        let Ok(guard) = asked else { continue };
        if let Some(saw) = register.read(guard.fence()).unwrap() {
            tokio::task::yield_now().await;
            added += u32::from(register.write(guard.fence(), saw, saw + 1).unwrap());
        }
        // It may have been lost by now; the fence has taken care of that.
        let _ = guard.release().await;
    }
    added
}
