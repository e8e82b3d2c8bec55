//! The memory engine, made to fail, to speak up, and to tell its secrets.

use std::future::{pending, ready};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::claim::{
    Claim, Ending, LeaseId, Mode, Refresh, Released, Renewal, Ticket, Verdict, Wake,
};
use crate::clock::{Moment, TestClock};
use crate::engine::{
    BoxFuture, Bus, Engine, Event, Events, Evicted, Eviction, Finding, Listing, Loss, Page,
    Profile, RecordStore, Selector,
};
use crate::engines::memory::Memory;
use crate::error::{Error, ErrorKind, Result};

#[derive(Debug)]
pub(super) struct Probe {
    memory: Memory,
    profile: Profile,
    bus: Bus,
    fails: AtomicBool,
    keeps_back: AtomicBool,
    seen: Mutex<Vec<LeaseId>>,
}

impl Probe {
    pub(super) fn new(scheme: &'static str, clock: TestClock) -> Self {
        let bus = Bus::new(clock.clone().into());
        let memory = Memory::new(clock.into());
        let profile = Profile { scheme, ..memory.profile().clone() };
        Self {
            memory,
            profile,
            bus,
            fails: false.into(),
            keeps_back: false.into(),
            seen: Mutex::default(),
        }
    }

    /// Whether renewals go unanswered from now on.
    pub(super) fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// No release is answered from now on.
    pub(super) fn keep_back(&self) {
        self.keeps_back.store(true, Ordering::SeqCst);
    }

    pub(super) fn publish(&self, event: &Event) {
        self.bus.publish(event);
    }

    /// Tells the loss of every lease that was ever asked for.
    pub(super) fn lose_all(&self, loss: &Loss) {
        let seen = self.seen.lock().unwrap().clone();
        seen.into_iter().for_each(|id| self.publish(&Event::TicketLost(id, loss.clone())));
    }

    pub(super) fn lease_ids(&self) -> Vec<u128> {
        self.seen.lock().unwrap().iter().map(|id| id.to_bits()).collect()
    }
}

impl Engine for Probe {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        self.seen.lock().unwrap().push(claim.ticket.id);
        self.memory.acquire(claim)
    }

    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        self.memory.wait(ticket, until)
    }

    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        if !self.fails.load(Ordering::SeqCst) {
            return self.memory.renew(tickets);
        }
        let failed = |_| Renewal::Unknown(Error::new(ErrorKind::Unavailable, "the probe fails"));
        Box::pin(ready(tickets.into_iter().map(failed).collect()))
    }

    fn release(&self, ticket: Ticket, ending: Ending) -> BoxFuture<Result<Released>> {
        if self.keeps_back.load(Ordering::SeqCst) {
            return Box::pin(pending());
        }
        self.memory.release(ticket, ending)
    }

    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        self.memory.convert(ticket, to)
    }

    fn events(&self) -> Events {
        self.bus.subscribe()
    }

    fn inspect(&self, selector: Selector, page: Page) -> BoxFuture<Result<Listing>> {
        self.memory.inspect(selector, page)
    }

    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        self.memory.evict(eviction)
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        self.memory.examine()
    }

    fn records(&self) -> Option<&dyn RecordStore> {
        self.memory.records()
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.bus.close();
        self.memory.close()
    }
}
