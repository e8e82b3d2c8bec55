//! The nouns that cross the border between the library and an engine.

mod record;

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::name::Name;

pub use record::{Expect, Record, Store, VALUE_MAX};

/// The longest owner label in bytes.
pub const LABEL_MAX: usize = 255;
/// The longest meta text in bytes.
pub const META_MAX: usize = 1024;

/// How a name is taken. Kinds do not mix: while a name is held or waited for
/// as one kind, claims of another kind are an error, never a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    any(feature = "sqlite", feature = "postgres", feature = "mysql"),
    derive(serde::Serialize, serde::Deserialize)
)]
#[non_exhaustive]
pub enum Mode {
    /// One holder: a mutex.
    Exclusive,
    /// Any number of readers, no writer.
    Read,
    /// One writer, no readers.
    Write,
    /// `take` of `of` permits: a semaphore.
    Permits {
        /// How many this claim takes.
        take: u32,
        /// How many there are, for every claim on the name.
        of: u32,
    },
}

impl Mode {
    /// Whether two claims belong to one kind of lock.
    #[must_use]
    pub const fn same_kind(self, other: Self) -> bool {
        match (self, other) {
            (Self::Exclusive, Self::Exclusive) => true,
            (Self::Read | Self::Write, Self::Read | Self::Write) => true,
            (Self::Permits { of: a, .. }, Self::Permits { of: b, .. }) => a == b,
            _ => false,
        }
    }

    /// Whether a holder in this mode may take the name in `other` as well.
    /// Permits are counted, so taking them twice takes more.
    pub(crate) const fn covers(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Exclusive, Self::Exclusive)
                | (Self::Write, Self::Write | Self::Read)
                | (Self::Read, Self::Read)
        )
    }

    /// Whether a claim can ever be granted.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Self::Permits { take, of } if take == 0 || take > of => Err(Error::invalid(format!(
                "cannot take {take} of {of} permits: take at least 1 and at most {of}"
            ))),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("exclusive"),
            Self::Read => f.write_str("read"),
            Self::Write => f.write_str("write"),
            Self::Permits { take, of } => write!(f, "permits {take}/{of}"),
        }
    }
}

/// The secret of a lease: 128 random bits, chosen by the client before it asks.
///
/// Whoever knows it may renew or release the lease, so it never appears in
/// `Debug`. Its shape is that of a version 4 UUID, as other clients expect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(u128);

impl LeaseId {
    /// A fresh, unguessable id.
    #[must_use]
    pub fn random() -> Self {
        const VERSION: u128 = 0xf << 76;
        const VARIANT: u128 = 0b11 << 62;
        Self((random_bits() & !VERSION & !VARIANT) | (4 << 76) | (0b10 << 62))
    }

    /// The id as a number, for an engine to store.
    #[must_use]
    pub const fn to_bits(self) -> u128 {
        self.0
    }

    /// The id an engine stored.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The id as the UUID that it is.
    #[cfg(any(feature = "redis", feature = "zookeeper"))]
    pub(crate) fn to_uuid(self) -> String {
        let hex = format!("{:032x}", self.0);
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// The id of such a UUID.
    #[cfg(any(feature = "redis", feature = "zookeeper"))]
    pub(crate) fn from_uuid(uuid: &str) -> Option<Self> {
        u128::from_str_radix(&uuid.replace('-', ""), 16).ok().map(Self)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseId(secret)")
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
impl serde::Serialize for LeaseId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:032x}", self.0))
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
impl<'de> serde::Deserialize<'de> for LeaseId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(from)?;
        u128::from_str_radix(&text, 16).map(Self).map_err(serde::de::Error::custom)
    }
}

/// Which process the stocks of random bits belong to; see [`new_process`].
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// A forked child must not hand out what its parent hands out: every home that
/// starts makes the stocks of its process. (Asking for the process id each
/// time would cost more than the rest of an uncontended lock in memory.)
pub(crate) fn new_process() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
}

/// 128 bits from the system's generator, fetched many at a time: ids are
/// secrets, but a system call for each would cost more than the lock itself.
pub(crate) fn random_bits() -> u128 {
    const AT_ONCE: usize = 256;
    thread_local! {
        static STOCK: RefCell<(u32, Vec<u128>)> = const { RefCell::new((0, Vec::new())) };
    }
    STOCK.with_borrow_mut(|(process, stock)| {
        let here = PROCESS.load(Ordering::Relaxed);
        if *process != here || stock.is_empty() {
            (*process, *stock) = (here, fresh_bits(AT_ONCE));
        }
        stock.pop().unwrap_or_else(|| fresh_bits(1)[0])
    })
}

