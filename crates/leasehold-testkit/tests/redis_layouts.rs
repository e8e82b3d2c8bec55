//! Keys, fields, channels and messages of borrowed layouts, seen from the other
//! side: raw commands play the software that they are shared with.

// Real sockets on real threads; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use leasehold::engine::{Eviction, Target};
use leasehold::{ErrorKind, Guard, Locks, Mode, Result};
use leasehold_testkit::proxy::{Fault, FaultProxy, Way};
use leasehold_testkit::server::Server;
use redis::{Commands, Connection};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// How long to wait for what must come: less than the 30 s after which a waiter
/// that heard nothing looks by itself.
const SOON: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);
const HOUR_MS: i64 = 3_600_000;
/// A thread of another client, as Redisson calls it.
const JAVA: &str = "7c9f6f32-6c6f-4f0e-9d0a-0e6f3f6c1a2b:37";

/// A server, a raw way to it, and a client.
struct Bench {
    server: Server,
    raw: Connection,
    locks: Locks,
}

impl Bench {
    async fn new(options: &str) -> Self {
        let server = Server::redis().unwrap();
        let raw = connection(&server);
        let locks = leasehold::open(format!("{}?{options}", server.url())).await.unwrap();
        Self { server, raw, locks }
    }

    /// Asks a raw question; the words of the command are separated by blanks.
    fn ask<T: redis::FromRedisValue>(&mut self, command: &str) -> T {
        let mut words = command.split(' ');
        let mut asked = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            asked.arg(word);
        });
        asked.query(&mut self.raw).unwrap()
    }

    fn hash(&mut self, key: &str) -> HashMap<String, String> {
        self.raw.hgetall(key).unwrap()
    }

    /// The one owner of a plain lock.
    fn owner(&mut self, key: &str) -> String {
        let fields = self.hash(key);
        assert_eq!(fields.len(), 1, "{fields:?}");
        let (owner, count) = fields.into_iter().next().unwrap();
        assert_eq!(count, "1");
        owner
    }

    /// Until somebody listens to the channel.
    async fn heard(&mut self, channel: &str) {
        for _ in 0..2000 {
            let (_, count): (String, i64) = self.ask(&format!("PUBSUB NUMSUB {channel}"));
            if count > 0 {
                return;
            }
            sleep(Duration::from_millis(5)).await;
        }
        panic!("nobody listens to {channel}");
    }

    /// What is said on a channel while `work` is done.
    async fn said(&self, channel: &str, work: impl Future<Output = ()>) -> Vec<String> {
        let mut ear = connection(&self.server);
        let mut ear = ear.as_pubsub();
        ear.subscribe(channel).unwrap();
        work.await;
        let () = connection(&self.server).publish(channel, "over").unwrap();
        let mut said = Vec::new();
        loop {
            let message: String = ear.get_message().unwrap().get_payload().unwrap();
            if message == "over" {
                return said;
            }
            said.push(message);
        }
    }
}

fn connection(server: &Server) -> Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

fn spawn(lock: leasehold::Lock) -> JoinHandle<Result<Guard>> {
    tokio::spawn(lock.into_future())
}

async fn soon(waiter: JoinHandle<Result<Guard>>) -> Guard {
    timeout(SOON, waiter).await.expect("nothing woke it").unwrap().unwrap()
}

async fn release(guard: Guard) {
    guard.release().await.unwrap();
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && text.split('-').map(str::len).eq([8, 4, 4, 4, 12])
}

/// Whatever a name is, it is not the key in which another lock keeps its labels.
#[tokio::test]
async fn no_name_is_a_key_that_lies_beside_another() {
    for layout in ["string", "redisson"] {
        let bench = Bench::new(&format!("layout={layout}")).await;
        for odd in ["{a}:leasehold", "{a}:leasehold:waiting", "{a}leasehold"] {
            let beside = bench.locks.mutex(odd).ttl(HOUR).lock().await.unwrap();
            let plain = bench.locks.mutex("a").ttl(HOUR).try_lock().await.unwrap().unwrap();
            assert!(bench.locks.mutex(odd).try_lock().await.unwrap().is_none(), "{layout}: {odd}");
            assert!(bench.locks.mutex("a").try_lock().await.unwrap().is_none(), "{layout}: {odd}");
            release(plain).await;
            assert!(bench.locks.mutex(odd).try_lock().await.unwrap().is_none(), "{layout}: {odd}");
            release(beside).await;
        }
    }
}

