//! Many names at once: all or nothing, without deadlock.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use super::request_builder::{RequestBuilder, options};
use crate::claim::{Mode, Released};
use crate::clock::Moment;
use crate::engine::BoxFuture;
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::hold::Standing;
use crate::locks::Locks;
use crate::name::Name;

/// The most names that one call may take.
const MOST: usize = 1000;

/// Several mutexes that are taken together.
///
/// All are tried at once. If one is busy, those above it in byte order are
/// given back before it is waited for: whoever waits holds only names below the
/// one it waits for, so no two can wait for each other.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// let transfer = locks.all(["account/7", "account/3"]);
/// let guards = transfer.lock().await?;
/// assert!(guards.fence("account/3").is_some());
/// assert!(locks.mutex("account/7").try_lock().await?.is_none());
/// guards.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct All {
    /// The options; its own name is not used.
    pub(crate) builder: RequestBuilder,
    pub(crate) names: Result<Vec<Name>>,
}

options!(All);

impl Locks {
    /// The mutexes of all these names together; a name given twice counts once.
    ///
    /// A name that is not valid is an error of the first call that uses it.
    #[must_use]
    pub fn all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> All {
        let names = names.into_iter().map(|name| self.name(name.as_ref()));
        let names = names.collect::<Result<Vec<Name>>>().and_then(in_order);
        All { builder: RequestBuilder::new(self, ""), names }
    }
}

fn in_order(mut names: Vec<Name>) -> Result<Vec<Name>> {
    names.sort();
    names.dedup();
    if names.is_empty() || names.len() > MOST {
        return Err(Error::invalid(format!("all() takes 1 to {MOST} names, not {}", names.len())));
    }
    Ok(names)
}

impl All {
    /// Waits until all are ours.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind.
    ///
    /// # Fencing
    ///
    /// Each name has a fence of its own.
    pub fn lock(&self) -> LockAll {
        LockAll { all: self.clone(), limit: self.builder.locks.own_wait_limit() }
    }

    /// Takes all if all are free, and never waits: contention is `None`.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind.
    pub async fn try_lock(&self) -> Result<Option<Guards>> {
        let names = self.names.clone()?;
        let tried = self.try_each(&names).await?;
        let guards: Option<Vec<Guard>> = tried.into_iter().collect();
        Ok(guards.map(Guards))
    }

    async fn try_each(&self, names: &[Name]) -> Result<Vec<Option<Guard>>> {
        let try_one = |name: &Name| -> BoxFuture<Result<Option<Guard>>> {
            let builder = self.builder.named(name);
            Box::pin(async move { builder.try_lock(Mode::Exclusive).await })
        };
        together(names.iter().map(try_one).collect()).await.into_iter().collect()
    }

    /// Takes as many as are free in order, from `held` on; then the first that
    /// was busy, however long it takes.
    async fn further(&self, names: &[Name], held: &mut Vec<Guard>, until: Moment) -> Result<()> {
        let tried = self.try_each(&names[held.len()..]).await?;
        // The first that was busy ends the run; what is above it goes back.
        held.extend(tried.into_iter().map_while(|guard| guard));
        let Some(busy) = names.get(held.len()) else { return Ok(()) };
        let left = until.since(self.builder.locks.clock().now());
        let lock = self.builder.named(busy).lock(Mode::Exclusive);
        let lock = if until == Moment::NEVER { lock } else { lock.within(left) };
        held.push(lock.await?);
        Ok(())
    }

    async fn lock_until(self, until: Moment) -> Result<Guards> {
        let names = self.names.clone()?;
        let mut held = Vec::new();
        while held.len() < names.len() {
            self.further(&names, &mut held, until).await?;
            if held.iter().any(|guard| guard.check().is_err()) {
                // One was lost while we waited for another: begin anew.
                held.clear();
            }
        }
        Ok(Guards(held))
    }
}

/// Many locks to be awaited.
///
/// # Cancel safety
///
/// A dropped future leaves nothing behind: what it had taken goes back.
#[must_use = "does nothing unless awaited"]
#[derive(Debug)]
pub struct LockAll {
    all: All,
    limit: Option<Duration>,
}

impl LockAll {
    /// Waits at most this long for all of them.
    pub const fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }
}

impl IntoFuture for LockAll {
    type Output = Result<Guards>;
    type IntoFuture = BoxFuture<Result<Guards>>;

    fn into_future(self) -> Self::IntoFuture {
        let now = self.all.builder.locks.clock().now();
        let until = self.limit.map_or(Moment::NEVER, |limit| now.after(limit));
        Box::pin(self.all.lock_until(until))
    }
}

/// Several held leases: good as long as each of them is.
#[must_use = "the leases are given back when the guards are dropped"]
#[derive(Debug)]
pub struct Guards(pub(crate) Vec<Guard>);

impl Guards {
    /// The guards, in byte order of their names.
    pub fn iter(&self) -> std::slice::Iter<'_, Guard> {
        self.0.iter()
    }

    /// The fence of one of the names.
    #[must_use]
    pub fn fence(&self, name: &str) -> Option<u64> {
        self.iter().find(|guard| guard.name().as_str() == name).map(Guard::fence)
    }

    /// How long all are certainly still ours.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    /// All still ours? Costs no request.
    ///
    /// # Errors
    ///
    /// `Lost`, with the first name that is and the reason.
    pub fn check(&self) -> Result<()> {
        self.iter().try_for_each(Guard::check)
    }

    /// Resolves when the first of them is not ours any more.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time, and asked for again.
    pub fn lost(&self) -> impl Future<Output = Standing> + Send + 'static {
        first(self.iter().map(Guard::lost))
    }

    /// Gives all back; `AlreadyLost` if one of them was.
    ///
    /// # Errors
    ///
    /// The first error of the engine; what could not be released is tried again
    /// in the background.
    ///
    /// # Cancel safety
    ///
    /// The leases are given back even if the future is dropped.
    pub async fn release(self) -> Result<Released> {
        let release = |guard: Guard| -> BoxFuture<Result<Released>> { Box::pin(guard.release()) };
        let ends = together(self.0.into_iter().map(release).collect()).await;
        let ends = ends.into_iter().collect::<Result<Vec<_>>>()?;
        let lost = ends.into_iter().find(|end| *end == Released::AlreadyLost);
        Ok(lost.unwrap_or(Released::Released))
    }
}

impl<'a> IntoIterator for &'a Guards {
    type Item = &'a Guard;
    type IntoIter = std::slice::Iter<'a, Guard>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Waits for the first of several.
pub(crate) fn first<T: 'static>(
    tasks: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> impl Future<Output = T> + Send + 'static {
    let mut tasks: Vec<BoxFuture<T>> =
        tasks.map(|task| -> BoxFuture<T> { Box::pin(task) }).collect();
    std::future::poll_fn(move |cx| {
        let mut polled = tasks.iter_mut().map(|task| task.as_mut().poll(cx));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
}

/// Waits for all, side by side.
async fn together<T>(mut tasks: Vec<BoxFuture<T>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = tasks.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (task, done) in tasks.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(value) = Pin::as_mut(task).poll(cx) {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}
