//! Long lists, over a way that is long as well: a page is few commands.

use leasehold::claim::{Claim, Store, Ticket, Verdict};
use leasehold::engine::{Page, Scope};
use leasehold::{Locks, Mode, Namespace, Owner};
use leasehold_testkit::server::{Fleet, Server, ask};

use super::{Checked, LONG, info};

const RECORDS: usize = 1_000;
const PAGE: usize = 500;

/// How often the server has served a command.
fn served(server: &Server, command: &str) -> Checked<usize> {
    let stats = ask(server, &["INFO", "commandstats"])?;
    let head = format!("cmdstat_{command}:calls=");
    let calls = stats.lines().find_map(|line| line.strip_prefix(&head)?.split(',').next());
    Ok(calls.map_or(Ok(0), str::parse)?)
}

fn asked(server: &Server) -> Checked<usize> {
    Ok(served(server, "mget")? + served(server, "zrangebylex")? + served(server, "evalsha")?)
}

async fn store(locks: &Locks, bound: bool) -> Checked {
    let ticket = Ticket::new(locks.name("keeper")?, Mode::Exclusive);
    let claim = Claim::new(ticket.clone(), Owner::new("keeper"), LONG);
    assert!(matches!(locks.engine().acquire(claim).await?, Verdict::Granted(_)));
    let mut stored = Vec::new();
    for n in 0..RECORDS {
        let mut store = Store::put(locks.name(&format!("r/{n:04}"))?, b"value".to_vec());
        store.bound_to = bound.then(|| ticket.clone());
        let engine = locks.engine();
        stored.push(tokio::spawn(async move {
            engine.records().expect("redis has records").store(store).await
        }));
    }
    for stored in stored {
        assert!(stored.await??.is_ok());
    }
    Ok(())
}

/// All of them in order, page by page; how many pages there were.
async fn list(locks: &Locks) -> Checked<usize> {
    let scope = Scope::below(&Namespace::default(), "r", 1);
    let (mut page, mut seen, mut pages) = (Page::default(), Vec::new(), 0);
    page.size = PAGE;
    loop {
        let engine = locks.engine();
        let found = engine.records().expect("redis has records").list(scope.clone(), page.clone());
        let found = found.await?;
        pages += 1;
        seen.extend(found.records.into_iter().map(|(name, _)| name));
        if !found.more {
            break;
        }
        page.after = seen.last().cloned();
    }
    let expected: Vec<_> = (0..RECORDS).map(|n| format!("r/{n:04}")).collect();
    assert_eq!(seen.iter().map(|name| name.as_str()).collect::<Vec<_>>(), expected);
    Ok(pages)
}

/// R26: a page of five hundred records is one range and few reads, not five
/// hundred of them; also if each record goes with a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_records_is_few_commands() -> Checked {
    for bound in [false, true] {
        let server = Server::redis()?;
        let locks = leasehold::open(server.url()).await?;
        store(&locks, bound).await?;
        let before = asked(&server)?;
        let pages = list(&locks).await?;
        let commands = asked(&server)? - before;
        assert!(commands <= 25 * pages, "{commands} commands for {pages} pages, {bound}");
    }
    Ok(())
}

/// R26: names whose records have gone do not end a list early.
#[tokio::test]
async fn a_list_goes_on_after_names_that_are_not_there_any_more() -> Checked {
    let server = Server::redis()?;
    let locks = leasehold::open(server.url()).await?;
    store(&locks, false).await?;
    for n in 0..RECORDS - 2 {
        ask(&server, &["DEL", &format!("leasehold:{{default}}:record:r/{n:04}")])?;
    }
    let (mut page, engine) = (Page::default(), locks.engine());
    page.size = 10;
    let scope = Scope::below(&Namespace::default(), "r", 1);
    let found = engine.records().expect("redis has records").list(scope, page).await?;
    let names: Vec<_> = found.records.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["r/0998", "r/0999"]);
    Ok(())
}

/// R26: in a cluster the names are in many slots, and are asked for together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_a_cluster_is_in_order() -> Checked {
    let fleet = Fleet::cluster()?;
    let locks = leasehold::open(fleet.url()).await?;
    store(&locks, false).await?;
    assert_eq!(list(&locks).await?, RECORDS / PAGE);
    Ok(())
}

/// R26: of the many parts of a cluster each is asked for its names once a page, and
/// for values a few times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_cluster_is_few_commands() -> Checked {
    const PARTS: usize = 64;
    let mut fleet = Fleet::cluster()?;
    let locks = leasehold::open(fleet.url()).await?;
    store(&locks, false).await?;
    let mut all = || -> Checked<usize> { fleet.servers().iter().map(asked).sum() };
    let before = all()?;
    let pages = list(&locks).await?;
    let commands = all()? - before;
    assert!(commands <= 6 * PARTS * pages, "{commands} commands for {pages} pages");
    assert!(commands < RECORDS, "{commands} commands for {RECORDS} records");
    Ok(())
}

/// R26: behind sentinels, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_behind_sentinels_is_few_commands() -> Checked {
    let mut fleet = Fleet::watched(1)?;
    let locks = leasehold::open(fleet.url()).await?;
    store(&locks, false).await?;
    let primary = fleet.primary()?;
    let before = asked(&fleet.servers()[primary])?;
    let pages = list(&locks).await?;
    let commands = asked(&fleet.servers()[primary])? - before;
    assert!(commands <= 25 * pages, "{commands} commands for {pages} pages");
    Ok(())
}

/// R26: an answer is not much larger than what one value takes, whatever came
/// before: a server closes a connection to which it owes more, and it is that of
/// the locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_records_come_few_at_a_time() -> Checked {
    let server = Server::redis()?;
    let locks = leasehold::open(server.url()).await?;
    store(&locks, false).await?;
    for n in RECORDS / 2..RECORDS / 2 + 40 {
        let put = Store::put(locks.name(&format!("r/{n:04}"))?, vec![b'x'; 1024 * 1024]);
        assert!(locks.engine().records().expect("redis has records").store(put).await?.is_ok());
    }
    ask(&server, &["CONFIG", "SET", "client-output-buffer-limit", "normal 6mb 0 0"])?;
    list(&locks).await?;
    Ok(())
}

/// How much the servers have sent.
fn sent(fleet: &mut Fleet) -> Checked<u64> {
    let mut sum = 0;
    for server in fleet.servers().iter().take(3) {
        sum += info(server, "stats", "total_net_output_bytes")?;
        sum -= info(server, "stats", "total_net_repl_output_bytes")?;
    }
    Ok(sum)
}

/// R26: the shards of a cluster do not each answer as much as a page has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_cluster_is_not_read_many_times_over() -> Checked {
    const SIZE: usize = 128 * 1024;
    let mut fleet = Fleet::cluster()?;
    let locks = leasehold::open(fleet.url()).await?;
    let engine = locks.engine();
    let records = engine.records().expect("redis has records");
    for n in 0..256 {
        let put = Store::put(locks.name(&format!("r/{n:04}"))?, vec![b'x'; SIZE]);
        assert!(records.store(put).await?.is_ok());
    }
    let before = sent(&mut fleet)?;
    let scope = Scope::below(&Namespace::default(), "r", 1);
    let found = records.list(scope, Page::default()).await?;
    let (sent, told) = (sent(&mut fleet)? - before, found.records.len() * SIZE);
    assert!(found.more && told > SIZE);
    assert!(sent < 4 * u64::try_from(told)?, "{sent} bytes were read for {told}");
    Ok(())
}
