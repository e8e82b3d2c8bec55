//! What is done with connections, on real servers.

use super::super::server::{DatabaseServer, suited};
use super::leases::HeldLock;
use super::*;
use crate::claim::{LeaseId, Owner};
use crate::engine::Event;
use crate::engines::database::drivers::DatabaseSettings;
use crate::name::{Name, Namespace};

/// Ends a wait that would never end. Nothing is measured with it.
const LIMIT: Duration = Duration::from_secs(30);
const TTL: Duration = Duration::from_secs(600);

async fn limit<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("it never happened")
}

async fn pool(server: &DatabaseServer) -> Pool {
    let url = Url::parse(&format!("{}?strategy=advisory", server.url())).unwrap();
    Pool::open(&DatabaseSettings::from_url(&url).unwrap(), Clock::System).await.unwrap()
}

async fn advisory(server: &DatabaseServer) -> Arc<AdvisoryClient> {
    let pool = pool(server).await;
    Arc::new(AdvisoryClient {
        texts: pool.family().advisory(None),
        pool,
        clock: Clock::System,
        timeout: TIMEOUT,
        connections: CONNECTIONS,
        seats: Arc::new(Semaphore::new(CONNECTIONS)),
        leases: AdvisoryLeases::default(),
        front: Mutex::new(None),
    })
}

fn claim(text: &str) -> Claim {
    let name = Name::new(&Namespace::default(), text).unwrap();
    Claim::new(Ticket::new(name, Mode::Exclusive), Owner::new("me"), TTL)
}

/// Takes a name; its ticket and the connection that has it.
async fn held(inner: &Arc<AdvisoryClient>, text: &str) -> (Ticket, Arc<LockConnection>) {
    let claim = claim(text);
    let ticket = claim.ticket.clone();
    let granted = Arc::clone(inner).acquire(claim).await.unwrap();
    assert!(matches!(&granted, Verdict::Granted(grant) if grant.ttl == TTL), "{granted:?}");
    let Some(AdvisoryLease::Held(hold)) = inner.leases.get(ticket.id) else {
        panic!("it is not there")
    };
    (ticket, hold.connection)
}

/// Ends a session from outside, and waits until it has ended.
async fn end(operator: &Pool, connection: &LockConnection) {
    let session = connection.session;
    let (end, left) = suited(
        operator,
        (
            format!("SELECT pg_terminate_backend({session})"),
            format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {session}"),
        ),
        (
            format!("KILL {session}"),
            format!("SELECT count(*) FROM information_schema.processlist WHERE id = {session}"),
        ),
    );
    operator.batch(&end).await.unwrap();
    let left = left.into();
    let ended = async {
        while operator.run(&left, Vec::new()).await.unwrap().rows[0].int(0).unwrap() > 0 {}
    };
    limit(ended).await;
}

/// P6: the guard of a client that is silent, but not dead, believes in its lease
/// for as long as its ttl.
#[tokio::test]
async fn a_server_waits_for_a_silent_client_for_longer_than_its_guards_believe() {
    for server in DatabaseServer::each() {
        let inner = advisory(&server).await;
        let (_, connection) = held(&inner, "n").await;
        let waits = patience(&inner, &connection).await;
        let fine = TTL.as_secs() + 1..TTL.as_secs() * 2;
        assert!(fine.contains(&waits), "{:?}: {waits} s", inner.pool.family());
    }
}

/// For how many seconds the server waits for the client of a connection.
async fn patience(inner: &AdvisoryClient, connection: &LockConnection) -> u64 {
    let known = suited(
        &inner.pool,
        "SELECT least(current_setting('tcp_keepalives_idle')::int8 + \
         current_setting('tcp_keepalives_interval')::int8 * \
         current_setting('tcp_keepalives_count')::int8, \
         (SELECT setting::int8 / 1000 FROM pg_settings WHERE name = 'tcp_user_timeout'))",
        "SELECT CAST(@@session.wait_timeout AS SIGNED)",
    );
    let waits = connection.run(known, Vec::new()).await.unwrap().rows[0].int(0).unwrap();
    waits.unsigned_abs()
}

#[tokio::test]
async fn no_more_is_promised_than_a_server_can_be_made_to_wait() {
    for server in DatabaseServer::each() {
        let inner = advisory(&server).await;
        let (_, connection) = held(&inner, "n").await;
        let years = Duration::from_secs(100 * 31_536_000);
        let kept = connection.spare(&inner.texts.spare, years).await.unwrap();
        assert!(kept < Duration::from_secs(patience(&inner, &connection).await), "{kept:?}");
    }
}

/// Two leases share a connection, and the shorter asks last.
#[tokio::test]
async fn a_server_waits_for_the_longest_of_all_that_share_a_connection() {
    for server in DatabaseServer::each() {
        let inner = advisory(&server).await;
        let (_, connection) = held(&inner, "n").await;
        let (long, short) = (4 * TTL, 2 * TTL);
        let spare = &inner.texts.spare;
        let both =
            tokio::join!(biased; connection.spare(spare, long), connection.spare(spare, short));
        assert_eq!((both.0.unwrap(), both.1.unwrap()), (long, short));
        assert!(patience(&inner, &connection).await > long.as_secs(), "{:?}", inner.pool.family());
    }
}

/// Whoever dials has the place of the shared connection for as long as that takes.
#[tokio::test]
async fn that_a_connection_has_died_is_told_while_another_is_being_made() {
    for server in DatabaseServer::each() {
        let (inner, operator) = (advisory(&server).await, pool(&server).await);
        let (ticket, connection) = held(&inner, "n").await;
        let mut events = inner.pool.events();
        let dialling = inner.front.lock().await;
        end(&operator, &connection).await;
        let told = async {
            loop {
                if let Event::TicketLost(id, _) = events.next().await.unwrap() {
                    return id;
                }
            }
        };
        assert_eq!(limit(told).await, ticket.id);
        drop(dialling);
    }
}

/// Nobody has looked at it yet.
#[tokio::test]
async fn a_lock_on_a_connection_that_has_died_is_gone_and_not_released() {
    for server in DatabaseServer::each() {
        let (inner, operator) = (advisory(&server).await, pool(&server).await);
        let (ticket, connection) = held(&inner, "n").await;
        end(&operator, &connection).await;
        let refresh = Refresh::new(ticket, TTL);
        let said = Arc::clone(&inner).renew(vec![refresh]).await;
        assert!(matches!(said[..], [Renewal::Gone]), "{:?}: {said:?}", inner.pool.family());
        let (ticket, connection) = held(&inner, "m").await;
        end(&operator, &connection).await;
        let said = Arc::clone(&inner).release(ticket).await.unwrap();
        assert_eq!(said, Released::AlreadyLost, "{:?}", inner.pool.family());
    }
}

/// It was told of what it held; this lock was not yet among that.
#[tokio::test]
async fn a_grant_whose_connection_has_died_on_its_way_is_none() {
    for server in DatabaseServer::each() {
        let (inner, operator) = (advisory(&server).await, pool(&server).await);
        let (ticket, connection) = held(&inner, "n").await;
        let mut events = inner.pool.events();
        end(&operator, &connection).await;
        limit(async { while !matches!(events.next().await, Some(Event::TicketLost(..))) {} }).await;
        let (id, name) = (LeaseId::random(), ticket.name);
        let hold = HeldLock { name, label: "me".into(), connection, fence: Some(1) };
        assert!(inner.enter(id, hold).is_err(), "{:?}", inner.pool.family());
        assert!(inner.leases.get(id).is_none());
        // The next one is made anew.
        held(&inner, "n").await;
    }
}
