//! Records: values with a line about the lease they are bound to.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::bonds::Bond;
use super::client::ConsensusClient;
use super::ensemble::{Ensemble, If, QueueId, QueuePart, StoredValue, ValueLife, ValueNews};
use super::leases::{OwnLease, Task};
use super::queue::holders;
use super::record_format::RecordFormat;
use crate::claim::{Expect, Mode, RawRecord, Store, Ticket};
use crate::engine::records::{PageInProgress, not_held, sum};
use crate::engine::{
    BoxFuture, PAGE_MAX, Page, RecordEvent, RecordEvents, RecordListing, RecordStore, Scope,
};
use crate::engines::kit::watch_queue::WatchQueue;
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;

/// The session of what is bound to the lease of another client.
const FOREIGN: Duration = Duration::from_secs(30);

/// How often a bond is looked at that cannot be watched.
const LOOK: Duration = Duration::from_secs(1);
/// The pause before what failed is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// The records of a client.
#[derive(Debug)]
pub(super) struct ConsensusRecords<E: Ensemble>(Arc<ConsensusClient<E>>);

impl<E: Ensemble> ConsensusRecords<E> {
    pub(super) const fn new(client: Arc<ConsensusClient<E>>) -> Self {
        Self(client)
    }
}

/// What a lease of this client is bound by, if it is held.
fn own_bond(lease: &OwnLease) -> Option<Bond> {
    let held = lease.fence().is_some() && !lease.session.is_over();
    let entry = lease.entries.first().filter(|_| held)?;
    Some((Arc::clone(&entry.key), entry.fence.unwrap_or_default()))
}

/// A value that is there, and its bond.
#[derive(Debug)]
pub(super) struct FoundRecord {
    bond: Option<Bond>,
    body: Vec<u8>,
    version: u64,
}

impl FoundRecord {
    fn new(format: RecordFormat, value: &StoredValue) -> Self {
        let (bond, body) = format.unpacked(&value.bytes);
        Self { bond, body: body.to_vec(), version: value.version }
    }

    pub(super) fn record(self) -> RawRecord {
        RawRecord::new(self.body, self.version)
    }
}

impl<E: Ensemble> ConsensusClient<E> {
    /// A value, unless it is bound to what has ended.
    pub(super) async fn live(&self, name: &Name) -> Result<Option<FoundRecord>> {
        Ok(self.found(name).await?.1)
    }

    /// What counts of a value that was read.
    pub(super) async fn living(&self, value: Option<StoredValue>) -> Result<Option<RawRecord>> {
        let Some(value) = value else { return Ok(None) };
        let found = FoundRecord::new(self.format, &value);
        Ok(self.if_alive(found).await?.map(FoundRecord::record))
    }

    /// What is stored, and what counts of it.
    async fn found(&self, name: &Name) -> Result<(Option<StoredValue>, Option<FoundRecord>)> {
        let Some(value) = self.ensemble.load(name.clone()).await? else { return Ok((None, None)) };
        let found = self.if_alive(FoundRecord::new(self.format, &value)).await?;
        Ok((Some(value), found))
    }

    async fn if_alive(&self, found: FoundRecord) -> Result<Option<FoundRecord>> {
        let Some(bond) = &found.bond else { return Ok(Some(found)) };
        let alive = self.is_there(bond).await?;
        Ok(alive.then_some(found))
    }

    async fn is_there(&self, (key, fence): &Bond) -> Result<bool> {
        self.ensemble.is_there(Arc::clone(key), *fence).await
    }

    /// Refuses what is not stored here.
    pub(super) fn check_store(&self, store: &Store) -> Result<()> {
        let timed = store.ttl.is_some() && store.value.is_some();
        if timed && !self.ensemble.times_values() {
            let text = "with ?records=raw a record has no ttl here: nothing but its value lies in \
                        its node; delete it, or bind it to a lease";
            return Err(Error::new(ErrorKind::Unsupported, text).with("record", &store.name));
        }
        if timed && store.bound_to.is_some() && self.format == RecordFormat::Raw {
            let text = "with ?records=raw a record has a ttl or is bound to a lease, not both: \
                        with its own time it would outlive a holder that dies";
            return Err(Error::new(ErrorKind::Unsupported, text).with("record", &store.name));
        }
        store.check()
    }

