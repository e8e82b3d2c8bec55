//! Against a real server.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::Etcd;
use super::keys::EtcdKeys;
use super::proto::TxnRequest;
use super::server::EtcdTestServer;
use super::txn;
use crate::claim::{
    Claim, Ending, LeaseId, Mode, Owner, Stance, Store, Ticket, Verdict, Wake, Wants,
};
use crate::clock::{Clock, Moment};
use crate::engine::{Engine, Event, Eviction, Page, Scope, Selector, Status, Target};
use crate::engines::consensus::{
    self, Departure, Ensemble, Entered, If, Joined, KeyChange, Metadata, Newcomer, QueueEntry,
    QueueId, QueuePart, Session, TxnStep, ValueLife, ValueNews,
};
use crate::error::{Effect, ErrorKind, Result};
use crate::mutant::{Mutant, each_is_found};
use crate::name::{Name, Namespace};

const TTL: Duration = Duration::from_secs(10);
const NONE: Duration = Duration::ZERO;

fn name(text: &str) -> Name {
    Name::new(&Namespace::default(), text).unwrap()
}

fn queue(text: &str) -> QueueId {
    QueueId { name: name(text), part: QueuePart::Queue }
}

fn all_below(path: &str) -> Scope {
    Scope::below(&Namespace::default(), path, usize::MAX)
}

fn newcomer(mode: Mode) -> Newcomer {
    let metadata = Metadata { label: "somebody".into(), mode: Some(mode), ..Metadata::default() };
    Newcomer {
        id: LeaseId::random(),
        mode,
        metadata,
        only_if_empty: false,
        again: false,
        wants: Wants::Lease,
        candidate: false,
    }
}

async fn joined(etcd: &Arc<Etcd>, line: &QueueId, newcomer: &Newcomer) -> Joined {
    let session = etcd.session(TTL, NONE).await.unwrap();
    let Entered(found) = etcd.join(session, line.clone(), newcomer.clone()).await.unwrap();
    found.await.unwrap()
}

async fn entry(etcd: &Arc<Etcd>, line: &QueueId, mode: Mode) -> QueueEntry {
    joined(etcd, line, &newcomer(mode)).await.mine.remove(0)
}

fn remove(entry: &QueueEntry) -> Vec<TxnStep> {
    let (key, fence) = (Arc::clone(&entry.key), entry.fence.unwrap());
    vec![TxnStep::Remove { key, fence, departure: Departure::Early(entry.behind.clone()) }]
}

/// A limit for what is bound to happen.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    let clock = Clock::System;
    tokio::select! {
        done = what => done,
        () = clock.sleep_until(clock.now().after(Duration::from_secs(60))) => panic!("it never came"),
    }
}

#[tokio::test]
async fn a_session_is_shared_kept_and_proven() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    assert!(etcd.profile.limits.ttl_min >= Duration::from_secs(1));
    let session = etcd.session(TTL, NONE).await.unwrap();
    assert_eq!(session.ttl(), TTL);
    let like = etcd.session(TTL + Duration::from_millis(900), NONE).await.unwrap();
    assert_eq!(session.id(), like.id(), "whole seconds, and not more than asked");
    let other = etcd.session(2 * TTL, NONE).await.unwrap();
    assert_ne!(session.id(), other.id());
    let before = Clock::System.now();
    etcd.prove(Arc::clone(&session)).await.unwrap();
    assert!(session.proven() >= before);
    let short = etcd.session(etcd.profile.limits.ttl_min, NONE).await.unwrap();
    let first = short.deadline();
    soon(async {
        while short.deadline() == first {
            Clock::System.sleep_until(Clock::System.now().after(Duration::from_millis(50))).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_session_with_a_delay_is_kept_for_longer_than_it_is_good() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let plain = etcd.session(TTL, NONE).await.unwrap();
    let delayed = etcd.session(TTL, Duration::from_millis(4100)).await.unwrap();
    assert_ne!(plain.id(), delayed.id());
    assert_eq!((delayed.ttl(), delayed.delay()), (TTL, Duration::from_secs(5)));
    let told = server.ctl(&["lease", "timetolive", &format!("{:x}", delayed.id())]);
    assert!(told.contains("granted with TTL(15s)"), "{told}");
    etcd.prove(Arc::clone(&delayed)).await.unwrap();
    assert_eq!(delayed.ttl(), TTL, "an answer says how long the servers keep it");
}

#[tokio::test]
async fn a_revoked_lease_ends_its_session_and_the_next_one_is_new() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let mut events = etcd.bus().subscribe();
    let session = etcd.session(TTL, NONE).await.unwrap();
    server.ctl(&["lease", "revoke", &format!("{:x}", session.id())]);
    let lost = etcd.join(Arc::clone(&session), queue("a"), newcomer(Mode::Exclusive)).await;
    assert_eq!(lost.err().unwrap().kind(), ErrorKind::Unavailable);
    assert!(session.is_over());
    assert!(matches!(soon(events.next()).await, Some(Event::Disconnected)));
    let again = etcd.session(TTL, NONE).await.unwrap();
    assert_ne!(again.id(), session.id());
    assert!(matches!(soon(events.next()).await, Some(Event::Reconnected)));
    server.ctl(&["lease", "revoke", &format!("{:x}", again.id())]);
    etcd.prove(Arc::clone(&again)).await.unwrap_err();
    assert!(again.is_over(), "a renewal finds out as well");
}

#[tokio::test]
async fn those_who_join_stand_in_the_order_of_coming() {
    let server = EtcdTestServer::start();
    let (here, there) = (server.client("").await, server.client("").await);
    let line = queue("order/42");
    let first = newcomer(Mode::Exclusive);
    let mine = joined(&here, &line, &first).await;
    assert_eq!((mine.line.len(), mine.mine.len(), mine.stranger), (1, 1, None));
    assert_eq!(mine.line[0], mine.mine[0]);
    assert_eq!(mine.mine[0].id, Some(first.id));
    let again = joined(&here, &line, &Newcomer { again: true, ..first.clone() }).await;
    assert_eq!(again.mine, mine.mine, "a repeated request finds what the first left");
    let second = joined(&there, &line, &newcomer(Mode::Exclusive)).await;
    assert_eq!(second.line.len(), 2);
    assert_eq!(second.line[0].key, mine.mine[0].key);
    assert_eq!(&*second.line[0].metadata.as_ref().unwrap().label, "somebody");
    assert!(second.mine[0].fence > mine.mine[0].fence);
    let all = there.list(line, None).await.unwrap();
    assert!(all.iter().map(|entry| &entry.key).eq(second.line.iter().map(|entry| &entry.key)));
}

#[tokio::test]
async fn whoever_only_tries_leaves_nothing_in_a_busy_line() {
    let server = EtcdTestServer::start();
    for options in ["", "names=raw"] {
        let etcd = server.client(options).await;
        let eager = |id| Newcomer { id, only_if_empty: true, ..newcomer(Mode::Exclusive) };
        let nested = joined(&etcd, &queue("a/b"), &eager(LeaseId::random())).await;
        assert_eq!(nested.mine.len(), 1);
        let outer = joined(&etcd, &queue("a"), &eager(LeaseId::random())).await;
        assert_eq!(outer.mine.len(), 1, "a name below it is not in its line");
        let refused = joined(&etcd, &queue("a"), &eager(LeaseId::random())).await;
        assert_eq!((refused.mine.len(), refused.line.len()), (0, 1));
        etcd.close().await.unwrap();
    }
}

/// The claim and the record are one request; and a record will do.
#[tokio::test]
async fn a_newcomer_reads_the_value_and_may_be_content_with_it() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let ask = |wants, only_if_empty| Newcomer { wants, only_if_empty, ..newcomer(Mode::Exclusive) };
    for only_if_empty in [false, true] {
        let line = queue(&format!("n{only_if_empty}"));
        let first = joined(&etcd, &line, &ask(Wants::RecordOrLease, only_if_empty)).await;
        assert_eq!((first.mine.len(), first.value), (1, Some(None)));
        etcd.change(remove(&first.mine[0])).await.unwrap();
        let put = Some(b"done".to_vec());
        etcd.store(line.name.clone(), If::Any, put, ValueLife::Forever, None).await.unwrap();
        let content = joined(&etcd, &line, &ask(Wants::RecordOrLease, only_if_empty)).await;
        assert_eq!(content.value.flatten().unwrap().bytes, b"done");
        assert!(content.mine.is_empty() && etcd.list(line.clone(), None).await.unwrap().is_empty());
        let both = joined(&etcd, &line, &ask(Wants::LeaseAndRecord, only_if_empty)).await;
        assert_eq!(both.mine.len(), 1);
        assert_eq!(both.value.flatten().unwrap().bytes, b"done");
        // A repeated request finds what the first one left, whatever it wants.
        let again = Newcomer {
            again: true,
            id: both.mine[0].id.unwrap(),
            ..ask(Wants::RecordOrLease, only_if_empty)
        };
        assert_eq!(joined(&etcd, &line, &again).await.mine, both.mine);
    }
}

