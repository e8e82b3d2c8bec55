//! What a consensus store does for us: sessions, lines of entries, values.
//!
//! ZooKeeper and etcd differ in how they are spoken to and in how a key looks.
//! Everything else about a lock on them is the same, and is written once, above
//! this trait.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::metadata::Metadata;
use super::session::Session;
use crate::claim::{LeaseId, Mode, Wants};
use crate::engine::{BoxFuture, Bus, Finding, Profile, Scope};
use crate::error::Result;
use crate::name::{Name, Namespace};

/// A line: where the claims on a name stand one behind the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engines) struct QueueId {
    pub(in crate::engines) name: Name,
    pub(in crate::engines) part: QueuePart,
}

impl QueueId {
    pub(in crate::engines) fn of(name: &Name, part: QueuePart) -> Self {
        Self { name: name.clone(), part }
    }
}

/// Which of a name's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engines) enum QueuePart {
    /// The only one of a mutex or a read-write lock.
    Queue,
    /// Who wants permits: one at a time may ask for them.
    Door,
    /// Who has permits; the one at the door may have joined as well.
    Permits,
}

/// All lines of a name, each in order.
#[derive(Clone, Debug, Default)]
pub(in crate::engines) struct NameLines {
    pub(in crate::engines) queue: Vec<QueueEntry>,
    /// May be left out, as the door may, if anybody is in the queue.
    pub(in crate::engines) permits: Vec<QueueEntry>,
    pub(in crate::engines) door: Vec<QueueEntry>,
}

/// One entry of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engines) struct QueueEntry {
    /// Its whole key in the store.
    pub(in crate::engines) key: Arc<str>,
    /// Its place: whoever has a smaller one came earlier. Two entries have the
    /// same only if one holder left them, for writing and for reading.
    pub(in crate::engines) order: i64,
    /// Whose it is, if it is one of ours.
    pub(in crate::engines) id: Option<LeaseId>,
    /// How it takes the name. `of` is 0 where the store does not tell it.
    pub(in crate::engines) mode: Mode,
    /// When it was made, on the store's own scale: grows with every change of
    /// the store. Always known of one's own entries; others need a look.
    pub(in crate::engines) fence: Option<u64>,
    /// What it says about itself, where a listing brings that along.
    pub(in crate::engines) metadata: Option<Metadata>,
    /// Whom it stands behind, of one's own entries, where the store can tell that
    /// without a list: it is asked for again with it.
    pub(in crate::engines) behind: Option<EntryAhead>,
}

impl QueueEntry {
    /// Whether both are one entry, as far as is known: a key may be made anew, and is
    /// another entry then, at another place.
    pub(in crate::engines) fn is_same(&self, other: &Self) -> bool {
        let known = self.fence.zip(other.fence);
        self.key == other.key && known.is_none_or(|(one, two)| one == two)
    }
}

/// The entry before another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engines) struct EntryAhead {
    pub(in crate::engines) key: Arc<str>,
    /// Its place: a key may be made anew, and is another entry then.
    pub(in crate::engines) order: i64,
}

/// How an entry leaves its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engines) enum Departure {
    /// From the front: whoever came before it has gone.
    Front {
        /// Whether it had come behind others: then there may be more of them.
        waited: bool,
    },
    /// Out of turn, from behind this one, if that is known.
    Early(Option<EntryAhead>),
}

/// Who wants to join a line.
#[derive(Clone, Debug)]
pub(in crate::engines) struct Newcomer {
    pub(in crate::engines) id: LeaseId,
    /// `Permits` in `QueuePart::Permits`; `Exclusive` at the door.
    pub(in crate::engines) mode: Mode,
    pub(in crate::engines) metadata: Metadata,
    /// Writes nothing if anybody is in line, where one request can do that.
    pub(in crate::engines) only_if_empty: bool,
    /// An earlier request of this id may have arrived: look for what it left,
    /// in this session, before adding to it.
    pub(in crate::engines) again: bool,
    /// With `RecordOrLease` it joins only if there is no record, where one request
    /// can do that.
    pub(in crate::engines) wants: Wants,
    /// It is a candidacy in an election, where those have names of their own.
    pub(in crate::engines) candidate: bool,
}

/// A line as a newcomer found it, in the same request.
#[derive(Clone, Debug, Default)]
pub(in crate::engines) struct Joined {
    /// Its own entries, with their fences: none if it has not joined. One,
    /// except where a store has an entry for each permit.
    pub(in crate::engines) mine: Vec<QueueEntry>,
    /// The line in order, own entries included. May leave out who does not matter to
    /// ours: all but the first, ours, and those that show where it stands and whether
    /// another kind has the name. Not of those who have permits.
    pub(in crate::engines) line: Vec<QueueEntry>,
    /// The name is in use as another kind of lock, which this line cannot show.
    pub(in crate::engines) stranger: Option<Mode>,
    /// The value of the name, if it was read.
    pub(in crate::engines) value: Option<Option<StoredValue>>,
}

