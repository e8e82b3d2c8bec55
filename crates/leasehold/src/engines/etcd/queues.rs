//! Lines of entries: who wants a name, in the order of coming.

use std::sync::Arc;

use super::Etcd;
use super::keys::{self, EtcdKeys, KeyKind};
use super::link::{CallFault, over};
use super::proto::{KeyValue, RangeRequest, RangeResponse, TxnRequest, TxnResponse};
use super::txn::{self, read};
use super::values::value;
use crate::claim::{LeaseId, Mode, Wants};
use crate::clock::Moment;
use crate::engines::consensus::{
    Entered, Joined, Newcomer, QueueEntry, QueueId, QueuePart, Session, WatchedQueue,
};
use crate::error::{Error, ErrorKind, Result};

/// How much of a line is listed at first.
const PAGE: i64 = 100;

/// A line, as keys.
pub(super) struct QueueKeys {
    part: QueuePart,
    /// What the keys of the line begin with.
    pub(super) prefix: String,
    /// What the keys of all lines of the name begin with.
    base: String,
    /// Where the value of the name is.
    record: String,
}

/// What lies below a prefix.
#[derive(Default)]
struct View {
    line: Vec<QueueEntry>,
    stranger: Option<Mode>,
    /// Keys of other names lie between.
    mixed: bool,
}

impl Etcd {
    pub(super) async fn join_line(
        self: Arc<Self>,
        session: Arc<Session>,
        line: &QueueId,
        newcomer: Newcomer,
    ) -> Result<Entered> {
        let by = self.link.deadline();
        let place = self.place(line)?;
        let found = self.enter(&session, &place, &newcomer, by).await?;
        Ok(Entered(Box::pin(async move {
            let joined = self.read_off(&place, &newcomer, found, by).await?;
            if !is_among_others(&joined, &newcomer) {
                return Ok(joined);
            }
            // Keys of other names lie below this one's: only one's own place in the
            // line can tell.
            let newcomer = Newcomer { only_if_empty: false, ..newcomer };
            let found = self.enter(&session, &place, &newcomer, by).await?;
            self.read_off(&place, &newcomer, found, by).await
        })))
    }

    /// Adds to the line, and looks around in the same step.
    async fn enter(
        &self,
        session: &Session,
        place: &QueueKeys,
        newcomer: &Newcomer,
        by: Moment,
    ) -> Result<Ranges> {
        let own = EtcdKeys::own(&place.prefix, session.id(), newcomer.id, newcomer.mode);
        let tombstone = self.keys.tombstone(place.part, newcomer.id);
        let request = place.joining(&own, session, newcomer, &tombstone);
        let found = ranges(self.on_session(session, self.link.try_ask(request, by).await)?);
        let [own, tombstone, ..] = &found;
        if own.kvs.is_empty() && !tombstone.kvs.is_empty() {
            return Err(Error::new(ErrorKind::NotHeld, "this claim has been given back"));
        }
        Ok(found)
    }

    async fn read_off(
        &self,
        place: &QueueKeys,
        newcomer: &Newcomer,
        [own, _, line, rest]: Ranges,
        by: Moment,
    ) -> Result<Joined> {
        let (queue, value) = if newcomer.wants.record() {
            (RangeResponse::default(), Some(rest.kvs.into_iter().next().map(value)))
        } else {
            (rest, None)
        };
        let mine: Vec<_> = place.view(&own.kvs).line;
        let View { line, stranger, .. } = self.whole(place, line, mine.first(), by).await?;
        let stranger = stranger.or_else(|| place.stranger(&queue.kvs));
        Ok(Joined { mine, line, stranger, value })
    }

    pub(super) async fn list(
        &self,
        line: &QueueId,
        mine: Option<&QueueEntry>,
    ) -> Result<Vec<QueueEntry>> {
        let by = self.link.deadline();
        let place = self.place(line)?;
        let limit = if mine.is_some() { PAGE } else { 0 };
        let first = self.link.ask(txn::oldest_below(&place.prefix, limit), by).await?;
        Ok(self.whole(&place, first, mine, by).await?.line)
    }

    /// A line, and the news of its next change.
    pub(super) async fn watch_line(&self, line: &QueueId) -> Result<WatchedQueue> {
        let place = self.place(line)?;
        let all = txn::oldest_below(&place.prefix, 0);
        let all = self.link.ask(all, self.link.deadline()).await?;
        let from = txn::revision(all.header) + 1;
        let mut watch = self.watches.watch(&place.prefix, txn::end_of(&place.prefix), from);
        let change = Box::pin(async move { _ = watch.next().await });
        Ok(WatchedQueue { line: place.view(&all.kvs).line, change })
    }

    /// Makes an entry for writing one for reading: the key stays, and with it its
    /// place and its fence.
    pub(super) async fn downgrade(
        &self,
        session: &Session,
        entry: QueueEntry,
    ) -> Result<Option<QueueEntry>> {
        let mut metadata = entry.metadata.clone().unwrap_or_default();
        metadata.mode = Some(Mode::Read);
        let lease = session.id().cast_signed();
        let request = TxnRequest {
            compare: vec![txn::made_at(&entry.key, entry.order)],
            success: vec![txn::put(&entry.key, metadata.write(), lease)],
            failure: Vec::new(),
        };
        let answer = self.link.try_ask(request, self.link.deadline()).await;
        let answer = self.on_session(session, answer)?;
        Ok(answer.succeeded.then_some(QueueEntry {
            mode: Mode::Read,
            metadata: Some(metadata),
            ..entry
        }))
    }