#[tokio::test]
async fn a_string_lock_is_a_token_with_an_expiry() {
    let mut bench = Bench::new("layout=string&key=lock:{name}").await;
    let guard = bench.locks.mutex("a").ttl(HOUR).lock().await.unwrap();
    let token: String = bench.ask("GET lock:a");
    assert!(is_uuid(&token), "{token}");
    let left: i64 = bench.ask("PTTL lock:a");
    assert!((1..=HOUR_MS).contains(&left), "{left}");
    guard.extend(2 * HOUR).await.unwrap();
    assert!(bench.ask::<i64>("PTTL lock:a") > HOUR_MS);
    assert!(bench.ask::<Option<String>>("SET lock:a theirs NX PX 1000").is_none());
    release(guard).await;
    assert!(!bench.ask::<bool>("EXISTS lock:a"));
    let shop = bench.locks.namespace("shop").unwrap().mutex("a").lock().await.unwrap();
    assert!(bench.ask::<bool>("EXISTS lock:shop:a"));
    release(shop).await;
}

#[tokio::test]
async fn a_string_lock_of_others_is_waited_for_and_left_alone() {
    let mut bench = Bench::new("layout=string").await;
    bench.ask::<()>("SET a theirs NX PX 3600000");
    assert!(bench.locks.mutex("a").try_lock().await.unwrap().is_none());
    let status = bench.locks.status("a").await.unwrap();
    assert_eq!(&*status.holders[0].label, "another client");
    assert!(status.holders[0].time_left.is_some());
    let waiter = spawn(bench.locks.mutex("a").ttl(HOUR).lock());
    bench.ask::<()>("DEL a");
    let guard = soon(waiter).await;
    bench.ask::<()>("SET a theirs PX 3600000");
    assert_eq!(guard.release().await.unwrap(), leasehold::Released::AlreadyLost);
    assert_eq!(bench.ask::<String>("GET a"), "theirs");
}

#[tokio::test]
async fn a_redisson_lock_is_a_hash_and_its_release_a_message() {
    let mut bench = Bench::new("layout=redisson").await;
    let guard = bench.locks.mutex("a").ttl(HOUR).lock().await.unwrap();
    let owner = bench.owner("a");
    assert!(owner.strip_suffix(":1").is_some_and(is_uuid), "{owner}");
    assert!((1..=HOUR_MS).contains(&bench.ask::<i64>("PTTL a")));
    let said = bench.said("redisson_lock__channel:{a}", release(guard)).await;
    assert_eq!(said, ["0"]);
    assert!(!bench.ask::<bool>("EXISTS a"));
}

#[tokio::test]
async fn a_name_with_braces_gets_no_more() {
    let bench = Bench::new("layout=redisson").await;
    let guard = bench.locks.mutex("{a}b").lock().await.unwrap();
    assert_eq!(bench.said("redisson_lock__channel:{a}b", release(guard)).await, ["0"]);
}

#[tokio::test]
async fn a_waiter_is_woken_by_the_message_of_a_java_client() {
    let mut bench = Bench::new("layout=redisson").await;
    bench.ask::<()>(&format!("HSET a {JAVA} 1"));
    bench.ask::<()>("PEXPIRE a 3600000");
    let waiter = spawn(bench.locks.mutex("a").ttl(HOUR).lock());
    bench.heard("redisson_lock__channel:{a}").await;
    bench.ask::<()>("DEL a");
    bench.ask::<()>("PUBLISH redisson_lock__channel:{a} 0");
    release(soon(waiter).await).await;
}

#[tokio::test]
async fn a_holder_of_java_is_named() {
    let mut bench = Bench::new("layout=redisson").await;
    bench.ask::<()>(&format!("HSET a {JAVA} 1"));
    let error = bench.locks.mutex("a").lock().within(Duration::from_millis(50)).await.unwrap_err();
    assert!(error.to_string().contains("Redisson 7c9f6f32../37"), "{error}");
    assert!(!error.to_string().contains(JAVA), "a whole owner id is a secret");
}

