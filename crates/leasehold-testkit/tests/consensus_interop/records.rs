//! Records that lie bare: nodes and keys that a plain client reads and writes beside us.

use std::sync::Arc;

use leasehold::claim::{Claim, Ending, Owner, Store, Ticket, Verdict};
use leasehold::engine::{Expect, Page, RecordEvent, RecordEvents, RecordStore, Scope};
use leasehold::{Engine, ErrorKind, Locks, Mode, Namespace, Released};
use leasehold_testkit::contest::{BOUND, Checked, until};
use leasehold_testkit::server::Server;
use leasehold_testkit::znodes::Znodes;
use tokio::time::timeout;

use crate::stage::LONG;

/// A client whose records are raw, and its engine.
async fn open(server: &Server) -> Checked<(Locks, Arc<dyn Engine>)> {
    let locks = leasehold::open(format!("{}?records=raw", server.url())).await?;
    let engine = locks.engine();
    assert!(engine.profile().raw_records);
    Ok((locks, engine))
}

fn records(engine: &Arc<dyn Engine>) -> Checked<&dyn RecordStore> {
    Ok(engine.records().ok_or("records")?)
}

async fn next(events: &mut Box<dyn RecordEvents>) -> Checked<RecordEvent> {
    Ok(timeout(BOUND, events.next()).await?.ok_or("closed")?)
}

fn below(path: &str, depth: usize) -> Scope {
    Scope::below(&Namespace::default(), path, depth)
}

/// The names of a list and what lies there.
async fn listed(engine: &Arc<dyn Engine>, scope: Scope) -> Checked<Vec<(String, Vec<u8>)>> {
    let found = records(engine)?.list(scope, Page::default()).await?;
    let all = found.records.into_iter();
    Ok(all.map(|(name, record)| (name.as_str().to_owned(), record.value)).collect())
}

