//! What a client keeps in mind, and what it says of answers, on a real server.

use std::time::Duration;

use redis::{Commands, Connection};

use super::super::{Native, start};
use crate::claim::{
    Claim, Ending, LeaseId, Mode, Owner, Refresh, Renewal, Stance, Store, Ticket, Verdict, Wake,
    Wants,
};
use crate::clock::{Clock, Moment};
use crate::engine::{Engine, Eviction, Page, RecordStore, Scope, Target};
use crate::engines::redis::checkup::Checkup;
use crate::engines::redis::link::RedisLink;
use crate::engines::redis::server::RedisTestServer;
use crate::engines::redis::settings::RedisSettings;
use crate::error::{Effect, ErrorKind};
use crate::name::{Name, Namespace};
use crate::url::Url;

/// Ends a wait that would never end. Nothing is measured with it.
const LIMIT: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(60);
/// What a release to come may store: it says so in its first two bytes.
const FOREIGN: &[u8] = b"\xc1\x02whatever it is";
const RECORD: &str = "leasehold:{default}:record:n";

struct Scene {
    native: Native,
    redis: Connection,
    _server: RedisTestServer,
}

async fn open(options: &str) -> Scene {
    let server = RedisTestServer::start();
    let redis = server.connection();
    let url = Url::parse(&format!("{}{options}", server.url())).unwrap();
    let settings = RedisSettings::from_url(&url).unwrap();
    let link = RedisLink::open(&settings, Clock::System).await.unwrap();
    let checkup = Checkup::new(&link, &settings, &Clock::System);
    let native = start(link, &settings, "leasehold:", checkup, Clock::System).await;
    Scene { native, redis, _server: server }
}

fn name() -> Name {
    Name::new(&Namespace::default(), "n").unwrap()
}

fn claim() -> Claim {
    Claim::new(Ticket::new(name(), Mode::Exclusive), Owner::new("me"), LONG)
}

impl Scene {
    async fn hold(&self) -> Ticket {
        let claim = claim();
        let ticket = claim.ticket.clone();
        assert!(matches!(self.native.acquire(claim).await, Ok(Verdict::Granted(_))));
        ticket
    }

    /// Somebody else holds it, and this one waits.
    async fn wait(&self, ticket: &Ticket) {
        let mut claim = Claim { ticket: ticket.clone(), ..claim() };
        claim.stance = Stance::Wait { until: Moment::NEVER };
        assert!(matches!(self.native.acquire(claim).await, Ok(Verdict::Busy(_))));
    }

    async fn hand_over(&self, from: Ticket, to: &Ticket) {
        self.native.release(from, Ending::new()).await.unwrap();
        let until = Clock::System.now().after(LIMIT);
        let woken = self.native.wait(to.clone(), until).await;
        assert!(matches!(woken, Ok(Wake::Granted { .. })), "{woken:?}");
    }

    /// By hand.
    fn forget(&mut self) {
        let names = ["leasehold:{default}:name:n", "leasehold:{default}:more:n"];
        let _: () = self.redis.del(&names).unwrap();
    }

    async fn renew(&self, ticket: &Ticket) -> Renewal {
        self.native.renew(vec![Refresh::new(ticket.clone(), LONG)]).await.remove(0)
    }

    fn is_kept(&self, id: LeaseId) -> bool {
        self.native.0.waiters.rings(id).is_some()
    }

    /// How often the server was asked for this.
    fn asked(&mut self, command: &str) -> usize {
        let info: String = redis::cmd("INFO").arg("commandstats").query(&mut self.redis).unwrap();
        let head = format!("cmdstat_{command}:calls=");
        let calls = info.lines().find_map(|line| line.strip_prefix(&head)?.split(',').next());
        calls.map_or(0, |calls| calls.parse().unwrap())
    }
}

