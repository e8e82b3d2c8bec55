//! What is done with rows, on real servers.

use std::time::Duration;

use super::super::server::{DatabaseServer, suited};
use super::*;
use crate::claim::Owner;
use crate::engines::database::drivers::DatabaseSettings;
use crate::name::{Name, Namespace};

const SHORT: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(600);
const FULL: &str = "strategy=unique&table=jobs&column=job&token=tok&expires=until";

async fn opened(server: &DatabaseServer) -> (Pool, Arc<dyn Engine>) {
    let url = Url::parse(&format!("{}?{FULL}", server.url())).unwrap();
    let pool = Pool::open(&DatabaseSettings::from_url(&url).unwrap(), Clock::System).await.unwrap();
    let (key, text, time) = suited(
        &pool,
        ("TEXT", "TEXT", "TIMESTAMPTZ"),
        ("VARBINARY(99)", "VARBINARY(99)", "DATETIME(6)"),
    );
    let table = format!("CREATE TABLE jobs (job {key} PRIMARY KEY, tok {text}, until {time})");
    pool.batch(&table).await.unwrap();
    let engine = open(pool.clone(), &url, Clock::System).await.unwrap();
    (pool, engine)
}

fn claim(ttl: Duration) -> Claim {
    let name = Name::new(&Namespace::default(), "n").unwrap();
    Claim::new(Ticket::new(name, Mode::Exclusive), Owner::new("me"), ttl)
}

/// How long the row is kept, in seconds.
async fn left(pool: &Pool) -> i64 {
    let sql = suited(
        pool,
        "SELECT CAST(EXTRACT(EPOCH FROM until - clock_timestamp()) AS BIGINT) FROM jobs",
        "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), until) FROM jobs",
    );
    pool.run(&sql.into(), Vec::new()).await.unwrap().rows[0].int(0).unwrap()
}

/// A guard that was told of the longer time believes in it, and the answer to the
/// shorter one may be lost.
#[tokio::test]
async fn nothing_that_is_asked_for_later_ends_a_row_sooner() {
    for server in DatabaseServer::each() {
        let (pool, engine) = opened(&server).await;
        let claim = claim(SHORT);
        assert!(matches!(engine.acquire(claim.clone()).await, Ok(Verdict::Granted(_))));
        for (ttl, least) in [(SHORT, 20), (LONG, 500), (SHORT, 500)] {
            let kept = engine.renew(vec![Refresh::new(claim.ticket.clone(), ttl)]).await;
            let [Renewal::Held { ttl: told, .. }] = kept[..] else { panic!("{kept:?}") };
            assert!(left(&pool).await > least, "{:?} {ttl:?}", pool.family());
            assert!(told.as_secs() > least.unsigned_abs() && told <= LONG, "{told:?}");
        }
        let again = engine.acquire(claim).await.unwrap();
        assert!(matches!(&again, Verdict::Granted(grant) if grant.ttl == SHORT), "{again:?}");
        assert!(left(&pool).await > 500, "{:?} asked again", pool.family());
    }
}

/// What is over has no say in how long it is kept for the next one.
#[tokio::test]
async fn a_row_that_is_over_is_kept_for_as_long_as_the_next_one_asks() {
    for server in DatabaseServer::each() {
        let (pool, engine) = opened(&server).await;
        let over = suited(
            &pool,
            "clock_timestamp() - interval '1 hour'",
            "UTC_TIMESTAMP(6) - INTERVAL 1 HOUR",
        );
        pool.batch(&format!("INSERT INTO jobs VALUES ('n', 'other', {over})")).await.unwrap();
        assert!(matches!(engine.acquire(claim(LONG)).await, Ok(Verdict::Granted(_))));
        assert!((500..=600).contains(&left(&pool).await), "{:?}", pool.family());
    }
}
