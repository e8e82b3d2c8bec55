//! Lines of entries: who wants a name, in the order of coming.

use std::sync::Arc;
use std::time::Duration;

use super::Etcd;
use super::keys::{self, DOOR, EtcdKeys, KeyKind, PERMITS};
use super::link::{CallFault, over};
use super::marks::{LineMarks, last};
use super::proto::{
    Compare, KeyValue, RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse,
};
use super::settings::KeyNames;
use super::txn::{self, read};
use super::values::value;
use crate::claim::{LeaseId, Mode, Wants};
use crate::clock::Moment;
use crate::engines::consensus::{
    Departure, Entered, EntryAhead, Joined, Newcomer, QueueEntry, QueueId, QueuePart, Session,
    WatchedQueue,
};
use crate::error::{Error, ErrorKind, Result};
use crate::mutant::{self, Mutant};

/// A lease that is over sooner is not worth a note.
const MOMENT: Duration = Duration::from_millis(50);
/// How much of a line is listed at first.
const PAGE: i64 = 100;

/// A line, as keys.
pub(super) struct QueueKeys {
    part: QueuePart,
    /// Its marks, in the layout that has them.
    marks: Option<LineMarks>,
    /// What the keys of the line begin with.
    pub(super) prefix: String,
    /// What the keys of all lines of the name begin with.
    base: String,
    /// Where the value of the name is, if there can be one.
    record: Option<String>,
}

/// What lies below a prefix.
#[derive(Default)]
pub(super) struct View {
    pub(super) line: Vec<QueueEntry>,
    stranger: Option<Mode>,
    /// Keys of other names lie between.
    mixed: bool,
}

