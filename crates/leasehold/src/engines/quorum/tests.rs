//! A quorum of engines beside another release that locks the same names.

use std::sync::Arc;
use std::time::Duration;

use super::member::seated;
use super::node::LockAnswer;
use super::over;
use crate::claim::{Claim, Ending, LeaseId, Mode, Owner, Store, Ticket, Verdict};
use crate::clock::Clock;
use crate::engine::{Engine, Page, RecordStore, Scope, Selector};
use crate::engines::memory::Memory;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::name::{Name, Namespace};

const TTL: Duration = Duration::from_secs(100);
const PATIENCE: Duration = Duration::from_secs(10);
/// Where layout 1 has the records of the leases of `n`; every layout has them there.
const FOLDER: &str = "leasehold.quorum/af63e34c8601f871";

fn name(text: &str) -> Name {
    Name::new(&Namespace::default(), text).unwrap()
}

fn claim(mode: Mode) -> Claim {
    Claim::new(Ticket::new(name("n"), mode), Owner::new("me"), TTL)
}

fn engines() -> Vec<Arc<dyn Engine>> {
    (0..3).map(|_| Arc::new(Memory::new(Clock::System)) as Arc<dyn Engine>).collect()
}

async fn quorum(engines: &[Arc<dyn Engine>]) -> Arc<dyn Engine> {
    over(engines.to_vec(), Clock::System, PATIENCE).await.unwrap()
}

fn records(engine: &Arc<dyn Engine>) -> &dyn RecordStore {
    engine.records().unwrap()
}

async fn write(engine: &Arc<dyn Engine>, ticket: &Ticket, text: &str) {
    let at = name(&format!("{FOLDER}/{:032x}", ticket.id.to_bits()));
    let mut store = Store::put(at, text.into());
    store.bound_to = Some(ticket.clone());
    records(engine).store(store).await.unwrap().unwrap();
}

/// What stands beside the leases of `n`.
async fn written(engine: &Arc<dyn Engine>) -> Vec<String> {
    let scope = Scope::below(&Namespace::default(), FOLDER, 1);
    let found = records(engine).list(scope, Page::default()).await.unwrap().records;
    found.into_iter().map(|(_, it)| String::from_utf8(it.value).unwrap()).collect()
}

/// Another release: it has the lease of each node, and beside it a record in its own
/// words.
async fn held_by_another(engines: &[Arc<dyn Engine>], mode: Mode, text: &str) -> Ticket {
    let theirs = claim(mode);
    for engine in engines {
        let granted = engine.acquire(theirs.clone()).await.unwrap();
        assert!(matches!(granted, Verdict::Granted(_)), "{granted:?}");
        write(engine, &theirs.ticket, text).await;
    }
    theirs.ticket
}

/// What layout 1 read off a record: the number of the lease, and how it holds.
fn read_by_layout_1(text: &str) -> Option<(u64, &str)> {
    let mut parts = text.splitn(3, ' ');
    let (value, mode, _) = (parts.next()?, parts.next()?, parts.next()?);
    let known = ["exclusive", "read", "write"].contains(&mode);
    Some((value.parse().ok()?, mode)).filter(|_| known)
}

fn is_refused<T: std::fmt::Debug>(answer: Result<T>, layout: &str) -> Error {
    let error = answer.expect_err("it is of another layout");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("has layout {layout:?}")), "{text}");
    assert!(text.contains("run the same release everywhere"), "{text}");
    error
}