#[tokio::test]
async fn of_a_lease_that_was_handed_over_and_has_gone_nothing_is_kept() {
    let mut scene = open("").await;
    let (first, second) = (scene.hold().await, claim().ticket);
    scene.wait(&second).await;
    scene.hand_over(first, &second).await;
    assert!(scene.is_kept(second.id), "the test tests nothing");
    scene.forget();
    assert!(matches!(scene.renew(&second).await, Renewal::Gone));
    assert!(!scene.is_kept(second.id));
}

#[tokio::test]
async fn of_a_lease_that_was_handed_over_and_taken_away_nothing_is_kept() {
    let scene = open("").await;
    let (first, second) = (scene.hold().await, claim().ticket);
    scene.wait(&second).await;
    scene.hand_over(first, &second).await;
    let eviction = Eviction::new(name(), Target::All, "op", "a test").unwrap();
    assert_eq!(scene.native.evict(eviction).await.unwrap().leases.len(), 1);
    let heard = async {
        while scene.is_kept(second.id) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, heard).await.expect("it is kept");
}

/// It looks at once, and its next claim hears of a grant again.
#[tokio::test]
async fn a_waiter_whose_place_has_gone_is_told_of_the_grant_to_its_next_one() {
    let mut scene = open("").await;
    let (_, waiter) = (scene.hold().await, claim().ticket);
    scene.wait(&waiter).await;
    scene.forget();
    let waiting = tokio::time::timeout(LIMIT, scene.native.wait(waiter.clone(), Moment::NEVER));
    let (woken, renewal) = tokio::join!(waiting, scene.renew(&waiter));
    assert!(matches!(renewal, Renewal::Gone));
    assert!(matches!(woken, Ok(Ok(Wake::Look))), "{woken:?}");
    assert!(!scene.is_kept(waiter.id));
    let next = scene.hold().await;
    scene.wait(&waiter).await;
    scene.hand_over(next, &waiter).await;
}

/// The lease is there: whoever asked has to give it back.
#[tokio::test]
async fn a_grant_with_a_record_that_cannot_be_read_is_unknown() {
    let mut scene = open("").await;
    for odd in [FOREIGN, b"odd"] {
        let _: () = scene.redis.set(RECORD, odd).unwrap();
        let mut claim = claim();
        claim.wants = Wants::LeaseAndRecord;
        let ticket = claim.ticket.clone();
        let error = scene.native.acquire(claim).await.unwrap_err();
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
        assert!(matches!(scene.renew(&ticket).await, Renewal::Held { .. }));
        scene.native.release(ticket, Ending::new()).await.unwrap();
    }
}

#[tokio::test]
async fn a_record_of_another_layout_is_not_replaced() {
    let mut scene = open("").await;
    let _: () = scene.redis.set(RECORD, FOREIGN).unwrap();
    let mut unlisted = Store::put(name(), b"value".to_vec());
    (unlisted.unlisted, unlisted.ttl) = (true, Some(LONG));
    for store in [Store::put(name(), b"value".to_vec()), unlisted, Store::delete(name())] {
        let error = scene.native.store(store).await.unwrap_err();
        let said = (error.kind(), error.effect());
        assert_eq!(said, (ErrorKind::Unsupported, Effect::NotApplied), "{error}");
    }
    assert_eq!(scene.redis.get::<_, Vec<u8>>(RECORD).unwrap(), FOREIGN);
}

/// It would hold up whatever else the connection has to carry.
#[tokio::test]
async fn a_list_of_records_waits_for_no_replica() {
    let mut scene = open("?replicas=1&timeout=2s").await;
    let _: () = scene.redis.zadd("leasehold:{default}:records", "n", 0).unwrap();
    let scope = Scope::below(&Namespace::default(), "", 1);
    let found = scene.native.list(scope, Page::default()).await.unwrap();
    assert!(found.records.is_empty());
    assert!(scene.asked("evalsha") > 0, "the test tests nothing");
    assert_eq!(scene.asked("wait"), 0);
}