/// What a join was answered.
struct EntryAnswer {
    own: RangeResponse,
    tombstone: RangeResponse,
    /// The line, if it was listed.
    line: Option<RangeResponse>,
    /// Who was last before, as far as there is a tail.
    tail: Option<KeyValue>,
    /// One of those who have permits or want some, if the line was not listed: that
    /// is where they are seen.
    strangers: Vec<KeyValue>,
    /// The queue where the line is not the queue itself, and the record where that
    /// is wanted, which is only in the queue.
    rest: RangeResponse,
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
        if newcomer.wants.record() {
            self.keys.record(&line.name)?;
        }
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
    ) -> Result<EntryAnswer> {
        let own = EtcdKeys::own(&place.prefix, session.id(), newcomer.id, newcomer.mode);
        let tombstone = self.keys.tombstone(place.part, newcomer.id);
        let marks = place.marks(newcomer.mode);
        let request = place.joining(marks, &own, session, newcomer, &tombstone);
        let answer = self.on_session(session, self.link.try_ask(request, by).await)?;
        let found = EntryAnswer::of(answer, place.part, newcomer, marks.is_some());
        if found.own.kvs.is_empty() && !found.tombstone.kvs.is_empty() {
            return Err(Error::new(ErrorKind::NotHeld, "this claim has been given back"));
        }
        Ok(found)
    }

    async fn read_off(
        self: &Arc<Self>,
        place: &QueueKeys,
        newcomer: &Newcomer,
        found: EntryAnswer,
        by: Moment,
    ) -> Result<Joined> {
        let EntryAnswer { own, line, tail, rest, strangers, .. } = found;
        let marks = place.marks(newcomer.mode);
        let (queue, value) = if newcomer.wants.record() {
            (RangeResponse::default(), Some(rest.kvs.into_iter().next().map(value)))
        } else {
            (rest, None)
        };
        let mut mine: Vec<_> = place.view(&own.kvs).line;
        // Whoever is content with a record need not know who is in line.
        let content = newcomer.wants == Wants::RecordOrLease && matches!(value, Some(Some(_)));
        let tail = tail.filter(|_| !content);
        let listed = line.is_some();
        let View { line, stranger, .. } = match (line, marks) {
            (None, Some(marks)) => {
                self.around(place, marks, mine.first_mut(), tail.as_ref(), by).await?
            }
            (line, _) => {
                let line = line.unwrap_or_default();
                let seen = self.whole(place, line, mine.first(), by).await?;
                match mine.first().filter(|_| marks.is_some()) {
                    Some(mine) => seen.seen_by(mine),
                    None => seen,
                }
            }
        };
        if let Some(mine) = mine.first_mut() {
            let seen = line.iter().find(|entry| entry.is_same(mine));
            mine.behind = seen.and_then(|seen| seen.behind.clone());
        }
        if let Some(mine) = mine.first().filter(|_| mutant::lives(Mutant::ArrivalsWriteTheFront)) {
            self.announce(mine).await?;
        }
        if listed && marks.is_some() && mine.first().is_some_and(|mine| mine.behind.is_some()) {
            self.note_first(line.first());
        }
        let stranger = stranger.or_else(|| place.stranger(&queue.kvs));
        let stranger = stranger.or_else(|| place.view(&strangers).stranger);
        Ok(Joined { mine, line, stranger, value })
    }

    /// Who has listed a line notes who holds, for those who will not: if that has
    /// not changed in a moment.
    fn note_first(self: &Arc<Self>, first: Option<&QueueEntry>) {
        let Some(first) = first.cloned() else { return };
        let etcd = Arc::downgrade(self);
        let clock = self.link.clock().clone();
        self.home.spawn(async move {
            clock.sleep_until(clock.now().after(MOMENT)).await;
            if let Some(etcd) = etcd.upgrade() {
                // Nothing depends on it.
                let _ = etcd.announce(&first).await;
            }
        });
    }

    /// As much of a line as its marks tell, when it was not listed.
    async fn around(
        &self,
        place: &QueueKeys,
        marks: &LineMarks,
        mine: Option<&mut QueueEntry>,
        tail: Option<&KeyValue>,
        by: Moment,
    ) -> Result<View> {
        let Some(mine) = mine else { return self.end_of_line(place, marks, tail, by).await };
        mine.behind = tail.and_then(last);
        self.near(place, marks, mine, by).await
    }

    pub(super) async fn list(
        &self,
        line: &QueueId,
        mine: Option<&QueueEntry>,
    ) -> Result<Vec<QueueEntry>> {
        let by = self.link.deadline();
        let place = self.place(line)?;
        if let Some(mine) = mine
            && let Some(marks) = place.marks(mine.mode)
        {
            return Ok(self.near(&place, marks, mine, by).await?.line);
        }
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
    pub(super) async fn withdraw(
        &self,
        line: &QueueId,
        (id, mode): (LeaseId, Mode),
        session: Option<&Session>,
    ) -> Result<bool> {
        let by = self.link.deadline();
        let place = self.place(line)?;
        let looks = place.left_by((id, mode), session);
        let tombstone = self.keys.tombstone(place.part, id);
        let ways = (&*self.link, &self.leases);
        let found = self.tombstones.put_up(ways, &tombstone, looks, by).await?;
        let mine = txn::found(found).flat_map(|range| range.kvs);
        let mine = mine.filter(|key| keys::is_of(&key.key, id));
        let gone: Vec<_> = mine.filter_map(|key| self.withdrawing(&key)).collect();
        let any = !gone.is_empty();
        for request in gone {
            // The tombstone is there.
            self.link.ask(request, by).await.map_err(Error::unknown)?;
        }
        Ok(any)
    }

    /// Removes one entry of a claim that was given up.
    fn withdrawing(&self, key: &KeyValue) -> Option<TxnRequest> {
        let (text, made) = (Arc::from(str::from_utf8(&key.key).ok()?), key.create_revision);
        let leaver = self.keys.leaver(&text, made);
        let marks = leaver.map(|leaver| leaver.leaving(&Departure::Early(None)));
        let compare = vec![txn::made_at(&text, made)];
        let success = std::iter::once(txn::delete(&text)).chain(marks.into_iter().flatten());
        let success = success.collect();
        Some(TxnRequest { compare, success, failure: Vec::new() })
    }

    /// Notes that this entry holds, if it is there.
    pub(super) async fn announce(&self, entry: &QueueEntry) -> Result<()> {
        let Some(leaver) = self.keys.leaver(&entry.key, entry.order) else { return Ok(()) };
        let compare = vec![txn::made_at(&entry.key, entry.order)];
        let request = TxnRequest { compare, success: vec![leaver.holds()], failure: Vec::new() };
        self.link.ask(request, self.link.deadline()).await?;
        Ok(())
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

    pub(super) fn place(&self, line: &QueueId) -> Result<QueueKeys> {
        let (prefix, base) = (self.keys.line(line)?, self.keys.base(&line.name)?);
        let marked = self.keys.names() == KeyNames::Escaped && line.part != QueuePart::Permits;
        let marks = marked.then(|| LineMarks::of(&prefix));
        let record = self.keys.record(&line.name).ok();
        Ok(QueueKeys { part: line.part, marks, prefix, base, record })
    }

    /// As much of a line as matters to `mine`, all of it if that is nobody's.
    pub(super) async fn whole(
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
            let before = self.next_before(place, mine.order, by).await?;
            if let Some(Some(before)) = before {
                view.line.extend([before, mine.clone()]);
                return Ok(view);
            }
        }
        let all = self.link.ask(txn::oldest_below(&place.prefix, 0), by).await?;
        Ok(place.view(&all.kvs))
    }

    /// Whoever of a line joined last before this revision, if anybody did; unknown
    /// where a key of something else lies between.
    pub(super) async fn next_before(
        &self,
        place: &QueueKeys,
        order: i64,
        by: Moment,
    ) -> Result<Option<Option<QueueEntry>>> {
        let before = txn::youngest_before(place.entries(), order);
        let mut seen = place.view(&self.link.ask(before, by).await?.kvs);
        let known = !seen.mixed && seen.stranger.is_none();
        Ok(known.then(|| seen.line.pop()))
    }
}

