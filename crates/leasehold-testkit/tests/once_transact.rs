//! Once in a whole transaction of a real PostgreSQL, by racers, by processes that
//! are killed, over connections that break, and by futures that are dropped.

// These tests wait for real servers; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use std::env;
use std::future::poll_fn;
use std::pin::pin;
use std::process::Command;
use std::task::Poll;
use std::time::Duration;

use leasehold::once::{Done, Fingerprint, InTransaction, OnBusy, Once, OnceError, Refusal};
use leasehold::sql::{Dialect, OnceTable};
use leasehold::{Effect, ErrorKind, Locks};
use leasehold_testkit::Server;
use leasehold_testkit::proxy::{Fault, FaultProxy, Way};
use rustix::process::{Signal, getpid, kill_process};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

type Tested<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Set, in the copy of this program that is killed, to where the server is and
/// where to die.
const ORDERS: &str = "LEASEHOLD_KIT_TRANSACT";
/// No call that is refused takes this long.
const BOUND: Duration = Duration::from_secs(60);
const PAY: &str = "INSERT INTO payments VALUES ('key')";

fn served() -> Tested<Server> {
    let server = Server::postgres()?;
    server.sql("CREATE TABLE payments (key TEXT NOT NULL)")?;
    for statement in OnceTable::default().schema(Dialect::Postgres).split(";\n") {
        server.sql(statement)?;
    }
    Ok(server)
}

fn payments(server: &Server) -> Tested<String> {
    Ok(server.sql("SELECT count(*)::text FROM payments")?.trim().to_owned())
}

async fn connected(url: &str) -> Tested<Client> {
    let (client, driver) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async move { drop(driver.await) });
    Ok(client)
}

fn once() -> Once {
    Locks::memory().once("pay")
}

async fn paid(tx: &Client) -> Result<&'static str, tokio_postgres::Error> {
    tx.execute(PAY, &[]).await?;
    Ok("paid")
}

type Paid = Result<Done, OnceError<tokio_postgres::Error>>;

#[derive(Clone, Copy, Debug)]
enum Form {
    Own,
    Whole,
}

const FORMS: [Form; 2] = [Form::Own, Form::Whole];

impl Form {
    async fn pay(self, client: &mut Client, key: &str) -> Tested<Done> {
        let (once, about) = (once(), Fingerprint::none());
        match self {
            Self::Own => own(client, &once, key).await,
            Self::Whole => Ok(once.transact(client, key, about, paid).await?),
        }
    }
}

async fn own(client: &mut Client, once: &Once, key: &str) -> Tested<Done> {
    let mut tx = client.transaction().await?;
    let done = match once.in_transaction(&mut tx, key, Fingerprint::none()).await? {
        InTransaction::Done(done) => done,
        InTransaction::First(first) => {
            tx.execute(PAY, &[]).await?;
            first.done(&mut tx, "paid").await?
        }
    };
    tx.commit().await?;
    Ok(done)
}

/// As a user would: what the server undid is run again.
async fn pay_until_done(url: String, form: Form, key: String, level: &str) -> Tested<Done> {
    let mut client = connected(&url).await?;
    client.batch_execute(&format!("SET default_transaction_isolation = '{level}'")).await?;
    loop {
        match form.pay(&mut client, &key).await {
            Err(error) if is_undone(&*error) => {}
            done => return done,
        }
    }
}

fn is_undone(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let refusal = match error.downcast_ref::<OnceError<tokio_postgres::Error>>() {
        Some(OnceError::Refused(refusal)) => Some(refusal),
        _ => error.downcast_ref::<Refusal>(),
    };
    matches!(refusal, Some(Refusal::Engine(error)) if error.kind() == ErrorKind::Unavailable)
}

