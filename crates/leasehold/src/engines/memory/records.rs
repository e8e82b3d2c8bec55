//! Records, under the same mutex as the leases.

use std::future::ready;
use std::ops::Bound;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::yield_now;

use super::name_prefix::NamePrefix;
use super::sorted_table::SOME;
use super::{Memory, MemoryState, lock};
use crate::claim::{RawRecord, Store, Ticket};
use crate::clock::{Clock, Moment};
use crate::engine::records::{PageInProgress, not_held, sum};
use crate::engine::state::{Answer, Verb};
use crate::engine::{
    BoxFuture, Page, RecordEvent, RecordEvents, RecordListing, RecordStore, Scope,
};
use crate::engines::kit::watch_queue::WatchQueue;
use crate::error::Result;
use crate::name::Name;

impl MemoryState {
    /// A record as it is now: what is over goes first.
    pub(super) fn record(&mut self, name: &Name, now: Moment) -> Option<&RawRecord> {
        if self.records.may_be_over(name, now) {
            if let Some(lease) = self.records.lease_of(name) {
                self.step(&lease, Verb::Tick, now);
            }
            self.records.lapse_one(name, now, &mut self.fence);
        }
        self.records.get(name)
    }

    /// Takes the value out of `store` if it is written.
    pub(super) fn store(
        &mut self,
        store: &mut Store,
        now: Moment,
    ) -> Result<Result<u64, Option<RawRecord>>> {
        store.check()?;
        let found = self.record(&store.name, now);
        if !store.expect.holds(found) {
            return Ok(Err(found.cloned()));
        }
        let lease = store.bound_to.as_ref().filter(|_| store.value.is_some());
        let bond = match lease.map(|ticket| (ticket, self.bind(ticket, now))) {
            Some((_, None)) => return Err(not_held(store)),
            Some((ticket, Some(left))) => Some((ticket, now.after(left))),
            None => None,
        };
        self.fence += 1;
        match store.value.take() {
            Some(value) => {
                let expires = store.ttl.map_or(Moment::NEVER, |ttl| now.after(ttl));
                let record = RawRecord::new(value, self.fence);
                self.records.put(&store.name, record, expires, bond);
                if expires != Moment::NEVER {
                    self.sweep_later();
                }
            }
            None => self.records.remove(&store.name, self.fence),
        }
        Ok(Ok(self.fence))
    }

    /// How long the lease runs that something is bound to.
    fn bind(&mut self, ticket: &Ticket, now: Moment) -> Option<Duration> {
        match self.step(&ticket.name, Verb::Bind { id: ticket.id }, now) {
            Answer::Held { ttl } => Some(ttl),
            _ => None,
        }
    }

    fn add(&mut self, name: &Name, amount: i64, now: Moment) -> Result<i64> {
        let found = self.record(name, now);
        let (new, sum) = (found.is_none(), sum(name, found, amount)?);
        self.fence += 1;
        let record = RawRecord::new(sum.to_string().into_bytes(), self.fence);
        if new {
            self.records.put(name, record, Moment::NEVER, None);
        } else {
            self.records.change(name, record);
        }
        Ok(sum)
    }

    /// Goes on with a page; true if that is all of it.
    fn walk(&mut self, walk: &mut RecordWalk, scope: &Scope, now: Moment) -> bool {
        self.records.sort_some() && (0..SOME).any(|_| !self.pass(walk, scope, now))
    }

    /// Passes one record; false if the page ends before it.
    fn pass(&mut self, walk: &mut RecordWalk, scope: &Scope, now: Moment) -> bool {
        let of = NamePrefix { namespace: scope.namespace(), text: scope.root() };
        let from = match &walk.ahead {
            Some(ahead) => Some(Bound::Included(ahead.clone())),
            None => of.after(walk.seen.as_ref()),
        };
        let next = from.and_then(|from| self.records.first(from.as_ref()));
        let Some(name) = next.filter(|name| of.covers(name)).cloned() else { return false };
        let leap = scope.leap(name.as_str());
        walk.ahead = leap.as_deref().and_then(|text| Name::new(scope.namespace(), text).ok());
        if leap.is_none()
            && let Some(record) = self.record(&name, now).cloned()
            && !walk.filling.add(name.clone(), record)
        {
            return false;
        }
        walk.seen = Some(name);
        true
    }

