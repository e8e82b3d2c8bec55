//! Advisory locks. P and Y are the numbers of the faults:
//!
//! | | fault |
//! |---|---|
//! | P3 | a pooler that gives one session to many |
//! | P1, Y8 | the session of a holder is ended |
//! | P4 | a lock leaks into a pool: by drop, cancel or error |
//! | P5 | more are wanted than there are connections |
//! | P6 | the holder is silent, and its connection is not closed |
//! | P7 | a wait is cancelled as it is granted |
//! | P11 | a broken connection is used again |
//! | P12 | a check of a connection is refused |
//! | Y1, Y2 | names too long for the server; names without case |
//! | Y5 | locks of a server, not of a database |

use std::time::Duration;

use leasehold::engine::profile::Fencing;
use leasehold::sql::Dialect;
use leasehold::{ErrorKind, Locks};

use leasehold_testkit::Server;
use leasehold_testkit::proxy::{Fault, FaultProxy};
use leasehold_testkit::server::Plan;

use crate::{BOUND, Checked, Database, LONG, until};

const ADVISORY: &str = "strategy=advisory";

impl Database {
    async fn advisory(&self) -> Checked<Locks> {
        Ok(leasehold::open(self.url(ADVISORY)).await?)
    }

    /// How many sessions hold or want an advisory lock.
    async fn locked_or_wanted(&self) -> Checked<i64> {
        self.number(match self.dialect {
            Dialect::Postgres => "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
            _ => {
                "SELECT (SELECT count(*) FROM information_schema.METADATA_LOCK_INFO \
                 WHERE LOCK_TYPE = 'User lock') + (SELECT count(*) \
                 FROM information_schema.PROCESSLIST WHERE STATE = 'User lock')"
            }
        })
        .await
    }

    /// How many connections we have, apart from those of the test.
    async fn connections(&self) -> Checked<i64> {
        self.number(match self.dialect {
            Dialect::Postgres => {
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leasehold'"
            }
            _ => {
                "SELECT count(*) FROM information_schema.PROCESSLIST \
                 WHERE ID <> CONNECTION_ID() AND USER <> 'system user'"
            }
        })
        .await
    }

    /// How someone at a prompt asks who has this name.
    fn holder_of(&self, name: &str) -> String {
        match self.dialect {
            Dialect::Postgres => format!(
                "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND \
                 ((classid::bigint << 32) | objid::bigint) = \
                 hashtextextended('default:{name}' COLLATE \"C\", 0)"
            ),
            _ => format!(
                "SELECT IS_USED_LOCK(CONCAT('leasehold:', \
                 LEFT(SHA2(CONCAT(DATABASE(), ':default:{name}'), 256), 54)))"
            ),
        }
    }

    /// Ends the session of a holder, as an operator would.
    async fn end_holder_of(&self, name: &str) -> Checked {
        let session = self.number(&self.holder_of(name)).await?;
        self.run(&match self.dialect {
            Dialect::Postgres => format!("SELECT pg_terminate_backend({session})"),
            _ => format!("KILL {session}"),
        })
        .await?;
        until("the session has ended", || async {
            Ok(self.number(&self.holder_of(name)).await.ok() != Some(session))
        })
        .await
    }

    async fn nothing_left(&self) -> Checked {
        until("nothing is locked or wanted", || async { Ok(self.locked_or_wanted().await? == 0) })
            .await
    }

    /// MariaDB shows its locks only with a plugin.
    async fn with_eyes(self) -> Checked<Self> {
        if self.dialect == Dialect::Mysql {
            self.run("INSTALL SONAME 'metadata_lock_info'").await?;
        }
        Ok(self)
    }
}

async fn both() -> Checked<[Database; 2]> {
    let [one, two] = Database::both()?;
    Ok([one.with_eyes().await?, two.with_eyes().await?])
}

