//! Locks on ZooKeeper, in the nodes that Curator makes.
//!
//! A client has a session for each kind of ttl, on a connection of its own; a
//! claim is a node that ends with its session. [`wire`] has the bytes,
//! `connection` carries them, `session_link` keeps a session on some server.

mod changes;
mod checkup;
mod child_walks;
mod chores;
mod client;
mod connection;
mod dial;
mod ensemble;
mod fault;
mod follow;
mod layout;
mod layout_version;
mod leader_clock;
mod liveness;
mod looks;
mod name_lines;
mod paths;
mod placed_child;
mod queues;
mod session_link;
mod sessions;
mod settings;
mod state;
mod stored;
mod tree_walk;
mod values;
mod watches;
mod wire;

use std::sync::Arc;

use self::child_walks::ChildWalks;
use self::chores::Chores;
use self::client::ZkClient;
use self::ensemble::ZooKeeper;
use self::layout::PathLayout;
use self::leader_clock::LeaderClock;
use self::session_link::SessionTerms;
use self::sessions::Sessions;
use self::settings::{PathNames, ZkSettings};
use self::state::StatePublisher;
use super::consensus::{self, RecordFormat};
use crate::clock::Clock;
use crate::engine::profile::Survives;
use crate::engine::{Engine, Profile};
use crate::engines::kit::tls;
use crate::error::Result;
use crate::home::Handle;
use crate::url::Url;

/// The most permits of one name: each one is a node, and a change has one step
/// for each.
const PERMITS_MAX: u32 = 1000;

/// Opens the engine. Called on home.
pub(super) async fn open(url: &Url, clock: Clock) -> Result<Arc<dyn Engine>> {
    let settings = ZkSettings::from_url(url)?;
    Ok(consensus::engine(ensemble(settings, clock.clone()).await?, clock))
}

async fn ensemble(settings: ZkSettings, clock: Clock) -> Result<ZooKeeper> {
    let terms = Arc::new(SessionTerms {
        tls: settings.tls.as_ref().map(tls::config).transpose()?,
        state_publisher: StatePublisher::new(clock.clone()),
        clock,
        home: Handle::current(),
        newest: Arc::default(),
        wall: LeaderClock::default(),
        settings,
    });
    let sessions = Sessions::new(&terms).await?;
    let profile = profile(&terms.settings, &sessions);
    let layout = PathLayout::new(&terms.settings);
    let (chores, walks) = (Chores::default(), ChildWalks::default());
    let client = Arc::new(ZkClient { terms, sessions, layout, chores, walks });
    client.check_layout().await?;
    client.sessions.begin_anew().await;
    let tidying = client.terms.home.spawn(Arc::clone(&client).keep_tidy()).abort_handle();
    Ok(ZooKeeper { client, profile, tidying })
}

fn profile(settings: &ZkSettings, sessions: &Sessions) -> Profile {
    let mut profile = consensus::promises("zookeeper", settings.endpoint());
    if settings.servers.len() == 1 {
        profile.survives = Survives::Restart;
    }
    profile.limits.ttl_min = sessions.shortest();
    profile.limits.permits_max = PERMITS_MAX;
    profile.raw_records = settings.records == RecordFormat::Raw;
    profile.candidates_in_entries = settings.names == PathNames::Raw;
    profile
}