#[tokio::test]
async fn a_name_that_another_release_holds_is_refused_with_what_to_do() {
    let (exclusive, read, write) = (Mode::Exclusive, Mode::Read, Mode::Write);
    let modes = [(exclusive, exclusive), (write, read), (write, write), (read, write)];
    for (text, layout) in [("17 exclusive 2:me", "1"), ("leasehold:3:in its own words", "3")] {
        for (theirs, ours) in modes {
            let engines = engines();
            let quorum = quorum(&engines).await;
            let theirs = held_by_another(&engines, theirs, text).await;
            let refused = is_refused(quorum.acquire(claim(ours)).await, layout);
            assert_eq!(refused.effect(), Effect::NotApplied, "{refused}");
            is_refused(quorum.inspect(Selector::Name(name("n")), Page::default()).await, layout);
            for engine in &engines {
                assert_eq!(written(engine).await, [text], "theirs was touched");
                engine.release(theirs.clone(), Ending::new()).await.unwrap();
            }
            let granted = quorum.acquire(claim(ours)).await.unwrap();
            assert!(matches!(granted, Verdict::Granted(_)), "{granted:?}");
        }
    }
}

/// What others have written over a record is no layout: the name is busy.
#[tokio::test]
async fn a_record_that_is_nobodys_words_is_busy() {
    let engines = engines();
    held_by_another(&engines, Mode::Exclusive, "words").await;
    let busy = quorum(&engines).await.acquire(claim(Mode::Exclusive)).await.unwrap();
    assert!(matches!(busy, Verdict::Busy(_)), "{busy:?}");
}

/// The lease is the lock in every layout, so the earlier release does not get it; and
/// it does not take our record for one of its own.
#[tokio::test]
async fn what_we_hold_an_earlier_release_neither_gets_nor_reads() {
    let engines = engines();
    let quorum = quorum(&engines).await;
    let ours = quorum.acquire(claim(Mode::Exclusive)).await.unwrap();
    assert!(matches!(ours, Verdict::Granted(_)), "{ours:?}");
    let mut held = 0;
    for engine in &engines {
        for text in written(engine).await {
            let theirs = engine.acquire(claim(Mode::Exclusive)).await.unwrap();
            assert!(matches!(theirs, Verdict::Busy(_)), "two holders: {theirs:?}");
            assert!(text.starts_with("leasehold:2:"), "{text}");
            assert_eq!(read_by_layout_1(&text), None, "{text}");
            held += 1;
        }
    }
    assert!(held >= 2, "{held} of 3 nodes");
    assert_eq!(read_by_layout_1("17 exclusive 2:me"), Some((17, "exclusive")));
}

/// Our own lease, whose record another release has written over: its number is not
/// known any more.
#[tokio::test]
async fn a_record_in_other_words_is_worth_no_vote() {
    let engine: Arc<dyn Engine> = Arc::new(Memory::new(Clock::System));
    let slot = seated(Arc::clone(&engine));
    slot.open_now().await.unwrap();
    let (node, claim) = (slot.node().unwrap(), claim(Mode::Exclusive));
    let LockAnswer::Vote(number, _) = node.lock(claim.clone(), 1).await.unwrap() else {
        panic!("it is free")
    };
    write(&engine, &claim.ticket, "leasehold:3:in its own words").await;
    let again = is_refused(node.lock(claim.clone(), 1).await, "3");
    assert_eq!(again.effect(), Effect::Unknown, "its lease is there: {again}");
    is_refused(node.raise(claim.ticket.clone(), number, number.value + 9).await, "3");
    assert!(node.unlock(claim.ticket).await.unwrap(), "the lease is ours all the same");
}

/// What belongs to another release is not cleaned up by ours.
#[tokio::test]
async fn a_clean_up_leaves_other_layouts_alone() {
    let engines = engines();
    let theirs = held_by_another(&engines[..1], Mode::Exclusive, "17 exclusive 2:me").await;
    let slot = seated(Arc::clone(&engines[0]));
    slot.open_now().await.unwrap();
    let node = slot.node().unwrap();
    // A later round of a ticket of ours, and as if theirs were an earlier one of it.
    let later = LeaseId::from_bits(theirs.id.to_bits() | ((1 << 48) - 1));
    for id in [LeaseId::random(), later] {
        assert!(!node.unlock(Ticket { id, ..theirs.clone() }).await.unwrap());
    }
    assert_eq!(written(&engines[0]).await.len(), 1);
}