#[tokio::test]
async fn a_lock_excludes_others_and_goes_to_a_waiter_at_once() -> Checked {
    for db in both().await? {
        let (one, two) = (db.advisory().await?, db.advisory().await?);
        let guard = one.mutex("n").lock().await?;
        assert!(two.mutex("n").try_lock().await?.is_none());
        assert!(one.mutex("n").try_lock().await?.is_none(), "a session is granted its own again");
        let waiter = tokio::spawn(two.mutex("n").lock().within(LONG).into_future());
        until("it waits at the server", || async { Ok(db.locked_or_wanted().await? == 2) }).await?;
        let first = guard.fence();
        guard.release().await?;
        let next = waiter.await??;
        if two.profile().fencing > Fencing::None {
            assert!(next.fence() > first);
        }
        assert!(one.mutex("n").try_lock().await?.is_none());
        next.release().await?;
        db.nothing_left().await?;
    }
    Ok(())
}

#[tokio::test]
async fn someone_at_a_prompt_takes_the_same_lock() -> Checked {
    for db in both().await? {
        let locks = db.advisory().await?;
        let guard = locks.mutex("nightly").lock().await?;
        assert!(db.number(&db.holder_of("nightly")).await? > 0);
        guard.release().await?;
        let (take, mut conn);
        match db.dialect {
            Dialect::Postgres => {
                let client = db.client().await?;
                take = "SELECT pg_advisory_lock(hashtextextended('default:nightly', 0))";
                client.simple_query(take).await?;
                assert!(locks.mutex("nightly").try_lock().await?.is_none());
            }
            _ => {
                use mysql_async::prelude::Queryable;
                conn = db.conn().await?;
                take = "SELECT GET_LOCK(CONCAT('leasehold:', \
                        LEFT(SHA2(CONCAT(DATABASE(), ':default:nightly'), 256), 54)), 0)";
                conn.query_drop(take).await?;
                assert!(locks.mutex("nightly").try_lock().await?.is_none());
            }
        }
    }
    Ok(())
}

/// P1, Y8.
#[tokio::test]
async fn a_holder_whose_session_is_ended_is_told_and_a_waiter_gets_in() -> Checked {
    for db in both().await? {
        let (one, two) = (db.advisory().await?, db.advisory().await?);
        let guard = one.mutex("n").ttl(LONG).lock().await?;
        let beside = one.mutex("beside").ttl(LONG).lock().await?;
        let waiter = tokio::spawn(two.mutex("n").lock().within(LONG).into_future());
        db.end_holder_of("n").await?;
        tokio::time::timeout(BOUND, guard.lost()).await?;
        tokio::time::timeout(BOUND, beside.lost()).await?;
        waiter.await??.check()?;
    }
    Ok(())
}

/// Stops every look at whether a holder's connection stands, for a while; whether
/// any was stopped.
async fn stop_checks(db: &Database) -> Checked<bool> {
    let stop = "\
         DO $$ BEGIN FOR i IN 1..60000 LOOP PERFORM pg_cancel_backend(pid) \
         FROM pg_stat_activity WHERE application_name = 'leasehold' AND state = 'active' \
         AND query = 'SELECT 1'; PERFORM pg_stat_clear_snapshot(); END LOOP; END $$";
    db.run(stop).await?;
    Ok(db.server.log_text().contains("canceling statement due to user request"))
}

/// P12: the server stops the statement that asks whether a connection stands. It
/// has answered, so the connection stands, and the lock is held.
#[tokio::test]
async fn a_check_that_is_refused_leaves_no_lock_without_a_guard() -> Checked {
    let db = Database::postgres()?;
    let (one, two) = (db.advisory().await?, db.advisory().await?);
    let guard = one.mutex("n").ttl(Duration::from_millis(300)).lock().await?;
    let mut stopped = false;
    for _ in 0..20 {
        stopped = stopped || stop_checks(&db).await?;
    }
    assert!(stopped, "the fault did not bite");
    if guard.check().is_ok() {
        assert!(two.mutex("n").try_lock().await?.is_none(), "two hold it");
    }
    drop(guard);
    two.mutex("n").lock().within(BOUND).await?.release().await?;
    Ok(())
}