#[tokio::test]
async fn a_long_line_is_told_by_its_head_and_the_one_before_mine() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let line = queue("long");
    let mut all = Vec::new();
    for _ in 0..120 {
        all.push(entry(&etcd, &line, Mode::Exclusive).await);
    }
    let last = joined(&etcd, &line, &newcomer(Mode::Exclusive)).await;
    let told: Vec<_> = last.line.iter().map(|entry| &entry.key).collect();
    assert_eq!(told, [&all[0].key, &all[119].key, &last.mine[0].key]);
    let reader = joined(&etcd, &queue("long"), &newcomer(Mode::Read)).await;
    assert_eq!(reader.line.len(), 122, "whoever waits for many is told all");
    assert_eq!(etcd.list(line, Some(all[119].clone())).await.unwrap().last(), Some(&all[119]));
}

#[tokio::test]
async fn a_watched_entry_tells_its_end_and_what_is_written_over_it() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let line = queue("w");
    let first = entry(&etcd, &line, Mode::Exclusive).await;
    let watched = etcd.watch(Arc::clone(&first.key)).await.unwrap().unwrap();
    assert_eq!(&*Metadata::read(&watched.bytes).label, "somebody");
    let dropped = etcd.watch(Arc::clone(&first.key)).await.unwrap().unwrap();
    drop(dropped);
    let changed = etcd.change(remove(&first)).await.unwrap().unwrap();
    assert!(changed > first.fence.unwrap());
    assert_eq!(soon(watched.change).await, KeyChange::Gone);
    assert!(etcd.watch(Arc::clone(&first.key)).await.unwrap().is_none());
    assert_eq!(etcd.change(remove(&first)).await.unwrap(), None, "nothing is there to remove");

    let second = entry(&etcd, &line, Mode::Exclusive).await;
    let watched = etcd.watch(Arc::clone(&second.key)).await.unwrap().unwrap();
    server.ctl(&["put", &second.key, "let go"]);
    assert_eq!(soon(watched.change).await, KeyChange::Written(b"let go".to_vec()));
    let seen = etcd.look(vec![Arc::clone(&second.key), first.key]).await.unwrap();
    assert_eq!(
        seen[0].as_ref().map(|(metadata, fence)| (&*metadata.label, *fence)),
        Some(("let go", second.fence.unwrap()))
    );
    assert!(seen[1].is_none());
}

#[tokio::test]
async fn a_watch_of_forgotten_history_is_in_doubt() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let mine = entry(&etcd, &queue("h"), Mode::Exclusive).await;
    let other = etcd.watch(Arc::clone(&mine.key)).await.unwrap().unwrap();
    // What comes over the same stream later shows that the first watch stands.
    let sign = etcd.watch_line(queue("sign")).await.unwrap();
    let last = entry(&etcd, &queue("sign"), Mode::Exclusive).await;
    soon(sign.change).await;
    server.ctl(&["compact", &last.order.to_string()]);
    let mut late = etcd.watches.watch("x", Vec::new(), mine.order);
    assert_eq!(soon(late.next()).await, None);
    etcd.change(remove(&mine)).await.unwrap();
    assert_eq!(soon(other.change).await, KeyChange::Gone, "others go on");
}

#[tokio::test]
async fn a_line_tells_of_its_next_change() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let line = QueueId { name: name("p"), part: QueuePart::Permits };
    let watched = etcd.watch_line(line.clone()).await.unwrap();
    assert!(watched.line.is_empty());
    let permits = Mode::Permits { take: 2, of: 3 };
    let mine = entry(&etcd, &line, permits).await;
    assert_eq!(mine.mode, permits);
    soon(watched.change).await;
    let watched = etcd.watch_line(line).await.unwrap();
    assert_eq!(watched.line, std::slice::from_ref(&mine));
    etcd.change(remove(&mine)).await.unwrap();
    soon(watched.change).await;
}

#[tokio::test]
async fn another_kind_on_a_name_is_seen() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let permits = Mode::Permits { take: 1, of: 3 };
    let door = |text| QueueId { name: name(text), part: QueuePart::Door };
    let held = QueueId { name: name("a"), part: QueuePart::Permits };
    joined(&etcd, &held, &newcomer(permits)).await;
    assert_eq!(joined(&etcd, &queue("a"), &newcomer(Mode::Write)).await.stranger, Some(permits));
    joined(&etcd, &queue("b"), &newcomer(Mode::Write)).await;
    assert_eq!(
        joined(&etcd, &door("b"), &newcomer(Mode::Exclusive)).await.stranger,
        Some(Mode::Write)
    );
    assert_eq!(joined(&etcd, &door("c"), &newcomer(Mode::Exclusive)).await.stranger, None);
}

#[tokio::test]
async fn a_writer_becomes_a_reader_in_its_place() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let line = queue("rw");
    let session = etcd.session(TTL, NONE).await.unwrap();
    let writer = entry(&etcd, &line, Mode::Write).await;
    let reader = etcd.downgrade(Arc::clone(&session), writer.clone()).await.unwrap().unwrap();
    assert_eq!((reader.mode, reader.fence, &reader.key), (Mode::Read, writer.fence, &writer.key));
    assert_eq!(etcd.list(line, None).await.unwrap(), std::slice::from_ref(&reader));
    etcd.change(remove(&reader)).await.unwrap().unwrap();
    assert!(etcd.downgrade(session, writer).await.unwrap().is_none());
}

