//! What the statements do, on real servers.

// Tasks of these tests live on the runtime of the test.
#![allow(clippy::disallowed_methods)]

mod core;

use std::time::Duration;

use super::super::server::{DatabaseServer, suited};
use super::errand::Errand;
use super::text::SqlText;
use super::*;
use crate::claim::{Owner, Predecessor, Stance, Store, Wants};
use crate::engine::state::Verb;
use crate::engines::database::drivers::DatabaseSettings;
use crate::engines::database::drivers::Value;
use crate::engines::database::pool::Pool;
use crate::error::ErrorKind;
use crate::mutant::{Mutant, each_is_found};
use crate::name::Namespace;

mod line_lives;
mod passing;

const HOUR: Duration = Duration::from_secs(3600);

async fn pool(url: &str) -> Pool {
    let url = Url::parse(url).unwrap();
    Pool::open(&DatabaseSettings::from_url(&url).unwrap(), Clock::System).await.unwrap()
}

async fn table(url: &str) -> Table {
    Table::open(pool(url).await, &Url::parse(url).unwrap(), Clock::System).await.unwrap()
}

fn name(text: &str) -> Name {
    Name::new(&Namespace::default(), text).unwrap()
}

fn claim(text: &str, label: &str) -> Claim {
    Claim::new(Ticket::new(name(text), Mode::Exclusive), Owner::new(label), HOUR)
}

