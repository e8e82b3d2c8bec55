//! Redlock with a fence: a lease is what a majority of independent nodes has
//! granted.
//!
//! Every node gives the lease a number, see [`node`]. The [`ballot`] makes a
//! fence of the numbers, in one round trip where most nodes agree and in two
//! where they do not; `docs/engines/quorum.md` has the argument, and the model
//! checker of the test suite runs the same ballot.

mod address;
mod ballot;
mod bid;
mod client;
mod debts;
mod fate;
mod layout;
mod leases;
mod member;
mod node;
mod node_slot;
mod nodes;
mod redis_node;
mod round;
#[cfg(test)]
mod tests;
mod upkeep;
mod view;

use std::sync::Arc;
use std::time::Duration;

use self::address::QuorumSettings;
use self::bid::Rounds;
use self::client::QuorumClient;
use self::leases::QuorumLeases;
use self::node::Trust;
use self::nodes::Nodes;
use self::round::{Round, RoundOutcome};
use crate::claim::{
    Busy, Claim, Ending, Grant, Mode, Refresh, Released, Renewal, Ticket, Verdict, Wake,
};
use crate::clock::{Clock, Moment};
use crate::engine::profile::{Cost, Fencing, Grants, Reach, Survives, Timekeeper};
use crate::engine::{
    BoxFuture, Engine, Events, Evicted, Eviction, Finding, Listing, Page, Profile, RecordStore,
    Selector,
};
use crate::error::Result;
use crate::home::Handle;
use crate::url::Url;

/// The longest pause after which a node that was heard of late is given up at
/// opening, once a majority is there.
const STRAGGLERS: Duration = Duration::from_millis(500);
/// The longest pause before a claim that split the votes is tried again.
const SPLIT: u64 = 20;

#[derive(Debug)]
pub(super) struct Quorum {
    client: Arc<QuorumClient>,
    profile: Profile,
}

/// Opens the nodes that a URL names; a minority may be away.
pub(super) async fn open(url: &Url, clock: Clock) -> Result<Arc<dyn Engine>> {
    slot(QuorumSettings::from_url(url, &clock)?, clock).await
}

/// A quorum over engines that are open already.
#[cfg(any(leasehold_sim, test))]
pub(crate) async fn over(
    engines: Vec<Arc<dyn Engine>>,
    clock: Clock,
    patience: Duration,
) -> Result<Arc<dyn Engine>> {
    let slots = engines.into_iter().map(member::seated).collect();
    let (node_timeout, poll, quarantine) = (Some(patience), patience, Duration::ZERO);
    slot(QuorumSettings { slots, node_timeout, poll, quarantine }, clock).await
}

async fn slot(settings: QuorumSettings, clock: Clock) -> Result<Arc<dyn Engine>> {
    let table = Arc::new(Nodes::new(settings.slots, clock, settings.node_timeout));
    let trusts = fill(&table).await?;
    let profile = promise(&table, &trusts, settings.quarantine);
    let (rounds, leases, pause) = (Rounds::default(), QuorumLeases::default(), settings.poll);
    let client = Arc::new(QuorumClient { table, rounds, leases, pause, profile: profile.clone() });
    Ok(Arc::new(Quorum { client, profile }))
}

/// Opens every node; says what those that came are good for.
async fn fill(table: &Arc<Nodes>) -> Result<Vec<Trust>> {
    let mut filling = tokio::task::JoinSet::new();
    for slot in &table.slots {
        let slot = Arc::clone(slot);
        Handle::current().spawn_in(&mut filling, async move { slot.open_now().await });
    }
    let (mut trusts, mut errors, mut until) = (Vec::new(), Vec::new(), Moment::NEVER);
    while let Some(filled) = next(&mut filling, &table.clock, until).await {
        match filled {
            Ok(trust) => trusts.push(trust),
            Err(error) => errors.push(error),
        }
        if trusts.len() == table.majority() {
            until = table.clock.now().after(STRAGGLERS);
        }
    }
    // The others go on, and take their slots when they get there.
    filling.detach_all();
    if trusts.len() >= table.majority() {
        return Ok(trusts);
    }
    close(table).await;
    let refusal = Nodes::refusal(&errors).cloned();
    Err(refusal.unwrap_or_else(|| table.too_few(trusts.len(), u64::MAX, &errors)))
}

async fn next(
    filling: &mut tokio::task::JoinSet<Result<Trust>>,
    clock: &Clock,
    until: Moment,
) -> Option<Result<Trust>> {
    tokio::select! {
        biased;
        filled = filling.join_next() => filled?.ok(),
        () = clock.sleep_until(until) => None,
    }
}

async fn close(table: &Nodes) {
    for node in table.slots.iter().filter_map(|slot| slot.leave()) {
        // What cannot be closed is gone anyway.
        let _ = node.close().await;
    }
}