#[tokio::test]
async fn what_was_withdrawn_cannot_come_late() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let (line, late) = (queue("late"), newcomer(Mode::Exclusive));
    joined(&etcd, &line, &late).await;
    let elsewhere = server.client("").await;
    assert!(
        elsewhere.withdraw(line.clone(), (late.id, late.mode), None).await.unwrap(),
        "by its id alone"
    );
    let session = etcd.session(TTL, NONE).await.unwrap();
    let refused = etcd.join(session, line.clone(), late.clone()).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::NotHeld);
    assert!(!etcd.withdraw(line.clone(), (late.id, late.mode), None).await.unwrap());
    assert!(etcd.list(line, None).await.unwrap().is_empty());
}

#[tokio::test]
async fn etcdctl_and_we_share_a_raw_name() {
    let server = EtcdTestServer::start();
    let etcd = server.client("names=raw").await;
    let line = queue("shared/lock");
    let lease = server.ctl(&["lease", "grant", "60"]);
    let lease = lease.split_whitespace().nth(1).unwrap();
    server.ctl(&["put", "--lease", lease, &format!("shared/lock/{lease}"), ""]);
    let mine = joined(&etcd, &line, &newcomer(Mode::Exclusive)).await;
    assert_eq!(mine.line.len(), 2);
    assert_eq!((mine.line[0].id, mine.line[0].mode), (None, Mode::Exclusive));
    assert_eq!(&*mine.line[0].metadata.as_ref().unwrap().label, format!("lease {lease}"));
    let watched = etcd.watch(Arc::clone(&mine.line[0].key)).await.unwrap().unwrap();
    server.ctl(&["lease", "revoke", lease]);
    assert_eq!(soon(watched.change).await, KeyChange::Gone);
}

async fn put(
    etcd: &Arc<Etcd>,
    text: &str,
    condition: If,
    value: &[u8],
    life: ValueLife,
) -> Result<Option<u64>> {
    etcd.store(name(text), condition, Some(value.to_vec()), life, None).await
}

#[tokio::test]
async fn values_are_written_under_conditions() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let first = put(&etcd, "v", If::Absent, b"1", ValueLife::Forever).await.unwrap().unwrap();
    assert_eq!(put(&etcd, "v", If::Absent, b"2", ValueLife::Forever).await.unwrap(), None);
    let value = etcd.load(name("v")).await.unwrap().unwrap();
    assert_eq!((value.version, value.bytes.as_slice()), (first, b"1".as_slice()));
    let second = put(&etcd, "v", If::Stamp(value.stamp), b"2", ValueLife::Forever).await.unwrap();
    assert!(second.unwrap() > first);
    assert_eq!(
        put(&etcd, "v", If::Stamp(value.stamp), b"3", ValueLife::Forever).await.unwrap(),
        None
    );
    let held = entry(&etcd, &queue("v"), Mode::Exclusive).await;
    let there = Some((Arc::clone(&held.key), held.fence.unwrap()));
    let store = |there| etcd.store(name("v"), If::Any, None, ValueLife::Forever, there);
    assert!(store(Some((held.key, 1))).await.unwrap().is_none());
    assert!(store(there).await.unwrap().is_some());
    assert_eq!(etcd.load(name("v")).await.unwrap(), None);
    let large =
        put(&etcd, "v", If::Any, &vec![0; 2_000_000], ValueLife::Forever).await.unwrap_err();
    assert_eq!(large.kind(), ErrorKind::Invalid, "{large}");
}

#[tokio::test]
async fn values_end_with_their_time_or_their_session() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let mut news = etcd.follow(Namespace::default(), "").await.unwrap();
    let session = etcd.session(TTL, NONE).await.unwrap();
    put(&etcd, "bound", If::Any, b"", ValueLife::Session(Arc::clone(&session))).await.unwrap();
    put(&etcd, "timed", If::Any, b"1", ValueLife::For(Duration::from_millis(1500))).await.unwrap();
    put(&etcd, "timed", If::Any, b"2", ValueLife::Keep).await.unwrap();
    server.ctl(&["lease", "revoke", &format!("{:x}", session.id())]);
    let mut last = 0;
    for expected in ["bound", "timed", "timed"] {
        let Some(ValueNews::Put(name, put)) = soon(news.recv()).await else { panic!("{expected}") };
        assert_eq!((name.as_str(), put.version > last), (expected, true));
        last = put.version;
    }
    for expected in ["bound", "timed"] {
        let Some(ValueNews::Gone(name, end)) = soon(news.recv()).await else {
            panic!("{expected}")
        };
        assert_eq!((name.as_str(), end > last), (expected, true));
        last = end;
    }
    put(&etcd, "timed", If::Stamp(1), b"", ValueLife::For(TTL)).await.unwrap();
    assert_eq!(server.ctl(&["lease", "list"]).trim(), "found 0 leases", "none is left over");
    let life = ValueLife::Session(Arc::clone(&session));
    put(&etcd, "bound", If::Any, b"", life).await.unwrap_err();
    assert!(session.is_over());
    etcd.close().await.unwrap();
    assert_eq!(soon(news.recv()).await, None);
}

#[tokio::test]
async fn values_are_listed_in_pages() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    for at in 0..70 {
        put(&etcd, &format!("x/{at:03}"), If::Any, b"v", ValueLife::Forever).await.unwrap();
    }
    put(&etcd, "y", If::Any, b"v", ValueLife::Forever).await.unwrap();
    let scan = |from: &str, most| etcd.scan(all_below("x/"), from.into(), most);
    let (page, more) = scan("", 50).await.unwrap();
    assert_eq!((page.len(), page[49].0.as_str(), more), (50, "x/049", true));
    let (page, more) = scan("x/050", 50).await.unwrap();
    assert_eq!((page.len(), page[0].0.as_str(), more), (20, "x/050", false));
}

#[tokio::test]
async fn names_are_listed_in_their_order() {
    let server = EtcdTestServer::start();
    for options in ["", "names=raw"] {
        let etcd = server.client(options).await;
        let texts = ["a", "a!", "a/b", "a/é", "b"];
        for text in texts {
            joined(&etcd, &queue(text), &newcomer(Mode::Exclusive)).await;
            joined(&etcd, &queue(text), &newcomer(Mode::Exclusive)).await;
        }
        let names = |prefix: &str, after, most| {
            etcd.names(Namespace::default(), prefix.into(), after, most)
        };
        assert_eq!(
            names("", None, 10).await.unwrap(),
            (texts.map(name).to_vec(), false),
            "{options}"
        );
        assert_eq!(names("a", Some(name("a!")), 1).await.unwrap(), (vec![name("a/b")], true));
        etcd.close().await.unwrap();
    }
}

/// Makes claims by nobody on these names, many at a time.
async fn make_claims(etcd: &Etcd, texts: impl IntoIterator<Item = String>) {
    let texts: Vec<_> = texts.into_iter().collect();
    for some in texts.chunks(100) {
        let put = |text: &String| {
            let base = etcd.keys.base(&name(text)).unwrap();
            let own = EtcdKeys::own(&base, 1, LeaseId::random(), Mode::Exclusive);
            txn::put(&own, Vec::new(), 0)
        };
        let request =
            TxnRequest { success: some.iter().map(put).collect(), ..TxnRequest::default() };
        etcd.link.ask(request, etcd.link.deadline()).await.unwrap();
    }
}

