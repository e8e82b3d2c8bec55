//! Records, under the same mutex as the leases.

use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use super::{Memory, Shelf, lock};
use crate::claim::{Record, Store, Ticket};
use crate::clock::{Clock, Moment};
use crate::engine::records::{not_held, sum};
use crate::engine::state::{Answer, Verb};
use crate::engine::{BoxFuture, Page, RecordEvent, RecordEvents, RecordListing, Records, Scope};
use crate::engines::feed::Feed;
use crate::error::Result;
use crate::name::Name;

impl Shelf {
    /// A record as it is now: what is over goes first.
    pub(super) fn record(&mut self, name: &Name, now: Moment) -> Option<&Record> {
        if self.cabinet.may_be_over(name, now) {
            if let Some(lease) = self.cabinet.lease_of(name) {
                self.step(&lease, Verb::Tick, now);
            }
            self.fence += self.cabinet.lapse_one(name, now);
        }
        self.cabinet.get(name)
    }

    /// Takes the value out of `store` if it is written.
    pub(super) fn store(
        &mut self,
        store: &mut Store,
        now: Moment,
    ) -> Result<Result<u64, Option<Record>>> {
        store.check()?;
        let found = self.record(&store.name, now);
        if !store.expect.holds(found) {
            return Ok(Err(found.cloned()));
        }
        let lease = store.bound_to.as_ref().filter(|_| store.value.is_some());
        if lease.is_some_and(|ticket| !self.bind(ticket, now)) {
            return Err(not_held(store));
        }
        self.fence += 1;
        match store.value.take() {
            Some(value) => {
                let expires = store.ttl.map_or(Moment::NEVER, |ttl| now.after(ttl));
                let record = Record::new(value, self.fence);
                self.cabinet.put(&store.name, record, expires, store.bound_to.as_ref());
            }
            None => self.cabinet.remove(&store.name),
        }
        Ok(Ok(self.fence))
    }

    fn bind(&mut self, ticket: &Ticket, now: Moment) -> bool {
        let answer = self.step(&ticket.name, Verb::Bind { id: ticket.id }, now);
        matches!(answer, Answer::Held { .. })
    }

    fn add(&mut self, name: &Name, amount: u64, now: Moment) -> Result<u64> {
        let found = self.record(name, now);
        let (new, sum) = (found.is_none(), sum(name, found, amount)?);
        self.fence += 1;
        let record = Record::new(sum.to_string().into_bytes(), self.fence);
        if new {
            self.cabinet.put(name, record, Moment::NEVER, None);
        } else {
            self.cabinet.change(name, record);
        }
        Ok(sum)
    }

    /// Lets time pass for all that may end by itself.
    fn look(&mut self, now: Moment) {
        for lease in self.cabinet.leases() {
            self.step(&lease, Verb::Tick, now);
        }
        self.fence += self.cabinet.lapse(now);
    }
}

impl Memory {
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Shelf, Moment) -> Result<T>,
    ) -> BoxFuture<Result<T>> {
        let now = self.clock.now();
        Box::pin(ready(work(&mut self.shelf(), now)))
    }
}

impl Records for Memory {
    fn load(&self, name: Name) -> BoxFuture<Result<Option<Record>>> {
        self.with(|shelf, now| Ok(shelf.record(&name, now).cloned()))
    }

    fn store(&self, mut store: Store) -> BoxFuture<Result<Result<u64, Option<Record>>>> {
        self.with(|shelf, now| shelf.store(&mut store, now))
    }

    fn add(&self, name: Name, amount: u64) -> BoxFuture<Result<u64>> {
        self.with(|shelf, now| shelf.add(&name, amount, now))
    }

    fn list(&self, scope: Scope, page: Page) -> BoxFuture<Result<RecordListing>> {
        self.with(|shelf, now| {
            shelf.look(now);
            Ok(shelf.cabinet.list(&scope, &page, now))
        })
    }

    fn watch(&self, scope: Scope) -> BoxFuture<Result<Box<dyn RecordEvents>>> {
        let (shelf, clock) = (Arc::clone(&self.shelf), self.clock.clone());
        self.with(|here, now| {
            // What ended before is not news to this watcher.
            here.look(now);
            let feed = here.cabinet.watch(scope);
            Ok(Box::new(Watching { shelf, clock, feed }) as Box<dyn RecordEvents>)
        })
    }
}

/// One watcher.
#[derive(Debug)]
struct Watching {
    shelf: Arc<Mutex<Shelf>>,
    clock: Clock,
    feed: Arc<Feed>,
}

impl Watching {
    async fn wait(&self) -> Option<RecordEvent> {
        loop {
            if let Some(next) = self.feed.pop() {
                return next;
            }
            let look_at = lock(&self.shelf).cabinet.look_at(self.clock.now());
            tokio::select! {
                biased;
                () = self.feed.news() => {}
                () = self.clock.sleep_until(look_at) => lock(&self.shelf).look(self.clock.now()),
            }
        }
    }
}

impl RecordEvents for Watching {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<RecordEvent>> + Send + '_>> {
        Box::pin(self.wait())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        lock(&self.shelf).cabinet.unwatch(&self.feed);
    }
}