#[tokio::test]
async fn racers_of_all_forms_and_levels_have_one_effect() -> Tested {
    let server = served()?;
    let mut keys = 0;
    for level in ["read committed", "repeatable read", "serializable"] {
        for round in 0..8 {
            let mut racers = JoinSet::new();
            for form in FORMS.into_iter().cycle().take(9) {
                let (url, key) = (server.url(), format!("{level} {round}"));
                racers.spawn(pay_until_done(url, form, key, level));
            }
            let mut fresh = 0;
            while let Some(done) = racers.join_next().await {
                let done = done??;
                assert_eq!(done.outcome, b"paid");
                fresh += u32::from(!done.replayed);
            }
            keys += 1;
            assert_eq!((fresh, payments(&server)?), (1, keys.to_string()), "{level}");
        }
    }
    Ok(())
}

/// Not a test of its own: the process that is killed.
#[tokio::test]
async fn a_process_that_dies_as_ordered() -> Tested {
    let Ok(orders) = env::var(ORDERS) else { return Ok(()) };
    let (url, point) = orders.split_once(' ').ok_or("no orders")?;
    let die = |at: &str| {
        if at == point {
            let _ = kill_process(getpid(), Signal::KILL);
        }
    };
    let mut client = connected(url).await?;
    let work = async |tx: &Client| {
        die("before the effect");
        let outcome = paid(tx).await;
        die("after the effect");
        outcome
    };
    once().transact(&mut client, point, Fingerprint::none(), work).await?;
    die("after the commit");
    Ok(())
}