/// A walk through all names below `n/` after one, and the most requests of a page.
async fn walked(
    server: &EtcdTestServer,
    engine: &Arc<dyn Engine>,
    after: Option<Name>,
) -> (Vec<Status>, u64) {
    let (mut seen, mut most, mut page) = (Vec::new(), 0, Page { after, ..Page::default() });
    loop {
        let before = server.answered();
        let below = Selector::Prefix(Namespace::default(), "n/".into());
        let found = engine.inspect(below, page).await.unwrap();
        most = most.max(server.answered() - before);
        let last = found.names.last().map(|status| status.name.clone());
        seen.extend(found.names);
        if !found.more {
            return (seen, most);
        }
        page = Page::after(last.unwrap());
    }
}

#[tokio::test]
async fn a_page_of_names_takes_a_few_requests_however_many_there_are() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let engine = consensus::engine(Arc::clone(&etcd), Clock::System);
    let numbered = |n: usize| format!("n/{n:06}");
    make_claims(&etcd, (0..1000).map(numbered)).await;
    make_claims(&etcd, (0..500).map(|_| numbered(500))).await;
    let (seen, few) = walked(&server, &engine, None).await;
    let texts: Vec<_> = seen.iter().map(|status| status.name.as_str()).collect();
    assert_eq!(texts, (0..1000).map(numbered).collect::<Vec<_>>());
    assert_eq!((seen[500].waiters.len(), seen[501].waiters.len()), (500, 0));
    assert!(few <= 8, "a page took {few} requests");
    make_claims(&etcd, (1000..9000).map(numbered)).await;
    let (seen, many) = walked(&server, &engine, Some(name(&numbered(499)))).await;
    assert_eq!(seen.len(), 8500);
    assert!(many <= 8, "a page took {many} requests, {few} when there were fewer");
}

#[tokio::test]
async fn a_page_of_values_asks_for_no_more_than_it_needs_however_many_there_are() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let numbered = |n: usize| format!("v/{n:06}");
    for some in (0..5000).collect::<Vec<_>>().chunks(100) {
        let put =
            |n: &usize| txn::put(&etcd.keys.record(&name(&numbered(*n))).unwrap(), Vec::new(), 0);
        let request =
            TxnRequest { success: some.iter().map(put).collect(), ..TxnRequest::default() };
        etcd.link.ask(request, etcd.link.deadline()).await.unwrap();
    }
    let (mut seen, mut from) = (Vec::new(), String::new());
    loop {
        let before = server.answered();
        let page = etcd.scan(all_below("v/"), from.into(), 100);
        let (page, more) = page.await.unwrap();
        let asked = server.answered() - before;
        assert!(asked <= 8, "{asked} requests for a page after {} values", seen.len());
        seen.extend(page.into_iter().map(|(name, _)| name.as_str().to_owned()));
        if !more {
            break;
        }
        from = format!("{}\0", seen[seen.len() - 1]);
    }
    assert_eq!(seen, (0..5000).map(numbered).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_server_that_comes_back_finds_everything_as_it_was() {
    let mut server = EtcdTestServer::start();
    let etcd = server.client("timeout=1s").await;
    let mut events = etcd.bus().subscribe();
    let line = queue("r");
    let mine = entry(&etcd, &line, Mode::Exclusive).await;
    let session: Arc<Session> = etcd.session(TTL, NONE).await.unwrap();
    let watched = etcd.watch(Arc::clone(&mine.key)).await.unwrap().unwrap();
    server.stop();
    assert_eq!(soon(watched.change).await, KeyChange::Doubt);
    assert!(matches!(soon(events.next()).await, Some(Event::Suspended)));
    let away = etcd.list(line.clone(), None).await.unwrap_err();
    assert_eq!(away.kind(), ErrorKind::Unavailable);
    server.start_again();
    assert!(matches!(soon(events.next()).await, Some(Event::Reconnected)));
    soon(async { while etcd.prove(Arc::clone(&session)).await.is_err() {} }).await;
    assert_eq!(etcd.list(line, None).await.unwrap(), [mine]);
}

#[tokio::test]
async fn a_client_that_leaves_takes_everything_with_it() {
    let server = EtcdTestServer::start();
    let (here, there) = (server.client("").await, server.client("").await);
    let mine = entry(&here, &queue("c"), Mode::Exclusive).await;
    let watched = there.watch(mine.key).await.unwrap().unwrap();
    here.close().await.unwrap();
    assert_eq!(soon(watched.change).await, KeyChange::Gone);
}

#[tokio::test]
async fn users_prove_who_they_are() {
    let server = EtcdTestServer::start();
    server.client("").await;
    server.ctl(&["user", "add", "root:secret"]);
    server.ctl(&["user", "grant-role", "root", "root"]);
    let early = server.client_as("root:secret@", "").await.unwrap();
    server.ctl(&["auth", "enable"]);
    let etcd = server.client_as("root:secret@", "").await.unwrap();
    let mine = entry(&etcd, &queue("u"), Mode::Exclusive).await;
    let watched = etcd.watch(Arc::clone(&mine.key)).await.unwrap().unwrap();
    early.change(remove(&mine)).await.expect("a token is asked for once it is needed");
    assert_eq!(soon(watched.change).await, KeyChange::Gone);
    for wrong in ["", "root:wrong@"] {
        let error = server.client_as(wrong, "").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(!error.to_string().contains("wrong"), "{error}");
    }
}

#[tokio::test]
async fn the_doctor_knows_the_server() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let findings = etcd.examine().await.unwrap();
    let says = |text: &str| findings.iter().any(|finding| finding.message.contains(text));
    assert!(says("one endpoint") && says("asks nobody"), "{findings:?}");
    assert!(!says("knows no leader") && !says("full"), "{findings:?}");
}

/// A server that keeps sessions for less greets us between the look at the
/// session and the answer.
#[tokio::test]
async fn a_session_cut_short_while_a_record_is_read_shortens_the_grant() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let engine = consensus::engine(Arc::clone(&etcd), Clock::System);
    let ticket = Ticket::new(name("n"), Mode::Exclusive);
    let mut claim = Claim::new(ticket, Owner::new("me"), TTL);
    claim.wants = Wants::LeaseAndRecord;
    assert!(matches!(engine.acquire(claim.clone()).await, Ok(Verdict::Granted(_))));
    let session = etcd.session(TTL, NONE).await.unwrap();
    let mut again = engine.acquire(claim);
    let asked = std::future::poll_fn(|context| Poll::Ready(again.as_mut().poll(context))).await;
    assert!(asked.is_pending(), "the record has to be read");
    session.retime(TTL / 5, Clock::System.now());
    let Ok(Verdict::Granted(grant)) = again.await else { panic!("it is ours") };
    assert!(grant.sent_at.after(grant.ttl) <= session.deadline(), "{grant:?}");
}

