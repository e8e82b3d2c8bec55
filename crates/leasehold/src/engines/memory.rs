//! The memory engine: the pure core under a mutex; the executable
//! specification of what every other engine does.

mod name_prefix;
mod record_store;
mod records;
mod sorted_table;
mod sweeper;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
#[cfg(leasehold_sim)]
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::yield_now;

use self::name_prefix::NamePrefix;
use self::record_store::MemoryRecords;
use self::sorted_table::{SOME, SortedTable};
use self::sweeper::Sweeper;
use crate::claim::{
    Busy, Claim, Ending, LeaseId, Mode, Predecessor, Refresh, Released, Renewal, Store, Ticket,
    Verdict, Wake, Wants,
};
use crate::clock::{Clock, Moment, wall_micros};
use crate::engine::profile::{self, Fencing, Grants, Order, Reach, Timekeeper, WakeUp};
use crate::engine::state::{Answer, FollowUp, State, Verb, step};
use crate::engine::{
    BoxFuture, Bus, Engine, Event, Events, Evicted, Eviction, Finding, Listing, Page, Profile,
    RecordStore, Selector,
};
use crate::error::Result;
use crate::name::Name;
use crate::shrink::shrink;

/// Locks among the tasks and threads of one process.
#[derive(Debug)]
pub(crate) struct Memory {
    state: Arc<Mutex<MemoryState>>,
    clock: Clock,
    bus: Bus,
    profile: Profile,
}

#[derive(Debug)]
struct MemoryState {
    names: SortedTable<NameState>,
    /// The names that may be forgotten one day, the next one first; each is here
    /// once at the most.
    lingering: BinaryHeap<Reverse<(Moment, Name)>>,
    sweeper: Sweeper,
    /// For the sweeper.
    me: Weak<Mutex<Self>>,
    clock: Clock,
    waiters: HashMap<LeaseId, MemoryWaiter>,
    records: MemoryRecords,
    /// The last fence and the last version: one counter for both.
    fence: u64,
}

#[derive(Debug, Default)]
struct NameState {
    state: State,
    /// Whether it is among those that linger.
    lingers: bool,
}

/// Where a waiter is told of its grant.
#[derive(Debug, Default)]
struct MemoryWaiter {
    rings: Arc<Notify>,
    grant: Option<(u64, Predecessor)>,
}

impl Memory {
    pub(crate) fn new(clock: Clock) -> Self {
        let mut profile = Profile::new("memory", "memory:");
        profile.grants = Grants::Counted;
        profile.fencing = Fencing::Strict;
        profile.order = Order::Fifo;
        profile.clock = Timekeeper::Host;
        profile.wake = WakeUp::Push;
        profile.reach = Reach::Process;
        profile.listing = profile::Lists::Indexed;
        profile.predecessor = true;
        profile.lock_delay = true;
        profile.keep_closed = true;
        profile.convert = true;
        profile.revocation = true;
        let state = |me: &Weak<_>| MemoryState {
            names: SortedTable::default(),
            lingering: BinaryHeap::new(),
            sweeper: Sweeper::default(),
            me: Weak::clone(me),
            clock: clock.clone(),
            waiters: HashMap::new(),
            records: MemoryRecords::default(),
            // Fences of an earlier run may be stored in some resource.
            fence: wall_micros(),
        };
        let state = Arc::new_cyclic(|me| Mutex::new(state(me)));
        Self { state, bus: Bus::new(clock.clone()), clock, profile }
    }

    /// One step of one name; tells the waiters it concerns.
    fn step(&self, name: &Name, verb: Verb) -> (Answer, Moment) {
        let now = self.clock.now();
        (self.state().step(name, verb, now), now)
    }

    /// Makes a lease end after this span at the latest.
    #[cfg(leasehold_sim)]
    pub(crate) fn shorten(&self, ticket: &Ticket, most: Duration) {
        let ends = self.clock.now().after(most);
        let mut state = self.state();
        if let Some(slot) = state.names.get_mut(&ticket.name) {
            slot.state.shorten(ticket.id, ends);
        }
        state.records.goes_on(ticket.id, ends);
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<MemoryState>) -> MutexGuard<'_, MemoryState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryState {
    fn step(&mut self, name: &Name, verb: Verb, now: Moment) -> Answer {
        self.forget(now, 2);
        let slot = match self.names.get_mut(name) {
            Some(slot) => slot,
            None => self.names.put(name, NameState::default()),
        };
        let done = step(&mut slot.state, verb, now, &mut self.fence);
        // Nobody has to hear of a clean end, so nothing is kept of it.
        if !slot.lingers && slot.state.ended_well(now) {
            self.names.remove(name);
        } else if !slot.lingers
            && let Some(at) = slot.state.forget_at()
        {
            slot.lingers = true;
            self.lingering.push(Reverse((at, name.clone())));
            self.sweep_later();
        }
        done.follow_ups.into_iter().for_each(|follow_up| self.follow_up(&follow_up));
        done.answer
    }