#[tokio::test]
async fn a_spin_lock_tells_nobody() {
    let mut bench = Bench::new("layout=redisson&kind=spin").await;
    let guard = bench.locks.mutex("a").ttl(HOUR).lock().await.unwrap();
    let waiter = spawn(bench.locks.mutex("a").ttl(HOUR).lock());
    let said = bench.said("redisson_lock__channel:{a}", release(guard)).await;
    assert!(said.is_empty(), "{said:?}");
    release(soon(waiter).await).await;
    assert_eq!(bench.ask::<i64>("PUBSUB NUMPAT"), 0);
}

#[tokio::test]
async fn a_fair_waiter_has_a_place_and_a_channel_of_its_own() {
    let mut bench = Bench::new("layout=redisson&kind=fair").await;
    bench.ask::<()>(&format!("HSET a {JAVA} 1"));
    bench.ask::<()>("PEXPIRE a 3600000");
    let waiter = spawn(bench.locks.mutex("a").ttl(HOUR).lock());
    let owner = loop {
        let queue: Vec<String> = bench.ask("LRANGE redisson_lock_queue:{a} 0 -1");
        if let [owner] = &queue[..] {
            break owner.clone();
        }
        sleep(Duration::from_millis(5)).await;
    };
    assert!(bench.ask::<f64>(&format!("ZSCORE redisson_lock_timeout:{{a}} {owner}")) > 1e12);
    let channel = format!("redisson_lock__channel:{{a}}:{owner}");
    bench.heard(&channel).await;
    bench.ask::<()>("DEL a");
    bench.ask::<()>(&format!("PUBLISH {channel} 0"));
    let guard = soon(waiter).await;
    assert_eq!(bench.owner("a"), owner);
    assert!(!bench.ask::<bool>("EXISTS redisson_lock_queue:{a}"));
    assert!(!bench.ask::<bool>("EXISTS redisson_lock_timeout:{a}"));
    release(guard).await;
}

#[tokio::test]
async fn a_java_client_in_the_queue_is_next_and_is_told() {
    let mut bench = Bench::new("layout=redisson&kind=fair").await;
    let guard = bench.locks.mutex("a").ttl(HOUR).lock().await.unwrap();
    bench.ask::<()>(&format!("RPUSH redisson_lock_queue:{{a}} {JAVA}"));
    bench.ask::<()>(&format!("ZADD redisson_lock_timeout:{{a}} 99999999999999 {JAVA}"));
    let channel = format!("redisson_lock__channel:{{a}}:{JAVA}");
    assert_eq!(bench.said(&channel, release(guard)).await, ["0"]);
    assert!(bench.locks.mutex("a").try_lock().await.unwrap().is_none(), "it went before its turn");
    assert_eq!(bench.ask::<i64>("LLEN redisson_lock_queue:{a}"), 1, "a try has queued");
}

#[tokio::test]
async fn a_java_client_that_died_in_the_queue_is_given_up() {
    let mut bench = Bench::new("layout=redisson&kind=fair").await;
    bench.ask::<()>(&format!("RPUSH redisson_lock_queue:{{a}} {JAVA}"));
    bench.ask::<()>(&format!("ZADD redisson_lock_timeout:{{a}} 1000 {JAVA}"));
    assert!(bench.locks.mutex("a").try_lock().await.unwrap().is_some());
    assert!(!bench.ask::<bool>("EXISTS redisson_lock_queue:{a}"));
}