    /// What a new value is to be bound to, and how long it stays.
    async fn bond(&self, store: &Store) -> Result<(Option<Bond>, ValueLife)> {
        let timed = store.ttl.map(ValueLife::For);
        let ticket = store.bound_to.as_ref().filter(|_| store.value.is_some());
        let Some(ticket) = ticket else { return Ok((None, timed.unwrap_or(ValueLife::Forever))) };
        let (bond, session) = match self.leases.get(ticket.id) {
            Some(lease) => (own_bond(&lease), lease.session),
            None => {
                let bond = self.foreign_bond(ticket).await?;
                if self.format == RecordFormat::Raw && bond.is_some() {
                    return Err(bound_elsewhere(&store.name));
                }
                (bond, self.ensemble.session(FOREIGN, Duration::ZERO).await?)
            }
        };
        let bond = bond.ok_or_else(|| not_held(store))?;
        Ok((Some(bond), timed.unwrap_or(ValueLife::Session(session))))
    }

    /// What another client's lease is bound by, if it is held. The value lives on
    /// a session of ours, because we have no other; whether it counts is seen by
    /// its bond.
    async fn foreign_bond(&self, ticket: &Ticket) -> Result<Option<Bond>> {
        let part = match self.way(ticket.mode) {
            Mode::Permits { .. } => QueuePart::Permits,
            Mode::Exclusive | Mode::Read | Mode::Write => QueuePart::Queue,
        };
        let line = self.ensemble.list(QueueId::of(&ticket.name, part), None).await?;
        let front = if part == QueuePart::Queue { holders(&line) } else { &line[..] };
        let Some(entry) = front.iter().find(|entry| entry.id == Some(ticket.id)) else {
            return Ok(None);
        };
        let seen = self.ensemble.look(vec![Arc::clone(&entry.key)]).await?;
        let fence = seen.into_iter().flatten().map(|(_, fence)| fence).next();
        Ok(fence.map(|fence| (Arc::clone(&entry.key), fence)))
    }

    async fn store(self: &Arc<Self>, store: Store) -> Result<Result<u64, Option<RawRecord>>> {
        self.check_store(&store)?;
        let (bond, life) = self.bond(&store).await?;
        let bytes = store.value.as_ref().map(|value| self.format.packed(value, bond.as_ref()));
        loop {
            let condition = match store.expect {
                Expect::Any => If::Any,
                Expect::Absent | Expect::Version(_) => {
                    let (value, found) = self.found(&store.name).await?;
                    let found = found.map(FoundRecord::record);
                    if !store.expect.holds(found.as_ref()) {
                        return Ok(Err(found));
                    }
                    value.map_or(If::Absent, |value| If::Stamp(value.stamp))
                }
            };
            let (name, there) = (store.name.clone(), bond.clone());
            let asked = self.ensemble.store(name, condition, bytes.clone(), life.clone(), there);
            if let Some(version) = asked.await? {
                self.remember(&store, bond, version);
                return Ok(Ok(version));
            }
            self.check_bond(&store).await?;
        }
    }

    /// Has a value seen to that is bound to a lease: with the lease, if it is ours. An
    /// earlier lease of ours that it was bound to has no more to do with it.
    fn remember(self: &Arc<Self>, store: &Store, bond: Option<Bond>, version: u64) {
        let (name, to) = (&store.name, store.bound_to.as_ref().zip(bond));
        let ours = self.leases.bind(name, to.as_ref().map(|(ticket, _)| ticket.id), version);
        if let Some((_, bond)) = to.filter(|_| !ours) {
            let see = || self.see_it_out(name.clone(), bond.clone(), version);
            self.bonds.see_to(name, &bond, see);
        }
    }

