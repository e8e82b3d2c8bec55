//! The native layout: every mode, queue, direct hand-over, fence.
//!
//! A [`batcher`] takes the verbs to one script, which keeps to the rules of the
//! pure core; grants come back on a channel of the client's own.

mod batcher;
mod channels;
mod keys;
mod look;
mod pack;
mod records;
mod stored_record;
#[cfg(test)]
mod tests;
mod verb;
mod waiters;
mod watchers;
mod watching;

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use self::batcher::{Batcher, OpKeys, Orphans, ScriptChoice};
use self::channels::Channels;
use self::keys::{KeySpace, Shard};
use self::verb::{PushedNews, TimedAnswer};
use self::waiters::Waiters;
use self::watchers::NativeWatchers;
use super::checkup::Checkup;
use super::link::{Push, RedisLink};
use super::renewals;
use super::settings::{RedisSettings, WakeBy};
use super::waits::{SPIN, Waits};
use crate::claim::{
    Busy, Claim, Ending, Mode, Refresh, Released, Renewal, Stance, Ticket, Verdict, Wake, Wants,
};
use crate::clock::{Clock, Moment};
use crate::engine::profile::{self, Fencing, Grants, Order, Reach, Timekeeper, WakeUp};
use crate::engine::{
    BoxFuture, Engine, Event, Events, Evicted, Eviction, Finding, Listing, Loss, Page, Profile,
    RecordStore, Selector,
};
use crate::error::Result;
use crate::home::Handle;
use crate::mutant::{self, Mutant};
use crate::name::Name;

/// How long a waiter goes without a look. The name may have come to somebody
/// with a shorter lease, and if that one dies nobody tells.
const LOOK: Duration = Duration::from_secs(5);

/// Locks in Redis, in our own layout.
#[derive(Debug, Clone)]
struct Native(Arc<NativeClient>);

#[derive(Debug)]
struct NativeClient {
    link: RedisLink,
    key_space: KeySpace,
    batcher: Batcher,
    waiters: Waiters,
    waits: Waits,
    watchers: NativeWatchers,
    channels: Arc<Channels>,
    /// Where tasks live.
    home: Handle,
    /// Random: who knows it may write to our channel, but not guess a lease id.
    client: String,
    wake: WakeBy,
    checkup: Checkup,
    clock: Clock,
    profile: Profile,
}

pub(super) async fn open(
    link: RedisLink,
    settings: &RedisSettings,
    prefix: &str,
    checkup: Checkup,
    clock: Clock,
) -> Result<Arc<dyn Engine>> {
    let mut profile = promises(&link, settings.wake);
    profile.survives = checkup.survives().await;

    let (orphans, lost) = unbounded_channel();
    let native = Native(Arc::new(NativeClient {
        key_space: KeySpace::new(prefix, settings.database, link.is_cluster()),
        batcher: Batcher::start(link.clone(), orphans),
        watchers: NativeWatchers::default(),
        waiters: Waiters::default(),
        waits: Waits::default(),
        channels: Arc::new(Channels::new(link.clone(), clock.clone())),
        home: Handle::current(),
        client: format!("{:032x}", crate::claim::id::random_bits()),
        wake: settings.wake,
        checkup,
        profile,
        clock,
        link,
    }));
    if let Some(pushes) = native.0.link.pushes() {
        Handle::current().spawn(listen(Arc::downgrade(&native.0), pushes));
    }
    Handle::current().spawn(clear(Arc::downgrade(&native.0), lost));
    Ok(Arc::new(native))
}

fn promises(link: &RedisLink, wake: WakeBy) -> Profile {
    let mut profile = Profile::new("redis", link.endpoint());
    profile.grants = Grants::Counted;
    profile.fencing = Fencing::Clocked;
    profile.clock = Timekeeper::Server;
    profile.reach = Reach::Network;
    profile.listing = profile::Lists::Indexed;
    profile.predecessor = true;
    profile.lock_delay = true;
    profile.keep_closed = true;
    profile.convert = true;
    profile.order = Order::Fifo;
    if wake == WakeBy::Push {
        profile.wake = WakeUp::Push;
    }
    profile
}

/// Rings the waiters, as long as the engine lives.
async fn listen(engine: Weak<NativeClient>, mut pushes: UnboundedReceiver<Push>) {
    while let Some(push) = pushes.recv().await {
        let Some(engine) = engine.upgrade() else { return };
        match push {
            Push::Message { channel, payload } => engine.hear(&channel, &payload),
            Push::Gap => {
                engine.waiters.ring_all();
                engine.watchers.resync();
            }
        }
    }
}

