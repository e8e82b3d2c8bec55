//! The native layout: every mode, queue, direct hand-over, fence.
//!
//! A [`batcher`] takes the verbs to one script, which keeps to the rules of the
//! pure core; grants come back on a channel of the client's own.

mod batcher;
mod channels;
mod client;
mod keys;
mod look;
mod pack;
mod records;
mod renewal_lane;
mod renewing;
mod stored_record;
#[cfg(test)]
mod tests;
mod verb;
mod waiters;
mod watchers;
mod watching;

use std::sync::{Arc, Weak};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use self::batcher::{Batcher, Orphans};
use self::channels::Channels;
use self::client::NativeClient;
use self::keys::KeySpace;
use self::waiters::Waiters;
use self::watchers::NativeWatchers;
use super::checkup::Checkup;
use super::link::{Push, RedisLink};
use super::settings::{RedisSettings, WakeBy};
use super::waits::Waits;
use crate::claim::{Claim, Ending, Mode, Refresh, Released, Renewal, Ticket, Verdict, Wake};
use crate::clock::{Clock, Moment};
use crate::engine::profile::{self, Fencing, Grants, Order, Reach, Timekeeper, WakeUp};
use crate::engine::{
    BoxFuture, Engine, Events, Evicted, Eviction, Finding, Listing, Page, Profile, RecordStore,
    Selector,
};
use crate::error::Result;
use crate::home::Handle;

/// Locks in Redis, in our own layout.
#[derive(Debug, Clone)]
struct Native(Arc<NativeClient>);

pub(super) async fn open(
    link: RedisLink,
    settings: &RedisSettings,
    prefix: &str,
    checkup: Checkup,
    clock: Clock,
) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(start(link, settings, prefix, checkup, clock).await))
}

async fn start(
    link: RedisLink,
    settings: &RedisSettings,
    prefix: &str,
    checkup: Checkup,
    clock: Clock,
) -> Native {
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
    native
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