/// What one entry is told of its line: whom it stands behind, and itself.
async fn told(etcd: &Arc<Etcd>, line: &QueueId, mine: &mut QueueEntry) -> Option<Arc<str>> {
    let found = etcd.list(line.clone(), Some(mine.clone())).await.unwrap();
    let at = found.iter().position(|entry| entry.key == mine.key).expect("it is in line");
    mine.behind.clone_from(&found[at].behind);
    (at > 0).then(|| Arc::clone(&found[at - 1].key))
}

async fn leave(etcd: &Arc<Etcd>, entry: QueueEntry, departure: Departure) {
    let (key, fence) = (entry.key, entry.fence.unwrap());
    let step = TxnStep::Remove { key, fence, departure };
    etcd.change(vec![step]).await.unwrap().expect("it was there");
}

/// Whoever leaves from the front, and had not waited for it.
const FRONT: Departure = Departure::Front { waited: false };

fn early(entry: &QueueEntry) -> Departure {
    Departure::Early(entry.behind.clone())
}

fn keys_left(server: &EtcdTestServer) -> String {
    server.ctl(&["get", "--prefix", "leasehold/default/", "--keys-only"])
}

#[tokio::test]
async fn whoever_stood_behind_one_that_left_early_stands_behind_the_one_before_it() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let line = queue("early");
    let first = entry(&etcd, &line, Mode::Exclusive).await;
    let second = entry(&etcd, &line, Mode::Exclusive).await;
    let mut third = entry(&etcd, &line, Mode::Exclusive).await;
    leave(&etcd, second.clone(), early(&second)).await;
    assert_eq!(told(&etcd, &line, &mut third).await.as_ref(), Some(&first.key));
    // The last of the line leaves early: who comes next stands where it stood.
    leave(&etcd, third.clone(), early(&third)).await;
    let mut fourth = entry(&etcd, &line, Mode::Exclusive).await;
    assert_eq!(told(&etcd, &line, &mut fourth).await.as_ref(), Some(&first.key));
    leave(&etcd, first, FRONT).await;
    assert_eq!(told(&etcd, &line, &mut fourth).await, None);
    leave(&etcd, fourth, FRONT).await;
    assert_eq!(keys_left(&server).trim(), "", "nothing is left of the line");
}

/// A tail goes with the lease of the last: that it is missing means nothing.
#[tokio::test]
async fn a_tail_that_went_with_its_lease_hides_nobody() {
    let server = EtcdTestServer::start();
    let (here, there) = (server.client("").await, server.client("").await);
    let line = queue("tail");
    let first = entry(&here, &line, Mode::Exclusive).await;
    let mut second = entry(&here, &line, Mode::Exclusive).await;
    entry(&there, &line, Mode::Exclusive).await;
    there.close().await.unwrap();
    let mut last = entry(&here, &line, Mode::Exclusive).await;
    assert_eq!(told(&here, &line, &mut last).await.as_ref(), Some(&second.key));
    leave(&here, first, FRONT).await;
    assert_eq!(told(&here, &line, &mut last).await.as_ref(), Some(&second.key));
    assert_eq!(told(&here, &line, &mut second).await, None);
    leave(&here, second, FRONT).await;
    leave(&here, last, FRONT).await;
    assert_eq!(keys_left(&server).trim(), "");
}

/// Somebody removes a holder by hand, and the servers forget what was.
#[tokio::test]
async fn without_marks_and_history_the_line_is_listed() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let line = queue("bare");
    let first = entry(&etcd, &line, Mode::Exclusive).await;
    let second = entry(&etcd, &line, Mode::Exclusive).await;
    let mut third = entry(&etcd, &line, Mode::Exclusive).await;
    server.ctl(&["del", &second.key]);
    let sign = entry(&etcd, &queue("sign"), Mode::Exclusive).await;
    server.ctl(&["compact", &sign.order.to_string()]);
    assert_eq!(told(&etcd, &line, &mut third).await.as_ref(), Some(&first.key));
    server.ctl(&["del", &first.key]);
    assert_eq!(told(&etcd, &line, &mut third).await, None);
    let gone = vec![TxnStep::Remove {
        key: Arc::clone(&third.key),
        fence: third.fence.unwrap(),
        departure: early(&third),
    }];
    server.ctl(&["del", &third.key]);
    assert_eq!(etcd.change(gone).await.unwrap(), None);
    leave(&etcd, sign, FRONT).await;
    assert!(!keys_left(&server).contains("tail"), "its tail goes as well");
    // That the holder held may have been noted before it was removed: for as long as
    // its lease lives.
    etcd.close().await.unwrap();
    assert_eq!(keys_left(&server).trim(), "");
}

/// Many lives of a line: each entry is told what a list of all would tell it.
#[tokio::test]
async fn marks_tell_what_a_list_would() {
    let server = EtcdTestServer::start();
    let line = queue("lives");
    let watcher = server.client("").await;
    let mut clients = [server.client("").await, server.client("").await];
    let mut alive: Vec<(usize, QueueEntry)> = Vec::new();
    let mut chance: u64 = 0x2545_f491_4f6c_dd1d;
    let mut draw = |of: usize| {
        chance =
            chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(chance >> 33).unwrap() % of
    };
    for step in 0..250 {
        let who = draw(clients.len());
        match draw(20) {
            0..9 => alive.push((who, entry(&clients[who], &line, Mode::Exclusive).await)),
            9..13 if !alive.is_empty() => {
                let (who, first) = alive.remove(0);
                leave(&clients[who], first, FRONT).await;
            }
            13..17 if alive.len() > 1 => {
                let at = 1 + draw(alive.len() - 1);
                let (who, leaver) = alive.remove(at);
                let departure = if draw(4) == 0 { Departure::Early(None) } else { early(&leaver) };
                leave(&clients[who], leaver, departure).await;
            }
            17 if !alive.is_empty() => {
                let (_, removed) = alive.remove(draw(alive.len()));
                server.ctl(&["del", &removed.key]);
            }
            18 if draw(3) == 0 => {
                clients[who].close().await.unwrap();
                clients[who] = server.client("").await;
                alive.retain(|(of, _)| *of != who);
            }
            19 if draw(4) == 0 => {
                let sign = put(&watcher, "sign", If::Any, b"", ValueLife::Forever).await.unwrap();
                server.ctl(&["compact", &sign.unwrap().to_string()]);
            }
            _ => {}
        }
        let all = watcher.list(line.clone(), None).await.unwrap();
        assert!(all.iter().map(|it| &it.key).eq(alive.iter().map(|(_, it)| &it.key)), "{step}");
        // Not all of them look each time, as in life.
        for at in 0..alive.len() {
            if draw(3) == 0 {
                let before = at.checked_sub(1).map(|before| Arc::clone(&alive[before].1.key));
                let (who, mine) = &mut alive[at];
                assert_eq!(told(&clients[*who], &line, mine).await, before, "{step}: {at}");
            }
        }
    }
    for (who, entry) in alive {
        leave(&clients[who], entry, FRONT).await;
    }
    let left = keys_left(&server);
    assert!(left.split_whitespace().all(|key| key.ends_with("/sign")), "{left}");
}

