//! Replies that are lost: the request was carried out, nobody heard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold::claim::{Claim, Ending, Renewal, Ticket, Verdict};
use leasehold::engine::BoxFuture;
use leasehold::{Effect, Error, ErrorKind, Mode, Released, Result};
use tokio::time::sleep;

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, eventually, free, idle, locked};
use super::recipe::Recipe;
use super::store::Store;
use crate::twist::{Inner, Twist};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(a_grant_whose_reply_is_lost_is_given_back).over(&Recipe::ALL),
        check!(a_release_whose_reply_is_lost_is_tried_again).over(&Recipe::ALL),
        check!(a_drop_whose_reply_is_lost_is_tried_again).over(&Recipe::ALL),
        check!(a_conversion_whose_reply_is_lost_is_settled).when(|p| p.convert),
    ]
}

async fn a_grant_whose_reply_is_lost_is_given_back(store: Store) -> Outcome {
    let deaf = Deaf::default();
    let (locks, below) = store.open_twisted(deaf.clone()).await?;
    for waits in [false, true] {
        deaf.0.acquires.store(1, Ordering::Release);
        let mutex = locks.mutex("n").ttl(HOUR);
        let error = if waits { mutex.lock().await.err() } else { mutex.try_lock().await.err() };
        let error = error.ok_or("granted although the reply was lost")?;
        ensure!(error.effect() == Effect::Unknown, "{error:?}");
        idle(&below.mutex("n")).await?;
    }
    Ok(())
}

async fn a_release_whose_reply_is_lost_is_tried_again(store: Store) -> Outcome {
    let deaf = Deaf::default();
    let (locks, below) = store.open_twisted(deaf.clone()).await?;
    let guard = locks.mutex("n").ttl(HOUR).lock().await?;
    deaf.0.releases.store(1, Ordering::Release);
    let error = guard.release().await.err().ok_or("a reply that was lost")?;
    ensure!(error.effect() == Effect::Unknown, "{error:?}");
    free(&below.mutex("n")).await?.release().await?;
    idle(&below.mutex("n")).await
}

/// The second try must not touch the successor.
async fn a_drop_whose_reply_is_lost_is_tried_again(store: Store) -> Outcome {
    let deaf = Deaf::default();
    let (locks, below) = store.open_twisted(deaf.clone()).await?;
    let guard = locks.mutex("n").ttl(HOUR).lock().await?;
    deaf.0.releases.store(1, Ordering::Release);
    drop(guard);
    let next = locked(&below.mutex("n").ttl(HOUR)).await?;
    let heard = || async { Ok(deaf.0.heard.load(Ordering::Acquire) > 0) };
    eventually("it is tried again", heard).await?;
    ensure!(below.mutex("n").try_lock().await?.is_none(), "the successor lost it");
    Ok(next.check()?)
}

/// Nobody knows whether readers stand beside it, until the keeper asks again.
async fn a_conversion_whose_reply_is_lost_is_settled(store: Store) -> Outcome {
    let deaf = Deaf::default();
    let (locks, below) = store.open_twisted(deaf.clone()).await?;
    let mut guard = locks.rwlock("n").ttl(3 * locks.brief()).write().await?;
    deaf.0.converts.store(1, Ordering::Release);
    let error = guard.convert(Mode::Read).await.err().ok_or("a reply that was lost")?;
    ensure!(error.effect() == Effect::Unknown, "{error:?}");
    ensure!(guard.mode() == Mode::Read, "it claims to {}", guard.mode());
    let reader = below.rwlock("n").ttl(HOUR).try_read().await?;
    ensure!(reader.is_some(), "the conversion was not carried out");
    let settled = || async { Ok(deaf.0.settled.load(Ordering::Acquire) > 0) };
    eventually("it is settled", settled).await?;
    sleep(3 * locks.brief()).await;
    guard.check()?;
    ensure!(below.rwlock("n").try_write().await?.is_none(), "a writer beside readers");
    let released = guard.release().await?;
    ensure!(released == Released::Released, "{released:?}");
    Ok(())
}

/// Does not hear the next so many replies.
#[derive(Clone, Debug, Default)]
struct Deaf(Arc<Ears>);

#[derive(Debug, Default)]
struct Ears {
    acquires: AtomicU32,
    releases: AtomicU32,
    converts: AtomicU32,
    /// Replies to a release that came through.
    heard: AtomicU32,
    /// Replies to a conversion that came through.
    settled: AtomicU32,
}

impl Twist for Deaf {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let (ears, reply) = (Arc::clone(&self.0), inner.acquire(claim));
        Box::pin(async move {
            let verdict = reply.await;
            if missed(&ears.acquires) { Err(lost()) } else { verdict }
        })
    }

    fn release(
        &self,
        inner: &Inner,
        ticket: Ticket,
        ending: Ending,
    ) -> BoxFuture<Result<Released>> {
        let (ears, reply) = (Arc::clone(&self.0), inner.release(ticket, ending));
        Box::pin(async move {
            let released = reply.await;
            if missed(&ears.releases) {
                return Err(lost());
            }
            ears.heard.fetch_add(1, Ordering::AcqRel);
            released
        })
    }

    fn convert(&self, inner: &Inner, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        let (ears, reply) = (Arc::clone(&self.0), inner.convert(ticket, to));
        Box::pin(async move {
            let converted = reply.await;
            if missed(&ears.converts) {
                return Err(lost());
            }
            ears.settled.fetch_add(1, Ordering::AcqRel);
            converted
        })
    }
}

fn missed(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok()
}

fn lost() -> Error {
    Error::new(ErrorKind::Unavailable, "the reply was lost").unknown()
}