#[tokio::test]
async fn a_waiter_that_gives_up_leaves_the_fair_queue() {
    let mut bench = Bench::new("layout=redisson&kind=fair").await;
    bench.ask::<()>(&format!("HSET a {JAVA} 1"));
    bench.ask::<()>("PEXPIRE a 3600000");
    let late = bench.locks.mutex("a").lock().within(Duration::from_millis(50)).await;
    assert!(late.unwrap_err().is_timed_out());
    for key in ["redisson_lock_queue:{a}", "redisson_lock_timeout:{a}"] {
        while bench.ask::<bool>(&format!("EXISTS {key}")) {
            sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_fenced_lock_draws_tokens_as_java_does() {
    let mut bench = Bench::new("layout=redisson&kind=fenced").await;
    let guard = bench.locks.mutex("a").lock().await.unwrap();
    assert_eq!(guard.fence(), 1);
    release(guard).await;
    bench.ask::<()>("INCR redisson_lock_token:{a}");
    let guard = bench.locks.mutex("a").lock().await.unwrap();
    assert_eq!((guard.fence(), bench.ask::<u64>("GET redisson_lock_token:{a}")), (3, 3));
    let status = bench.locks.status("a").await.unwrap();
    assert_eq!(status.holders[0].fence, Some(3));
    release(guard).await;
}

#[tokio::test]
async fn readers_and_writers_are_those_of_redisson() {
    let mut bench = Bench::new("layout=redisson").await;
    let lock = bench.locks.rwlock("a").ttl(HOUR);
    let mut writer = lock.write().await.unwrap();
    let fields = bench.hash("a");
    assert_eq!((fields.len(), &*fields["mode"]), (2, "write"));
    let owner = fields.keys().find_map(|field| field.strip_suffix(":write")).unwrap().to_owned();
    let said =
        bench.said("redisson_rwlock:{a}", async { writer.convert(Mode::Read).await.unwrap() });
    assert_eq!(said.await, ["1"]);
    let fields = bench.hash("a");
    assert_eq!((&*fields["mode"], &*fields[&owner], fields.len()), ("read", "1", 2));
    let lease: i64 = bench.ask(&format!("PTTL {{a}}:{owner}:rwlock_timeout:1"));
    assert!((1..=HOUR_MS).contains(&lease), "{lease}");
    assert_eq!(bench.said("redisson_rwlock:{a}", release(writer)).await, ["0"]);
    assert!(!bench.ask::<bool>("EXISTS a"));
    let writer = lock.write().await.unwrap();
    assert_eq!(bench.said("redisson_rwlock:{a}", release(writer)).await, ["1"]);
}

#[tokio::test]
async fn a_reader_leaves_a_java_reader_its_time() {
    let mut bench = Bench::new("layout=redisson").await;
    let reader = bench.locks.rwlock("a").ttl(HOUR).read().await.unwrap();
    bench.ask::<()>(&format!("HSET a {JAVA} 1"));
    bench.ask::<()>(&format!("SET {{a}}:{JAVA}:rwlock_timeout:1 1 PX 60000"));
    release(reader).await;
    let left: i64 = bench.ask("PTTL a");
    assert!((1..=60_000).contains(&left), "{left}");
    assert_eq!(bench.hash("a").len(), 2);
    assert!(bench.locks.rwlock("a").try_write().await.unwrap().is_none());
}

#[tokio::test]
async fn permits_are_ids_of_sixteen_bytes() {
    let mut bench = Bench::new("layout=redisson").await;
    let semaphore = bench.locks.semaphore("a", 5).ttl(HOUR);
    let guard = semaphore.acquire(2).await.unwrap();
    assert_eq!(bench.ask::<i64>("GET a"), 3);
    let taken: Vec<(Vec<u8>, f64)> = bench.ask("ZRANGE {a}:timeout 0 -1 WITHSCORES");
    assert!(taken.len() == 2 && taken.iter().all(|(id, at)| id.len() == 16 && *at > 1e12));
    assert_eq!(bench.locks.status("a").await.unwrap().holders.len(), 1, "one lease of two permits");
    assert_eq!(bench.said("redisson_sc:{a}", release(guard)).await, ["5"]);
    assert_eq!(bench.ask::<i64>("ZCARD {a}:timeout"), 0);
}

#[tokio::test]
async fn permits_of_java_count_and_come_back_when_they_expire() {
    let mut bench = Bench::new("layout=redisson").await;
    bench.ask::<()>("SET a 0");
    bench.ask::<()>("ZADD {a}:timeout 99999999999999 0123456789abcdef");
    let one = bench.locks.semaphore("a", 1).ttl(HOUR);
    assert!(one.try_acquire(1).await.unwrap().is_none());
    bench.ask::<()>("ZADD {a}:timeout 1000 0123456789abcdef");
    release(one.try_acquire(1).await.unwrap().expect("it has expired")).await;
    assert_eq!(bench.ask::<i64>("GET a"), 1);
}

#[tokio::test]
async fn what_is_another_kind_of_lock_is_refused() {
    let mut bench = Bench::new("layout=redisson").await;
    bench.ask::<()>(&format!("HSET plain {JAVA} 1"));
    bench.ask::<()>(&format!("HSET shared mode read {JAVA} 1"));
    bench.ask::<()>("SET token theirs");
    let locks = &bench.locks;
    let refused = [
        locks.rwlock("plain").try_read().await.map(drop),
        locks.rwlock("plain").try_write().await.map(drop),
        locks.semaphore("plain", 2).try_acquire(1).await.map(drop),
        locks.mutex("shared").try_lock().await.map(drop),
        locks.mutex("token").try_lock().await.map(drop),
        locks.semaphore("token", 2).try_acquire(1).await.map(drop),
    ];
    for (place, refused) in refused.into_iter().enumerate() {
        let error = refused.expect_err("two kinds of lock in one key");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{place}: {error}");
        assert!(error.to_string().contains("in use as a"), "{error}");
    }
}

#[tokio::test]
async fn an_eviction_frees_the_lock_of_a_dead_java_client_and_says_so() {
    let mut bench = Bench::new("layout=redisson").await;
    bench.ask::<()>(&format!("HSET a {JAVA} 2"));
    let name = bench.locks.name("a").unwrap();
    let eviction = Eviction::new(name, Target::All, "olga", "it is dead").unwrap();
    let evict = async { assert_eq!(bench.locks.evict(eviction).await.unwrap().leases.len(), 1) };
    assert_eq!(bench.said("redisson_lock__channel:{a}", evict).await, ["0"]);
    assert!(!bench.ask::<bool>("EXISTS a"));
}

/// The reply to the first claim is lost on the way; the claim is repeated.
#[test]
fn a_claim_whose_reply_is_lost_counts_once() {
    for options in [
        "layout=string",
        "layout=redisson",
        "layout=redisson&kind=fair",
        "layout=redisson&kind=fenced",
    ] {
        let server = Server::redis().unwrap();
        let proxy = FaultProxy::to(server.addr()).unwrap();
        let url = format!("{}?{options}&timeout=300ms", server.url_via(proxy.addr()));
        let locks = block_on(leasehold::open(url).into_future()).unwrap();
        // The server knows the scripts: what is lost is a grant.
        block_on(async { release(locks.mutex("b").lock().await.unwrap()).await });
        proxy.set(Way::Replies, Fault::BlackHole);
        let waiter = {
            let mutex = locks.mutex("a").ttl(HOUR);
            thread::spawn(move || block_on(mutex.lock().within(SOON).into_future()))
        };
        let mut raw = connection(&server);
        while !raw.exists::<_, bool>("a").unwrap() {
            assert!(!waiter.is_finished(), "{options}: never granted");
            thread::sleep(Duration::from_millis(5));
        }
        let lost = proxy.wait_for(SOON, |counts| counts.replies.lost > 0).replies.lost;
        assert!(lost > 0, "the fault did not bite");
        proxy.reset_all();
        proxy.heal();
        let guard = waiter.join().unwrap().unwrap();
        held_once(&mut raw, options);
        block_on(guard.release()).unwrap();
        assert!(!raw.exists::<_, bool>("a").unwrap(), "{options}: a count is left");
    }
}

/// Drives a future on this thread; the proxy has a runtime of its own.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(work)
}

fn held_once(raw: &mut Connection, options: &str) {
    if options == "layout=string" {
        assert!(is_uuid(&raw.get::<_, String>("a").unwrap()));
    } else {
        let fields: HashMap<String, u32> = raw.hgetall("a").unwrap();
        assert_eq!(fields.values().collect::<Vec<_>>(), [&1], "{options}");
    }
}