fn fresh_bits(count: usize) -> Vec<u128> {
    let mut bytes = vec![0; count * 16];
    getrandom::fill(&mut bytes).expect("the operating system gives no random numbers");
    bytes.as_chunks::<16>().0.iter().map(|chunk| u128::from_le_bytes(*chunk)).collect()
}

/// The identity of an owner: random, and never shown.
pub(crate) type OwnerId = u128;

/// Who asks: an identity that may re-enter, and a label for people to read.
///
/// An owner that is given to [`Locks::owned_by`](crate::Locks::owned_by) can
/// take what it already holds: the second guard costs no request, has the same
/// fence, and the lease ends with the last one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// use leasehold::Owner;
///
/// let order = locks.owned_by(&Owner::new("checkout")).mutex("order/42");
/// let outer = order.lock().await?;
/// let inner = order.lock().await?;
/// assert_eq!(outer.fence(), inner.fence());
/// drop(outer);
/// inner.check()?;
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg_attr(
    any(feature = "sqlite", feature = "postgres", feature = "mysql"),
    derive(serde::Serialize, serde::Deserialize)
)]
pub struct Owner {
    pub(crate) id: OwnerId,
    label: Arc<str>,
}

impl Owner {
    /// A new identity with this label; control characters become spaces and
    /// what is longer than 255 bytes is cut.
    #[must_use]
    pub fn new(label: impl AsRef<str>) -> Self {
        Self { id: random_bits(), label: tidy(label.as_ref(), LABEL_MAX).into() }
    }

    /// A new identity, labelled with host, process and thread.
    pub(crate) fn of_this_thread() -> Self {
        match std::thread::current().name() {
            Some(thread) => Self::new(format!("{}/{thread}", process_label())),
            None => Self::new(process_label()),
        }
    }

    /// The identity of the thread that asks, as long as it lives: random, because
    /// the system gives the number of a thread that has ended to another one.
    pub(crate) fn this_thread() -> Self {
        thread_local! {
            static ME: RefCell<Option<(u32, Owner)>> = const { RefCell::new(None) };
        }
        let here = PROCESS.load(Ordering::Relaxed);
        let mine = ME.try_with(|me| {
            let mut me = me.borrow_mut();
            let known = me.take().filter(|(process, _)| *process == here);
            me.insert(known.unwrap_or_else(|| (here, Self::of_this_thread()))).1.clone()
        });
        // A thread at its very end has nothing left to re-enter.
        mine.unwrap_or_else(|_| Self::of_this_thread())
    }

    /// The same identity under another label.
    #[must_use]
    pub fn labelled(&self, label: impl AsRef<str>) -> Self {
        Self { id: self.id, ..Self::new(label) }
    }

    /// What people see in `ls`, in errors and in logs.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owner").field(&self.label).finish()
    }
}

/// `host:process` of this process.
fn process_label() -> &'static str {
    static LABEL: OnceLock<String> = OnceLock::new();
    LABEL.get_or_init(|| {
        let host = rustix::system::uname();
        format!("{}:{}", host.nodename().to_string_lossy(), std::process::id())
    })
}

fn tidy(text: &str, most: usize) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut size = 0;
    let fits = |c: &char| {
        size += c.len_utf8();
        size <= most
    };
    clean.take_while(fits).collect()
}

/// A lease id with what it stands for; known before any reply, queued or held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Ticket {
    /// The secret of the lease.
    pub id: LeaseId,
    /// What is locked.
    pub name: Name,
    /// How.
    pub mode: Mode,
}

impl Ticket {
    /// A ticket with a fresh id.
    #[must_use]
    pub fn new(name: Name, mode: Mode) -> Self {
        Self { id: LeaseId::random(), name, mode }
    }

    /// The same lease in another mode, after `convert`.
    #[must_use]
    pub fn in_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }
}

/// Whether a claim that cannot be granted now joins the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stance {
    /// Answer at once and leave nothing behind.
    Try,
    /// Wait in the queue, until this moment at most.
    Wait {
        /// The end of the wait; [`Moment::NEVER`] for no limit.
        until: Moment,
    },
}