/// P6: the holder's machine vanishes, and nothing tells the server. It asks, or
/// has been told when to stop waiting.
#[tokio::test]
async fn the_lock_of_a_client_that_vanished_is_free_before_long() -> Checked {
    let db = Database::mariadb()?;
    let addr = db.server.addr();
    let proxy = tokio::task::spawn_blocking(move || FaultProxy::to(addr)).await??;
    let url = format!("{}?{ADVISORY}&timeout=500ms", db.server.url_via(proxy.addr()));
    let (one, two) = (leasehold::open(url).await?, db.advisory().await?);
    let guard = one.mutex("n").ttl(Duration::from_secs(3)).lock().await?;
    proxy.set_both(Fault::BlackHole);
    tokio::time::timeout(BOUND, guard.lost()).await?;
    assert!(two.mutex("n").try_lock().await?.is_none(), "the fault did not bite");
    two.mutex("n").lock().within(BOUND).await?.release().await?;
    Ok(())
}

/// P11.
#[tokio::test]
async fn a_broken_connection_is_not_used_again() -> Checked {
    for db in both().await? {
        let locks = db.advisory().await?;
        let guard = locks.mutex("n").ttl(LONG).lock().await?;
        db.end_holder_of("n").await?;
        tokio::time::timeout(BOUND, guard.lost()).await?;
        let other = locks.mutex("other").lock().within(BOUND).await?;
        let again = locks.mutex("n").lock().within(BOUND).await?;
        other.check()?;
        again.check()?;
    }
    Ok(())
}

/// P4: by a future that is dropped while it waits, and by the last handle.
#[tokio::test]
async fn nothing_is_left_by_a_wait_that_is_given_up_or_a_client_that_goes() -> Checked {
    for db in both().await? {
        let one = db.advisory().await?;
        let guard = one.mutex("n").lock().await?;
        let two = db.advisory().await?;
        let late = two.mutex("n").lock().within(Duration::from_millis(300)).await.unwrap_err();
        assert!(late.is_timed_out(), "{late}");
        let waiter = tokio::spawn(two.mutex("n").lock().within(LONG).into_future());
        until("it waits at the server", || async { Ok(db.locked_or_wanted().await? == 2) }).await?;
        waiter.abort();
        until("it waits no more", || async { Ok(db.locked_or_wanted().await? == 1) }).await?;
        guard.check()?;
        drop((guard, one, two));
        db.nothing_left().await?;
        until("no connection is left", || async { Ok(db.connections().await? == 0) }).await?;
    }
    Ok(())
}

/// P7.
#[tokio::test]
async fn a_wait_that_is_cancelled_as_it_is_granted_leaves_nothing() -> Checked {
    for db in both().await? {
        let (one, two) = (db.advisory().await?, db.advisory().await?);
        let mut granted = 0;
        for round in 0..30 {
            let guard = one.mutex("n").lock().within(BOUND).await?;
            let waiter = tokio::spawn(two.mutex("n").lock().within(LONG).into_future());
            until("it waits", || async { Ok(db.locked_or_wanted().await? == 2) }).await?;
            let release = tokio::spawn(guard.release());
            tokio::time::sleep(Duration::from_micros(100 * round)).await;
            waiter.abort();
            granted += u32::from(waiter.await.is_ok_and(|it| it.is_ok()));
            release.await??;
        }
        assert!(granted < 30, "no wait was cancelled: the test shows nothing");
        db.nothing_left().await?;
        one.mutex("n").try_lock().await?.ok_or("the name is not free")?.release().await?;
    }
    Ok(())
}

/// P5.
#[tokio::test]
async fn more_waits_than_connections_are_refused_with_what_to_do() -> Checked {
    for db in both().await? {
        let few = "strategy=advisory&connections=2&retry=none";
        let (one, two) = (db.advisory().await?, leasehold::open(db.url(few)).await?);
        let _held = (one.mutex("a").lock().await?, one.mutex("b").lock().await?);
        let waiter = tokio::spawn(two.mutex("a").lock().within(LONG).into_future());
        until("it waits", || async { Ok(db.locked_or_wanted().await? == 3) }).await?;
        let full = two.mutex("b").lock().within(LONG).await.unwrap_err();
        assert_eq!(full.kind(), ErrorKind::Unavailable);
        assert!(full.to_string().contains("raise \"connections\""), "{full}");
        let many = two.mutex("c").lock().await?;
        assert!(two.mutex("d").try_lock().await?.is_some(), "tries need no connection");
        many.check()?;
        waiter.abort();
    }
    Ok(())
}