fn promise(table: &Nodes, trusts: &[Trust], quarantine: Duration) -> Profile {
    let endpoints: Vec<&str> = table.slots.iter().map(|slot| slot.endpoint.as_str()).collect();
    let mut profile = Profile::new("quorum", endpoints.join(","));
    // A node that is away may be worse than those that are here.
    let complete = trusts.len() == table.size();
    let strict = complete && trusts.iter().all(|trust| trust.fencing == Fencing::Strict);
    profile.grants = Grants::Shared;
    profile.fencing = if strict { Fencing::Strict } else { Fencing::Clocked };
    profile.clock = Timekeeper::Quorum;
    profile.reach = trusts.iter().map(|trust| trust.reach).min().unwrap_or(Reach::Process);
    profile.survives = match profile.reach {
        Reach::Network => Survives::Failover,
        _ => Survives::Restart,
    };
    profile.convert = trusts.iter().all(|trust| trust.convert);
    profile.cost = Cost::ONE_TRIP;
    if !strict && !quarantine.is_zero() {
        // A longer lease could be forgotten by a node and given away again.
        profile.limits.ttl_max = profile.limits.ttl_max.min(quarantine);
    }
    profile
}

async fn acquire(client: Arc<QuorumClient>, mut claim: Claim) -> Result<Verdict> {
    claim.ttl = client.within(claim.ttl);
    if let Some(verdict) = repeated(&client, &claim).await? {
        return Ok(verdict);
    }
    let id = claim.ticket.id;
    claim.ticket = client.rounds.bid(&claim.ticket);
    match Round::open(&client, &claim).close().await {
        RoundOutcome::Granted { fence, ttl, sent_at, fate } => {
            client.leases.keep(id, claim, fence, fate);
            Ok(Verdict::Granted(Grant::new(fence, ttl, sent_at)))
        }
        RoundOutcome::Busy { holder, split } => {
            let mut found = Busy::new();
            found.holder = holder;
            Ok(busy(&client, found, split))
        }
        RoundOutcome::Failed(error) => Err(error),
    }
}

/// A claim that was granted before has its fence already. What most nodes have
/// lost since is removed from the others, and asked for anew.
async fn repeated(client: &Arc<QuorumClient>, claim: &Claim) -> Result<Option<Verdict>> {
    let Some((held, fence)) = client.leases.recall(claim.ticket.id) else { return Ok(None) };
    let sent_at = client.table.clock.now();
    if let Some(kept) = upkeep::confirm(client, &Refresh::new(held.ticket, claim.ttl)).await? {
        return Ok(Some(Verdict::Granted(Grant::new(fence, kept, sent_at))));
    }
    upkeep::let_go(client, claim.ticket.id).await;
    Ok(None)
}

/// Look again after a random pause, so that those who split the votes do not
/// meet again.
fn busy(client: &QuorumClient, mut busy: Busy, split: bool) -> Verdict {
    let most = u64::try_from(client.pause.as_millis()).unwrap_or(u64::MAX).max(4);
    let pause =
        if split { fastrand::u64(1..=SPLIT.min(most)) } else { fastrand::u64(most / 4..=most) };
    let left = busy.holder.as_ref().and_then(|holder| holder.time_left);
    let pause = Duration::from_millis(pause);
    busy.recheck_in = Some(left.map_or(pause, |left| pause.min(left + Duration::from_millis(1))));
    Verdict::Busy(busy)
}

impl Engine for Quorum {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        Box::pin(acquire(Arc::clone(&self.client), claim))
    }

    /// Nobody tells: most nodes would have to.
    fn wait(&self, _: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        let clock = self.client.table.clock.clone();
        Box::pin(async move {
            clock.sleep_until(until).await;
            Ok(Wake::Look)
        })
    }

    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        Box::pin(upkeep::renew(Arc::clone(&self.client), tickets))
    }

    fn release(&self, ticket: Ticket, _: Ending) -> BoxFuture<Result<Released>> {
        Box::pin(upkeep::release(Arc::clone(&self.client), ticket))
    }

    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        Box::pin(upkeep::convert(Arc::clone(&self.client), ticket, to))
    }

    fn events(&self) -> Events {
        self.client.table.bus.subscribe()
    }

    fn inspect(&self, selector: Selector, _: Page) -> BoxFuture<Result<Listing>> {
        Box::pin(view::inspect(Arc::clone(&self.client), selector))
    }

    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        Box::pin(view::evict(Arc::clone(&self.client), eviction))
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        Box::pin(view::examine(Arc::clone(&self.client)))
    }

    /// A majority of versions is no version.
    fn records(&self) -> Option<&dyn RecordStore> {
        None
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let table = Arc::clone(&self.client.table);
        Box::pin(async move {
            table.bus.close();
            close(&table).await;
            Ok(())
        })
    }
}
