//! An engine whose names all lie below a path: a store of one's own where names are raw
//! and the servers are shared.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use leasehold::claim::{Claim, Ending, RawRecord, Refresh, Renewal, Store, Ticket, Verdict, Wake};
use leasehold::engine::{
    BoxFuture, Events, Evicted, Eviction, Finding, Listing, Page, RecordEvent, RecordEvents,
    RecordListing, RecordStore, Scope, Selector,
};
use leasehold::{Engine, Mode, Moment, Name, Profile, Released, Result};

/// The engine below, and the path.
#[derive(Clone, Debug)]
pub struct Below {
    inner: Arc<dyn Engine>,
    /// It ends with a slash.
    path: Arc<str>,
}

impl Below {
    /// Every name of `inner` that begins with `path`, without it.
    #[must_use]
    pub fn around(inner: Arc<dyn Engine>, path: &str) -> Arc<dyn Engine> {
        Arc::new(Self { inner, path: path.into() })
    }

    fn down(&self, name: &Name) -> Name {
        Name::new(name.namespace(), format!("{}{name}", self.path)).expect("a short name")
    }

    fn up(&self, name: &Name) -> Name {
        let text = name.as_str().strip_prefix(&*self.path).expect("a name of ours");
        Name::new(name.namespace(), text).expect("a name")
    }

    fn ticket(&self, mut ticket: Ticket) -> Ticket {
        ticket.name = self.down(&ticket.name);
        ticket
    }

    fn write(&self, mut store: Store) -> Store {
        store.name = self.down(&store.name);
        store.bound_to = store.bound_to.map(|ticket| self.ticket(ticket));
        store
    }

    fn page(&self, mut page: Page) -> Page {
        page.after = page.after.map(|name| self.down(&name));
        page
    }

    fn scope(&self, scope: &Scope) -> Scope {
        let root = format!("{}{}", self.path, scope.root());
        Scope::below(scope.namespace(), &root, scope.depth())
    }

    fn listing(&self, mut listing: RecordListing) -> RecordListing {
        listing.records.iter_mut().for_each(|(name, _)| *name = self.up(name));
        listing
    }

    fn event(&self, event: RecordEvent) -> RecordEvent {
        match event {
            RecordEvent::Stored(name, record) => RecordEvent::Stored(self.up(&name), record),
            RecordEvent::Deleted(name, version) => RecordEvent::Deleted(self.up(&name), version),
            other => other,
        }
    }

    fn records(&self) -> &dyn RecordStore {
        self.inner.records().expect("an engine with records")
    }
}

impl Engine for Below {
    fn profile(&self) -> &Profile {
        self.inner.profile()
    }

    fn acquire(&self, mut claim: Claim) -> BoxFuture<Result<Verdict>> {
        claim.ticket = self.ticket(claim.ticket);
        self.inner.acquire(claim)
    }

    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        self.inner.wait(self.ticket(ticket), until)
    }

    fn renew(&self, mut tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        tickets.iter_mut().for_each(|it| it.ticket.name = self.down(&it.ticket.name));
        self.inner.renew(tickets)
    }

    fn release(&self, ticket: Ticket, mut ending: Ending) -> BoxFuture<Result<Released>> {
        ending.store = ending.store.map(|store| self.write(store));
        self.inner.release(self.ticket(ticket), ending)
    }

    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        self.inner.convert(self.ticket(ticket), to)
    }

    fn events(&self) -> Events {
        self.inner.events()
    }

    fn inspect(&self, selector: Selector, page: Page) -> BoxFuture<Result<Listing>> {
        let selector = match selector {
            Selector::Name(name) => Selector::Name(self.down(&name)),
            Selector::Prefix(space, prefix) => {
                Selector::Prefix(space, format!("{}{prefix}", self.path).into())
            }
        };
        let (me, asked) = (self.clone(), self.inner.inspect(selector, self.page(page)));
        Box::pin(async move {
            let mut listing = asked.await?;
            listing.names.iter_mut().for_each(|status| status.name = me.up(&status.name));
            Ok(listing)
        })
    }

    fn evict(&self, mut eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        eviction.name = self.down(&eviction.name);
        self.inner.evict(eviction)
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        self.inner.examine()
    }

    fn records(&self) -> Option<&dyn RecordStore> {
        self.inner.records().map(|_| self as &dyn RecordStore)
    }

    /// Whoever opened the engine below closes it.
    fn close(&self) -> BoxFuture<Result<()>> {
        Box::pin(ready(Ok(())))
    }
}

impl RecordStore for Below {
    fn load(&self, name: Name) -> BoxFuture<Result<Option<RawRecord>>> {
        self.records().load(self.down(&name))
    }

    fn store(&self, store: Store) -> BoxFuture<Result<Result<u64, Option<RawRecord>>>> {
        self.records().store(self.write(store))
    }

    fn add(&self, name: Name, amount: i64) -> BoxFuture<Result<i64>> {
        self.records().add(self.down(&name), amount)
    }

    fn list(&self, scope: Scope, page: Page) -> BoxFuture<Result<RecordListing>> {
        let asked = self.records().list(self.scope(&scope), self.page(page));
        let me = self.clone();
        Box::pin(async move { Ok(me.listing(asked.await?)) })
    }

    fn watch(&self, scope: Scope) -> BoxFuture<Result<Box<dyn RecordEvents>>> {
        let (me, asked) = (self.clone(), self.records().watch(self.scope(&scope)));
        Box::pin(async move {
            let events = asked.await?;
            Ok(Box::new(EventsBelow { events, below: me }) as Box<dyn RecordEvents>)
        })
    }
}

#[derive(Debug)]
struct EventsBelow {
    events: Box<dyn RecordEvents>,
    below: Below,
}

impl RecordEvents for EventsBelow {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<RecordEvent>> + Send + '_>> {
        Box::pin(async { self.events.next().await.map(|event| self.below.event(event)) })
    }
}