/// Clears away records whose lease has ended. Nobody sees them any more, but
/// watchers have to hear of it.
async fn clear(engine: Weak<NativeClient>, mut lost: UnboundedReceiver<Orphans>) {
    while let Some(orphans) = lost.recv().await {
        let Some(engine) = engine.upgrade() else { return };
        for name in verb::names(&orphans).unwrap_or_default() {
            // What cannot be cleared now is found by the next one who looks.
            let _ = engine.record(&name).await;
        }
    }
}

impl NativeClient {
    /// What is no news of ours is nobody's: anyone may publish.
    fn hear(&self, channel: &[u8], payload: &[u8]) {
        if self.watchers.hear(channel, payload) {
            return;
        }
        match verb::news(payload) {
            Ok(PushedNews::Granted { id, fence, predecessor }) => {
                self.waiters.ring(id, fence, predecessor);
            }
            Ok(PushedNews::Evicted { id, actor, reason }) => {
                let lost = Event::TicketLost(id, Loss::Evicted { actor, reason });
                self.link.bus().publish(&lost);
            }
            Err(_) => {}
        }
    }

    fn shard(&self, name: &Name) -> Shard {
        self.key_space.shard(name)
    }

    /// One verb on the lease of a name.
    fn ask(
        &self,
        name: &Name,
        verb: Vec<u8>,
    ) -> impl Future<Output = Result<TimedAnswer>> + Send + use<> {
        self.batcher.carry(ScriptChoice::Leases, self.shard(name), OpKeys::of_lease(name), verb)
    }

    /// Listens before the first claim that could be told of anything.
    async fn channel(&self, shard: &Shard) -> Result<Vec<u8>> {
        let channel = self.key_space.channel(shard, &self.client);
        if self.channels.is_heard(&channel) {
            return Ok(channel);
        }
        // Rare, and it takes a lot of room in the future of a claim.
        match Box::pin(self.listen_on(&channel)).await {
            // Who asks by itself can do without: it hears of an eviction when
            // it renews.
            Err(_) if self.wake == WakeBy::Spin => Ok(Vec::new()),
            Err(error) => Err(error),
            Ok(()) => Ok(channel),
        }
    }

    async fn listen_on(&self, channel: &[u8]) -> Result<()> {
        if self.channels.are_many() {
            let channels = Arc::clone(&self.channels);
            self.home.spawn(async move { channels.tidy().await });
        }
        self.channels.listen(channel).await
    }

    async fn claim(&self, claim: &Claim) -> Result<TimedAnswer> {
        let name = &claim.ticket.name;
        let shard = self.shard(name);
        let channel = self.channel(&shard).await?;
        let spins = self.wake == WakeBy::Spin;
        if matches!(claim.stance, Stance::Wait { .. }) && !spins {
            self.waiters.hang(claim.ticket.id);
        }
        let verb = verb::acquire(claim, &channel, spins);
        let record = claim.wants.record().then(|| name.clone());
        let keys = OpKeys { record, ..OpKeys::of_lease(name) };
        self.batcher.carry(ScriptChoice::Leases, shard, keys, verb).await
    }

    async fn acquire(&self, mut claim: Claim) -> Result<Verdict> {
        let (id, name) = (claim.ticket.id, claim.ticket.name.clone());
        let mut answered = self.claim(&claim).await?;
        if claim.wants == Wants::RecordOrLease
            && let Some(packed) = answered.found()?
        {
            self.forget(id);
            if let Some(record) = self.living(&name, stored_record::stored(&packed)?).await? {
                return Ok(Verdict::Busy(Busy::found(record)));
            }
            // It has outlived its lease, and is gone now.
            claim.wants = Wants::LeaseAndRecord;
            answered = Box::pin(self.claim(&claim)).await?;
        }
        let spins = self.wake == WakeBy::Spin;
        let mut verdict = answered.said.answer(claim.ttl)?.into_verdict(answered.sent_at);
        match &mut verdict {
            Ok(Verdict::Busy(busy)) if busy.place.is_some() && spins => {
                let left = busy.recheck_in.unwrap_or_default();
                self.waits.place(id, String::new);
                busy.recheck_in = Some(self.waits.in_vain(id, &SPIN, left));
            }
            Ok(Verdict::Busy(Busy { place: Some(place), recheck_in, .. })) => {
                place.floor = answered.floor()?;
                self.waiters.raise(id, place.floor);
                *recheck_in = recheck_in.map(|recheck_in| recheck_in.min(LOOK));
            }
            Ok(Verdict::Granted(grant)) => {
                self.link.check_grant(answered.acknowledged)?;
                self.forget(id);
                grant.record = self.loaded(&name, &answered).await?;
            }
            _ => self.forget(id),
        }
        verdict
    }