    /// Removes a value once the lease of another client has ended that it is bound to.
    fn see_it_out(self: &Arc<Self>, name: Name, bond: Bond, version: u64) -> Task {
        let client = Arc::clone(self);
        let task = async move {
            while client.stands(&bond).await {}
            while client.drop_bound(&name, &bond, version).await.is_err() {
                client.clock.sleep_until(client.clock.now().after(AGAIN)).await;
            }
            client.bonds.remove(&name, &bond);
        };
        Task(self.home.spawn(task).abort_handle())
    }

    /// Waits for a change of what a value is bound to; whether it is there.
    async fn stands(&self, bond: &Bond) -> bool {
        let watched = self.ensemble.watch(Arc::clone(&bond.0)).await;
        match (self.is_there(bond).await, watched) {
            (Ok(false), _) => return false,
            (Ok(true), Ok(Some(watched))) => _ = watched.change.await,
            // It has another key by now, which only a look tells of.
            (Ok(true), Ok(None)) => self.clock.sleep_until(self.clock.now().after(LOOK)).await,
            _ => self.clock.sleep_until(self.clock.now().after(AGAIN)).await,
        }
        true
    }

    /// Removes a value, if it is bound to this.
    async fn drop_bound(&self, name: &Name, bond: &Bond, version: u64) -> Result<()> {
        while let Some(value) = self.ensemble.load(name.clone()).await? {
            if !self.is_bound(&value, version, |other| other == bond) {
                break;
            }
            let condition = If::Stamp(value.stamp);
            let gone = self.ensemble.store(name.clone(), condition, None, ValueLife::Keep, None);
            if gone.await?.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// A write was refused: because of the lease it is to be bound to?
    async fn check_bond(&self, store: &Store) -> Result<()> {
        match self.bond(store).await?.0 {
            Some(bond) if !self.is_there(&bond).await? => Err(not_held(store)),
            _ => Ok(()),
        }
    }

    async fn add(&self, name: Name, amount: i64) -> Result<i64> {
        loop {
            let (value, found) = self.found(&name).await?;
            let (bond, record) =
                found.map_or((None, None), |mut found| (found.bond.take(), Some(found.record())));
            let sum = sum(&name, record.as_ref(), amount)?;
            let life = if record.is_some() { ValueLife::Keep } else { ValueLife::Forever };
            let before = record.as_ref().map(|record| record.version);
            let condition = value.map_or(If::Absent, |value| If::Stamp(value.stamp));
            let bytes = self.format.packed(sum.to_string().as_bytes(), bond.as_ref());
            let asked = self.ensemble.store(name.clone(), condition, Some(bytes), life, None);
            if let Some(version) = asked.await? {
                self.leases.rewritten(&name, before, version);
                return Ok(sum);
            }
        }
    }

    /// Removes what was bound to a lease that has ended. If it fails, the value
    /// goes with the session; nobody sees it until then.
    pub(super) async fn unbind(&self, lease: &OwnLease) {
        for (name, version) in &*lease.bound {
            if let Ok(Some(value)) = self.bound_to(lease, name, *version).await {
                let condition = If::Stamp(value.stamp);
                let gone =
                    self.ensemble.store(name.clone(), condition, None, ValueLife::Keep, None);
                let _ = gone.await;
            }
        }
    }

    /// Whether a value is bound to one of these. A raw one does not say so: it is bound
    /// if nobody has written it since it was.
    fn is_bound(
        &self,
        value: &StoredValue,
        version: u64,
        is_it: impl FnOnce(&Bond) -> bool,
    ) -> bool {
        match self.format {
            RecordFormat::Raw => value.version == version,
            RecordFormat::Own => self.format.unpacked(&value.bytes).0.as_ref().is_some_and(is_it),
        }
    }

    /// A value that is bound to this lease.
    async fn bound_to(
        &self,
        lease: &OwnLease,
        name: &Name,
        version: u64,
    ) -> Result<Option<StoredValue>> {
        let Some(value) = self.ensemble.load(name.clone()).await? else { return Ok(None) };
        let is_bound = self.is_bound(&value, version, |(key, _)| lease.is_bond(key));
        Ok(is_bound.then_some(value))
    }

    async fn page(&self, scope: Scope, page: Page) -> Result<RecordListing> {
        let mut filled = PageInProgress::new(&page);
        let after = page.after.as_ref().map(|name| format!("{}\0", name.as_str()));
        let mut from = after.unwrap_or_default().max(scope.root().to_owned());
        let most = page.size.clamp(1, PAGE_MAX) + 1;
        loop {
            let asked = self.ensemble.scan(scope.clone(), from.clone().into(), most);
            let (values, more) = asked.await?;
            for (name, value) in values {
                if name.as_str() < from.as_str() {
                    continue;
                }
                if let Some(next) = scope.leap(name.as_str()) {
                    from = next;
                    continue;
                }
                from = format!("{}\0", name.as_str());
                let found = FoundRecord::new(self.format, &value);
                if let Some(found) = self.if_alive(found).await?
                    && !filled.add(name, found.record())
                {
                    return Ok(filled.done());
                }
            }
            if !more {
                return Ok(filled.done());
            }
        }
    }

    async fn watch(self: Arc<Self>, scope: Scope) -> Result<Box<dyn RecordEvents>> {
        let asked = self.ensemble.follow(scope.namespace().clone(), scope.root().into());
        let (mut news, queue) = (asked.await?, Arc::new(WatchQueue::default()));
        let (filled, format) = (Arc::clone(&queue), self.format);
        let task = async move {
            while let Some(news) = news.recv().await {
                if let Some(event) = event(news, &scope, format) {
                    filled.push(event);
                }
            }
            filled.close();
        };
        let task = Task(self.home.spawn(task).abort_handle());
        Ok(Box::new(ConsensusWatch { queue, _task: task }))
    }
}

/// What a watcher of `scope` is told.
fn event(news: ValueNews, scope: &Scope, format: RecordFormat) -> Option<RecordEvent> {
    match news {
        ValueNews::Put(name, value) => {
            let stored =
                |name| RecordEvent::Stored(name, FoundRecord::new(format, &value).record());
            scope.covers(&name).then(|| stored(name))
        }
        ValueNews::Gone(name, version) => {
            scope.covers(&name).then_some(RecordEvent::Deleted(name, version))
        }
        ValueNews::Gap => Some(RecordEvent::Resync),
    }
}

/// One watcher.
#[derive(Debug)]
struct ConsensusWatch {
    queue: Arc<WatchQueue>,
    _task: Task,
}

impl RecordEvents for ConsensusWatch {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<RecordEvent>> + Send + '_>> {
        Box::pin(async {
            loop {
                if let Some(next) = self.queue.pop() {
                    return next;
                }
                self.queue.news().await;
            }
        })
    }
}

impl<E: Ensemble> RecordStore for ConsensusRecords<E> {
    fn load(&self, name: Name) -> BoxFuture<Result<Option<RawRecord>>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move { Ok(client.live(&name).await?.map(FoundRecord::record)) })
    }

    fn store(&self, store: Store) -> BoxFuture<Result<Result<u64, Option<RawRecord>>>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move { client.store(store).await })
    }

    fn add(&self, name: Name, amount: i64) -> BoxFuture<Result<i64>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move { client.add(name, amount).await })
    }

    fn list(&self, scope: Scope, page: Page) -> BoxFuture<Result<RecordListing>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move { client.page(scope, page).await })
    }

    fn watch(&self, scope: Scope) -> BoxFuture<Result<Box<dyn RecordEvents>>> {
        Box::pin(Arc::clone(&self.0).watch(scope))
    }
}

/// Nobody could tell whether it counts.
fn bound_elsewhere(name: &Name) -> Error {
    let text = "with ?records=raw a record can be bound to leases of its own client only; \
                bind it where the lease is held";
    Error::new(ErrorKind::Unsupported, text).with("record", name)
}
