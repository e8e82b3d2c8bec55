//! What operators ask: who holds, who waits, take it away, is all well.

use std::sync::Arc;
use std::time::Duration;

use super::events::Loss;
use crate::claim::{LeaseId, Mode, Predecessor};
use crate::error::{Error, Result};
use crate::name::{Name, Namespace};

/// Which names to show.
#[derive(Clone, Debug)]
pub enum Selector {
    /// This one.
    Name(Name),
    /// All of a namespace that start with this text.
    Prefix(Namespace, Arc<str>),
}

/// A part of a long listing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page {
    /// Only names after this one, in byte order.
    pub after: Option<Name>,
    /// At most this many names.
    pub size: usize,
}

impl Default for Page {
    /// The first hundred.
    fn default() -> Self {
        Self { after: None, size: 100 }
    }
}

impl Page {
    /// The page that follows `name`.
    #[must_use]
    pub fn after(name: Name) -> Self {
        Self { after: Some(name), ..Self::default() }
    }
}

/// One page of names, in byte order.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Listing {
    /// The names of this page.
    pub names: Vec<Status>,
    /// Whether more follow.
    pub more: bool,
}

impl Listing {
    /// A page.
    #[must_use]
    pub const fn new(names: Vec<Status>, more: bool) -> Self {
        Self { names, more }
    }
}

/// All that is known of one name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// The name.
    pub name: Name,
    /// Who holds it, oldest first.
    pub holders: Vec<Held>,
    /// Who waits, next first.
    pub waiters: Vec<Queued>,
    /// How long the name stays closed although nobody holds it.
    pub closed_for: Option<Duration>,
    /// The last holder, once it has ended.
    pub last: Option<Last>,
}

impl Status {
    /// A name that nobody holds.
    #[must_use]
    pub const fn new(name: Name) -> Self {
        Self { name, holders: Vec::new(), waiters: Vec::new(), closed_for: None, last: None }
    }

    /// Whether anybody holds it or waits for it, or it is kept closed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.holders.is_empty() || !self.waiters.is_empty() || self.closed_for.is_some()
    }
}

/// One lease, as others may see it; what an engine cannot show is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// The owner's label.
    pub label: Arc<str>,
    /// How it holds the name.
    pub mode: Mode,
    /// Its fence.
    pub fence: Option<u64>,
    /// Since how long.
    pub held_for: Option<Duration>,
    /// How long the lease runs if it is not renewed.
    pub time_left: Option<Duration>,
    /// The owner's remark.
    pub meta: Option<Arc<str>>,
}

/// One waiter, as others may see it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Queued {
    /// The owner's label.
    pub label: Arc<str>,
    /// How it wants the name.
    pub mode: Mode,
    /// Since how long.
    pub waiting_for: Option<Duration>,
}

/// A holder that has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Last {
    /// The owner's label.
    pub label: Arc<str>,
    /// The fence it had.
    pub fence: u64,
    /// How it ended.
    pub ended: Predecessor,
    /// How long ago.
    pub ago: Duration,
    /// Who evicted it and why.
    pub remark: Option<Arc<str>>,
}

/// Which leases to take away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The holder with this fence.
    Fence(u64),
    /// The lease with this id.
    Lease(LeaseId),
    /// Every holder, and the closing time after the last one.
    All,
}

/// An operator's request to take leases away.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Eviction {
    /// From which name.
    pub name: Name,
    /// Whose.
    pub target: Target,
    /// Who asks.
    pub actor: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
    /// Whether the holder is only asked to let go.
    pub ask: bool,
}

impl Eviction {
    /// The longest reason in bytes.
    pub const REASON_MAX: usize = 512;

    /// An eviction with a reason, which the holder will be told.
    ///
    /// # Errors
    ///
    /// `Invalid` if actor or reason is empty or longer than 512 bytes.
    pub fn new(
        name: Name,
        target: Target,
        actor: impl Into<Arc<str>>,
        reason: impl Into<Arc<str>>,
    ) -> Result<Self> {
        let (actor, reason) = (actor.into(), reason.into());
        for (what, text) in [("actor", &actor), ("reason", &reason)] {
            if text.trim().is_empty() || text.len() > Self::REASON_MAX {
                return Err(Error::invalid(format!(
                    "an eviction needs its {what}: 1 to {} bytes",
                    Self::REASON_MAX
                )));
            }
        }
        Ok(Self { name, target, actor, reason, ask: false })
    }

    /// Asks the holders to let go, and takes nothing away; see
    /// [`Guard::revocation`](crate::Guard::revocation).
    #[must_use]
    pub fn asking(mut self) -> Self {
        self.ask = true;
        self
    }

    /// What stays on record.
    pub(crate) fn remark(&self) -> Arc<str> {
        format!("by {}: {}", self.actor, self.reason).into()
    }

    /// What the holder is told.
    pub(crate) fn loss(&self) -> Loss {
        Loss::Evicted { actor: Arc::clone(&self.actor), reason: Arc::clone(&self.reason) }
    }
}

/// What an eviction did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Evicted {
    /// The leases that were taken away, as they were; or whose holders were
    /// asked.
    pub leases: Vec<Held>,
}

impl Evicted {
    /// These leases were taken away.
    #[must_use]
    pub const fn new(leases: Vec<Held>) -> Self {
        Self { leases }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know.
    Note,
    /// Should be changed.
    Warning,
    /// Locks are not safe like this.
    Danger,
}

/// Something `doctor` has to say about the server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was found.
    pub message: String,
    /// What to do about it.
    pub advice: String,
}

impl Finding {
    /// A finding with its advice.
    #[must_use]
    pub fn new(severity: Severity, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity, message: message.into(), advice: advice.into() }
    }
}
