//! What all recipes share: a name with options, and the wait for it.

use std::sync::Arc;
use std::time::Duration;

use crate::acquire::{Effort, LockRequest, Sought};
use crate::claim::{Mode, Owner, Wants};
use crate::clock::Moment;
use crate::engine::{BoxFuture, Status};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::hold::Terms;
use crate::locks::Locks;
use crate::name::Name;

/// The ttl if none is given.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// A name and how to ask for it.
#[derive(Clone, Debug)]
pub(crate) struct RequestBuilder {
    pub(crate) locks: Locks,
    name: Result<Name>,
    pub(crate) owner: Owner,
    /// Whether the owner's label was chosen, not made up from the thread.
    pub(crate) labelled: bool,
    /// Whether the owner may take what it already holds.
    reentrant: bool,
    pub(crate) terms: Terms,
    pub(crate) meta: Option<Arc<str>>,
    pub(crate) fair: bool,
    pub(crate) wants: Wants,
    /// What it proposes, if it is a candidacy and no lock.
    pub(crate) candidate: Option<Arc<[u8]>>,
}

impl RequestBuilder {
    pub(crate) fn new(locks: &Locks, name: &str) -> Self {
        let terms = Terms {
            ttl: TTL,
            lock_delay: Duration::ZERO,
            renewed: true,
            max_hold: None,
            hold_at_least: Duration::ZERO,
        };
        let locks = locks.routed(name);
        Self {
            name: locks.name(name),
            owner: locks.owner(),
            labelled: locks.is_labelled(),
            reentrant: locks.is_owned(),
            locks: locks.clone(),
            terms,
            meta: None,
            fair: false,
            wants: Wants::Lease,
            candidate: None,
        }
    }

    /// The same options for `owner`, who may take what it already holds.
    pub(crate) fn owned_by(&self, owner: Owner) -> Self {
        let owner = if self.labelled { owner.labelled(self.owner.label()) } else { owner };
        Self { owner, reentrant: true, ..self.clone() }
    }

    /// The same options for another name.
    pub(crate) fn named(&self, name: &Name) -> Self {
        // A route has a namespace of its own.
        let locks = self.locks.routed(name.as_str()).clone();
        Self { name: locks.name(name.as_str()), locks, ..self.clone() }
    }

    pub(crate) fn name(&self) -> Result<Name> {
        self.name.clone()
    }

    pub(crate) fn lock(&self, mode: Mode) -> Lock {
        Lock { builder: self.clone(), mode, patience: self.patience() }
    }

    /// How long to wait unless a call says otherwise.
    pub(crate) const fn patience(&self) -> Patience {
        Patience { limit: self.locks.own_wait_limit(), attempts: None }
    }

    pub(crate) async fn try_lock(&self, mode: Mode) -> Result<Option<Guard>> {
        match self.locks.acquire(&self.request(mode, Effort::Try)?).await? {
            Sought::Lease(guard) => Ok(Some(guard)),
            Sought::Record(_) | Sought::Busy => Ok(None),
        }
    }

    pub(crate) async fn status(&self) -> Result<Status> {
        self.locks.status(self.name()?.as_str()).await
    }

    fn request(&self, mode: Mode, effort: Effort) -> Result<LockRequest> {
        Ok(self.request_for(self.name()?, mode, effort))
    }

    /// A request for another name, on the same engine.
    pub(crate) fn request_for(&self, name: Name, mode: Mode, effort: Effort) -> LockRequest {
        LockRequest {
            name,
            mode,
            owner: self.owner.clone(),
            reentrant: self.reentrant,
            terms: self.terms,
            meta: self.meta.clone(),
            fair: self.fair,
            wants: self.wants,
            candidate: self.candidate.clone(),
            effort,
        }
    }
}

