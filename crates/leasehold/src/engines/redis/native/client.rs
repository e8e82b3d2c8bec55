//! What this client has on the servers, and the verbs of a lease.

use std::sync::Arc;
use std::time::Duration;

use super::batcher::{Batcher, OpKeys, ScriptChoice};
use super::channels::Channels;
use super::keys::{KeySpace, Shard};
use super::stored_record;
use super::verb::{self, PushedNews, TimedAnswer};
use super::waiters::Waiters;
use super::watchers::NativeWatchers;
use crate::claim::{
    Busy, Claim, Ending, Mode, Refresh, Released, Renewal, Stance, Ticket, Verdict, Wake, Wants,
};
use crate::clock::{Clock, Moment};
use crate::engine::{Event, Evicted, Eviction, Loss, Profile};
use crate::engines::redis::checkup::Checkup;
use crate::engines::redis::link::RedisLink;
use crate::engines::redis::renewals;
use crate::engines::redis::settings::WakeBy;
use crate::engines::redis::waits::{SPIN, Waits};
use crate::error::{Error, Result};
use crate::home::Handle;
use crate::mutant::{self, Mutant};
use crate::name::Name;

/// How long a waiter goes without a look. The name may have come to somebody
/// with a shorter lease, and if that one dies nobody tells.
const LOOK: Duration = Duration::from_secs(5);

/// The way to the servers, and all that is known of leases there.
#[derive(Debug)]
pub(super) struct NativeClient {
    pub(super) link: RedisLink,
    pub(super) key_space: KeySpace,
    pub(super) batcher: Batcher,
    pub(super) waiters: Waiters,
    pub(super) waits: Waits,
    pub(super) watchers: NativeWatchers,
    pub(super) channels: Arc<Channels>,
    /// Where tasks live.
    pub(super) home: Handle,
    /// Random: who knows it may write to our channel, but not guess a lease id.
    pub(super) client: String,
    pub(super) wake: WakeBy,
    pub(super) checkup: Checkup,
    pub(super) clock: Clock,
    pub(super) profile: Profile,
}

impl NativeClient {
    /// What is no news of ours is nobody's: anyone may publish.
    pub(super) fn hear(&self, channel: &[u8], payload: &[u8]) {
        if self.watchers.hear(channel, payload) {
            return;
        }
        match verb::news(payload) {
            Ok(PushedNews::Granted { id, fence, predecessor }) => {
                self.waiters.ring(id, fence, predecessor);
            }
            Ok(PushedNews::Evicted { id, actor, reason }) => {
                // What was taken away is not released.
                self.forget(id);
                let lost = Event::TicketLost(id, Loss::Evicted { actor, reason });
                self.link.bus().publish(&lost);
            }
            Err(_) => {}
        }
    }

    pub(super) fn shard(&self, name: &Name) -> Shard {
        self.key_space.shard(name)
    }

    /// One verb on the lease of a name.
    pub(super) fn ask(
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

    pub(super) async fn acquire(&self, mut claim: Claim) -> Result<Verdict> {
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
                // The lease is there, whatever the record is.
                grant.record = self.loaded(&name, &answered).await.map_err(Error::unknown)?;
            }
            _ => self.forget(id),
        }
        verdict
    }

    /// It neither holds nor waits, or nobody has to tell it any more.
    pub(super) fn forget(&self, id: crate::claim::LeaseId) {
        self.waiters.take_down(id);
        self.waits.over(id);
    }

    pub(super) async fn wait(&self, ticket: Ticket, until: Moment) -> Wake {
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

    pub(super) async fn renew(self: Arc<Self>, refreshes: Vec<Refresh>) -> Vec<Renewal> {
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

    pub(super) async fn release(&self, ticket: Ticket, ending: Ending) -> Result<Released> {
        let shard = self.shard(&ticket.name);
        let keys = self.keys_to_end(&shard, &ticket, &ending)?;
        let verb = verb::release(ticket.id, &ending);
        let released = self.batcher.carry(ScriptChoice::Leases, shard, keys, verb).await;
        self.forget(ticket.id);
        released?.answer()?.into_released()
    }

    pub(super) async fn convert(&self, ticket: Ticket, to: Mode) -> Result<Renewal> {
        let answered = self.ask(&ticket.name, verb::convert(ticket.id, to)).await?;
        answered.answer()?.into_converted(answered.sent_at)
    }

    pub(super) async fn evict(&self, eviction: Eviction) -> Result<Evicted> {
        let answered = self.ask(&eviction.name, verb::evict(&eviction)).await?;
        verb::taken(answered.said.packed()?).map(Evicted::new)
    }
}

#[cfg(test)]
mod tests;