impl QueueKeys {
    /// One transaction that adds and looks. Whatever came of it is read back, so a
    /// repeated one finds what the first has left.
    fn joining(
        &self,
        marks: Option<&LineMarks>,
        own: &str,
        session: &Session,
        newcomer: &Newcomer,
        tombstone: &str,
    ) -> TxnRequest {
        let mut compare = vec![txn::absent(own), txn::absent(tombstone)];
        let instead = newcomer.wants == Wants::RecordOrLease;
        compare.extend(instead.then(|| txn::absent(self.record())));
        compare.extend(newcomer.only_if_empty.then(|| self.nobody(marks)).into_iter().flatten());
        let list = read(self.some());
        let mut looks = vec![read(txn::one(own)), read(txn::one(tombstone))];
        looks.extend((self.part != QueuePart::Queue).then(|| read(self.queue())));
        looks.extend(newcomer.wants.record().then(|| read(txn::one(self.record()))));
        looks.extend(marks.map(|_| self.counted()).into_iter().flatten().map(read));
        let mut metadata = newcomer.metadata.clone();
        if self.part != QueuePart::Door {
            metadata.mode = Some(newcomer.mode);
        }
        let lease = session.id().cast_signed();
        let mut success = vec![txn::put(own, metadata.write(), lease)];
        success.extend(looks.iter().cloned());
        let Some(marks) = marks else {
            // Whoever goes by the marks has to hear of another kind: it lists the line.
            let marks = self.marks.as_ref().filter(|_| !mutant::lives(Mutant::TailLeadsPastOthers));
            success.extend(marks.map(|marks| txn::delete(&marks.tail)));
            success.push(list.clone());
            looks.push(list);
            return TxnRequest { compare, success, failure: looks };
        };
        looks.push(marks.last_or(vec![list.clone()], Vec::new()));
        if !newcomer.only_if_empty {
            let swap = marks.last_or(vec![list], vec![txn::put(&marks.tail, own.into(), lease)]);
            // Who is alone has nobody to tell.
            success.push(txn::either(self.nobody(Some(marks)), Vec::new(), vec![swap]));
        }
        TxnRequest { compare, success, failure: looks }
    }

    /// Whoever wants the value has found out before that there can be one.
    fn record(&self) -> &str {
        self.record.as_deref().unwrap_or_default()
    }

    /// Where requests of this claim may have left anything: under the keys it has in
    /// their session, or anywhere in the line if nobody knows the session.
    fn left_by(&self, (id, mode): (LeaseId, Mode), session: Option<&Session>) -> Vec<RequestOp> {
        let keys_only = |range| read(RangeRequest { keys_only: true, ..range });
        let Some(session) = session else { return vec![keys_only(txn::below(&self.prefix, 0))] };
        // Who has become a reader has the key of a writer.
        let modes = match mode {
            Mode::Read | Mode::Write => vec![Mode::Read, Mode::Write],
            mode => vec![mode],
        };
        let own = |mode| EtcdKeys::own(&self.prefix, session.id(), id, mode);
        modes.into_iter().map(|mode| keys_only(txn::one(&own(mode)))).collect()
    }