/// Whoever has been answered that it joined, or that it did not: what it found has
/// yet to be read. A failure from here on says nothing about what was left.
pub(in crate::engines) struct Entered(pub(in crate::engines) BoxFuture<Result<Joined>>);

/// What became of a watched key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engines) enum KeyChange {
    /// It is gone.
    Gone,
    /// Somebody wrote this over its value.
    Written(Vec<u8>),
    /// The watch broke: whether anything changed has to be looked up.
    Doubt,
}

/// A key that is there, and the news of its next change. Dropped, it is not
/// watched any more.
pub(in crate::engines) struct WatchedKey {
    /// What is written on it: a metadata, or a word to its owner.
    pub(in crate::engines) bytes: Vec<u8>,
    /// Its place, where a key can stay while its entry changes: one that was made
    /// anew has another place, and a writer may be a reader by now.
    pub(in crate::engines) order: Option<i64>,
    /// Resolves once, with the first change after the look.
    pub(in crate::engines) change: BoxFuture<KeyChange>,
}

/// A line and the news of its next change: somebody joined or left, or the watch
/// broke.
pub(in crate::engines) struct WatchedQueue {
    pub(in crate::engines) line: Vec<QueueEntry>,
    pub(in crate::engines) change: BoxFuture<()>,
}

/// A step of a change that happens as a whole or not at all.
#[derive(Clone, Debug)]
pub(in crate::engines) enum TxnStep {
    /// This entry goes; only if it is there, made at this fence.
    Remove { key: Arc<str>, fence: u64, departure: Departure },
    /// This is written over its metadata; only if it is there.
    Write { key: Arc<str>, fence: u64, bytes: Vec<u8> },
    /// This value is written, whatever was there.
    Put { name: Name, bytes: Vec<u8>, life: ValueLife },
    /// This value is not there any more, whether it was or not.
    Delete { name: Name },
}

/// How long a value stays.
#[derive(Clone, Debug)]
pub(in crate::engines) enum ValueLife {
    Forever,
    For(Duration),
    /// As long as the value before, which is there.
    Keep,
    /// No longer than this session. That it goes with one lease of the session
    /// is seen to above.
    Session(Arc<Session>),
}

/// A stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engines) struct StoredValue {
    pub(in crate::engines) bytes: Vec<u8>,
    /// Grows with every change of the store, and is never reused.
    pub(in crate::engines) version: u64,
    /// What the store compares in a conditional write.
    pub(in crate::engines) stamp: i64,
}

/// What must be there for a value to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) enum If {
    Absent,
    Stamp(i64),
    Any,
}

/// A change of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engines) enum ValueNews {
    Put(Name, StoredValue),
    /// Nothing is there any more that has this version or a smaller one, and what is
    /// written later has a larger one. It is larger than that of the value that went.
    Gone(Name, u64),
    /// Some were missed.
    Gap,
}

/// Metadata and fence of an entry, if it is there.
pub(in crate::engines) type Look = Option<(Metadata, u64)>;

/// Some values, and whether there may be more.
pub(in crate::engines) type Scan = (Vec<(Name, StoredValue)>, bool);

