//! An engine with one thing changed: counted, slowed down, made forgetful.

use std::fmt::Debug;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold::claim::{Claim, Ending, Refresh, Renewal, Ticket, Verdict, Wake};
use leasehold::engine::{
    BoxFuture, Events, Evicted, Eviction, Finding, Listing, Page, RecordStore, Selector,
};
use leasehold::{Engine, Mode, Moment, Profile, Released, Result};

/// The engine under a twist.
pub type Inner = Arc<dyn Engine>;

/// What a twist does to the verbs; each is passed on unless it says otherwise.
pub trait Twist: Debug + Send + Sync + 'static {
    /// What it promises.
    fn profile<'a>(&'a self, inner: &'a Inner) -> &'a Profile {
        inner.profile()
    }

    /// Asks for a lease.
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        inner.acquire(claim)
    }

    /// Waits for a turn.
    fn wait(&self, inner: &Inner, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        inner.wait(ticket, until)
    }

    /// Keeps tickets alive.
    fn renew(&self, inner: &Inner, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        inner.renew(tickets)
    }

    /// Gives a ticket back.
    fn release(
        &self,
        inner: &Inner,
        ticket: Ticket,
        ending: Ending,
    ) -> BoxFuture<Result<Released>> {
        inner.release(ticket, ending)
    }

    /// Changes the mode of a held ticket.
    fn convert(&self, inner: &Inner, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        inner.convert(ticket, to)
    }

    /// Who holds and who waits.
    fn inspect(&self, inner: &Inner, selector: Selector, page: Page) -> BoxFuture<Result<Listing>> {
        inner.inspect(selector, page)
    }

    /// What it keeps beside the leases.
    fn records<'a>(&'a self, inner: &'a Inner) -> Option<&'a dyn RecordStore> {
        inner.records()
    }

    /// What happens without being asked for.
    fn events(&self, inner: &Inner) -> Events {
        inner.events()
    }

    /// The client is done with it.
    fn closed(&self) {}
}

/// No twist at all.
#[derive(Debug)]
pub struct Plain;

impl Twist for Plain {}

/// Counts what is asked of the engine; to wait for a push is no request.
#[derive(Clone, Debug, Default)]
pub struct Requests(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    turns: AtomicU64,
    renewals: AtomicU64,
}

impl Requests {
    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.turns() + self.0.renewals.load(Ordering::Relaxed)
    }

    /// How many of them took or gave back something; the rest are renewals.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.0.turns.load(Ordering::Relaxed)
    }
}

impl Twist for Requests {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        self.0.turns.fetch_add(1, Ordering::Relaxed);
        inner.acquire(claim)
    }

    fn renew(&self, inner: &Inner, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        self.0.renewals.fetch_add(1, Ordering::Relaxed);
        inner.renew(tickets)
    }

    fn release(
        &self,
        inner: &Inner,
        ticket: Ticket,
        ending: Ending,
    ) -> BoxFuture<Result<Released>> {
        self.0.turns.fetch_add(1, Ordering::Relaxed);
        inner.release(ticket, ending)
    }

    fn convert(&self, inner: &Inner, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        self.0.turns.fetch_add(1, Ordering::Relaxed);
        inner.convert(ticket, to)
    }
}

/// An engine with a twist. Closing it leaves the engine below open: others may
/// use that too.
#[derive(Debug)]
pub struct Twisted<T> {
    inner: Inner,
    twist: T,
}

impl<T: Twist> Twisted<T> {
    /// Puts `twist` around `inner`.
    #[must_use]
    pub fn around(inner: Inner, twist: T) -> Arc<dyn Engine> {
        Arc::new(Self { inner, twist })
    }
}

impl<T: Twist> Engine for Twisted<T> {
    fn profile(&self) -> &Profile {
        self.twist.profile(&self.inner)
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        self.twist.acquire(&self.inner, claim)
    }

    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        self.twist.wait(&self.inner, ticket, until)
    }

    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        self.twist.renew(&self.inner, tickets)
    }

    fn release(&self, ticket: Ticket, ending: Ending) -> BoxFuture<Result<Released>> {
        self.twist.release(&self.inner, ticket, ending)
    }

    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        self.twist.convert(&self.inner, ticket, to)
    }

    fn events(&self) -> Events {
        self.twist.events(&self.inner)
    }

    fn inspect(&self, selector: Selector, page: Page) -> BoxFuture<Result<Listing>> {
        self.twist.inspect(&self.inner, selector, page)
    }

    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        self.inner.evict(eviction)
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        self.inner.examine()
    }

    fn records(&self) -> Option<&dyn RecordStore> {
        self.twist.records(&self.inner)
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.twist.closed();
        Box::pin(ready(Ok(())))
    }
}
