//! The native layout: every mode, queue, direct hand-over, fence.
//!
//! A [`courier`] takes the verbs to one script, which keeps to the rules of the
//! pure core; grants come back on a channel of the client's own.

mod bells;
mod courier;
mod keys;
mod look;
mod pack;
mod patience;
#[cfg(test)]
mod tests;
mod verb;

use std::collections::HashSet;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::UnboundedReceiver;

use self::bells::Bells;
use self::courier::Courier;
use self::keys::Shard;
use self::patience::Patience;
use self::verb::{Answered, News};
use super::link::{Link, Push};
use super::settings::{Settings, WakeBy};
use crate::claim::{
    Busy, Claim, Ending, Mode, Refresh, Released, Renewal, Stance, Ticket, Verdict, Wake,
};
use crate::clock::{Clock, Moment};
use crate::engine::profile::{self, Fencing, Grants, Order, Reach, Timekeeper, WakeUp};
use crate::engine::{
    BoxFuture, Engine, Event, Events, Evicted, Eviction, Finding, Listing, Loss, Page, Profile,
    Records, Selector,
};
use crate::error::Result;
use crate::name::Name;

/// Locks in Redis, in our own layout.
#[derive(Debug, Clone)]
struct Native(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    link: Link,
    courier: Courier,
    bells: Bells,
    patience: Patience,
    /// Which channels are listened to.
    heard: Mutex<HashSet<Shard>>,
    /// Random: who knows it may write to our channel, but not guess a lease id.
    client: String,
    wake: WakeBy,
    clock: Clock,
    profile: Profile,
}

pub(super) async fn open(link: Link, settings: &Settings, clock: Clock) -> Result<Arc<dyn Engine>> {
    let native = Native(Arc::new(Inner {
        courier: Courier::start(link.clone()),
        bells: Bells::default(),
        patience: Patience::default(),
        heard: Mutex::default(),
        client: format!("{:032x}", crate::claim::random_bits()),
        wake: settings.wake,
        profile: promises(&link, settings.wake),
        clock,
        link,
    }));
    if let Some(pushes) = native.0.link.pushes() {
        tokio::spawn(listen(Arc::downgrade(&native.0), pushes));
    }
    Ok(Arc::new(native))
}

fn promises(link: &Link, wake: WakeBy) -> Profile {
    let mut profile = Profile::new("redis", link.endpoint());
    profile.grants = Grants::Counted;
    profile.fencing = Fencing::Clocked;
    profile.clock = Timekeeper::Server;
    profile.reach = Reach::Network;
    profile.listing = profile::Listing::Indexed;
    profile.predecessor = true;
    profile.lock_delay = true;
    profile.keep_closed = true;
    profile.convert = true;
    if wake == WakeBy::Push {
        (profile.wake, profile.order) = (WakeUp::Push, Order::Fifo);
    }
    profile
}

/// Rings the bells, as long as the engine lives.
async fn listen(engine: std::sync::Weak<Inner>, mut pushes: UnboundedReceiver<Push>) {
    while let Some(push) = pushes.recv().await {
        let Some(engine) = engine.upgrade() else { return };
        match push {
            Push::Message { payload, .. } => engine.hear(&payload),
            Push::Gap => engine.bells.ring_all(),
        }
    }
}

impl Inner {
    /// What is no news of ours is nobody's: anyone may publish.
    fn hear(&self, payload: &[u8]) {
        match verb::news(payload) {
            Ok(News::Granted { id, fence, predecessor }) => {
                self.bells.ring(id, fence, predecessor);
            }
            Ok(News::Evicted { id, actor, reason }) => {
                let lost = Event::TicketLost(id, Loss::Evicted { actor, reason });
                self.link.bus().publish(&lost);
            }
            Err(_) => {}
        }
    }

    fn shard(&self, name: &Name) -> Shard {
        Shard::of(name, self.link.is_cluster())
    }

    async fn ask(&self, name: &Name, verb: Vec<u8>) -> Result<Answered> {
        self.courier.carry(&self.shard(name), name.as_str(), verb).await
    }