#[test]
fn marks_that_tell_something_else_are_found() {
    each_is_found(
        &[
            Mutant::ArrivalsWriteTheFront,
            Mutant::EarlyLeaversWriteTheFront,
            Mutant::NoFrontIsMyTurn,
            Mutant::NoHistoryIsMyTurn,
            Mutant::TailStays,
            Mutant::TailGivenBackByAll,
        ],
        marks_tell_what_a_list_would,
    );
    let kinds = whoever_goes_by_the_tail_hears_of_another_kind;
    each_is_found(&[Mutant::TailLeadsPastOthers], kinds);
    let handed_over = a_line_without_a_tail_is_handed_over_by_its_front;
    each_is_found(&[Mutant::NobodyWritesTheFront], handed_over);
}

/// A front that was made after all who wait is the youngest key below the line's
/// prefix, and stands before nobody.
#[tokio::test]
async fn whoever_joins_a_long_line_without_a_tail_stands_behind_its_last() {
    let server = EtcdTestServer::start();
    let (etcd, guest) = (server.client("").await, server.client("").await);
    let line = queue("long");
    let mut alive = Vec::new();
    for _ in 0..130 {
        alive.push(entry(&etcd, &line, Mode::Exclusive).await);
    }
    entry(&guest, &line, Mode::Exclusive).await;
    // As if it had gone with the lease of who wrote it.
    server.ctl(&["del", "leasehold/default/locks/long/locks/~/front"]);
    leave(&etcd, alive.remove(0), FRONT).await;
    // The tail goes with the last one's lease.
    guest.close().await.unwrap();
    let mut late = entry(&etcd, &line, Mode::Exclusive).await;
    for first in alive {
        let (before, gone) = (told(&etcd, &line, &mut late).await, Arc::clone(&first.key));
        assert!(before.is_some(), "it holds beside {gone}");
        leave(&etcd, first, Departure::Front { waited: true }).await;
    }
    assert_eq!(told(&etcd, &line, &mut late).await, None);
    leave(&etcd, late, FRONT).await;
    assert_eq!(keys_left(&server).trim(), "");
}

/// Whether an entry of the line is told of another kind, as it joins or as it looks.
async fn hears_of(etcd: &Arc<Etcd>, line: &QueueId, mode: Mode, other: Mode) -> bool {
    let joined = joined(etcd, line, &newcomer(mode)).await;
    let seen = joined.line.iter().any(|entry| entry.mode == other);
    let seen = seen || joined.stranger.is_some();
    let mine = joined.mine.into_iter().next().expect("it has joined");
    leave(etcd, mine.clone(), early(&mine)).await;
    seen
}

/// A tail that leads past those of another kind would let who goes by it in beside
/// them.
#[tokio::test]
async fn whoever_goes_by_the_tail_hears_of_another_kind() {
    let server = EtcdTestServer::start();
    let (etcd, guest) = (server.client("").await, server.client("").await);
    for (part, mode) in [
        (QueuePart::Queue, Mode::Read),
        (QueuePart::Queue, Mode::Write),
        (QueuePart::Permits, Mode::Permits { take: 1, of: 3 }),
        (QueuePart::Door, Mode::Exclusive),
    ] {
        let text = format!("kinds/{part:?}/{mode}");
        let line = queue(&text);
        let first = entry(&etcd, &line, Mode::Exclusive).await;
        let second = entry(&etcd, &line, Mode::Exclusive).await;
        let dead = entry(&guest, &line, Mode::Exclusive).await;
        let last = entry(&etcd, &line, Mode::Exclusive).await;
        // It puts the tail back for the one that dies.
        leave(&etcd, last.clone(), early(&last)).await;
        server.ctl(&["del", &dead.key]);
        leave(&etcd, first, FRONT).await;
        leave(&etcd, second, Departure::Front { waited: true }).await;
        let other = QueueId { part, ..line.clone() };
        let stranger = entry(&guest, &other, mode).await;
        for _ in 0..2 {
            assert!(hears_of(&etcd, &line, Mode::Exclusive, mode).await, "{text}");
        }
        let before = entry(&etcd, &line, Mode::Exclusive).await;
        let mut behind = entry(&etcd, &line, Mode::Exclusive).await;
        leave(&etcd, before.clone(), early(&before)).await;
        if part == QueuePart::Queue {
            let key = told(&etcd, &line, &mut behind).await;
            assert_eq!(key.as_ref(), Some(&stranger.key), "{text}");
        }
    }
}

/// However many go one after the other, each hand-over is told by the front, even
/// where the tail went with the last.
#[tokio::test]
async fn a_line_without_a_tail_is_handed_over_by_its_front() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let line = queue("drained");
    let mut alive = Vec::new();
    for _ in 0..20 {
        alive.push(entry(&etcd, &line, Mode::Exclusive).await);
    }
    server.ctl(&["del", "leasehold/default/locks/drained/locks/~/tail"]);
    while alive.len() > 1 {
        let first = alive.remove(0);
        let passed = (first.order + 1).to_string();
        leave(&etcd, first, Departure::Front { waited: true }).await;
        let front = server.ctl(&["get", "leasehold/default/locks/drained/locks/~/front"]);
        assert!(front.contains(&passed), "the next one has to look for it");
        assert_eq!(told(&etcd, &line, &mut alive[0]).await, None);
    }
    // Who comes next clears it away.
    leave(&etcd, alive.remove(0), Departure::Front { waited: true }).await;
    let next = entry(&etcd, &line, Mode::Exclusive).await;
    leave(&etcd, next, FRONT).await;
    assert_eq!(keys_left(&server).trim(), "");
}

/// As after every process that locks, works and exits: its front goes with its lease.
#[tokio::test]
async fn without_a_front_the_way_back_is_not_followed_far() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let line = queue("gone");
    let mut alive = Vec::new();
    for _ in 0..12 {
        alive.push(entry(&etcd, &line, Mode::Exclusive).await);
    }
    let mut last = alive.pop().unwrap();
    for first in alive {
        leave(&etcd, first, Departure::Front { waited: true }).await;
    }
    server.ctl(&["del", "leasehold/default/locks/gone/locks/~/front"]);
    let before = server.answered();
    assert_eq!(told(&etcd, &line, &mut last).await, None);
    let asked = server.answered() - before;
    // Two entries, the way between them, two looks; and a note of who holds at most.
    assert!(asked < 8, "{asked}");
}

/// Nothing but its first entries, which fit.
#[tokio::test]
async fn the_front_of_a_line_is_told_though_the_line_is_larger_than_an_answer() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let line = queue("large");
    let mut newcomer = newcomer(Mode::Exclusive);
    newcomer.metadata.label = "x".repeat(350_000).into();
    let mut alive = Vec::new();
    for _ in 0..140 {
        newcomer.id = LeaseId::random();
        alive.push(joined(&etcd, &line, &newcomer).await.mine.remove(0));
    }
    leave(&etcd, alive.remove(0), FRONT).await;
    server.ctl(&["del", "leasehold/default/locks/large/locks/~/front"]);
    assert_eq!(told(&etcd, &line, &mut alive[0]).await, None);
}