/// What a client asks an engine for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// Lease id, name and mode.
    pub ticket: Ticket,
    /// Who asks.
    pub owner: Owner,
    /// Free at most this long after the holder's last sign of life.
    pub ttl: Duration,
    /// How much longer an expired (not a released) name stays closed.
    pub lock_delay: Duration,
    /// A text for people, shown by `show`.
    pub meta: Option<Arc<str>>,
    /// Wait, or not.
    pub stance: Stance,
    /// Exact arrival order over all processes is required, not just usual.
    pub fair: bool,
    /// Whether the library will renew it. A fixed lease ends after its ttl
    /// whatever else the client keeps alive.
    pub renewed: bool,
    /// Whether the grant brings the record of the same name.
    pub load: bool,
    /// Whether that record alone is as good as a grant. Then an engine that
    /// finds one may answer [`Busy`] with it, at once and with nothing left
    /// behind, unless the lease id is held or queued already. It may also grant.
    pub unless_found: bool,
}

impl Claim {
    /// A claim that tries, with nothing special about it.
    #[must_use]
    pub const fn new(ticket: Ticket, owner: Owner, ttl: Duration) -> Self {
        Self {
            ticket,
            owner,
            ttl,
            lock_delay: Duration::ZERO,
            meta: None,
            stance: Stance::Try,
            fair: false,
            renewed: true,
            load: false,
            unless_found: false,
        }
    }
}

/// The answer to a claim.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The lease is ours.
    Granted(Grant),
    /// It is not.
    Busy(Busy),
}

/// A lease, as granted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Grant {
    /// The fencing token.
    pub fence: u64,
    /// How long the lease runs from `sent_at`; may be less than asked for.
    pub ttl: Duration,
    /// When the request that last proved it alive left, stamped by the engine
    /// before the bytes went out.
    pub sent_at: Moment,
    /// How the holder before ended.
    pub predecessor: Predecessor,
    /// The record of the same name, if the claim asked for it and there is one.
    pub record: Option<Record>,
}

impl Grant {
    /// A grant with no known predecessor.
    #[must_use]
    pub const fn new(fence: u64, ttl: Duration, sent_at: Moment) -> Self {
        Self { fence, ttl, sent_at, predecessor: Predecessor::Unknown, record: None }
    }

    /// The same grant with what is known of the holder before.
    #[must_use]
    pub const fn following(mut self, predecessor: Predecessor) -> Self {
        self.predecessor = predecessor;
        self
    }
}

/// How the holder before ended: the signal of a robust mutex. After `Expired`
/// or `Evicted` the protected state may be half changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    any(feature = "sqlite", feature = "postgres", feature = "mysql"),
    derive(serde::Serialize, serde::Deserialize)
)]
#[non_exhaustive]
pub enum Predecessor {
    /// Nobody held the name for as long as the engine remembers; a clean end
    /// may be forgotten at once.
    None,
    /// It released the lease.
    Released,
    /// It died, or lost touch for longer than its ttl.
    Expired,
    /// An operator took the lease away.
    Evicted,
    /// The engine cannot tell.
    Unknown,
}

/// Why a claim was not granted.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Busy {
    /// Who holds the name, where the engine can tell.
    pub holder: Option<Holder>,
    /// When it is worth to look again, even if nothing wakes the waiter:
    /// wherever time passes only when somebody asks. `None` where the server
    /// tells.
    pub recheck_in: Option<Duration>,
    /// The place in the queue, if the claim has joined one.
    pub place: Option<Place>,
    /// The record that is there, if the claim was to be granted only without.
    pub found: Option<Record>,
}

impl Busy {
    /// Busy, with no more to say.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Not asked any further, because this record is there.
    #[must_use]
    pub fn found(record: Record) -> Self {
        Self { found: Some(record), ..Self::default() }
    }
}

/// A place in a queue. It is kept alive by `renew`, like a lease, and a lease
/// handed to it ends when the place would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// How long the place is kept from `sent_at`.
    pub ttl: Duration,
    /// When the request that last proved it alive left.
    pub sent_at: Moment,
}

impl Place {
    /// A place kept for `ttl` from `sent_at`.
    #[must_use]
    pub const fn new(ttl: Duration, sent_at: Moment) -> Self {
        Self { ttl, sent_at }
    }
}

/// Who holds a name, as far as others may know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The owner's label.
    pub label: Arc<str>,
    /// The fence of its lease, where the engine shows it.
    pub fence: Option<u64>,
    /// How long it has held the name.
    pub held_for: Option<Duration>,
    /// How long its lease runs if it is not renewed.
    pub time_left: Option<Duration>,
}

impl Holder {
    /// A holder of whom only the label is known.
    #[must_use]
    pub fn new(label: impl Into<Arc<str>>) -> Self {
        Self { label: label.into(), fence: None, held_for: None, time_left: None }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)?;
        if let Some(fence) = self.fence {
            write!(f, " (fence {fence})")?;
        }
        match self.held_for {
            Some(span) => write!(f, " for {:?}", rounded(span)),
            None => Ok(()),
        }
    }
}