/// The options that every recipe with a `builder` has; `options!(Recipe<K>, K)`
/// for one with a parameter.
macro_rules! options {
    ($recipe:ty $(, $kind:ident)?) => {
        impl$(<$kind>)? $recipe {
            /// Free at most this long after the holder's last sign of life: 30 s
            /// unless set. It is renewed every third of it.
            #[must_use]
            pub const fn ttl(mut self, ttl: ::std::time::Duration) -> Self {
                self.builder.terms.ttl = ttl;
                self
            }

            /// Whether the lease is renewed; a fixed lease ends after its ttl, or
            /// after [`Guard::extend`](crate::Guard::extend).
            #[must_use]
            pub const fn renew(mut self, renew: bool) -> Self {
                self.builder.terms.renewed = renew;
                self
            }

            /// The longest time to hold; then the lease is lost, although its
            /// holder lives. For work that may hang.
            #[must_use]
            pub const fn max_hold(mut self, most: ::std::time::Duration) -> Self {
                self.builder.terms.max_hold = Some(most);
                self
            }

            /// Demands exact arrival order over all processes. Without it tasks
            /// of one process share one place in the queue.
            #[must_use]
            pub const fn fair(mut self) -> Self {
                self.builder.fair = true;
                self
            }

            /// What others see as the holder: by default host, process
            /// and thread.
            #[must_use]
            pub fn label(mut self, label: impl AsRef<str>) -> Self {
                self.builder.owner = self.builder.owner.labelled(label);
                self.builder.labelled = true;
                self
            }

            /// A remark for people, shown by `leasehold show`; at most 1 KiB.
            #[must_use]
            pub fn meta(mut self, meta: impl Into<::std::sync::Arc<str>>) -> Self {
                self.builder.meta = Some(meta.into());
                self
            }

            /// Keeps an expired (not a released) name closed for this much
            /// longer, so that late writes of a dead holder cannot meet its
            /// successor's.
            #[must_use]
            pub const fn lock_delay(mut self, delay: ::std::time::Duration) -> Self {
                self.builder.terms.lock_delay = delay;
                self
            }

            /// Keeps the name closed for this long from the grant on, even if it
            /// is released earlier: for short jobs on hosts whose clocks differ.
            #[must_use]
            pub const fn hold_at_least(mut self, least: ::std::time::Duration) -> Self {
                self.builder.terms.hold_at_least = least;
                self
            }
        }
    };
}
pub(crate) use options;

/// How long to wait, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) limit: Option<Duration>,
    attempts: Option<(u32, Duration)>,
}

impl Patience {
    pub(crate) const fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    pub(crate) const fn attempts(mut self, count: u32) -> Self {
        let pause = match self.attempts {
            Some((_, pause)) => pause,
            None => Duration::from_millis(100),
        };
        self.attempts = Some((count, pause));
        self
    }

    pub(crate) const fn every(mut self, pause: Duration) -> Self {
        let count = match self.attempts {
            Some((count, _)) => count,
            None => u32::MAX,
        };
        self.attempts = Some((count, pause));
        self
    }

    /// What it means for a wait that begins at `since`.
    fn effort(self, since: Moment) -> Effort {
        let limit = self.limit.unwrap_or(Duration::MAX);
        match self.attempts {
            Some((count, every)) => {
                Effort::Attempts { count, every, since, until: since.after(limit) }
            }
            None => Effort::wait(since, limit),
        }
    }
}

/// A lock to be awaited.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// use std::time::Duration;
///
/// let report = locks.mutex("report");
/// let guard = report.lock().within(Duration::from_secs(3)).await?;
///
/// // Without a place in the queue: three tries, 10 ms apart.
/// let tries = report.lock().attempts(3).every(Duration::from_millis(10));
/// assert!(tries.await.unwrap_err().is_timed_out());
/// # drop(guard);
/// # Ok(()) }
/// ```
///
/// # Cancel safety
///
/// A dropped future leaves nothing behind. Its place in the queue is lost.
#[must_use = "does nothing unless awaited"]
#[derive(Debug)]
pub struct Lock {
    builder: RequestBuilder,
    mode: Mode,
    patience: Patience,
}

impl Lock {
    /// Waits at most this long; then the error `TimedOut` says who held it. With
    /// no time at all it asks once and takes what the engine answers.
    pub const fn within(mut self, limit: Duration) -> Self {
        self.patience = self.patience.within(limit);
        self
    }

    /// Does not queue, but tries this many times; see [`Lock::every`].
    pub const fn attempts(mut self, count: u32) -> Self {
        self.patience = self.patience.attempts(count);
        self
    }

    /// The pause between two attempts: 100 ms unless set.
    pub const fn every(mut self, pause: Duration) -> Self {
        self.patience = self.patience.every(pause);
        self
    }

    pub(crate) const fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    fn request(&self) -> Result<LockRequest> {
        let since = self.builder.locks.clock().now();
        self.builder.request(self.mode, self.patience.effort(since))
    }
}

impl IntoFuture for Lock {
    type Output = Result<Guard>;
    type IntoFuture = BoxFuture<Result<Guard>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            match self.builder.locks.acquire(&self.request()?).await? {
                Sought::Lease(guard) => Ok(guard),
                Sought::Record(_) | Sought::Busy => Err(no_lease()),
            }
        })
    }
}

/// A wait ends with a lease or an error, unless the engine breaks its contract.
fn no_lease() -> Error {
    let text = "the engine answered a wait with neither a lease nor an error";
    Error::new(ErrorKind::Unexpected, text)
}