/// A consensus store.
///
/// Every method ends by itself: within the request time-out, or a little later while
/// a store that is busy answers others of this client. Requests that were sent and not
/// answered fail with an `Unknown` outcome.
pub(in crate::engines) trait Ensemble: Debug + Send + Sync + 'static {
    fn profile(&self) -> &Profile;

    /// Whether an exclusive claim is a claim for the one permit there is, as in
    /// Curator's `InterProcessSemaphoreMutex`.
    fn mutex_is_semaphore(&self) -> bool;

    /// Where `Suspended`, `Reconnected` and `Disconnected` are published: the
    /// last once no session is left, and `Reconnected` follows it when there is
    /// one again.
    fn bus(&self) -> &Bus;

    /// Whether software that is not ours hears when it is asked to let go, by the
    /// word that Curator has for it.
    fn asks_strangers(&self) -> bool;

    /// Whether values can have a time to live.
    fn times_values(&self) -> bool;

    /// Whether a join that was not answered may be carried out after a later one of
    /// the same session was.
    fn may_overtake(&self) -> bool;

    /// A session that is good for at most `ttl` after this client's last sign of
    /// life, and that the store ends `delay` later. It is kept alive from here on,
    /// and shared by all who ask for a like ttl and the same delay.
    fn session(&self, ttl: Duration, delay: Duration) -> BoxFuture<Result<Arc<Session>>>;

    /// Asks the store, not just one of its servers, for a sign of life now. Done,
    /// `session.proven()` is not earlier than the call.
    fn prove(&self, session: Arc<Session>) -> BoxFuture<Result<()>>;

    /// Adds to the end of a line and lists it: one trip. It fails with
    /// `NotApplied` only if nothing of this newcomer is left by it.
    fn join(
        &self,
        session: Arc<Session>,
        line: QueueId,
        newcomer: Newcomer,
    ) -> BoxFuture<Result<Entered>>;

    /// A line in order. With `mine`, as much of it as `join` tells.
    fn list(&self, line: QueueId, mine: Option<QueueEntry>) -> BoxFuture<Result<Vec<QueueEntry>>>;

    /// All lines of each of these names, in as few trips as can be.
    fn lines(&self, names: Vec<Name>) -> BoxFuture<Result<Vec<NameLines>>>;

    /// Notes that this entry, which has waited, has come to hold: for those who
    /// ask who is in the way. Nothing depends on it.
    fn announce(&self, entry: QueueEntry) -> BoxFuture<Result<()>>;

    /// A line in order, and the news of its next change.
    fn watch_line(&self, line: QueueId) -> BoxFuture<Result<WatchedQueue>>;

    /// Looks at entries: metadata and fence of each that is there, in one trip.
    fn look(&self, keys: Vec<Arc<str>>) -> BoxFuture<Result<Vec<Look>>>;

    /// Whether the entry that was made with this key and fence is there, perhaps
    /// downgraded by now.
    fn is_there(&self, key: Arc<str>, fence: u64) -> BoxFuture<Result<bool>>;

    /// Watches an entry; `None` if it is not there.
    fn watch(&self, key: Arc<str>) -> BoxFuture<Result<Option<WatchedKey>>>;

    /// Carries out all steps, or none: `None` if a check failed, otherwise the
    /// version that the change has.
    fn change(&self, steps: Vec<TxnStep>) -> BoxFuture<Result<Option<u64>>>;

    /// Makes an entry for writing one for reading, in the same place.
    /// `None` if it is not there any more.
    fn downgrade(
        &self,
        session: Arc<Session>,
        entry: QueueEntry,
    ) -> BoxFuture<Result<Option<QueueEntry>>>;

    /// Removes what unanswered requests of this id have left in a line, and sees
    /// to it that none can leave anything later. Whether anything was there.
    /// The mode is that of its entries in this line. `session` is the one that all of
    /// them were sent in, where that is known: a store whose keys say the session
    /// finds them without a look at the line.
    fn withdraw(
        &self,
        line: QueueId,
        whose: (LeaseId, Mode),
        session: Option<Arc<Session>>,
    ) -> BoxFuture<Result<bool>>;

    /// The names of a namespace that begin with `prefix` and have lines, after
    /// `after`, in byte order; at most `most`, and whether there are more.
    fn names(
        &self,
        namespace: Namespace,
        prefix: Arc<str>,
        after: Option<Name>,
        most: usize,
    ) -> BoxFuture<Result<(Vec<Name>, bool)>>;

    /// One value; what has expired is not there.
    fn load(&self, name: Name) -> BoxFuture<Result<Option<StoredValue>>>;

    /// Writes a value, or removes it (`bytes: None`), if the condition holds and
    /// every entry of `while_there` (key and fence) is there: the version of the
    /// change. `None` if not.
    fn store(
        &self,
        name: Name,
        condition: If,
        bytes: Option<Vec<u8>>,
        life: ValueLife,
        while_there: Option<(Arc<str>, u64)>,
    ) -> BoxFuture<Result<Option<u64>>>;

    /// Values whose names begin with the root of a scope, from `from` on, in byte order:
    /// about `most`, fewer once they fill a page, and whether there may be more. Those
    /// that lie too deep may be left out.
    fn scan(&self, scope: Scope, from: Arc<str>, most: usize) -> BoxFuture<Result<Scan>>;

    /// Changes of the values whose names begin with `prefix`, in their order, from
    /// the moment it answers. The channel closes with the store.
    fn follow(
        &self,
        namespace: Namespace,
        prefix: Arc<str>,
    ) -> BoxFuture<Result<mpsc::UnboundedReceiver<ValueNews>>>;

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>>;

    fn close(&self) -> BoxFuture<Result<()>>;
}