    /// Listens before the first claim that could be told of a grant.
    async fn channel(&self, shard: &Shard) -> Result<Vec<u8>> {
        if self.wake == WakeBy::Spin {
            return Ok(Vec::new());
        }
        let channel = shard.channel(&self.client);
        let is_heard = || self.heard.lock().unwrap_or_else(PoisonError::into_inner).contains(shard);
        if !is_heard() {
            self.link.subscribe(&channel).await?;
            self.heard.lock().unwrap_or_else(PoisonError::into_inner).insert(shard.clone());
        }
        Ok(channel)
    }

    async fn acquire(&self, claim: Claim) -> Result<Verdict> {
        let (id, shard) = (claim.ticket.id, self.shard(&claim.ticket.name));
        let channel = self.channel(&shard).await?;
        let queues = self.wake == WakeBy::Push;
        let waits = matches!(claim.stance, Stance::Wait { .. });
        if waits && queues {
            self.bells.hang(id);
        }
        let verb = verb::acquire(&claim, &channel, queues);
        let answered = self.courier.carry(&shard, claim.ticket.name.as_str(), verb).await?;
        let mut verdict = answered.answer()?.into_verdict(answered.sent_at);
        match &mut verdict {
            Ok(Verdict::Busy(Busy { place: Some(_), .. })) => {}
            Ok(Verdict::Busy(busy)) if waits => busy.recheck_in = Some(self.patience.next(id)),
            _ => self.forget(id),
        }
        verdict
    }

    fn forget(&self, id: crate::claim::LeaseId) {
        self.bells.take_down(id);
        self.patience.forget(id);
    }

    async fn wait(&self, ticket: Ticket, until: Moment) -> Wake {
        let Some(rings) = self.bells.rings(ticket.id) else {
            self.clock.sleep_until(until).await;
            return Wake::Look;
        };
        tokio::select! {
            biased;
            () = rings.notified() => self.bells.wake(ticket.id),
            () = self.clock.sleep_until(until) => Wake::Look,
        }
    }

    async fn renew(&self, refreshes: Vec<Refresh>) -> Vec<Renewal> {
        let asked: Vec<_> = refreshes
            .iter()
            .map(|refresh| {
                let name = &refresh.ticket.name;
                self.courier.carry(&self.shard(name), name.as_str(), verb::renew(refresh))
            })
            .collect();
        let mut renewals = Vec::with_capacity(asked.len());
        for asked in asked {
            renewals.push(match asked.await {
                Ok(answered) => match answered.answer() {
                    Ok(answer) => answer.into_renewal(answered.sent_at),
                    Err(error) => Renewal::Unknown(error),
                },
                Err(error) => Renewal::Unknown(error),
            });
        }
        renewals
    }

    async fn release(&self, ticket: Ticket, ending: Ending) -> Result<Released> {
        let released = self.ask(&ticket.name, verb::release(ticket.id, &ending)).await;
        self.forget(ticket.id);
        released?.answer()?.into_released()
    }

    async fn convert(&self, ticket: Ticket, to: Mode) -> Result<Renewal> {
        let answered = self.ask(&ticket.name, verb::convert(ticket.id, to)).await?;
        answered.answer()?.into_converted(answered.sent_at)
    }

    async fn evict(&self, eviction: Eviction) -> Result<Evicted> {
        let answered = self.ask(&eviction.name, verb::evict(&eviction)).await?;
        verb::taken(&answered.packed).map(Evicted::new)
    }
}

impl Engine for Native {
    fn profile(&self) -> &Profile {
        &self.0.profile
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.acquire(claim).await })
    }

    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { Ok(inner.wait(ticket, until).await) })
    }

    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.renew(tickets).await })
    }

    fn release(&self, ticket: Ticket, ending: Ending) -> BoxFuture<Result<Released>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.release(ticket, ending).await })
    }

    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.convert(ticket, to).await })
    }

    fn events(&self) -> Events {
        self.0.link.events()
    }

    fn inspect(&self, selector: Selector, page: Page) -> BoxFuture<Result<Listing>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { look::inspect(&inner, selector, page).await })
    }

    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.evict(eviction).await })
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn records(&self) -> Option<&dyn Records> {
        None
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            inner.link.close().await;
            Ok(())
        })
    }
}