    fn follow_up(&mut self, follow_up: &FollowUp) {
        match follow_up {
            FollowUp::HandedOver { id, fence, predecessor, .. } => {
                let waiter = self.waiters.entry(*id).or_default();
                waiter.grant = Some((*fence, *predecessor));
                waiter.rings.notify_one();
            }
            FollowUp::Ended { id } => self.records.unbind(*id, &mut self.fence),
            FollowUp::Evicted { .. } => {}
        }
    }

    /// Nobody waits for this one any more, and most never did.
    fn unbell(&mut self, id: LeaseId) {
        if !self.waiters.is_empty() {
            self.waiters.remove(&id);
            shrink(&mut self.waiters);
        }
    }

    /// Whether a lease id holds the name, or waits for it.
    fn knows(&self, name: &Name, id: LeaseId) -> bool {
        self.names.get(name).is_some_and(|slot| slot.state.mode_of(id).is_some())
    }

    /// Stores what a release brings along, if it still has the right to.
    fn store_at_the_end(&mut self, ticket: &Ticket, store: &mut Store, now: Moment) -> Result<()> {
        store.check_as_ending(ticket)?;
        let state = self.names.get(&ticket.name).map(|slot| &slot.state);
        if state.is_some_and(|state| state.holds(ticket.id, now)) {
            // It expects nothing, so there is no conflict to speak of.
            self.store(store, now).map(drop)?;
        }
        Ok(())
    }

    /// Forgets what is over, so many names at the most.
    fn forget(&mut self, now: Moment, most: usize) {
        self.records.lapse(now, &mut self.fence);
        for _ in 0..most {
            let Some(next) = self.lingering.peek_mut().filter(|next| next.0.0 <= now) else {
                return;
            };
            let Reverse((_, name)) = PeekMut::pop(next);
            let Some(slot) = self.names.get_mut(&name) else { continue };
            match slot.state.forget_at() {
                Some(later) if later > now => self.lingering.push(Reverse((later, name))),
                Some(_) => drop(self.names.remove(&name)),
                None => slot.lingers = false,
            }
            if self.lingering.len() < self.lingering.capacity() / 4 {
                self.lingering.shrink_to(2 * self.lingering.len().max(SOME));
            }
        }
    }

    /// What is over goes although nobody asks for anything any more.
    fn sweep_later(&mut self) {
        let me = Weak::clone(&self.me);
        self.sweeper.start(self.clock.clone(), move |now| lock(&*me.upgrade()?).sweep(now));
    }

    /// Forgets a part of what is over; says when there is more to forget.
    fn sweep(&mut self, now: Moment) -> Option<Moment> {
        self.forget(now, SOME);
        let name = self.lingering.peek().map_or(Moment::NEVER, |next| next.0.0);
        let next = name.min(self.records.next_lapse());
        if next == Moment::NEVER {
            self.sweeper.stop();
            return None;
        }
        Some(next)
    }

    /// One name of a listing.
    fn find(&self, name: &Name, now: Moment) -> Listing {
        let status = self.names.get(name).map(|slot| slot.state.status(name.clone(), now));
        Listing::new(status.into_iter().collect(), false)
    }

    /// Goes on with a page; true if that is all of it.
    fn fill(
        &mut self,
        listing: &mut Listing,
        of: NamePrefix<'_>,
        page: &Page,
        now: Moment,
    ) -> bool {
        if !self.names.sort_some() {
            return false;
        }
        let seen = listing.names.last().map(|seen| &seen.name).or(page.after.as_ref());
        let Some(from) = of.after(seen) else { return true };
        let room = page.size - listing.names.len();
        let mut found = self.names.walk(from.as_ref()).take_while(|(name, _)| of.covers(name));
        let show = |(name, slot): (&Name, &NameState)| slot.state.status(name.clone(), now);
        listing.names.extend(found.by_ref().take(room.min(SOME)).map(show));
        listing.more = found.next().is_some();
        !listing.more || room <= SOME
    }
}