    /// If nobody is in line. The first that fails is the last that is looked at: a
    /// tail spares the servers a look at all who are.
    fn nobody(&self, marks: Option<&LineMarks>) -> Vec<Compare> {
        let no_tail = marks.map(|marks| txn::absent(&marks.tail));
        no_tail.into_iter().chain([txn::none_below(&self.prefix)]).collect()
    }

    /// The marks of the line, if who takes the name like this goes by them: readers
    /// and writers, who may hold together, list their line.
    fn marks(&self, mode: Mode) -> Option<&LineMarks> {
        self.marks.as_ref().filter(|_| mode == Mode::Exclusive)
    }

    /// Who is in the queue: its keys begin with a lease in hex, before the parts.
    fn queue(&self) -> RangeRequest {
        txn::entries_below(&self.base, PAGE)
    }

    /// One of those at the door of the queue's name, and one of those behind it.
    fn counted(&self) -> Vec<RangeRequest> {
        let parts: &[&str] = if self.part == QueuePart::Queue { &[DOOR, PERMITS] } else { &[] };
        parts.iter().map(|part| txn::entries_below(&format!("{}{part}", self.base), 1)).collect()
    }

    /// The first who are in line, and what shows that another kind has the name.
    pub(super) fn some(&self) -> RangeRequest {
        txn::oldest_below(&self.prefix, PAGE)
    }

    /// Where entries of the line lie, and as little else as can be.
    fn entries(&self) -> RangeRequest {
        if self.marks.is_some() {
            txn::entries_below(&self.prefix, 0)
        } else {
            txn::below(&self.prefix, 0)
        }
    }

    pub(super) fn view(&self, keys: &[KeyValue]) -> View {
        let mut view = View::default();
        for key in keys {
            match keys::read(&self.prefix, self.part, key) {
                KeyKind::QueueEntry(entry) => view.line.push(entry),
                KeyKind::Permits(mode) => view.stranger = Some(mode),
                KeyKind::Other => view.mixed = true,
                KeyKind::Mark => {}
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

impl EntryAnswer {
    fn of(answer: TxnResponse, part: QueuePart, newcomer: &Newcomer, by_marks: bool) -> Self {
        let (joined, chosen) = (answer.succeeded, txn::chosen(&answer));
        let mut found = txn::found(answer);
        let mut next = || found.next().unwrap_or_default();
        let (own, tombstone) = (next(), next());
        let more = newcomer.wants.record() || part != QueuePart::Queue;
        let rest = if more { next() } else { RangeResponse::default() };
        if !by_marks {
            let (line, strangers) = (Some(next()), Vec::new());
            return Self { own, tombstone, line, tail: None, rest, strangers };
        }
        let strangers = found.flat_map(|range| range.kvs).collect();
        let (line, tail) = match chosen {
            // It has met nobody.
            None => (Some(own.clone()), None),
            Some(alone) if joined && alone.succeeded => (Some(own.clone()), None),
            Some(swap) if joined => last_of(txn::chosen(&swap)),
            looked => last_of(looked),
        };
        // Of a repeated join it is too late to say who was last before it.
        let repeated = !joined && !own.kvs.is_empty();
        Self { own, tombstone, line, tail: tail.filter(|_| !repeated), rest, strangers }
    }
}

/// What `LineMarks::last_or` found: a list, or who is last.
fn last_of(looked: Option<TxnResponse>) -> (Option<RangeResponse>, Option<KeyValue>) {
    let listed = looked.as_ref().is_some_and(|looked| looked.succeeded);
    let range = looked.and_then(|looked| txn::found(looked).next()).unwrap_or_default();
    if listed { (Some(range), None) } else { (None, range.kvs.into_iter().next()) }
}

impl View {
    pub(super) fn of(line: impl IntoIterator<Item = QueueEntry>) -> Self {
        Self { line: line.into_iter().collect(), ..Self::default() }
    }

    /// The same, with what it tells of the place of `mine`.
    pub(super) fn seen_by(mut self, mine: &QueueEntry) -> Self {
        let before = self.line.iter().filter(|entry| entry.order < mine.order);
        let last = before.max_by_key(|entry| entry.order);
        let behind = last.map(|last| EntryAhead { key: Arc::clone(&last.key), order: last.order });
        let own = self.line.iter_mut().find(|entry| entry.is_same(mine));
        if let Some(own) = own {
            own.behind = behind;
        }
        self
    }
}
