//! `Once`: the handle, and what can be chosen.

use std::sync::Arc;
use std::time::Duration;

use super::entry::OUTCOME_MAX;
use super::flight::Flights;
use super::seen::SeenKeys;
use crate::claim::Wants;
use crate::error::{Error, Result};
use crate::locks::Locks;
use crate::name::Name;
use crate::recipes::request_builder::RequestBuilder;
use crate::sql::OnceTable;

use super::key::Key;

const LEASE: Duration = Duration::from_secs(30);
const KEEP: Duration = Duration::from_secs(24 * 60 * 60);
const WAIT: Duration = Duration::from_secs(30);
const MAX_OUTCOME: usize = 256 * 1024;

/// What to do while someone else is at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBusy {
    /// Wait for the outcome, this long at most. The end of the first run wakes
    /// those who wait; nobody asks again and again.
    Wait(Duration),
    /// Say so at once.
    Refuse,
}

/// What to do about work that says it has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Remember what it said, and say it again to everyone who asks.
    Record,
    /// Forget that it ran: the next one may try. For work that fails before it
    /// has an effect, or that may be done twice.
    Forget,
}

/// What to do about work whose process died, or lost its lease, in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCrash {
    /// The next one runs it again, with a larger fence, and is told
    /// ([`Turn::took_over`](super::Turn::took_over)): at least once.
    Rerun,
    /// Nobody runs it again by itself; everyone is told
    /// [`Refusal::Unknown`](super::Refusal::Unknown): at most once. Costs one
    /// more request for each run.
    Unknown,
}

/// An outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Done {
    /// What the work came to.
    pub outcome: Vec<u8>,
    /// Whether it had been done before this call.
    pub replayed: bool,
    /// How long ago it was done, by the wall clocks of two hosts.
    pub age: Duration,
}

impl Done {
    pub(super) const fn new(outcome: Vec<u8>, replayed: bool, age: Duration) -> Self {
        Self { outcome, replayed, age }
    }
}

/// What is to be kept of an outcome: any text or bytes, or nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::once::{Fingerprint, Kept, OnceError, Refusal};
///
/// let exports = leasehold::Locks::memory().once("exports");
/// let run = async || {
///     exports.run("2024", Fingerprint::none(), async |_| Ok::<_, String>(Kept::nothing())).await
/// };
/// run().await?;
/// let again = run().await.unwrap_err();
/// assert!(matches!(again, OnceError::Refused(Refusal::NotKept { .. })), "it was done; that is all");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept(pub(super) Option<Vec<u8>>);

impl Kept {
    /// Nothing but that it was done: repeats are told
    /// [`Refusal::NotKept`](super::Refusal::NotKept).
    #[must_use]
    pub const fn nothing() -> Self {
        Self(None)
    }
}

impl<T: Into<Vec<u8>>> From<T> for Kept {
    fn from(outcome: T) -> Self {
        Self(Some(outcome.into()))
    }
}

/// Work that is done one time for each key; needs the cargo feature `once`.
///
/// Whoever comes first with a key runs the work. Everyone else with that key,
/// in this or another process, now or until the outcome is no longer kept, gets
/// what the first run came to. `docs/guide/idempotency.md` says what is promised
/// when things go wrong.
///
/// Keep the handle, or clone it: calls of one process that share it also share
/// their requests.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::Locks;
/// use leasehold::once::{Fingerprint, OnceError, Refusal};
///
/// let payments = Locks::memory().once("payments");
/// let pay = async |amount: &'static str| {
///     let about = Fingerprint::of_bytes(amount.as_bytes());
///     let work = async |_turn| Ok::<_, String>(format!("paid {amount}"));
///     payments.run("key-of-the-client", about, work).await
/// };
/// assert_eq!(pay("10").await?.outcome, b"paid 10");
/// assert!(pay("10").await?.replayed, "not paid twice");
/// let other = pay("11").await.unwrap_err();
/// assert!(matches!(other, OnceError::Refused(Refusal::Mismatch)));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Once {
    pub(super) builder: RequestBuilder,
    pub(super) scope: Arc<str>,
    pub(super) keep: Duration,
    pub(super) tombstone: Duration,
    pub(super) max_outcome: usize,
    pub(super) busy: OnBusy,
    pub(super) failure: Failure,
    pub(super) crash: OnCrash,
    pub(super) table: OnceTable,
    pub(super) flights: Arc<Flights>,
    pub(super) seen: Arc<SeenKeys>,
}