async fn granted(table: &Table, claim: Claim) -> u64 {
    match table.acquire(claim).await.unwrap() {
        Verdict::Granted(grant) => grant.fence,
        Verdict::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

async fn release(table: &Table, ticket: Ticket) {
    let released = table.release(ticket, Ending::new()).await.unwrap();
    assert_eq!(released, Released::Released);
}

/// Takes a name and gives it back; its fence.
async fn round(table: &Table, text: &str) -> u64 {
    let claim = claim(text, "round");
    let ticket = claim.ticket.clone();
    let fence = granted(table, claim).await;
    release(table, ticket).await;
    fence
}

async fn one(pool: &Pool, sql: &str) -> i64 {
    pool.run(&sql.into(), Vec::new()).await.unwrap().rows[0].int(0).unwrap()
}

/// What a server says about a statement, all columns of all rows.
async fn explained(table: &Table, text: &SqlText, values: Vec<Value>) -> String {
    told_of(table, "EXPLAIN", text, values).await
}

async fn told_of(table: &Table, how: &str, text: &SqlText, values: Vec<Value>) -> String {
    let sql = format!("{how} {}", text.sql).into();
    let reply = table.0.pool.run(&sql, text.values(values)).await.unwrap();
    format!("{:?}", reply.rows.iter().map(|row| row.texts()).collect::<Vec<_>>())
}

#[tokio::test]
async fn names_are_found_by_their_key_alone() {
    for server in DatabaseServer::each() {
        let table = table(&server.url()).await;
        let pool = &table.0.pool;
        if suited(pool, true, false) {
            // A small table is quicker to read than its index: that is no test.
            pool.batch("ALTER DATABASE postgres SET enable_seqscan = off").await.unwrap();
        }
        let table = self::table(&server.url()).await;
        for at in 0..50 {
            round(&table, &format!("n{at}")).await;
        }
        let [space, text] = table.0.key(&name("n7"));
        let key = || vec![space.clone(), text.clone()];
        let with = |more: Vec<Value>| [key(), more].concat();
        let statements = &table.0.statements;
        let page = table.0.load(Errand::to(&name("n7"))).await.unwrap();
        let mut swap = page.values(text.clone(), 0).unwrap();
        swap.push("[]".into());
        let (versions, _) = table.0.versions.of(&[key()]);
        let seat = || vec!["x".into()];
        let (of_leases, _) = table.0.seats.of_leases.of(&[seat()]);
        let cases = [
            (&statements.load, with(vec![1.into(), "x".into()])),
            (&statements.free, with(vec!["x".into(), 1.into()])),
            (&statements.swap, swap),
            (versions, key()),
        ];
        for (text, values) in cases {
            let plan = explained(&table, text, values).await;
            let by_key = suited(
                &table.0.pool,
                plan.contains("leasehold_names_pkey") && !plan.contains("Seq Scan on leasehold"),
                plan.contains("PRIMARY") && !plan.contains("\"ALL\", \"PRIMARY\""),
            );
            assert!(by_key, "{}: {plan}", text.sql);
        }
        let more = with(vec![3.into(), 7.into()]);
        let ended = with(vec![1.into(), 7.into()]);
        let seats = [
            (&table.0.seats.more, more),
            (of_leases, seat()),
            (&table.0.sweeping.end_seats, ended),
        ];
        for (text, values) in seats {
            let plan = explained(&table, text, values).await;
            let indexed = suited(
                &table.0.pool,
                !plan.contains("Seq Scan on leasehold"),
                !plan.contains("\"ALL\""),
            );
            assert!(indexed, "{}: {plan}", text.sql);
        }
    }
}

/// Names and seats of a server that has looked at its tables when they were empty, as
/// they mostly are.
#[cfg(feature = "postgres")]
const MANY: &str = "\
ANALYZE leasehold_names; ANALYZE leasehold_seats; \
INSERT INTO leasehold_names (namespace, name, created, updated, version, fence) \
SELECT 'default', 'n' || i, 0, 0, 1, 1 FROM generate_series(1, 3000) i; \
INSERT INTO leasehold_seats SELECT 'default', 'n1', i, 'l' || i, 1, '' \
FROM generate_series(1, 3000) i;";

#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_server_that_takes_a_line_for_short_does_not_read_all_of_it() {
    let server = DatabaseServer::postgres();
    let table = table(&server.url()).await;
    table.0.pool.batch(MANY).await.unwrap();
    let [space, text] = table.0.key(&name("n1"));
    let (versions, names) = table.0.versions.of(&vec![vec![space, text.clone()]; 20]);
    let (of_leases, leases) = table.0.seats.of_leases.of(&vec![vec!["l7".into()]; 20]);
    for (statement, values) in [(versions, names), (of_leases, leases)] {
        let plan = told_of(&table, "EXPLAIN ANALYZE", statement, values).await;
        assert!(!plan.contains("Removed by Filter"), "{plan}");
    }
    let page = table.0.load(Errand::to(&name("n1"))).await.unwrap();
    let mut swap = page.values(text, 0).unwrap();
    let change = ["[]".into(), 3.into(), 4.into(), "{9}".into(), "[]".into(), "[]".into()];
    swap.extend::<[Value; 6]>(change);
    let statement = table.0.statements.swap_with_line.as_ref().unwrap();
    let plan = explained(&table, statement, swap).await;
    let scans = plan.matches("Scan using leasehold_seats").count();
    let by_place = plan.matches("Scan using leasehold_seats_pkey").count();
    assert_eq!((scans, by_place), (3, 3), "{plan}");
}

/// A scan would lock every row it reads.
#[tokio::test]
async fn two_names_in_a_table_of_two_never_block_each_other() {
    for server in DatabaseServer::each() {
        let table = table(&server.url()).await;
        round(&table, "a").await;
        round(&table, "b").await;
        let mut other = table.0.pool.dedicate().await.unwrap();
        other.run("BEGIN", Vec::new()).await.unwrap();
        let page = table.0.load(Errand::to(&name("a"))).await.unwrap();
        let [_, text] = table.0.key(&name("a"));
        let mut values = page.values(text, 0).unwrap();
        values.push("[]".into());
        let swap = &table.0.statements.swap;
        let swapped = other.run(&swap.sql, swap.values(values)).await.unwrap();
        assert_eq!(swapped.affected, 1, "the row of the other name is not locked");
        round(&table, "b").await;
        let waiting = claim("b", "holder");
        granted(&table, waiting.clone()).await;
        let mut queued = claim("b", "waiter");
        queued.stance = Stance::Wait { until: Moment::NEVER };
        assert!(matches!(table.acquire(queued).await.unwrap(), Verdict::Busy(_)));
        sweep(&table).await;
        other.run("ROLLBACK", Vec::new()).await.unwrap();
    }
}

/// Makes whoever calls itself slow wait between the drawing of its fence and
/// the winning of its row, for as long as the advisory lock 7 is held.
#[cfg(feature = "postgres")]
const SLOW: &str = "\
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
 IF NEW.owner = 'slow' THEN PERFORM pg_advisory_xact_lock(7); END IF; RETURN NEW; END $$; \
CREATE TRIGGER slow BEFORE INSERT ON leasehold_names FOR EACH ROW EXECUTE FUNCTION slow(); \
CREATE SEQUENCE numbers; \
CREATE TABLE naive (name TEXT PRIMARY KEY, fence BIGINT, owner TEXT); \
CREATE TRIGGER slow BEFORE INSERT ON naive FOR EACH ROW EXECUTE FUNCTION slow();";

#[cfg(feature = "postgres")]
async fn until_slow_waits(pool: &Pool) {
    let sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    while one(pool, sql).await == 0 {
        tokio::task::yield_now().await;
    }
}

/// The fence of a new row is drawn before the row is won. With rows that are
/// deleted by the release, a later grant may have the smaller fence.
#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_fence_that_was_drawn_long_ago_is_not_given_to_a_later_grant() {
    const TAKE: &str = "INSERT INTO naive VALUES ('n', nextval('numbers'), $1) \
         ON CONFLICT DO NOTHING RETURNING fence";
    let server = DatabaseServer::postgres();
    let url = format!("{}?timeout=20s", server.url());
    let (table, slow) = (self::table(&url).await, self::table(&url).await);
    let pool = &table.0.pool;
    pool.batch(SLOW).await.unwrap();
    let mut gate = pool.dedicate().await.unwrap();
    gate.run("SELECT pg_advisory_lock(7)", Vec::new()).await.unwrap();

    let naive = tokio::spawn(slow.0.pool.run(&TAKE.into(), vec!["slow".into()]));
    until_slow_waits(pool).await;
    let first = pool.run(&TAKE.into(), vec!["quick".into()]).await.unwrap().rows[0].int(0).unwrap();
    pool.run(&"DELETE FROM naive".into(), Vec::new()).await.unwrap();
    gate.run("SELECT pg_advisory_unlock(7)", Vec::new()).await.unwrap();
    let later = naive.await.unwrap().unwrap().rows[0].int(0).unwrap();
    assert!(later < first, "the naive statement shows the race: {later} after {first}");

    gate.run("SELECT pg_advisory_lock(7)", Vec::new()).await.unwrap();
    let slow = tokio::spawn(slow.acquire(claim("n", "slow")));
    until_slow_waits(pool).await;
    let first = round(&table, "n").await;
    gate.run("SELECT pg_advisory_unlock(7)", Vec::new()).await.unwrap();
    let Verdict::Granted(later) = slow.await.unwrap().unwrap() else { panic!("busy") };
    assert!(later.fence > first, "{} after {first}", later.fence);
}

