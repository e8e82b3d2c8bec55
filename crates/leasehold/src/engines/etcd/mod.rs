//! Locks on etcd.
//!
//! A [`link`] reaches the servers, [`Leases`] are the sessions of a client,
//! [`KeyWatches`] tell what changed, and [`EtcdKeys`] say where everything lies.
//! What a lock is on top of that is the same as on ZooKeeper: see `consensus`.

mod checkup;
mod ensemble;
mod entries;
mod keepalive;
mod keys;
mod layout_version;
mod leases;
mod link;
mod listing;
mod live_leases;
mod marks;
mod name_lines;
mod name_walk;
mod neighbours;
mod queues;
mod reach;
mod tombstones;
// Generated: `cargo xtask proto`.
#[allow(unreachable_pub, clippy::all)]
#[rustfmt::skip]
mod proto;
#[cfg(test)]
mod server;
mod settings;
#[cfg(test)]
mod tests;
mod txn;
mod values;
mod version;
mod watches;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use self::keys::EtcdKeys;
use self::leases::Leases;
use self::link::EtcdLink;
use self::proto::{MemberListRequest, RangeRequest};
use self::reach::RangeReach;
use self::settings::{EtcdSettings, KeyNames};
use self::tombstones::Tombstones;
use self::watches::KeyWatches;
use crate::claim::LeaseId;
use crate::clock::{Clock, Moment};
use crate::engine::Engine;
use crate::engine::profile::{Profile, Survives};
use crate::engines::consensus::{self, QueuePart, RecordFormat};
use crate::error::Result;
use crate::home::Handle;
use crate::url::Url;

/// Opens the engine. Called on home.
pub(super) async fn open(url: &Url, clock: Clock) -> Result<Arc<dyn Engine>> {
    let settings = EtcdSettings::from_url(url)?;
    let etcd = Etcd::open(&settings, clock.clone()).await?;
    Ok(consensus::engine(Arc::new(etcd), clock))
}

/// A client of etcd.
struct Etcd {
    link: Arc<EtcdLink>,
    leases: Leases,
    watches: KeyWatches,
    keys: EtcdKeys,
    tombstones: Tombstones,
    /// How far ranges of names go, and those of values.
    reaches: [RangeReach; 2],
    profile: Profile,
    home: Handle,
    closed: watch::Sender<bool>,
}

impl Etcd {
    async fn open(settings: &EtcdSettings, clock: Clock) -> Result<Self> {
        let home = Handle::current();
        let link = Arc::new(EtcdLink::new(settings, clock)?);
        let leases = Leases::new(&link, &home);
        let watches = KeyWatches::new(&link, &home);
        let mut profile = consensus::promises("etcd", settings.endpoint());
        profile.limits.ttl_min = shortest(&link, &leases).await?;
        if has_one_member(&link, settings).await {
            profile.survives = Survives::Restart;
        }
        profile.candidates_in_entries = settings.names == KeyNames::Raw;
        profile.raw_records = settings.records == RecordFormat::Raw;
        let keys = EtcdKeys::new(settings.root.clone(), settings.names, settings.records);
        let (tombstones, closed) = (Tombstones::default(), watch::Sender::new(false));
        let reaches = <[RangeReach; 2]>::default();
        let etcd = Self { link, leases, watches, keys, tombstones, reaches, profile, home, closed };
        // Some requests are open to users without rights; this one is not.
        etcd.ping(etcd.link.deadline()).await?;
        etcd.check_layout().await?;
        Ok(etcd)
    }

    /// Reads what every user of ours may read, from a majority of the members.
    async fn ping(&self, by: Moment) -> Result<()> {
        let nothing = txn::one(&self.keys.tombstone(QueuePart::Queue, LeaseId::from_bits(0)));
        self.link.ask(RangeRequest { count_only: true, ..nothing }, by).await?;
        Ok(())
    }

    /// Gives back what we have, and ends what runs.
    async fn close(&self) -> Result<()> {
        self.closed.send_replace(true);
        let closed = self.leases.close().await;
        self.watches.close();
        self.link.state_publisher().bus().close();
        closed
    }
}

/// The shortest lease that the servers give: they raise what is asked for to the
/// time that an election takes. Asked for once, and given back.
async fn shortest(link: &EtcdLink, leases: &Leases) -> Result<Duration> {
    let by = link.deadline();
    let (lease, ttl) = leases.lease(1, by).await?;
    // It ends by itself if it cannot be given back.
    let _ = leases.revoke(lease, by).await;
    Ok(ttl.max(Duration::from_secs(1)))
}

/// A server that will not say is judged by the URL.
async fn has_one_member(link: &EtcdLink, settings: &EtcdSettings) -> bool {
    match link.ask(MemberListRequest {}, link.deadline()).await {
        Ok(list) => list.members.len() == 1,
        Err(_) => settings.hosts.len() == 1,
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Etcd").field(&self.profile.endpoint).finish()
    }
}