    /// Lets time pass for all that may end by itself.
    fn look(&mut self, now: Moment) {
        for _ in 0..SOME {
            let Some((id, lease)) = self.records.next_end(now) else { break };
            self.step(&lease, Verb::Tick, now);
            let held = self.names.get(&lease).and_then(|slot| slot.state.held(id, now));
            match held.and_then(|held| held.time_left) {
                Some(left) => self.records.goes_on(id, now.after(left)),
                None => self.records.unbind(id, &mut self.fence),
            }
        }
        self.records.lapse(now, &mut self.fence);
    }
}

impl Memory {
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut MemoryState, Moment) -> Result<T>,
    ) -> BoxFuture<Result<T>> {
        let now = self.clock.now();
        Box::pin(ready(work(&mut self.state(), now)))
    }
}

impl RecordStore for Memory {
    fn load(&self, name: Name) -> BoxFuture<Result<Option<RawRecord>>> {
        self.with(|state, now| Ok(state.record(&name, now).cloned()))
    }

    fn store(&self, mut store: Store) -> BoxFuture<Result<Result<u64, Option<RawRecord>>>> {
        self.with(|state, now| state.store(&mut store, now))
    }

    fn add(&self, name: Name, amount: i64) -> BoxFuture<Result<i64>> {
        self.with(|state, now| state.add(&name, amount, now))
    }

    fn list(&self, scope: Scope, page: Page) -> BoxFuture<Result<RecordListing>> {
        let (state, clock) = (Arc::clone(&self.state), self.clock.clone());
        Box::pin(async move {
            let mut walk = RecordWalk::new(&page);
            while !lock(&state).walk(&mut walk, &scope, clock.now()) {
                yield_now().await;
            }
            Ok(walk.filling.done())
        })
    }

    fn watch(&self, scope: Scope) -> BoxFuture<Result<Box<dyn RecordEvents>>> {
        let (state, clock) = (Arc::clone(&self.state), self.clock.clone());
        self.with(|here, now| {
            // What ended before is not news to this watcher.
            here.look(now);
            let queue = here.records.watch(scope);
            Ok(Box::new(MemoryWatcher { state, clock, queue }) as Box<dyn RecordEvents>)
        })
    }
}

/// A page as far as it is, and where it goes on.
struct RecordWalk {
    filling: PageInProgress,
    seen: Option<Name>,
    /// What comes next if whole branches are passed.
    ahead: Option<Name>,
}

impl RecordWalk {
    fn new(page: &Page) -> Self {
        Self { filling: PageInProgress::new(page), seen: page.after.clone(), ahead: None }
    }
}

/// One watcher.
#[derive(Debug)]
struct MemoryWatcher {
    state: Arc<Mutex<MemoryState>>,
    clock: Clock,
    queue: Arc<WatchQueue>,
}

impl MemoryWatcher {
    async fn wait(&self) -> Option<RecordEvent> {
        loop {
            if let Some(next) = self.queue.pop() {
                return next;
            }
            let look_at = lock(&self.state).records.look_at();
            tokio::select! {
                biased;
                () = self.queue.news() => {}
                () = self.clock.sleep_until(look_at) => lock(&self.state).look(self.clock.now()),
            }
        }
    }
}

impl RecordEvents for MemoryWatcher {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<RecordEvent>> + Send + '_>> {
        Box::pin(self.wait())
    }
}

impl Drop for MemoryWatcher {
    fn drop(&mut self) {
        lock(&self.state).records.unwatch(&self.queue);
    }
}