impl Engine for Memory {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let Ticket { id, name, .. } = claim.ticket.clone();
        let (now, mut state) = (self.clock.now(), self.state());
        let record = if claim.wants.record() { state.record(&name, now).cloned() } else { None };
        if let Some(found) = record.as_ref().filter(|_| claim.wants == Wants::RecordOrLease)
            && !state.knows(&name, id)
        {
            return Box::pin(ready(Ok(Verdict::Busy(Busy::found(found.clone())))));
        }
        let verb = Verb::Acquire { claim: Box::new(claim), session: 0 };
        let verdict = state.step(&name, verb, now).into_verdict(now);
        let mut verdict = verdict.map(|verdict| verdict.above(state.fence));
        if let Ok(Verdict::Granted(grant)) = &mut verdict {
            grant.record = record;
        }
        match &verdict {
            Ok(Verdict::Busy(Busy { place: Some(_), .. })) => {
                // What was handed to an earlier place has ended with it.
                state.waiters.entry(id).or_default().grant = None;
            }
            _ => state.unbell(id),
        }
        drop(state);
        Box::pin(ready(verdict))
    }

    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        let (state, clock) = (Arc::clone(&self.state), self.clock.clone());
        Box::pin(async move {
            let Some(rings) =
                lock(&state).waiters.get(&ticket.id).map(|waiter| Arc::clone(&waiter.rings))
            else {
                return Ok(Wake::Look);
            };
            tokio::select! {
                biased;
                () = rings.notified() => {}
                () = clock.sleep_until(until) => return Ok(Wake::Look),
            }
            let grant =
                lock(&state).waiters.get_mut(&ticket.id).and_then(|waiter| waiter.grant.take());
            Ok(grant
                .map_or(Wake::Look, |(fence, predecessor)| Wake::Granted { fence, predecessor }))
        })
    }

    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        let now = self.clock.now();
        let mut state = self.state();
        let mut renew = |Refresh { ticket, ttl, .. }: Refresh| {
            let answer = state.step(&ticket.name, Verb::Renew { id: ticket.id, ttl }, now);
            answer.into_renewal(now).above(state.fence)
        };
        Box::pin(ready(tickets.into_iter().map(&mut renew).collect()))
    }

    fn release(&self, ticket: Ticket, mut ending: Ending) -> BoxFuture<Result<Released>> {
        let (now, mut state) = (self.clock.now(), self.state());
        if let Some(store) = &mut ending.store
            && let Err(error) = state.store_at_the_end(&ticket, store, now)
        {
            return Box::pin(ready(Err(error)));
        }
        let verb = Verb::Release { id: ticket.id, ending };
        let answer = state.step(&ticket.name, verb, now);
        state.unbell(ticket.id);
        Box::pin(ready(answer.into_released()))
    }

    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        let (answer, now) = self.step(&ticket.name, Verb::Convert { id: ticket.id, to });
        Box::pin(ready(answer.into_converted(now)))
    }

    fn events(&self) -> Events {
        self.bus.subscribe()
    }

    fn inspect(&self, selector: Selector, page: Page) -> BoxFuture<Result<Listing>> {
        let (state, clock) = (Arc::clone(&self.state), self.clock.clone());
        Box::pin(async move {
            let (namespace, text) = match &selector {
                Selector::Name(name) => return Ok(lock(&state).find(name, clock.now())),
                Selector::Prefix(namespace, text) => (namespace, &**text),
            };
            let (mut listing, of) = (Listing::default(), NamePrefix { namespace, text });
            while !lock(&state).fill(&mut listing, of, &page, clock.now()) {
                yield_now().await;
            }
            Ok(listing)
        })
    }

    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        let verb = Verb::Evict { target: eviction.target, remark: eviction.remark() };
        let now = self.clock.now();
        let mut state = self.state();
        state.step(&eviction.name, Verb::Tick, now);
        let slot = state.names.get(&eviction.name);
        let ids = slot.map(|slot| slot.state.targets(eviction.target)).unwrap_or_default();
        let held = |id: &LeaseId| slot.and_then(|slot| slot.state.held(*id, now));
        let leases = ids.iter().filter_map(held).collect();
        if !eviction.ask {
            state.step(&eviction.name, verb, now);
        }
        drop(state);
        for id in ids {
            self.bus.publish(&if eviction.ask {
                Event::RevocationAsked(id)
            } else {
                Event::TicketLost(id, eviction.loss())
            });
        }
        Box::pin(ready(Ok(Evicted::new(leases))))
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn records(&self) -> Option<&dyn RecordStore> {
        Some(self)
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.bus.close();
        self.state().records.close();
        Box::pin(ready(Ok(())))
    }
}