#[tokio::test]
async fn a_session_that_stands_in_line_is_granted_when_its_turn_comes() {
    let server = EtcdTestServer::start();
    let etcd = server.client("timeout=1s").await;
    let slots = etcd.link.all_slots();
    let others = async {
        for _ in 0..4 {
            Clock::System.sleep_until(Clock::System.now().after(Duration::from_millis(400))).await;
            etcd.link.one_is_served();
        }
        drop(slots);
    };
    let (session, ()) = tokio::join!(etcd.session(TTL, NONE), others);
    session.expect("it had no turn before");
}

#[tokio::test]
async fn a_request_that_has_no_time_left_says_nothing_of_the_servers() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let mut events = etcd.bus().subscribe();
    let past = Clock::System.now();
    let late = etcd.link.ask(txn::one("a"), past).await.unwrap_err();
    assert_eq!((late.kind(), late.effect()), (ErrorKind::Unavailable, Effect::NotApplied));
    etcd.close().await.unwrap();
    assert!(events.next().await.is_none(), "holders are told that the servers are away");
}

/// Who may not write the version of the layout leaves it to those who may.
#[tokio::test]
async fn a_fresh_root_is_open_to_those_who_may_not_write_its_layout() {
    let server = EtcdTestServer::start();
    server.client("root=elsewhere").await;
    server.turn_users_on(&["leasehold/default/", "leasehold/tombstones/"]);
    for options in ["", "names=raw"] {
        server.client_as("op:pw@", options).await.unwrap();
    }
    let etcd = server.client_as("op:pw@", "").await.unwrap();
    assert_eq!(entry(&etcd, &queue("n"), Mode::Exclusive).await.mode, Mode::Exclusive);
}

/// One of two has been evicted, and the other cannot be; the tombstone is up, and the
/// entry cannot be removed.
#[tokio::test]
async fn what_fails_after_a_write_is_unknown() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let held = entry(&etcd, &queue("held"), Mode::Read).await;
    entry(&etcd, &queue("held"), Mode::Read).await;
    let other = entry(&etcd, &queue("other"), Mode::Exclusive).await;
    server.turn_users_on(&[&held.key, "leasehold/tombstones/"]);
    let op = server.client_as("op:pw@", "").await.unwrap();
    let engine = consensus::engine(Arc::clone(&op), Clock::System);
    let eviction = Eviction::new(name("held"), Target::All, "ann", "stuck").unwrap();
    let error = engine.evict(eviction).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Denied, Effect::Unknown));
    let eviction = Eviction::new(name("other"), Target::All, "ann", "stuck").unwrap();
    let error = engine.evict(eviction).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Denied, Effect::NotApplied));
    let error =
        op.withdraw(queue("other"), (other.id.unwrap(), other.mode), None).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Denied, Effect::Unknown));
}

/// A value that is bound to a lease while that is released.
#[tokio::test]
async fn a_value_that_is_bound_in_the_last_moment_goes_with_the_lease() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let engine = consensus::engine(Arc::clone(&etcd), Clock::System);
    let mut bound = 0;
    for at in 0..50 {
        let ticket = Ticket::new(name("n"), Mode::Exclusive);
        let claim = Claim::new(ticket.clone(), Owner::new("me"), TTL);
        assert!(matches!(engine.acquire(claim).await, Ok(Verdict::Granted(_))));
        let value = name(&format!("value{at}"));
        let mut store = Store::put(value.clone(), b"v".to_vec());
        store.bound_to = Some(ticket.clone());
        let store = engine.records().unwrap().store(store);
        let (stored, released) = tokio::join!(store, engine.release(ticket, Ending::new()));
        released.unwrap();
        bound += usize::from(stored.is_ok());
        soon(async { while etcd.load(value.clone()).await.unwrap().is_some() {} }).await;
    }
    assert!(bound > 0, "it never came about");
}

/// Where the locks of `n` lie.
const LINE: &str = "leasehold/default/locks/n/";

/// A client of layout 1, which knows no marks: its entry in the line of `n`, alive with
/// a lease of its own.
struct EarlierClient<'a> {
    server: &'a EtcdTestServer,
    key: String,
}

impl<'a> EarlierClient<'a> {
    fn join(server: &'a EtcdTestServer) -> Self {
        let granted = server.ctl(&["lease", "grant", "600"]);
        let lease = u64::from_str_radix(granted.split(' ').nth(1).unwrap(), 16).unwrap();
        let key = format!("{LINE}{lease:x}-0123456789abcdef0123456789abcdef");
        server.ctl(&["put", &format!("--lease={lease:x}"), &key, "an earlier client"]);
        Self { server, key }
    }

    /// What it reads below the name, in the order of coming.
    fn seen(&self) -> Vec<String> {
        let list = ["get", "--prefix", LINE, "--keys-only", "--sort-by=CREATE", "--order=ASCEND"];
        let keys = self.server.ctl(&list);
        keys.lines().filter_map(|key| key.strip_prefix(LINE)).map(str::to_owned).collect()
    }

    /// Whether it stays, just after it has joined: it takes what lies there for permits,
    /// and gives back its place on a name of another kind. It lists a hundred keys.
    fn is_welcome(&self) -> bool {
        !self
            .seen()
            .iter()
            .take(100)
            .any(|rest| rest.starts_with("locks/") || rest.starts_with("leases/"))
    }

    /// Whether it takes the name for its own: it is the first of the entries.
    fn holds(&self) -> bool {
        let seen = self.seen();
        let first = seen.iter().find(|rest| !rest.contains('/'));
        first.is_some_and(|first| self.key == format!("{LINE}{first}"))
    }

    fn leave(self) {
        self.server.ctl(&["del", &self.key]);
    }
}

/// A claim on `n` that waits, by a client of its own.
struct Claimant {
    engine: Arc<dyn Engine>,
    claim: Claim,
}

impl Claimant {
    async fn new(server: &EtcdTestServer) -> Self {
        let engine = consensus::engine(server.client("").await, Clock::System);
        let mut claim = Claim::new(Ticket::new(name("n"), Mode::Exclusive), Owner::new("me"), TTL);
        claim.stance = Stance::Wait { until: Moment::NEVER };
        Self { engine, claim }
    }

    /// Whether it has the name; it joins the line if it has not.
    async fn holds(&self) -> bool {
        matches!(self.engine.acquire(self.claim.clone()).await.unwrap(), Verdict::Granted(_))
    }

    async fn leave(&self) {
        self.engine.release(self.claim.ticket.clone(), Ending::new()).await.unwrap();
    }
}

#[tokio::test]
async fn whoever_comes_behind_an_earlier_release_waits_for_it() {
    let server = EtcdTestServer::start();
    let (one, two) = (Claimant::new(&server).await, Claimant::new(&server).await);
    let earlier = EarlierClient::join(&server);
    assert!(earlier.is_welcome() && earlier.holds());
    // Without marks, with a tail, and once more when both are known.
    assert!(!one.holds().await, "two holders");
    assert!(!two.holds().await, "two holders");
    assert!(!one.holds().await && earlier.holds(), "two holders");
    earlier.leave();
    assert!(one.holds().await);
    assert!(!two.holds().await, "two holders");
    one.leave().await;
    assert!(two.holds().await);
}