/// What nobody of ours has written, byte for byte: it begins like a word of ours.
const COUNT: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 7, 0, 1, 2, 3];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_others_wrote_is_a_record_and_ours_is_a_node() -> Checked {
    let server = Server::zookeeper()?;
    let (locks, engine) = open(&server).await?;
    let mut znodes = Znodes::connect(server.addr())?;
    znodes.create("/shop", b"")?;
    znodes.create("/shop/count", &COUNT)?;
    let name = locks.name("/shop/count")?;
    let found = records(&engine)?.load(name.clone()).await?.ok_or("it is there")?;
    assert_eq!(found.value, COUNT);
    let write = Store::put(name.clone(), b"ours".to_vec());
    let write = write.expecting(Expect::Version(found.version));
    let version = records(&engine)?.store(write.clone()).await?.map_err(|_| "a conflict")?;
    assert_eq!(znodes.get("/shop/count")?.as_deref(), Some(&b"ours"[..]));
    assert!(version > found.version && znodes.stat("/shop/count")?.is_some_and(|it| it.owner == 0));
    assert!(znodes.set("/shop/count", b"theirs")?);
    let refused = records(&engine)?.store(write).await?.err().flatten().ok_or("a conflict")?;
    assert_eq!(refused.value, b"theirs");
    let new = Store::put(locks.name("/shop/new/price")?, vec![]);
    let _ = records(&engine)?.store(new.expecting(Expect::Absent)).await?;
    assert_eq!(znodes.get("/shop/new/price")?.as_deref(), Some(&b""[..]));
    let _ = records(&engine)?.store(Store::delete(name)).await?;
    assert_eq!(znodes.stat("/shop/count")?, None, "no mark stays in its place");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_of_nodes_is_listed_and_watched_whoever_made_it() -> Checked {
    let server = Server::zookeeper()?;
    let (locks, engine) = open(&server).await?;
    let mut znodes = Znodes::connect(server.addr())?;
    let guard = locks.mutex("order").ttl(LONG).lock().await?;
    for path in ["/shop", "/shop/b", "/shop/a", "/shop/a/deep", "/shop/a!", "/shopping"] {
        znodes.create(path, path.as_bytes())?;
    }
    let names = async |scope| -> Checked<Vec<String>> {
        Ok(listed(&engine, scope).await?.into_iter().map(|(name, _)| name).collect())
    };
    assert_eq!(names(below("/shop", 1)).await?, ["/shop/a", "/shop/a!", "/shop/b"]);
    let all = ["/shop/a", "/shop/a!", "/shop/a/deep", "/shop/b"];
    assert_eq!(names(below("/shop", usize::MAX)).await?, all);
    let top = names(below("", 2)).await?;
    assert_eq!(top, ["/shop", "/shopping", "/zookeeper"], "what is ours is no record");
    let mut events = records(&engine)?.watch(below("/shop", 2)).await?;
    znodes.create("/shop/c", b"1")?;
    let RecordEvent::Stored(name, record) = next(&mut events).await? else {
        return Err("it was made".into());
    };
    assert_eq!((name.as_str(), &record.value[..]), ("/shop/c", &b"1"[..]));
    assert!(znodes.set("/shop/a/deep", b"2")?);
    let RecordEvent::Stored(name, record) = next(&mut events).await? else {
        return Err("it was written".into());
    };
    assert_eq!((name.as_str(), &record.value[..]), ("/shop/a/deep", &b"2"[..]));
    assert!(znodes.remove("/shop/c")?);
    assert!(
        matches!(next(&mut events).await?, RecordEvent::Deleted(name, ..) if name.as_str() == "/shop/c")
    );
    guard.release().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_path_of_others_or_has_nodes_below_it_is_not_touched() -> Checked {
    let server = Server::zookeeper()?;
    let (locks, engine) = open(&server).await?;
    let mut znodes = Znodes::connect(server.addr())?;
    let _ = records(&engine)?.store(Store::put(locks.name("/jobs/a")?, vec![])).await?;
    for store in [
        Store::delete(locks.name("/jobs")?),
        Store::put(locks.name("/leasehold/layout")?, b"9".to_vec()),
        Store::put(locks.name("jobs")?, b"x".to_vec()),
    ] {
        let refused = records(&engine)?.store(store.clone()).await;
        let error = refused.expect_err("it cannot be kept");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{store:?}: {error}");
    }
    // What is above a record stays, and holds what is stored in it.
    let above = Store::put(locks.name("/jobs")?, b"above".to_vec());
    let _ = records(&engine)?.store(above).await?;
    assert!(znodes.remove("/jobs/a")?);
    assert_eq!(znodes.get("/jobs")?.as_deref(), Some(&b"above"[..]));
    Ok(())
}

/// A node that goes with the session, as Curator's `PersistentNode` and members of groups.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bound_record_is_an_ephemeral_node_or_a_leased_key() -> Checked {
    for server in [Server::zookeeper()?, Server::etcd()?] {
        let (locks, engine) = open(&server).await?;
        let bind = async || -> Checked<Ticket> {
            let ticket = Ticket::new(locks.name("presence")?, Mode::Exclusive);
            let claim = Claim::new(ticket.clone(), Owner::new("member"), LONG);
            assert!(matches!(engine.acquire(claim).await?, Verdict::Granted(_)));
            let mut store = Store::put(locks.name("/group/a")?, b"a:80".to_vec());
            store.bound_to = Some(ticket.clone());
            let _ = records(&engine)?.store(store).await?;
            Ok(ticket)
        };
        let there = || -> Checked<Option<bool>> {
            if server.url().starts_with("zookeeper") {
                let stat = Znodes::connect(server.addr())?.stat("/group/a")?;
                return Ok(stat.map(|stat| stat.owner != 0));
            }
            let answer = server.tell(&["get", "/group/a", "-w", "json"])?;
            let answer: serde_json::Value = serde_json::from_str(&answer)?;
            let found = answer["kvs"].get(0);
            Ok(found.map(|key| key["lease"].as_i64().unwrap_or_default() != 0))
        };
        let ticket = bind().await?;
        assert_eq!(there()?, Some(true), "it would outlive its session");
        assert_eq!(engine.release(ticket, Ending::new()).await?, Released::Released);
        assert_eq!(there()?, None, "it went with the lease");
        // Written by somebody since: it is no more the one that was bound.
        let ticket = bind().await?;
        let free = Store::put(locks.name("/group/a")?, b"free".to_vec());
        let _ = records(&engine)?.store(free).await?;
        engine.release(ticket, Ending::new()).await?;
        assert_eq!(there()?, Some(false));
        let ticket = bind().await?;
        drop((ticket, locks, engine));
        until("it goes with its client", || async { Ok(there()?.is_none()) }).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_others_wrote_is_a_record_and_ours_is_a_key() -> Checked {
    let server = Server::etcd()?;
    let (locks, engine) = open(&server).await?;
    let get = |key: &str| server.tell(&["get", "--print-value-only", key]);
    server.tell(&["put", "shop/price", "7"])?;
    server.tell(&["put", "shop", "top"])?;
    let guard = locks.mutex("order").ttl(LONG).lock().await?;
    let name = locks.name("shop/price")?;
    let found = records(&engine)?.load(name.clone()).await?.ok_or("it is there")?;
    assert_eq!(found.value, b"7");
    assert_eq!(records(&engine)?.add(name.clone(), 3).await?, 10);
    assert_eq!(get("shop/price")?.trim(), "10");
    let all = [("shop", "top"), ("shop/price", "10")];
    let all = all.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
    assert_eq!(listed(&engine, below("", usize::MAX)).await?, all, "what is ours is no record");
    let mut events = records(&engine)?.watch(below("", usize::MAX)).await?;
    server.tell(&["put", "jobs/a", "1"])?;
    let RecordEvent::Stored(changed, record) = next(&mut events).await? else {
        return Err("it was made".into());
    };
    assert_eq!((changed.as_str(), &record.value[..]), ("jobs/a", &b"1"[..]));
    server.tell(&["del", "jobs/a"])?;
    assert!(
        matches!(next(&mut events).await?, RecordEvent::Deleted(name, ..) if name.as_str() == "jobs/a")
    );
    let ours = Store::put(locks.name("leasehold/layout")?, b"9".to_vec());
    let error = records(&engine)?.store(ours).await.expect_err("it is ours");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let _ = records(&engine)?.store(Store::delete(name)).await?;
    assert_eq!(get("shop/price")?, "");
    guard.release().await?;
    Ok(())
}
