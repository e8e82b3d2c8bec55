//! Values whose end nobody of ours has written down: their nodes are gone, and the
//! notice of that does not say in which change.

use std::sync::Arc;

use leasehold::claim::{Claim, Mode, Owner, Store as Put, Ticket, Verdict};
use leasehold::engine::{Engine, RecordEvent, RecordEvents, Scope};
use leasehold::{Name, Namespace};
use leasehold_testkit::contest::{BOUND, Checked};
use leasehold_testkit::server::Server;
use leasehold_testkit::znodes::Znodes;
use tokio::time::timeout;

use super::{LONG, open};

const FOLDER: &str = "/leasehold/default/records";

fn name(text: &str) -> Checked<Name> {
    Ok(Name::new(&Namespace::default(), text)?)
}

async fn store(engine: &Arc<dyn Engine>, put: Put) -> Checked<u64> {
    let records = engine.records().ok_or("no records")?;
    records.store(put).await?.map_err(|_| "a conflict".into())
}

async fn bound(engine: &Arc<dyn Engine>, lock: &str, text: &str) -> Checked<Put> {
    let ticket = Ticket::new(name(lock)?, Mode::Exclusive);
    let claim = Claim::new(ticket.clone(), Owner::new("test"), LONG);
    let Verdict::Granted(_) = engine.acquire(claim).await? else { return Err("busy".into()) };
    let mut put = Put::put(name(text)?, "bound".into());
    put.bound_to = Some(ticket);
    Ok(put)
}

async fn next(events: &mut Box<dyn RecordEvents>) -> Checked<RecordEvent> {
    timeout(BOUND, events.next()).await?.ok_or_else(|| "the watch has ended".into())
}

/// What the record comes to for who hears all up to a version; none goes back.
async fn heard(events: &mut Box<dyn RecordEvents>, last: &mut u64, upto: u64) -> Checked<bool> {
    loop {
        let (version, there) = match next(events).await? {
            RecordEvent::Stored(_, found) => (found.version, true),
            RecordEvent::Deleted(_, version) => (version, false),
            _ => continue,
        };
        if version <= *last {
            return Err(format!("{version} was told after {last}").into());
        }
        *last = version;
        if version >= upto {
            return Ok(there);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_removed_by_hand_has_a_version_between_two_values() -> Checked {
    let server = Server::zookeeper()?;
    let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
    let (writer, reader) = (one.engine(), two.engine());
    let records = reader.records().ok_or("no records")?;
    let mut events = records.watch(Scope::name(&name("n")?)).await?;
    let (mut last, put) = (0, Put::put(name("n")?, "1".into()));
    for waits in [true, false, true, false, false] {
        let before = store(&writer, put.clone()).await?;
        assert!(heard(&mut events, &mut last, before).await?);
        let mut znodes = Znodes::connect(server.addr())?;
        assert!(znodes.remove(&format!("{FOLDER}/n"))?, "there was nothing to remove");
        if waits {
            assert!(!heard(&mut events, &mut last, before + 1).await?);
        }
    }
    Ok(())
}

/// A value with one session takes the place of one with another: the node goes and
/// comes in one change, and no version is between the two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_replaced_in_one_change_has_not_ended() -> Checked {
    let server = Server::zookeeper()?;
    let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
    let (writer, reader) = (one.engine(), two.engine());
    let records = reader.records().ok_or("no records")?;
    let mut events = records.watch(Scope::name(&name("n")?)).await?;
    let (mut last, bound) = (0, bound(&writer, "/lock", "n").await?);
    for _ in 0..10 {
        for put in [bound.clone(), Put::put(name("n")?, "free".into())] {
            let version = store(&writer, put).await?;
            assert!(heard(&mut events, &mut last, version).await?, "it is there");
        }
    }
    Ok(())
}

/// All nodes of a session go in one change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nodes_of_a_session_that_is_ended_have_a_version() -> Checked {
    const MANY: usize = 100;
    let server = Server::zookeeper()?;
    let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
    let (writer, reader) = (one.engine(), two.engine());
    let records = reader.records().ok_or("no records")?;
    let mut put = bound(&writer, "/lock", "w/0").await?;
    let mut newest = 0;
    for at in 0..MANY {
        put.name = name(&format!("w/{at}"))?;
        newest = store(&writer, put.clone()).await?;
    }
    let mut events = records.watch(Scope::below(&Namespace::default(), "w", 1)).await?;
    let mut znodes = Znodes::connect(server.addr())?;
    let nodes = znodes.children(FOLDER)?;
    let first = nodes.first().ok_or("no node")?;
    let stat = znodes.stat(&format!("{FOLDER}/{first}"))?.ok_or("no node")?;
    Znodes::end_session(server.addr(), stat.owner)?;
    for _ in 0..MANY {
        match next(&mut events).await? {
            RecordEvent::Deleted(_, version) if version > newest => {}
            other => return Err(format!("{other:?} after {newest}").into()),
        }
    }
    Ok(())
}