    fn forget(&self, id: crate::claim::LeaseId) {
        self.waiters.take_down(id);
        self.waits.over(id);
    }

    async fn wait(&self, ticket: Ticket, until: Moment) -> Wake {
        let Some(rings) = self.waiters.rings(ticket.id) else {
            self.clock.sleep_until(until).await;
            return Wake::Look;
        };
        tokio::select! {
            biased;
            () = rings.notified() => {
                let wake = self.waiters.wake(ticket.id);
                // Who wants to know how many replicas have its grant has to ask.
                if self.link.counts_replicas() { Wake::Look } else { wake }
            }
            () = self.clock.sleep_until(until) => Wake::Look,
        }
    }

    async fn renew(self: Arc<Self>, refreshes: Vec<Refresh>) -> Vec<Renewal> {
        if !self.link.is_cluster() || mutant::lives(Mutant::SlowestServer) {
            return self.renew_all(refreshes).await;
        }
        let home = |refresh: &Refresh| {
            let shard = self.shard(&refresh.ticket.name);
            self.channels.is_heard(&self.key_space.channel(&shard, &self.client));
            self.link.home(shard.slot())
        };
        let renew = |part| Arc::clone(&self).renew_all(part);
        renewals::by_server(&self.clock, refreshes, home, renew).await
    }

    async fn renew_all(self: Arc<Self>, refreshes: Vec<Refresh>) -> Vec<Renewal> {
        let longest = self.profile.limits.ttl_max;
        let asked: Vec<_> = refreshes
            .iter()
            .map(|refresh| self.ask(&refresh.ticket.name, verb::renew(refresh, longest)))
            .collect();
        let mut renewals = Vec::with_capacity(asked.len());
        for (refresh, asked) in refreshes.iter().zip(asked) {
            let renewal = asked.await.and_then(|answered| self.renewed(refresh, &answered));
            renewals.push(renewal.unwrap_or_else(Renewal::Unknown));
        }
        renewals
    }

    fn renewed(&self, refresh: &Refresh, answered: &TimedAnswer) -> Result<Renewal> {
        if let Some(loss) = answered.evicted() {
            self.link.bus().publish(&Event::TicketLost(refresh.ticket.id, loss));
        }
        let mut renewal = answered.answer()?.into_renewal(answered.sent_at);
        if let Renewal::Queued(place) = &mut renewal {
            place.floor = answered.floor()?;
            self.waiters.raise(refresh.ticket.id, place.floor);
        }
        Ok(renewal)
    }

    async fn release(&self, ticket: Ticket, ending: Ending) -> Result<Released> {
        let shard = self.shard(&ticket.name);
        let keys = self.keys_to_end(&shard, &ticket, &ending)?;
        let verb = verb::release(ticket.id, &ending);
        let released = self.batcher.carry(ScriptChoice::Leases, shard, keys, verb).await;
        self.forget(ticket.id);
        released?.answer()?.into_released()
    }

    async fn convert(&self, ticket: Ticket, to: Mode) -> Result<Renewal> {
        let answered = self.ask(&ticket.name, verb::convert(ticket.id, to)).await?;
        answered.answer()?.into_converted(answered.sent_at)
    }

    async fn evict(&self, eviction: Eviction) -> Result<Evicted> {
        let answered = self.ask(&eviction.name, verb::evict(&eviction)).await?;
        verb::taken(answered.said.packed()?).map(Evicted::new)
    }
}

impl Engine for Native {
    fn profile(&self) -> &Profile {
        &self.0.profile
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move { client.acquire(claim).await })
    }

    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move { Ok(client.wait(ticket, until).await) })
    }

    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        let client = Arc::clone(&self.0);
        Box::pin(client.renew(tickets))
    }

    fn release(&self, ticket: Ticket, ending: Ending) -> BoxFuture<Result<Released>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move { client.release(ticket, ending).await })
    }

    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move { client.convert(ticket, to).await })
    }

    fn events(&self) -> Events {
        self.0.link.events()
    }

    fn inspect(&self, selector: Selector, page: Page) -> BoxFuture<Result<Listing>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move { look::inspect(&client, selector, page).await })
    }

    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move { client.evict(eviction).await })
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        let checkup = self.0.checkup.clone();
        Box::pin(async move { checkup.examine().await })
    }

    fn records(&self) -> Option<&dyn RecordStore> {
        Some(self)
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move {
            client.watchers.close();
            client.link.close();
            Ok(())
        })
    }
}