    /// First the tombstone, so that nothing can arrive after the look.
    pub(super) async fn withdraw(&self, line: &QueueId, id: LeaseId) -> Result<bool> {
        let by = self.link.deadline();
        let place = self.place(line)?;
        let all = RangeRequest { keys_only: true, ..txn::below(&place.prefix, 0) };
        let tombstone = self.keys.tombstone(place.part, id);
        let ways = (&*self.link, &self.leases);
        let found = self.tombstones.put_up(ways, &tombstone, read(all), by).await?;
        let mine = txn::found(found).flat_map(|range| range.kvs);
        let mine = mine.filter(|key| keys::is_of(&key.key, id));
        let gone = mine.filter_map(|key| Some(txn::delete(str::from_utf8(&key.key).ok()?)));
        let request = TxnRequest { success: gone.collect(), ..TxnRequest::default() };
        if request.success.is_empty() {
            return Ok(false);
        }
        self.link.ask(request, by).await?;
        Ok(true)
    }

    /// What a request on a session says of the session.
    pub(super) fn on_session<T>(
        &self,
        session: &Session,
        answer: Result<T, CallFault>,
    ) -> Result<T> {
        match answer {
            Err(CallFault::LeaseGone) => {
                self.leases.live().over(session);
                Err(over())
            }
            answer => answer.map_err(CallFault::into_error),
        }
    }

    fn place(&self, line: &QueueId) -> Result<QueueKeys> {
        let (prefix, base) = (self.keys.line(line)?, self.keys.base(&line.name)?);
        Ok(QueueKeys { part: line.part, prefix, base, record: self.keys.record(&line.name) })
    }

    /// As much of a line as matters to `mine`, all of it if that is nobody's.
    async fn whole(
        &self,
        place: &QueueKeys,
        first: RangeResponse,
        mine: Option<&QueueEntry>,
        by: Moment,
    ) -> Result<View> {
        let mut view = place.view(&first.kvs);
        let Some(mine) = mine.filter(|_| first.more) else { return Ok(view) };
        let is_listed = view.line.last().is_some_and(|last| last.order >= mine.order);
        let waits_for_one = matches!(mine.mode, Mode::Exclusive | Mode::Write);
        if waits_for_one && is_listed {
            return Ok(view);
        }
        if waits_for_one && !view.mixed {
            let before = txn::youngest_before(&place.prefix, mine.order);
            let before = place.view(&self.link.ask(before, by).await?.kvs);
            if !before.mixed {
                view.line.extend(before.line);
                view.line.push(mine.clone());
                return Ok(view);
            }
        }
        let all = self.link.ask(txn::oldest_below(&place.prefix, 0), by).await?;
        Ok(place.view(&all.kvs))
    }
}

impl QueueKeys {
    /// One transaction that adds and looks. Whatever came of it is read back, so a
    /// repeated one finds what the first has left.
    fn joining(
        &self,
        own: &str,
        session: &Session,
        newcomer: &Newcomer,
        tombstone: &str,
    ) -> TxnRequest {
        let mut compare = vec![txn::absent(own), txn::absent(tombstone)];
        compare.extend(newcomer.only_if_empty.then(|| txn::none_below(&self.prefix)));
        let instead = newcomer.wants == Wants::RecordOrLease;
        compare.extend(instead.then(|| txn::absent(&self.record)));
        let line = txn::oldest_below(&self.prefix, PAGE);
        let mut looks = vec![read(txn::one(own)), read(txn::one(tombstone)), read(line)];
        looks.extend((self.part != QueuePart::Queue).then(|| read(self.queue())));
        looks.extend(newcomer.wants.record().then(|| read(txn::one(&self.record))));
        let mut metadata = newcomer.metadata.clone();
        if self.part != QueuePart::Door {
            metadata.mode = Some(newcomer.mode);
        }
        let mut success = vec![txn::put(own, metadata.write(), session.id().cast_signed())];
        success.extend(looks.iter().cloned());
        TxnRequest { compare, success, failure: looks }
    }

    /// Who is in the queue: its keys begin with a lease in hex, before the parts.
    fn queue(&self) -> RangeRequest {
        let range_end = format!("{}g", self.base).into_bytes();
        RangeRequest { range_end, ..txn::below(&self.base, PAGE) }
    }

    fn view(&self, keys: &[KeyValue]) -> View {
        let mut view = View::default();
        for key in keys {
            match keys::read(&self.prefix, self.part, key) {
                KeyKind::QueueEntry(entry) => view.line.push(entry),
                KeyKind::Permits(mode) => view.stranger = Some(mode),
                KeyKind::Other => view.mixed = true,
            }
        }
        view
    }

    /// Who uses the name as another kind, though not in this line.
    fn stranger(&self, queue: &[KeyValue]) -> Option<Mode> {
        queue.iter().find_map(|key| match keys::read(&self.base, QueuePart::Queue, key) {
            KeyKind::QueueEntry(entry) => Some(entry.mode),
            _ => None,
        })
    }
}

/// Whether it did not join because of keys that are not of its line.
fn is_among_others(joined: &Joined, newcomer: &Newcomer) -> bool {
    let nobody = joined.mine.is_empty() && joined.line.is_empty() && joined.stranger.is_none();
    let found = newcomer.wants == Wants::RecordOrLease && matches!(joined.value, Some(Some(_)));
    newcomer.only_if_empty && nobody && !found
}

type Ranges = [RangeResponse; 4];

/// What the reads of a join found. The last is the queue where the line is not the
/// queue itself, and the record where that is wanted, which is only in the queue.
fn ranges(answer: TxnResponse) -> Ranges {
    let mut found = txn::found(answer);
    std::array::from_fn(|_| found.next().unwrap_or_default())
}