#[tokio::test]
async fn a_killed_process_leaves_both_or_neither() -> Tested {
    let server = served()?;
    let points = ["before the effect", "after the effect", "after the commit"];
    for (n, point) in points.into_iter().enumerate() {
        let mut command = Command::new(env::current_exe()?);
        command.args(["a_process_that_dies_as_ordered", "--exact"]);
        command.env(ORDERS, format!("{} {point}", server.url()));
        let ended = tokio::task::spawn_blocking(move || command.output()).await??;
        assert!(ended.status.code().is_none(), "it was not killed: {ended:?}");
        let done = Form::Whole.pay(&mut connected(&server.url()).await?, point).await?;
        assert_eq!(done.replayed, point == "after the commit");
        assert_eq!(payments(&server)?, (n + 1).to_string(), "{point}");
    }
    Ok(())
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_unknown_and_a_repeat_tells() -> Tested {
    let server = served()?;
    for (n, (way, key)) in
        [(Way::Requests, "never came"), (Way::Replies, "came")].iter().enumerate()
    {
        let addr = server.addr();
        let proxy = tokio::task::spawn_blocking(move || FaultProxy::to(addr)).await??;
        let mut client = connected(&server.url_via(proxy.addr())).await?;
        let work = async |tx: &Client| {
            let outcome = paid(tx).await;
            proxy.set(*way, Fault::Reset);
            outcome
        };
        let lost: Paid = once().transact(&mut client, *key, Fingerprint::none(), work).await;
        let Err(OnceError::Refused(Refusal::Engine(error))) = lost else { panic!("{lost:?}") };
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
        let done = Form::Whole.pay(&mut connected(&server.url()).await?, key).await?;
        assert_eq!(done.replayed, *way == Way::Replies);
        assert_eq!(payments(&server)?, (n + 1).to_string());
    }
    Ok(())
}

/// Whether no transaction is open that has an effect.
async fn is_idle(client: &Client) -> Tested<bool> {
    let idle = "SELECT pg_current_xact_id_if_assigned() IS NULL";
    Ok(client.query_one(idle, &[]).await?.get(0))
}

/// Polls a future so often, and drops it.
async fn cut_off<T>(future: impl Future<Output = T>, polls: u32) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

#[tokio::test]
async fn a_future_that_is_dropped_anywhere_leaves_a_connection_as_good_as_new() -> Tested {
    let server = served()?;
    let mut client = connected(&server.url()).await?;
    let mut polls = 0;
    loop {
        let key = format!("dropped after {polls}");
        let ended = cut_off(Form::Whole.pay(&mut client, &key), polls).await;
        assert!(is_idle(&client).await?, "{key}");
        assert_eq!(Form::Whole.pay(&mut client, &key).await?.outcome, b"paid");
        polls += 1;
        assert_eq!(payments(&server)?, polls.to_string(), "{key}");
        if ended.is_some() {
            break;
        }
    }
    assert!(polls > 3, "it was not cut off in the middle");
    Ok(())
}

#[tokio::test]
async fn work_that_fails_is_rolled_back_and_heard() -> Tested {
    let server = served()?;
    let mut client = connected(&server.url()).await?;
    let about = Fingerprint::none();
    let fails = async |tx: &Client| {
        paid(tx).await.map_err(|error| error.to_string())?;
        Err::<&str, _>("no money".to_owned())
    };
    for _ in 0..2 {
        let failed = once().transact(&mut client, "k", about, fails).await;
        assert!(matches!(failed, Err(OnceError::Failed(text)) if text == "no money"));
        assert!(is_idle(&client).await?);
    }
    // Work that does not hear what the database says.
    let deaf = async |tx: &Client| {
        paid(tx).await?;
        let _ = tx.execute("SELECT 1 / 0", &[]).await;
        Ok("paid")
    };
    let refused: Paid = once().transact(&mut client, "k", about, deaf).await;
    assert!(matches!(refused, Err(OnceError::Refused(Refusal::Engine(_)))), "{refused:?}");
    assert_eq!(payments(&server)?, "0");
    assert!(!Form::Whole.pay(&mut client, "k").await?.replayed);
    Ok(())
}

#[tokio::test]
async fn one_that_is_busy_is_waited_for_as_long_as_told() -> Tested {
    let server = served()?;
    let (mut first, mut second) =
        (connected(&server.url()).await?, connected(&server.url()).await?);
    second.batch_execute("SET lock_timeout = '47s'").await?;
    let mut tx = first.transaction().await?;
    let InTransaction::First(done) =
        once().in_transaction(&mut tx, "k", Fingerprint::none()).await?
    else {
        panic!("done before");
    };
    for busy in [OnBusy::Refuse, OnBusy::Wait(Duration::from_millis(20))] {
        let once = once().on_busy(busy);
        let asked = once.transact(&mut second, "k", Fingerprint::none(), paid);
        let refused: Paid = tokio::time::timeout(BOUND, asked).await?;
        assert!(matches!(refused, Err(OnceError::Refused(Refusal::Running(_)))), "{refused:?}");
    }
    // It goes, and the one that waits works with the limits of its connection.
    let seen = async |tx: &Client| {
        let limit = tx.query_one("SELECT current_setting('lock_timeout')", &[]).await?;
        Ok::<_, tokio_postgres::Error>(limit.get::<_, String>(0))
    };
    let waiter =
        tokio::spawn(
            async move { once().transact(&mut second, "k", Fingerprint::none(), seen).await },
        );
    while server.sql("SELECT 'x' FROM pg_locks WHERE NOT granted")?.is_empty() {
        tokio::task::yield_now().await;
    }
    drop(done);
    tx.rollback().await?;
    assert_eq!(waiter.await??.outcome, b"47s");
    Ok(())
}

#[tokio::test]
async fn odd_keys_and_outcomes_and_connections_that_forget_are_fine() -> Tested {
    let server = served()?;
    server.sql("ALTER DATABASE postgres SET standard_conforming_strings = off")?;
    let mut client = connected(&server.url()).await?;
    let odd: Vec<u8> = (0..=255).collect();
    for key in ["'); DROP TABLE payments; --", "\\'", "$1 $$ %s", "schlüssel 鍵", "a\0b"] {
        for replayed in [false, true] {
            let work = async |tx: &Client| paid(tx).await.map(|_| odd.clone());
            let about = Fingerprint::of_bytes(key.as_bytes());
            let done = once().transact(&mut client, key, about, work).await?;
            assert_eq!((done.outcome, done.replayed), (odd.clone(), replayed), "{key}");
            client.batch_execute("DISCARD ALL").await?;
        }
    }
    assert_eq!(payments(&server)?, "5");
    Ok(())
}
