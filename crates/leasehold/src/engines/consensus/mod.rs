//! Locks on a consensus store, whichever it is.
//!
//! A claim is an entry at the end of a line. The front of the line holds. An
//! entry lives on its client's session and goes when that ends; whoever waits
//! watches the one entry before it. The store numbers what is made in it, and
//! the number of an entry is its fence.
//!
//! `ensemble.rs` says what a store must be able to do; `queue.rs` reads off
//! a line who holds; `leases.rs` is what this client knows of its own leases.

mod attended;
mod bonds;
mod claims;
mod client;
mod endings;
#[cfg_attr(
    not(all(feature = "zookeeper", feature = "etcd")),
    allow(dead_code, reason = "a store needs what it needs of it")
)]
mod ensemble;
mod leases;
mod mark;
mod metadata;
mod permits;
mod queue;
mod record_format;
mod records;
#[cfg_attr(
    not(all(feature = "zookeeper", feature = "etcd")),
    allow(dead_code, reason = "a store needs what it needs of it")
)]
mod session;
mod upkeep;
mod view;
mod waits;

#[cfg(feature = "etcd")]
pub(in crate::engines) use ensemble::{Departure, EntryAhead};
pub(in crate::engines) use ensemble::{
    Ensemble, Entered, If, Joined, KeyChange, Look, NameLines, Newcomer, QueueEntry, QueueId,
    QueuePart, Scan, StoredValue, TxnStep, ValueLife, ValueNews, WatchedKey, WatchedQueue,
};
pub(in crate::engines) use metadata::Metadata;
pub(in crate::engines) use record_format::RecordFormat;
pub(in crate::engines) use session::Session;

use std::sync::Arc;

use self::client::ConsensusClient;
use self::records::ConsensusRecords;
use crate::claim::{Claim, Ending, Mode, Refresh, Released, Renewal, Ticket, Verdict, Wake};
use crate::clock::{Clock, Moment};
use crate::engine::profile::{
    self, Fencing, Grants, Liveness, Order, Reach, Survives, Timekeeper, WakeUp,
};
use crate::engine::{
    BoxFuture, Engine, Events, Evicted, Eviction, Finding, Listing, Page, Profile, RecordStore,
    Selector,
};
use crate::error::Result;

/// An engine on `ensemble`. Called on home.
pub(in crate::engines) fn engine<E: Ensemble>(ensemble: E, clock: Clock) -> Arc<dyn Engine> {
    let client = ConsensusClient::new(ensemble, clock);
    Arc::new(Consensus { shelf: ConsensusRecords::new(Arc::clone(&client)), client })
}

/// What every consensus store promises; how short a ttl can be, and what it
/// outlives, is found out.
pub(in crate::engines) fn promises(scheme: &'static str, endpoint: String) -> Profile {
    let mut profile = Profile::new(scheme, endpoint);
    profile.grants = Grants::Counted;
    profile.fencing = Fencing::Strict;
    profile.order = Order::Fifo;
    profile.liveness = Liveness::Session;
    profile.clock = Timekeeper::Quorum;
    profile.wake = WakeUp::Push;
    profile.reach = Reach::Network;
    profile.survives = Survives::Failover;
    profile.listing = profile::Lists::Indexed;
    profile.convert = true;
    profile.lock_delay = true;
    profile.revocation = true;
    profile
}

/// The engine: verbs, handed to the client.
#[derive(Debug)]
struct Consensus<E: Ensemble> {
    client: Arc<ConsensusClient<E>>,
    shelf: ConsensusRecords<E>,
}

impl<E: Ensemble> Engine for Consensus<E> {
    fn profile(&self) -> &Profile {
        self.client.ensemble.profile()
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        Box::pin(Arc::clone(&self.client).acquire(claim))
    }

    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        Box::pin(Arc::clone(&self.client).wait(ticket, until))
    }

    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        Box::pin(Arc::clone(&self.client).renew(tickets))
    }

    fn release(&self, ticket: Ticket, ending: Ending) -> BoxFuture<Result<Released>> {
        Box::pin(Arc::clone(&self.client).release(ticket, ending))
    }

    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        Box::pin(Arc::clone(&self.client).convert(ticket, to))
    }

    fn events(&self) -> Events {
        self.client.ensemble.bus().subscribe()
    }

    fn inspect(&self, selector: Selector, page: Page) -> BoxFuture<Result<Listing>> {
        Box::pin(Arc::clone(&self.client).inspect(selector, page))
    }

    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        Box::pin(Arc::clone(&self.client).evict(eviction))
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        self.client.ensemble.examine()
    }

    fn records(&self) -> Option<&dyn RecordStore> {
        Some(&self.shelf)
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.client.leases.clear();
        self.client.bonds.clear();
        let closed = self.client.ensemble.close();
        let client = Arc::clone(&self.client);
        Box::pin(async move {
            let closed = closed.await;
            client.ensemble.bus().close();
            closed
        })
    }
}