#[tokio::test]
async fn a_forgotten_name_leaves_its_fence_to_the_namespace() {
    for server in DatabaseServer::each() {
        let table = table(&server.url()).await;
        let pool = &table.0.pool;
        let held = claim("held", "holder");
        granted(&table, held.clone()).await;
        let first = round(&table, "n").await;
        // As if the clock had been far ahead then, and a minute had passed.
        let ahead = first + 1_000_000_000_000;
        let age = format!(
            "UPDATE leasehold_names SET fence = {ahead}, forget_at = 1 \
             WHERE lease IS NULL"
        );
        pool.batch(&age).await.unwrap();
        sweep(&table).await;
        assert_eq!(one(pool, "SELECT count(*) FROM leasehold_names").await, 1, "all but the held");
        assert!(round(&table, "n").await > ahead);
        release(&table, held.ticket).await;
    }
}

/// Names and records that are used once come by the thousand: one sweep keeps up.
#[tokio::test]
async fn a_sweep_takes_thousands_of_what_was_used_once() {
    const MANY: usize = 3000;
    for server in DatabaseServer::each() {
        let table = self::table(&server.url()).await;
        let pool = &table.0.pool;
        let rows =
            |row: &str| (0..MANY).map(|n| row.replace('#', &n.to_string())).collect::<Vec<_>>();
        let names = rows("('default', 'once/#', 0, 0, 1, #, 1)").join(",");
        let records = rows("('default', 'once/#', #, 1, 'x')").join(",");
        let keep = "('default', 'kept', 1, NULL, 'x')";
        pool.batch(&format!(
            "INSERT INTO leasehold_names \
              (namespace, name, created, updated, version, fence, forget_at) VALUES {names}; \
             INSERT INTO leasehold_records \
              (namespace, name, version, expires, value) VALUES {records}, {keep};"
        ))
        .await
        .unwrap();
        sweep(&table).await;
        assert_eq!(one(pool, "SELECT count(*) FROM leasehold_names").await, 0);
        assert_eq!(one(pool, "SELECT count(*) FROM leasehold_records").await, 1, "one stays");
        let floor = one(pool, "SELECT floor FROM leasehold_namespaces").await;
        assert_eq!(floor, i64::try_from(MANY).unwrap() - 1, "no fence may come again");
    }
}

#[tokio::test]
async fn a_sweep_ends_what_the_dead_left_and_nothing_else() {
    for server in DatabaseServer::each() {
        let (table, dead) = (self::table(&server.url()).await, self::table(&server.url()).await);
        let pool = &table.0.pool;
        let held = claim("held", "living");
        granted(&table, held.clone()).await;
        for at in 0..3 {
            granted(&dead, claim(&format!("left/{at}"), "dead")).await;
        }
        let end =
            format!("UPDATE leasehold_sessions SET expires = 1 WHERE client = {}", dead.0.client);
        pool.batch(&end).await.unwrap();
        sweep(&table).await;
        let states = "SELECT count(*) FROM leasehold_names WHERE watch IS NOT NULL";
        assert_eq!(one(pool, states).await, 1, "only the living one holds");
        assert_eq!(one(pool, "SELECT count(*) FROM leasehold_sessions").await, 1);
        assert!(table.0.load(Errand::to(&held.ticket.name)).await.unwrap().state.sole().is_some());
        release(&table, held.ticket).await;
    }
}

/// A request with a key that is done writes nothing at all.
#[tokio::test]
async fn a_record_that_will_do_is_told_without_a_write() {
    for server in DatabaseServer::each() {
        let table = self::table(&server.url()).await;
        let pool = &table.0.pool;
        let ask = |text: &str| {
            let mut claim = claim(text, "asks");
            claim.wants = Wants::RecordOrLease;
            claim
        };
        let records = table.records().unwrap();
        let put = |text: &str| Store::put(name(text), b"done".to_vec());
        records.store(put("done")).await.unwrap().unwrap();
        let Verdict::Busy(busy) = table.acquire(ask("done")).await.unwrap() else {
            panic!("granted")
        };
        assert_eq!(busy.found.unwrap().value, b"done");
        assert_eq!(one(pool, "SELECT count(*) FROM leasehold_names").await, 0);
        granted(&table, ask("new")).await;
        // A record whose time is up is no record, swept or not.
        let mut short = put("over");
        short.ttl = Some(Duration::from_millis(1));
        records.store(short).await.unwrap().unwrap();
        while table.0.record(&name("over")).await.unwrap().is_some() {}
        granted(&table, ask("over")).await;
    }
}

#[tokio::test]
async fn many_who_come_first_make_the_tables_once() {
    for server in DatabaseServer::each() {
        let url = server.url();
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let url = url.clone();
                tokio::spawn(async move { table(&url).await })
            })
            .collect();
        for task in tasks {
            round(&task.await.unwrap(), "n").await;
        }
    }
}