/// It stands between two of ours, one of which it knows, and the other of which knows
/// it: no front and no tail leads past it.
#[tokio::test]
async fn an_earlier_release_in_the_middle_of_a_line_is_not_passed() {
    let server = EtcdTestServer::start();
    let (one, two) = (Claimant::new(&server).await, Claimant::new(&server).await);
    let three = Claimant::new(&server).await;
    assert!(one.holds().await);
    let earlier = EarlierClient::join(&server);
    assert!(earlier.is_welcome() && !earlier.holds(), "two holders");
    assert!(!two.holds().await && !three.holds().await, "two holders");
    one.leave().await;
    assert!(earlier.holds(), "it is next");
    assert!(!two.holds().await && !three.holds().await, "two holders");
    // The one that knew it goes early: its tail leads on to the next.
    two.leave().await;
    assert!(earlier.holds() && !three.holds().await, "two holders");
    earlier.leave();
    assert!(three.holds().await);
}

/// Where the line has marks, it is not welcome: whoever joins by them does not see it.
#[tokio::test]
async fn an_earlier_release_does_not_stay_in_a_line_with_marks() {
    let server = EtcdTestServer::start();
    let (one, two) = (Claimant::new(&server).await, Claimant::new(&server).await);
    let three = Claimant::new(&server).await;
    assert!(one.holds().await && !two.holds().await);
    let earlier = EarlierClient::join(&server);
    assert!(!earlier.is_welcome(), "it sees no marks");
    assert!(!three.holds().await && !earlier.holds());
    one.leave().await;
    assert!(two.holds().await && !three.holds().await);
    assert!(!earlier.holds() && !earlier.is_welcome(), "two holders");
    two.leave().await;
    // It has not given back its place yet, and has not taken the name either.
    assert!(!earlier.is_welcome(), "it would stay");
    earlier.leave();
    assert!(three.holds().await);
}

/// Thousands that were not answered before an outage are given back at once after it.
#[tokio::test]
async fn a_claim_that_was_not_answered_is_given_back_without_a_list_of_its_line() {
    let server = EtcdTestServer::start();
    let etcd = server.client("timeout=2s").await;
    let line = queue("crowd");
    for _ in 0..1000 {
        entry(&etcd, &line, Mode::Exclusive).await;
    }
    let engine = consensus::engine(Arc::clone(&etcd), Clock::System);
    for mode in [Mode::Exclusive, Mode::Write] {
        let ticket = Ticket::new(line.name.clone(), mode);
        let mut claim = Claim::new(ticket.clone(), Owner::new("me"), TTL);
        claim.stance = Stance::Wait { until: Moment::NEVER };
        server.signal("STOP");
        let lost = engine.acquire(claim).await.unwrap_err();
        server.signal("CONT");
        assert_eq!(lost.effect(), Effect::Unknown, "{lost}");
        // It may arrive now, and be answered: to nobody, and before anything else is.
        etcd.list(queue("nobody"), None).await.unwrap();
        let before = server.sent();
        engine.release(ticket.clone(), Ending::new()).await.unwrap();
        let sent = server.sent() - before;
        // The keys alone are 100,000; the answer that came too late is a part of this.
        assert!(sent < 40_000, "{sent} bytes for one of a thousand");
        let left = keys_left(&server);
        assert!(!left.contains(&format!("{:032x}", ticket.id.to_bits())), "{left}");
    }
}

/// All of this client is lost while a lease for another ttl is asked for: what is
/// granted on that was not asked for before.
#[tokio::test]
async fn a_lease_that_was_asked_for_before_all_were_lost_is_proven_before_it_is_used() {
    let server = EtcdTestServer::start();
    let etcd = server.client("").await;
    let first = etcd.session(TTL, NONE).await.unwrap();
    let turns = etcd.link.all_slots();
    let mut second = etcd.session(2 * TTL, NONE);
    let asked = std::future::poll_fn(|context| Poll::Ready(second.as_mut().poll(context))).await;
    assert!(asked.is_pending(), "it stands in line");
    etcd.leases.live().over(&first);
    let lost = Clock::System.now();
    drop(turns);
    let second = second.await.unwrap();
    assert!(second.proven() > lost, "its grants would be taken for lost");
}

/// Its key is the same, and it stands behind who waits for it.
#[tokio::test]
async fn who_waits_does_not_wait_for_one_that_has_joined_again_behind_it() {
    let server = EtcdTestServer::start();
    let [first, ahead, last] =
        [server.client("").await, server.client("").await, server.client("").await];
    let engine = |etcd: &Arc<Etcd>| consensus::engine(Arc::clone(etcd), Clock::System);
    let (holds, leaves, waits) = (engine(&first), engine(&ahead), engine(&last));
    let held = claim(Mode::Exclusive);
    assert!(matches!(holds.acquire(held.clone()).await, Ok(Verdict::Granted(_))));
    let (removed, waiting) = (claim(Mode::Exclusive), claim(Mode::Exclusive));
    let mut events = leaves.events();
    assert!(matches!(leaves.acquire(removed.clone()).await, Ok(Verdict::Busy(_))));
    assert!(matches!(waits.acquire(waiting.clone()).await, Ok(Verdict::Busy(_))));
    let line = first.list(queue("n"), None).await.unwrap();
    server.ctl(&["del", &line[1].key]);
    while !matches!(soon(events.next()).await, Some(Event::TicketLost(..))) {}
    let again = leaves.acquire(removed).await;
    assert!(matches!(again, Ok(Verdict::Busy(_))), "{again:?}");
    let now = first.list(queue("n"), None).await.unwrap();
    assert_eq!((&now[1].key, &now[2].key), (&line[2].key, &line[1].key), "it has the same key");
    let turn = waits.wait(waiting.ticket, Moment::NEVER);
    let released = holds.release(held.ticket, Ending::new());
    let (turn, released) = tokio::join!(soon(turn), released);
    released.unwrap();
    assert!(matches!(turn, Ok(Wake::Granted { .. })), "{turn:?}");
}

/// Between its look at the line and its watch.
#[tokio::test]
async fn a_reader_does_not_wait_for_a_writer_that_is_a_reader_by_now() {
    let server = EtcdTestServer::start();
    let (one, two) = (server.client("").await, server.client("").await);
    let engine = |etcd: &Arc<Etcd>| consensus::engine(Arc::clone(etcd), Clock::System);
    let (writes, reads) = (engine(&one), engine(&two));
    let (writer, reader) = (claim(Mode::Write), claim(Mode::Read));
    assert!(matches!(writes.acquire(writer.clone()).await, Ok(Verdict::Granted(_))));
    assert!(matches!(reads.acquire(reader.clone()).await, Ok(Verdict::Busy(_))));
    writes.convert(writer.ticket, Mode::Read).await.unwrap();
    let turn = soon(reads.wait(reader.ticket, Moment::NEVER)).await;
    assert!(matches!(turn, Ok(Wake::Granted { .. })), "{turn:?}");
}

/// Of one who waits for its turn on `n`.
fn claim(mode: Mode) -> Claim {
    let mut claim = Claim::new(Ticket::new(name("n"), mode), Owner::new("me"), TTL);
    claim.stance = Stance::Wait { until: Moment::NEVER };
    claim
}