/// For people: no more digits than they can use.
pub(crate) fn rounded(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// What ended a wait.
#[derive(Clone, Debug)]
pub enum Wake {
    /// The releaser handed the lease to this ticket, which has been told its
    /// place. The lease runs as long as the place would have: from the last
    /// confirmed join or refresh. It brings no record: the releaser does not
    /// know who asked for one, so a holder that wants it loads it now, under
    /// the lease, where nobody else changes it.
    Granted {
        /// The fencing token.
        fence: u64,
        /// How the holder before ended.
        predecessor: Predecessor,
    },
    /// It is worth to claim again, or the wait is over.
    Look,
}

/// One ticket to keep alive, in a batch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refresh {
    /// The ticket, queued or held.
    pub ticket: Ticket,
    /// Its ttl from now on.
    pub ttl: Duration,
    /// Its lock delay.
    pub lock_delay: Duration,
    /// As in the claim.
    pub renewed: bool,
}

impl Refresh {
    /// Keeps `ticket` alive for `ttl`.
    #[must_use]
    pub const fn new(ticket: Ticket, ttl: Duration) -> Self {
        Self { ticket, ttl, lock_delay: Duration::ZERO, renewed: true }
    }
}

/// What became of one ticket of a batch.
#[derive(Clone, Debug)]
pub enum Renewal {
    /// Held, for `ttl` from `sent_at`, whatever the caller believed before.
    Held {
        /// How long the lease runs.
        ttl: Duration,
        /// When the request left.
        sent_at: Moment,
    },
    /// Still in the queue.
    Queued(Place),
    /// Neither held nor queued.
    Gone,
    /// No answer for this ticket.
    Unknown(Error),
}

/// How a lease ends.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Ending {
    /// Keep the name closed this much longer, although it is released: for a
    /// job that must not run again on a host whose clock is behind.
    pub keep_closed: Option<Duration>,
    /// The holder did not let go by itself: its successor is told `Expired`, and
    /// a lock delay runs, where the engine has them.
    pub cut_off: bool,
    /// The grant never came to its user: the next one is told what this one
    /// would have been told, where the engine remembers how holders end.
    pub unseen: bool,
    /// A record to store in the same request, if the lease is still ours; it
    /// expects [`Expect::Any`]. `AlreadyLost` means that it was not stored,
    /// or, after a lost reply, that the first try has stored it.
    pub store: Option<Store>,
}

impl Ending {
    /// An ordinary release.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A release after which the name stays closed for `span`.
    #[must_use]
    pub const fn closed_for(span: Duration) -> Self {
        Self { keep_closed: Some(span), cut_off: false, unseen: false, store: None }
    }

    /// The end of a lease that was taken from its holder for being late.
    #[must_use]
    pub const fn cut_off() -> Self {
        Self { keep_closed: None, cut_off: true, unseen: false, store: None }
    }

    /// Whether the next one need not be told of it, nor kept waiting; it may
    /// leave a record.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.keep_closed.is_none() && !self.cut_off && !self.unseen
    }

    /// A release that leaves a record, if the lease is still ours.
    #[must_use]
    pub const fn storing(store: Store) -> Self {
        Self { keep_closed: None, cut_off: false, unseen: false, store: Some(store) }
    }
}

/// What a release found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Released {
    /// The lease, or the place in the queue, was ours and is gone.
    Released,
    /// It was not ours any more; nothing was touched.
    AlreadyLost,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_ids_are_random_uuids_and_stay_secret() {
        let (a, b) = (LeaseId::random(), LeaseId::random());
        assert_ne!(a, b);
        assert_eq!(a.to_bits() >> 76 & 0xf, 4);
        assert_eq!(a.to_bits() >> 62 & 0b11, 0b10);
        assert!(!format!("{a:?}").contains(&format!("{:x}", a.to_bits())));
    }

    #[test]
    fn labels_are_one_short_line() {
        let owner = Owner::new(format!("two\nlines {}", "é".repeat(300)));
        assert!(owner.label().starts_with("two lines é"));
        assert!(owner.label().len() <= LABEL_MAX);
    }

    #[test]
    fn kinds_do_not_mix() {
        let permits = |take, of| Mode::Permits { take, of };
        assert!(Mode::Read.same_kind(Mode::Write));
        assert!(permits(1, 5).same_kind(permits(2, 5)));
        assert!(!permits(1, 5).same_kind(permits(1, 6)));
        assert!(!Mode::Exclusive.same_kind(Mode::Write));
        assert!(permits(0, 5).check().is_err() && permits(6, 5).check().is_err());
    }
}