#[tokio::test]
async fn tables_of_another_release_are_refused_with_advice() {
    for server in DatabaseServer::each() {
        let url = server.url();
        let pool = table(&url).await.0.pool.clone();
        for (version, advice) in [(1, "drop its tables"), (99, "use the release that made them")] {
            let sql = format!("UPDATE leasehold_meta SET value = {version} WHERE word = 'version'");
            pool.batch(&sql).await.unwrap();
            let url = Url::parse(&url).unwrap();
            let opened = Table::open(pool.clone(), &url, Clock::System).await;
            let error = opened.err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let text = error.to_string();
            assert!(text.contains(advice) && text.contains("prefix"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_statement_that_is_late_takes_nothing() {
    for server in DatabaseServer::each() {
        let table = table(&server.url()).await;
        let late = |until: Moment| table.0.clock_offset.note(until, Clock::System.now());
        late(Moment::from_nanos(0));
        // The quick way is closed by its age; the other way reads the clock.
        granted(&table, claim("n", "late")).await;
        let row = "SELECT count(*) FROM leasehold_names WHERE state LIKE '%\"fence\":0%'";
        assert_eq!(one(&table.0.pool, row).await, 0);
    }
}

/// What the database adds by itself nobody can be faster at; the rest is for
/// those who look first.
#[tokio::test]
async fn the_database_adds_to_plain_numbers_and_to_nothing_else() {
    for server in DatabaseServer::each() {
        let table = table(&server.url()).await;
        let number = name("number");
        table.0.enter_space(number.namespace()).await.unwrap();
        assert_eq!(table.0.add_there(&number, 1).await.unwrap(), None, "there is none");
        let odd: [&[u8]; 11] = [
            b"",
            b"seven",
            b"-",
            b"--7",
            b"7-",
            b"7-7",
            b"+7",
            b"7\n",
            b"-\n",
            b"\xff7\\",
            b"1000000000000000000",
        ];
        for value in odd {
            table.0.store(Store::put(number.clone(), value.into())).await.unwrap().unwrap();
            assert_eq!(table.0.add_there(&number, 1).await.unwrap(), None, "{value:?}");
        }
        let most = b"999999999999999999";
        table.0.store(Store::put(number.clone(), most.to_vec())).await.unwrap().unwrap();
        for amount in [i64::MAX, i64::MIN] {
            assert_eq!(table.0.add_there(&number, amount).await.unwrap(), None);
        }
        assert_eq!(table.0.add_there(&number, 1).await.unwrap(), Some(1_000_000_000_000_000_000));
        let found = table.0.record(&number).await.unwrap().unwrap();
        assert_eq!(found.value, b"1000000000000000000");
        table.0.store(Store::put(number.clone(), b"-7".to_vec())).await.unwrap().unwrap();
        for (amount, sum) in
            [(-1, -8), (10, 2), (-2, 0), (-999_999_999_999_999_999, -999_999_999_999_999_999)]
        {
            assert_eq!(table.0.add_there(&number, amount).await.unwrap(), Some(sum));
        }
    }
}

/// Ends the sessions of a client by the database's clock, or gives them an hour.
async fn set_end(table: &Table, far: bool) {
    let affected = table.0.pool.run(&new_end(table, far).into(), Vec::new()).await;
    assert_eq!(affected.unwrap().affected, 1);
}

fn new_end(table: &Table, far: bool) -> String {
    let now = suited(
        &table.0.pool,
        "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
        "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
    );
    let sign = if far { "+" } else { "-" };
    format!(
        "UPDATE leasehold_sessions SET expires = {now} {sign} 3600000000 WHERE client = {}",
        table.0.client
    )
}

async fn renewed(table: &Table, claim: &Claim) -> Renewal {
    let refresh = Refresh::new(claim.ticket.clone(), HOUR);
    table.renew(vec![refresh]).await.remove(0)
}

/// An extension changes no name, so nothing but the session tells of it.
#[tokio::test]
async fn a_session_that_was_extended_after_the_look_loses_nothing() {
    for server in DatabaseServer::each() {
        let (one, two) = (table(&server.url()).await, table(&server.url()).await);
        granted(&one, claim("n", "holder")).await;
        set_end(&one, false).await;
        let other = claim("n", "other");
        let session = two.0.session_for(&other).await.unwrap().id;
        let mut page = two.0.load(Errand::to(&name("n")).with(session)).await.unwrap();
        let taken = page.step(Verb::Acquire { claim: Box::new(other), session });
        assert!(matches!(taken, crate::engine::state::Answer::Granted { .. }), "it had ended");
        set_end(&one, true).await;
        assert!(!two.0.write(&mut page, session).await.unwrap(), "two hold it");
    }
}

/// Both have seen that it is free.
#[tokio::test]
async fn of_two_who_have_read_the_same_name_one_takes_it() {
    for server in DatabaseServer::each() {
        let (one, two) = (table(&server.url()).await, table(&server.url()).await);
        round(&one, "n").await;
        let mut taken = Vec::new();
        for table in [&one, &two] {
            let claim = claim("n", "both");
            let session = table.0.session_for(&claim).await.unwrap().id;
            let mut page = table.0.load(Errand::to(&name("n")).with(session)).await.unwrap();
            page.step(Verb::Acquire { claim: Box::new(claim), session });
            taken.push((table, page, session));
        }
        let mut written = Vec::new();
        for (table, mut page, session) in taken {
            written.push(table.0.write(&mut page, session).await.unwrap());
        }
        assert_eq!(written, [true, false], "two hold it");
    }
}

#[test]
fn a_version_that_guards_nothing_is_found() {
    let two = of_two_who_have_read_the_same_name_one_takes_it;
    each_is_found(&[Mutant::VersionGuardsNothing], two);
}

/// However it came to it: the session lives, and the name is another's.
#[tokio::test]
async fn a_holder_whose_name_was_given_away_hears_of_it() {
    for server in DatabaseServer::each() {
        let (one, two) = (table(&server.url()).await, table(&server.url()).await);
        let first = claim("n", "first");
        granted(&one, first.clone()).await;
        set_end(&one, false).await;
        let second = claim("n", "second");
        granted(&two, second.clone()).await;
        set_end(&one, true).await;
        assert!(matches!(renewed(&one, &first).await, Renewal::Gone), "two hold it");
        assert!(matches!(renewed(&two, &second).await, Renewal::Held { .. }));
    }
}

/// The word that an earlier attempt has lost comes after the next one has won.
#[tokio::test]
async fn a_late_word_of_an_earlier_attempt_takes_nothing_away() {
    for server in DatabaseServer::each() {
        let table = table(&server.url()).await;
        let claim = claim("n", "holder");
        let earlier = granted(&table, claim.clone()).await;
        release(&table, claim.ticket.clone()).await;
        let fence = granted(&table, claim.clone()).await;
        assert!(table.0.tickets.holds(claim.ticket.id, fence) && fence > earlier);
        let (client, lease) = (columns::int(table.0.client), columns::key(claim.ticket.id));
        let lost = vec![client.into(), lease.into(), earlier.to_string().into()];
        table.0.run(&table.0.statements.lose, lost).await.unwrap();
        assert!(matches!(renewed(&table, &claim).await, Renewal::Held { .. }));
        assert!(table.0.tickets.holds(claim.ticket.id, fence), "it was believed");
        assert!(table.0.over(claim.ticket.id, fence), "word of the present one was not");
    }
}

#[tokio::test]
async fn a_place_says_which_grants_came_before_it() {
    for server in DatabaseServer::each() {
        let table = table(&server.url()).await;
        let fence = granted(&table, claim("n", "holder")).await;
        let mut queued = claim("n", "waiter");
        queued.stance = Stance::Wait { until: Moment::NEVER };
        let Verdict::Busy(busy) = table.acquire(queued.clone()).await.unwrap() else {
            panic!("two hold it");
        };
        assert_eq!(busy.place.unwrap().floor, fence);
        table.0.tickets.hand(queued.ticket.id, fence, Predecessor::None);
        assert!(table.0.tickets.is_queued(queued.ticket.id), "an old grant was believed");
        table.0.tickets.hand(queued.ticket.id, fence + 1, Predecessor::None);
        assert!(!table.0.tickets.is_queued(queued.ticket.id), "a new one was not");
    }
}

/// A claim that waits, and has its place.
async fn queued(table: &Table, claim: Claim) -> Claim {
    let claim = Claim { stance: Stance::Wait { until: Moment::NEVER }, ..claim };
    let verdict = table.acquire(claim.clone()).await.unwrap();
    assert!(matches!(verdict, Verdict::Busy(busy) if busy.place.is_some()), "no place");
    claim
}

async fn many_queued(table: &Table, text: &str, count: usize) -> Vec<Claim> {
    let mut claims = Vec::new();
    for at in 0..count {
        claims.push(queued(table, claim(text, &format!("waiter {at}"))).await);
    }
    claims
}

/// Whether a claim was handed the lease, and its client knows.
fn is_handed(table: &Table, claim: &Claim) -> bool {
    matches!(table.0.tickets.known(claim.ticket.id), Some((_, true)))
        || !table.0.tickets.is_queued(claim.ticket.id)
}

/// Sweeps, even if a client has just done so by itself.
async fn sweep(table: &Table) {
    let turn = "UPDATE leasehold_meta SET value = 0 WHERE word = 'swept'";
    table.0.pool.batch(turn).await.unwrap();
    table.0.sweep().await.unwrap();
}

async fn seats(pool: &Pool) -> i64 {
    one(pool, "SELECT count(*) FROM leasehold_seats").await
}

/// How much one look at a name reads, and what a swap of it then writes.
async fn weight(table: &Table, claim: &Claim, leaves: bool) -> (usize, usize) {
    let (name, id) = (&claim.ticket.name, claim.ticket.id);
    let errand = Errand::to(name).about(id);
    let [space, text] = table.0.key(name);
    let values = vec![space, text.clone(), 0.into(), columns::key(id).into()];
    let reply = table.0.run(&table.0.statements.load, values).await.unwrap();
    let read = reply.rows[0].texts().iter().map(String::len).sum();
    let mut page = table.0.load(errand).await.unwrap();
    page.step(if leaves {
        Verb::Release { id, ending: Ending::new() }
    } else {
        Verb::Acquire { claim: Box::new(claim.clone()), session: 7 }
    });
    let line = page.line_change().unwrap();
    let moved = line.gone.len() + line.new.iter().map(|row| row.text.len()).sum::<usize>();
    let values = page.values(text, 0).unwrap();
    let length = |value: &Value| if let Value::Text(text) = value { text.len() } else { 8 };
    (read, moved + values.iter().map(length).sum::<usize>())
}

#[tokio::test]
async fn a_step_weighs_the_same_with_a_dozen_waiters_and_with_five_hundred() {
    for server in DatabaseServer::each() {
        let table = table(&server.url()).await;
        let mut seen = Vec::new();
        for count in [12, 500] {
            let text = format!("line/{count}");
            let held = claim(&text, "holder");
            granted(&table, held.clone()).await;
            let waiters = many_queued(&table, &text, count).await;
            let mut late = claim(&text, "one more");
            late.stance = Stance::Wait { until: Moment::NEVER };
            for (claim, leaves) in [(&held, true), (&late, false), (&waiters[count / 2], true)] {
                seen.push(weight(&table, claim, leaves).await);
            }
        }
        for (few, many) in seen[..3].iter().zip(&seen[3..]) {
            let same = |few: usize, many: usize| many <= few + few / 20 + 32;
            assert!(same(few.0, many.0) && same(few.1, many.1), "{few:?} and {many:?}");
        }
    }
}

#[tokio::test]
async fn whoever_has_got_its_turn_leaves_no_seat() {
    for server in DatabaseServer::each() {
        let table = table(&server.url()).await;
        let held = claim("n", "holder");
        granted(&table, held.clone()).await;
        let waiters = many_queued(&table, "n", 20).await;
        assert_eq!(seats(&table.0.pool).await, 20);
        // One in the middle and the last one give up.
        release(&table, waiters[10].ticket.clone()).await;
        release(&table, waiters[19].ticket.clone()).await;
        assert_eq!(seats(&table.0.pool).await, 18);
        release(&table, held.ticket).await;
        for (at, waiter) in waiters.iter().enumerate().filter(|(at, _)| ![10, 19].contains(at)) {
            assert!(is_handed(&table, waiter), "{at}");
            let later = waiters[at + 1..].iter().filter(|it| is_handed(&table, it)).count();
            assert!(later <= 2, "{at} was overtaken");
            release(&table, waiter.ticket.clone()).await;
        }
        assert_eq!(seats(&table.0.pool).await, 0);
        let front = "SELECT count(*) FROM leasehold_names WHERE front IS NOT NULL";
        assert_eq!(one(&table.0.pool, front).await, 0);
        assert!(round(&table, "n").await > 0);
    }
}

/// More than are read with the name.
#[tokio::test]
async fn all_readers_that_wait_are_served_at_once() {
    for server in DatabaseServer::each() {
        let table = table(&server.url()).await;
        let reader = |mode| {
            let ticket = Ticket::new(name("n"), mode);
            Claim::new(ticket, Owner::new("reader"), HOUR)
        };
        let writer = reader(Mode::Write);
        granted(&table, writer.clone()).await;
        let mut readers = Vec::new();
        for _ in 0..150 {
            readers.push(queued(&table, reader(Mode::Read)).await);
        }
        let last = queued(&table, reader(Mode::Write)).await;
        release(&table, writer.ticket).await;
        assert!(readers.iter().all(|it| is_handed(&table, it)) && !is_handed(&table, &last));
        assert_eq!(seats(&table.0.pool).await, 1);
        let shown = Selector::Name(name("n"));
        let status = table.inspect(shown, Page::default()).await.unwrap().names.remove(0);
        assert_eq!((status.holders.len(), status.waiters.len()), (150, 1));
    }
}

#[tokio::test]
async fn everyone_who_waits_is_shown() {
    for server in DatabaseServer::each() {
        let table = table(&server.url()).await;
        granted(&table, claim("n", "holder")).await;
        many_queued(&table, "n", 30).await;
        let shown = Selector::Prefix(Namespace::default(), "n".into());
        let status = table.inspect(shown, Page::default()).await.unwrap().names.remove(0);
        let labels: Vec<_> = status.waiters.iter().map(|it| it.label.to_string()).collect();
        assert_eq!(labels, (0..30).map(|at| format!("waiter {at}")).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_dead_waiter_in_the_middle_is_passed_over() {
    for server in DatabaseServer::each() {
        let (table, dead) = (self::table(&server.url()).await, self::table(&server.url()).await);
        let held = claim("n", "holder");
        granted(&table, held.clone()).await;
        let first = queued(&table, claim("n", "first")).await;
        queued(&dead, claim("n", "dead")).await;
        let last = queued(&table, claim("n", "last")).await;
        set_end(&dead, false).await;
        release(&table, held.ticket).await;
        assert!(is_handed(&table, &first) && !is_handed(&table, &last));
        release(&table, first.ticket).await;
        assert!(is_handed(&table, &last), "the dead one stood in the way");
        assert_eq!(seats(&table.0.pool).await, 0, "its row was left");
    }
}

#[tokio::test]
async fn a_mass_of_dead_waiters_is_swept_and_passed_over() {
    let each = || DatabaseServer::each().into_iter();
    for (swept, server) in each().map(|it| (true, it)).chain(each().map(|it| (false, it))) {
        let (table, dead) = (self::table(&server.url()).await, self::table(&server.url()).await);
        let held = claim("n", "holder");
        granted(&table, held.clone()).await;
        many_queued(&dead, "n", 300).await;
        let living = queued(&table, claim("n", "living")).await;
        set_end(&dead, false).await;
        if swept {
            sweep(&table).await;
            assert_eq!(seats(&table.0.pool).await, 1, "the living one stays");
            assert_eq!(one(&table.0.pool, "SELECT count(*) FROM leasehold_sessions").await, 1);
        }
        assert!(matches!(renewed(&table, &living).await, Renewal::Queued(_)));
        release(&table, held.ticket).await;
        assert!(is_handed(&table, &living), "the dead stood in the way");
        assert_eq!(seats(&table.0.pool).await, 0, "their rows were left");
        assert!(matches!(renewed(&table, &living).await, Renewal::Held { .. }));
    }
}

/// Places are given again once all who waited are dead, whether or not anybody has
/// swept their rows.
#[tokio::test]
async fn a_line_of_the_dead_begins_anew() {
    for server in DatabaseServer::each() {
        let (table, dead) = (self::table(&server.url()).await, self::table(&server.url()).await);
        let held = claim("n", "holder");
        granted(&table, held.clone()).await;
        let gone = many_queued(&dead, "n", 20).await;
        set_end(&dead, false).await;
        let living = many_queued(&table, "n", 30).await;
        assert_eq!(seats(&table.0.pool).await, 30);
        let renewed = dead.renew(vec![Refresh::new(gone[3].ticket.clone(), HOUR)]).await;
        assert!(matches!(renewed[0], Renewal::Gone), "{renewed:?}");
        // It comes back, with the same ticket and another session.
        queued(&dead, gone[3].clone()).await;
        release(&table, held.ticket).await;
        for waiter in living {
            assert!(is_handed(&table, &waiter));
            release(&table, waiter.ticket).await;
        }
        assert!(matches!(self::renewed(&dead, &gone[3]).await, Renewal::Held { .. }));
    }
}

/// One whose session ended before anybody has swept its place.
#[tokio::test]
async fn whoever_comes_back_has_one_seat() {
    for server in DatabaseServer::each() {
        let (table, dead) = (self::table(&server.url()).await, self::table(&server.url()).await);
        granted(&table, claim("n", "holder")).await;
        let back = queued(&dead, claim("n", "back")).await;
        let before = queued(&table, claim("n", "before")).await;
        set_end(&dead, false).await;
        dead.0.own_sessions.known().clear();
        queued(&dead, back.clone()).await;
        assert_eq!(seats(&table.0.pool).await, 2);
        let page = table.0.load(Errand::to(&name("n")).about(back.ticket.id)).await.unwrap();
        let places = [&before, &back].map(|claim| page.place(claim.ticket.id).unwrap());
        assert!(places[0] < places[1], "it stands at the end");
    }
}

/// However many wait for a name, one look at it decides for all.
#[tokio::test]
async fn whoever_waits_is_looked_for_together() {
    for server in DatabaseServer::each() {
        let url = format!("{}?wake=poll", server.url());
        let (table, other) = (self::table(&url).await, self::table(&url).await);
        let held = claim("n", "holder");
        granted(&other, held.clone()).await;
        let waiters = many_queued(&table, "n", 50).await;
        release(&other, held.ticket).await;
        table.0.look_around().await.unwrap();
        let handed = waiters.iter().filter(|it| is_handed(&table, it)).count();
        assert_eq!((handed, is_handed(&table, &waiters[0])), (1, true));
        assert!(!table.0.look_around().await.unwrap(), "nothing has changed since");
        // A place that somebody else has taken away is asked for again.
        let sql = format!(
            "DELETE FROM leasehold_seats WHERE lease = '{}'",
            columns::key(waiters[1].ticket.id)
        );
        table.0.pool.batch(&sql).await.unwrap();
        assert!(matches!(renewed(&table, &waiters[1]).await, Renewal::Gone));
        assert!(matches!(renewed(&table, &waiters[2]).await, Renewal::Queued(_)));
    }
}

/// Whoever only looks has not changed the name, so the next change is seen.
#[tokio::test]
async fn a_look_that_changes_nothing_does_not_hide_the_next_change() {
    for server in DatabaseServer::each() {
        let url = format!("{}?wake=poll", server.url());
        let (table, other) = (self::table(&url).await, self::table(&url).await);
        let dead = self::table(&url).await;
        let held = claim("n", "holder");
        granted(&other, held.clone()).await;
        queued(&dead, claim("n", "dead")).await;
        let living = queued(&table, claim("n", "living")).await;
        queued(&other, claim("n", "last")).await;
        set_end(&dead, false).await;
        table.0.look_around().await.unwrap();
        release(&other, held.ticket).await;
        table.0.look_around().await.unwrap();
        assert!(is_handed(&table, &living), "the hand-over was not seen");
    }
}

/// A row that cannot be read concerns those who want that name, and nobody else.
#[tokio::test]
async fn a_damaged_name_stands_in_nobodys_way() {
    for server in DatabaseServer::each() {
        let url = format!("{}?wake=poll", server.url());
        let (table, other) = (self::table(&url).await, self::table(&url).await);
        let (mut held, mut waiters) = (Vec::new(), Vec::new());
        for text in ["a", "b", "c"] {
            held.push(claim(text, "holder"));
            granted(&other, held[held.len() - 1].clone()).await;
            waiters.push(queued(&table, claim(text, "waiter")).await);
        }
        let damage = "UPDATE leasehold_names SET state = '{', version = version + 1 \
             WHERE name = 'b'";
        table.0.pool.batch(damage).await.unwrap();
        for at in [0, 2] {
            release(&other, held[at].ticket.clone()).await;
        }
        table.0.look_around().await.unwrap();
        let handed = waiters.iter().map(|it| is_handed(&table, it)).collect::<Vec<_>>();
        assert!(handed[0] && handed[2], "{handed:?}");
        let refreshes = waiters.iter().map(|it| Refresh::new(it.ticket.clone(), HOUR)).collect();
        let renewed = table.renew(refreshes).await;
        assert!(matches!(renewed[0], Renewal::Held { .. }), "{renewed:?}");
        assert!(matches!(renewed[2], Renewal::Held { .. }), "{renewed:?}");
        set_end(&other, false).await;
        sweep(&table).await;
    }
}

/// The version of a name, as whoever looks sees it.
async fn version(table: &Table, text: &str) -> Option<i64> {
    let versions = table.0.versions_of([&name(text)].into_iter()).await.unwrap();
    versions.get(&name(text)).map(|it| it.version)
}

/// Its place is behind those of a line that has begun anew since.
#[tokio::test]
async fn a_waiter_that_has_lost_its_seat_stands_in_nobodys_way() {
    for server in DatabaseServer::each() {
        let url = format!("{}?wake=poll", server.url());
        let (table, other) = (self::table(&url).await, self::table(&url).await);
        granted(&other, claim("n", "holder")).await;
        let dead = self::table(&url).await;
        queued(&dead, claim("n", "dead")).await;
        let lost = queued(&table, claim("n", "lost")).await;
        set_end(&dead, false).await;
        set_end(&table, false).await;
        table.0.own_sessions.known().clear();
        many_queued(&other, "n", 2).await;
        let late = queued(&table, claim("n", "late")).await;
        for _ in 0..2 {
            table.0.look_around().await.unwrap();
        }
        assert!(!table.0.tickets.is_queued(lost.ticket.id), "it was not told");
        assert!(table.0.lines.is_first(late.ticket.id), "it stands in the way");
        let (version, soon) = (version(&table, "n").await, now().after(HOUR / 60));
        assert!(!table.0.lines.is_due(&name("n"), version, soon), "it is looked for all the time");
    }
}

#[tokio::test]
async fn nobody_looks_for_a_waiter_that_is_given_back_in_vain() {
    for server in DatabaseServer::each() {
        let table = table(&server.url()).await;
        granted(&table, claim("n", "holder")).await;
        let waiter = queued(&table, claim("n", "waiter")).await;
        table.0.pool.close();
        table.release(waiter.ticket, Ending::new()).await.unwrap_err();
        assert!(table.0.lines.is_empty());
    }
}

/// It would fit beside the holder, but it is not its turn.
#[tokio::test]
async fn whoever_fits_and_is_not_next_is_not_looked_for_all_the_time() {
    for server in DatabaseServer::each() {
        let url = format!("{}?wake=poll", server.url());
        let (table, other) = (self::table(&url).await, self::table(&url).await);
        let wants = |mode| {
            let ticket = Ticket::new(name("n"), mode);
            Claim::new(ticket, Owner::new("wants"), HOUR)
        };
        granted(&other, wants(Mode::Read)).await;
        queued(&other, wants(Mode::Write)).await;
        for _ in 0..2 {
            queued(&table, wants(Mode::Read)).await;
        }
        table.0.look_around().await.unwrap();
        let (version, soon) = (version(&table, "n").await, now().after(HOUR / 60));
        assert!(!table.0.lines.is_due(&name("n"), version, soon));
        // Whoever looks again because it is time has not seen a change.
        table.0.lines.looked(&name("n"), version, Moment::default());
        assert!(!table.0.look_around().await.unwrap(), "nothing has changed");
    }
}

/// It is handed over after the claim was read, and looked at before that is answered.
#[tokio::test]
async fn a_hand_over_to_one_that_is_claiming_again_is_seen() {
    for server in DatabaseServer::each() {
        let url = format!("{}?wake=poll", server.url());
        let (table, other) = (self::table(&url).await, self::table(&url).await);
        let held = claim("n", "holder");
        granted(&other, held.clone()).await;
        let waiters = many_queued(&table, "n", 2).await;
        let (ticket, tickets) = (&waiters[0].ticket, &table.0.tickets);
        let (session, _) = tickets.known(ticket.id).unwrap();
        tickets.stir(ticket.id);
        let page = table.0.load(Errand::to(&name("n")).about(ticket.id)).await.unwrap();
        release(&other, held.ticket).await;
        table.0.look_around().await.unwrap();
        table.0.waits(ticket, session, &page, Moment::NEVER);
        table.0.look_around().await.unwrap();
        assert!(matches!(tickets.last_look(ticket.id), Wake::Granted { .. }), "nobody told it");
    }
}

/// The dead in front of it are not to be read any more, so there is something to
/// write, and it cannot be written for a session that has ended.
#[tokio::test]
async fn a_claim_whose_session_has_ended_takes_a_new_one_behind_the_dead_as_well() {
    for server in DatabaseServer::each() {
        let (table, other) = (self::table(&server.url()).await, self::table(&server.url()).await);
        granted(&other, claim("n", "holder")).await;
        let dead = self::table(&server.url()).await;
        queued(&dead, claim("n", "dead")).await;
        let living = claim("n", "living");
        table.0.session_for(&living).await.unwrap();
        set_end(&dead, false).await;
        set_end(&table, false).await;
        queued(&table, living).await;
    }
}

/// MariaDB cuts what it puts together from many rows, without an error, at a length
/// that every server sets for itself.
#[tokio::test]
async fn a_line_is_read_whole_however_short_the_answers_of_the_server_are() {
    for server in DatabaseServer::each() {
        let pool = pool(&server.url()).await;
        let short = suited(&pool, "SELECT 1", "SET GLOBAL group_concat_max_len = 64");
        pool.batch(short).await.unwrap();
        let table = table(&server.url()).await;
        let held = claim("n", "holder");
        granted(&table, held.clone()).await;
        let waiters = many_queued(&table, "n", 12).await;
        release(&table, held.ticket).await;
        assert!(is_handed(&table, &waiters[0]));
    }
}

/// It may have been extended since the sweep has looked.
#[tokio::test]
async fn a_sweep_takes_no_place_of_a_session_that_lives() {
    for server in DatabaseServer::each() {
        let table = table(&server.url()).await;
        granted(&table, claim("n", "holder")).await;
        let waiter = queued(&table, claim("n", "waiter")).await;
        let (session, _) = table.0.tickets.known(waiter.ticket.id).unwrap();
        let [space, text] = table.0.key(&name("n"));
        let ended = vec![space, text, columns::int(session).into(), sweep::count(7)];
        let end = &table.0.sweeping.end_seats;
        assert_eq!(table.0.run(end, ended.clone()).await.unwrap().affected, 0);
        assert_eq!(seats(&table.0.pool).await, 1);
        set_end(&table, false).await;
        assert_eq!(table.0.run(end, ended).await.unwrap().affected, 1);
    }
}

#[test]
fn a_sweep_that_takes_places_of_the_living_is_found() {
    let sweeps = a_sweep_takes_no_place_of_a_session_that_lives;
    each_is_found(&[Mutant::SweepsTheLiving], sweeps);
}

/// However many portions they come in, one extension serves all who share a session.
#[tokio::test]
async fn leases_that_are_renewed_together_extend_their_session_once() {
    for server in DatabaseServer::each() {
        let table = table(&server.url()).await;
        let claims = [claim("a", "holder"), claim("b", "holder")];
        for claim in &claims {
            granted(&table, claim.clone()).await;
        }
        renewed(&table, &claims[0]).await;
        let session = table.0.tickets.known(claims[1].ticket.id).unwrap().0;
        let known = table.0.own_sessions.just_extended(session, HOUR, Duration::ZERO, now());
        assert!(known.is_some(), "it was only just extended");
        assert!(matches!(renewed(&table, &claims[1]).await, Renewal::Held { .. }));
        let later = now().after(HOUR / 8);
        let known = table.0.own_sessions.just_extended(session, HOUR, Duration::ZERO, later);
        assert!(known.is_none(), "too long ago");
        table.0.own_sessions.doubt();
        let known = table.0.own_sessions.just_extended(session, HOUR, Duration::ZERO, now());
        assert!(known.is_none(), "the server may be another one");
    }
}

fn now() -> Moment {
    Clock::System.now()
}