impl Locks {
    /// Work that is done one time for each key of `scope`: a word for what is
    /// done, without slashes. Keys of two scopes do not meet.
    ///
    /// A scope that is not valid is an error of the first call that uses it.
    #[must_use]
    pub fn once(&self, scope: impl AsRef<str>) -> Once {
        let mut builder = RequestBuilder::new(self, &format!("once/{}", scope.as_ref()));
        builder.terms.ttl = LEASE;
        builder.wants = Wants::RecordOrLease;
        Once {
            builder,
            scope: scope.as_ref().into(),
            keep: KEEP,
            tombstone: Duration::ZERO,
            max_outcome: MAX_OUTCOME,
            busy: OnBusy::Wait(WAIT),
            failure: Failure::Forget,
            crash: OnCrash::Rerun,
            table: OnceTable::default(),
            flights: Arc::default(),
            seen: Arc::default(),
        }
    }
}

impl Once {
    /// How long a run whose process has died keeps others waiting: 30 s unless
    /// set. It is renewed as long as the process lives, however long that is.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.builder.terms.ttl = lease;
        self
    }

    /// How long an outcome is given to those who ask again: a day unless set, a
    /// hundred years at most. Afterwards the same key runs the work anew, unless there is a
    /// [tombstone](Once::tombstone).
    #[must_use]
    pub const fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// For how much longer it is remembered that a key was used, when its
    /// outcome is not given out any more: not at all unless set.
    #[must_use]
    pub const fn tombstone(mut self, tombstone: Duration) -> Self {
        self.tombstone = tombstone;
        self
    }

    /// The largest outcome to keep: 256 KiB unless set, a little less than 1 MiB
    /// at most. That work was done is remembered even if its outcome is larger.
    #[must_use]
    pub fn max_outcome(mut self, bytes: usize) -> Self {
        self.max_outcome = bytes.min(OUTCOME_MAX);
        self
    }

    /// What to do while someone else is at it: wait for 30 s unless set.
    #[must_use]
    pub const fn on_busy(mut self, busy: OnBusy) -> Self {
        self.busy = busy;
        self
    }

    /// What to do about work that fails: forget it, unless set.
    #[must_use]
    pub const fn on_failure(mut self, failure: Failure) -> Self {
        self.failure = failure;
        self
    }

    /// What to do about work that was cut off: run it again, unless set.
    #[must_use]
    pub const fn on_crash(mut self, crash: OnCrash) -> Self {
        self.crash = crash;
        self
    }

    /// Where keys are that are used in your own transaction: the table
    /// `leasehold_once` unless set.
    #[must_use]
    pub fn table(mut self, table: OnceTable) -> Self {
        self.table = table;
        self
    }

    /// What others see as the one who runs it.
    #[must_use]
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.builder.owner = self.builder.owner.labelled(label);
        self
    }

    /// Where lease and record of a key are.
    pub(super) fn name(&self, key: &Key) -> Result<Name> {
        if self.scope.is_empty() || self.scope.contains('/') {
            let text = "a scope of `once` has at least one character and no slash";
            return Err(Error::invalid(text).with("scope", &self.scope));
        }
        let locks = &self.builder.locks;
        let taken = "once//".len() + self.scope.len();
        let key = key.within(locks.profile().limits.name_max.saturating_sub(taken))?;
        locks.name(&["once/", &self.scope, "/", &key].concat())
    }
}
