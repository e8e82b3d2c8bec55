//! Who is to be woken by which channel.
//!
//! Many waiters share the one connection for pushes, and those on one channel
//! share its subscription.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::claim::LeaseId;
use crate::engines::redis::link::RedisLink;
use crate::error::Result;
use crate::home::Handle;

#[derive(Debug)]
pub(super) struct ChannelWaiters {
    link: RedisLink,
    channels: Mutex<BTreeMap<Vec<u8>, WaitChannel>>,
}

#[derive(Debug, Default)]
struct WaitChannel {
    waiters: BTreeMap<LeaseId, Arc<Notify>>,
    /// Whether the server knows of us; held while it is being told, so that
    /// nobody takes a subscription for granted that is about to end.
    subscribed: Arc<tokio::sync::Mutex<bool>>,
}

impl ChannelWaiters {
    pub(super) fn new(link: RedisLink) -> Arc<Self> {
        Arc::new(Self { link, channels: Mutex::default() })
    }

    /// Has `id` woken by whatever is said on `channel` from now on; whether
    /// that is new.
    pub(super) async fn listen(&self, channel: &[u8], id: LeaseId) -> Result<bool> {
        let subscribed = {
            let mut channels = self.channels();
            let it = channels.entry(channel.to_vec()).or_default();
            if it.waiters.contains_key(&id) {
                return Ok(false);
            }
            it.waiters.insert(id, Arc::default());
            Arc::clone(&it.subscribed)
        };
        let mut subscribed = subscribed.lock().await;
        if !*subscribed && let Err(error) = self.link.subscribe(channel).await {
            self.forget(channel, id);
            return Err(error);
        }
        *subscribed = true;
        Ok(true)
    }

    /// Where `id` is told; `None` if it does not listen.
    pub(super) fn of(&self, channel: &[u8], id: LeaseId) -> Option<Arc<Notify>> {
        self.channels().get(channel)?.waiters.get(&id).map(Arc::clone)
    }

    /// Lets `id` sleep, and ends a subscription that nobody needs any more.
    pub(super) fn leave(self: &Arc<Self>, channel: &[u8], id: LeaseId) {
        if self.forget(channel, id) {
            let (waiters, channel) = (Arc::clone(self), channel.to_vec());
            Handle::current().spawn(async move { waiters.fall_silent(&channel).await });
        }
    }

    /// Whether it was there and was the last.
    fn forget(&self, channel: &[u8], id: LeaseId) -> bool {
        let mut channels = self.channels();
        let Some(it) = channels.get_mut(channel) else { return false };
        it.waiters.remove(&id).is_some() && it.waiters.is_empty()
    }

    async fn fall_silent(&self, channel: &[u8]) {
        let Some(subscribed) = self.unheard(channel) else { return };
        let mut subscribed = subscribed.lock().await;
        if self.unheard(channel).is_none() {
            return;
        }
        if *subscribed {
            // A server that does not hear it has no subscription to end.
            let _ = self.link.unsubscribe(channel).await;
            *subscribed = false;
        }
        let mut channels = self.channels();
        if channels.get(channel).is_some_and(|it| it.waiters.is_empty()) {
            channels.remove(channel);
        }
    }

    /// A channel that nobody listens to.
    fn unheard(&self, channel: &[u8]) -> Option<Arc<tokio::sync::Mutex<bool>>> {
        let channels = self.channels();
        channels
            .get(channel)
            .filter(|it| it.waiters.is_empty())
            .map(|it| Arc::clone(&it.subscribed))
    }

    /// Something was said on `channel`.
    pub(super) fn ring(&self, channel: &[u8]) {
        if let Some(it) = self.channels().get(channel) {
            it.waiters.values().for_each(|waiter| waiter.notify_one());
        }
    }

    /// Anything may have been said.
    pub(super) fn ring_all(&self) {
        let channels = self.channels();
        channels.values().flat_map(|it| it.waiters.values()).for_each(|waiter| waiter.notify_one());
    }

    fn channels(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, WaitChannel>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
