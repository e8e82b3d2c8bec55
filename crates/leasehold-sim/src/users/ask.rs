//! Asking for leases, in every way there is.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold::engine::BoxFuture;
use leasehold::{Clock, Error, ErrorKind, Guard, Guards, Lock, Locks, Moment, Result};

use super::{Lease, One};
use crate::ledger::{Entry, Proof};
use crate::schedule::{Ask, How, Millis, PERMITS, Patience};

/// What a request came to.
enum Got {
    One(Guard),
    All(Guards),
}

impl One {
    pub(super) async fn ask(&mut self, ask: Ask) {
        self.asked += 1;
        let label = format!("{}#{}", self.user, self.asked);
        self.tell(|| format!("asks: {ask}"));
        let asked = self.request(&ask, &label);
        let got = match ask.dropped_at {
            Some(poll) => dropped_at(poll, asked).await,
            None => Some(asked.await),
        };
        match got {
            None => self.tell(|| format!("has dropped its request for {}", ask.names.join(","))),
            Some(Ok(Some(got))) => self.enter(&ask, &label, got),
            Some(Ok(None)) => self.denied(&ask, None),
            Some(Err(error)) => self.denied(&ask, Some(&error)),
        }
    }

    fn request(&self, ask: &Ask, label: &str) -> BoxFuture<Result<Option<Got>>> {
        let locks = if ask.owned { self.locks.owned_by(&self.owner) } else { self.locks.clone() };
        let ttl = millis(ask.ttl.unwrap_or(self.around.setting.ttl));
        let (ask, label) = (ask.clone(), label.to_owned());
        if ask.names.len() > 1 {
            return Box::pin(
                async move { Ok(all(&locks, &ask, &label, ttl).await?.map(Got::All)) },
            );
        }
        Box::pin(async move { Ok(one(&locks, &ask, &label, ttl).await?.map(Got::One)) })
    }

    fn enter(&mut self, ask: &Ask, label: &str, got: Got) {
        if is_strangers(ask) {
            return;
        }
        let proofs: Vec<Proof> = match got {
            Got::One(guard) => vec![Proof::One(Arc::new(guard))],
            Got::All(guards) => {
                let guards = Arc::new(guards);
                (0..ask.names.len()).map(|at| Proof::Of(Arc::clone(&guards), at)).collect()
            }
        };
        let mut pages = BTreeMap::new();
        for proof in proofs {
            let Some(guard) = proof.guard() else { continue };
            let (name, fence) = (guard.name().as_str().to_owned(), guard.fence());
            let ledger = &self.around.ledger;
            let known = ask.owned.then(|| ledger.label_of(self.user.client, &name, fence));
            let entry = Entry {
                user: self.user,
                name: name.clone(),
                mode: guard.mode(),
                fence,
                label: known.flatten().unwrap_or_else(|| label.to_owned()),
                owned: ask.owned,
                since: self.now(),
                ends: agreed(ask, self.around.setting.ttl),
                evicted: false,
                process: Arc::clone(&self.around.process),
                proof,
            };
            pages.insert(name, ledger.enter(entry));
        }
        self.leases.push(Lease { pages });
    }

    fn denied(&self, ask: &Ask, error: Option<&Error>) {
        let why = error.map_or_else(|| "busy".to_owned(), Error::to_string);
        self.tell(|| format!("does not get {}: {why}", ask.names.join(",")));
        let unexpected = error.is_some_and(|error| error.kind() == ErrorKind::Unexpected);
        if unexpected && !is_strangers(ask) {
            self.around.ledger.breaks("I4", format!("{ask}: {why}"));
        }
    }
}

/// Somebody else writes there, too: nothing is promised.
fn is_strangers(ask: &Ask) -> bool {
    ask.names.iter().any(|name| name.starts_with('x'))
}

/// A fixed lease that nobody else of its owner renews runs for its ttl; one that
/// was handed over runs from then on.
fn agreed(ask: &Ask, ttl: Millis) -> Option<Moment> {
    (ask.fixed && !ask.owned).then(|| Clock::System.now().after(millis(ask.ttl.unwrap_or(ttl))))
}

async fn one(locks: &Locks, ask: &Ask, label: &str, ttl: Duration) -> Result<Option<Guard>> {
    let name = &ask.names[0];
    let (fixed, delay) = (ask.fixed, millis(ask.delay));
    macro_rules! set {
        ($recipe:expr) => {
            $recipe.ttl(ttl).renew(!fixed).lock_delay(delay).label(label)
        };
    }
    let tries = ask.patience == Patience::Try;
    match ask.how {
        How::Lock if tries => set!(locks.mutex(name)).try_lock().await,
        How::Read if tries => set!(locks.rwlock(name)).try_read().await,
        How::Write if tries => set!(locks.rwlock(name)).try_write().await,
        How::Permits(take) if tries => set!(locks.semaphore(name, PERMITS)).try_acquire(take).await,
        How::Lock => patient(set!(locks.mutex(name)).lock(), ask.patience).await.map(Some),
        How::Read => patient(set!(locks.rwlock(name)).read(), ask.patience).await.map(Some),
        How::Write => patient(set!(locks.rwlock(name)).write(), ask.patience).await.map(Some),
        How::Permits(take) => {
            let lock = set!(locks.semaphore(name, PERMITS)).acquire(take);
            patient(lock, ask.patience).await.map(Some)
        }
    }
}

fn patient(lock: Lock, patience: Patience) -> BoxFuture<Result<Guard>> {
    match patience {
        Patience::Try => lock.within(Duration::ZERO),
        Patience::Within(limit) => lock.within(millis(limit)),
        Patience::Attempts(count, every) => lock.attempts(count).every(millis(every)),
    }
    .into_future()
}

async fn all(locks: &Locks, ask: &Ask, label: &str, ttl: Duration) -> Result<Option<Guards>> {
    let all = locks.all(&ask.names).ttl(ttl).lock_delay(millis(ask.delay)).label(label);
    match ask.patience {
        Patience::Within(limit) => all.lock().within(millis(limit)).await.map(Some),
        _ => all.try_lock().await,
    }
}

const fn millis(count: Millis) -> Duration {
    Duration::from_millis(count)
}

/// Polls so often, and then drops the future.
async fn dropped_at<T>(most: u32, mut task: BoxFuture<T>) -> Option<T> {
    let mut polls = 0;
    std::future::poll_fn(move |cx| {
        polls += 1;
        match Pin::as_mut(&mut task).poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if polls >= most => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