/// Y1, Y2.
#[tokio::test]
async fn names_are_told_apart_whatever_their_length_and_case() -> Checked {
    for db in both().await? {
        let (one, two) = (db.advisory().await?, db.advisory().await?);
        let mut names = vec!["abc".to_owned(), "Abc".into(), "abc ".into(), "ábc".into()];
        for length in [63, 64, 65, 192, 193, 254] {
            names.extend(["x", "y"].map(|end| format!("{}{end}", "n".repeat(length))));
        }
        let mut guards = Vec::new();
        for name in &names {
            let guard = one.mutex(name).try_lock().await?;
            guards.push(guard.ok_or_else(|| format!("{name:?} is taken for another"))?);
        }
        for name in &names {
            assert!(two.mutex(name).try_lock().await?.is_none(), "{name:?}");
        }
    }
    Ok(())
}

/// Y5.
#[tokio::test]
async fn two_databases_and_two_namespaces_are_independent() -> Checked {
    for db in both().await? {
        db.run("CREATE DATABASE other").await?;
        let elsewhere = db.server.url().rsplit_once('/').ok_or("no database")?.0.to_owned();
        let elsewhere = leasehold::open(format!("{elsewhere}/other?{ADVISORY}")).await?;
        let here = db.advisory().await?;
        let spaced = leasehold::open(db.url("strategy=advisory&namespace=shop")).await?;
        let _guard = here.mutex("n").lock().await?;
        assert!(elsewhere.mutex("n").try_lock().await?.is_some());
        assert!(spaced.mutex("n").try_lock().await?.is_some());
    }
    Ok(())
}

#[tokio::test]
async fn a_role_that_may_make_nothing_gets_locks_without_a_promise_of_fences() -> Checked {
    let db = Database::postgres()?;
    db.run("CREATE ROLE poor LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC").await?;
    let url = db.url(ADVISORY).replace("postgres@", "poor@");
    let poor = leasehold::open(&url).await?;
    assert_eq!(poor.profile().fencing, Fencing::None);
    poor.mutex("n").lock().await?.release().await?;
    let rich = db.advisory().await?;
    assert_eq!(rich.profile().fencing, Fencing::Strict);
    let log = db.server.log_tail();
    assert!(!log.contains("ERROR"), "{log}");
    Ok(())
}

#[tokio::test]
async fn show_names_sessions_and_evict_says_how_to_end_another() -> Checked {
    for db in both().await? {
        let (one, two) = (db.advisory().await?, db.advisory().await?);
        let guard = one.mutex("n").label("alice").lock().await?;
        let mine = one.mutex("n").status().await?;
        assert_eq!(&*mine.holders[0].label, "alice");
        let seen = two.mutex("n").status().await?;
        assert!(seen.holders[0].label.contains("session "), "{seen:?}");
        let all = leasehold::engine::Target::All;
        let evict = leasehold::engine::Eviction::new(two.name("n")?, all, "olga", "a test")?;
        let error = two.evict(evict.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        guard.check()?;
        assert_eq!(one.evict(evict).await?.leases.len(), 1);
        tokio::time::timeout(BOUND, guard.lost()).await?;
        drop(two.mutex("n").lock().within(BOUND).await?);
    }
    Ok(())
}

/// P3.
#[tokio::test]
async fn a_transaction_pooler_is_refused_and_a_session_pooler_is_not() -> Checked {
    let db = Database::postgres()?;
    let plan = || Plan::pgbouncer(db.server.port());
    let pooler = Server::start(plan())?;
    let error = leasehold::open(format!("{}?{ADVISORY}", pooler.url())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("strategy=table"), "{error}");
    let pooler = Server::start(plan().args(["pool_mode = session"]))?;
    let url = format!("{}?{ADVISORY}&pooler=no", pooler.url());
    let (one, two) = (leasehold::open(&url).await?, leasehold::open(&url).await?);
    let _guard = one.mutex("n").lock().await?;
    assert!(two.mutex("n").try_lock().await?.is_none());
    Ok(())
}
