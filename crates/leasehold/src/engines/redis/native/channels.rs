//! The channels that a client listens to: each once, however many need it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::engines::redis::link::RedisLink;
use crate::error::Result;

/// How many there may be before those that nobody uses are let go: one client
/// has one, but in a cluster one for each shard that it comes to use.
const MANY: usize = 4096;
/// Who waits asks more often than this, and who holds renews, if it is to be
/// told of an eviction at once.
const IDLE: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct Channels {
    link: RedisLink,
    clock: Clock,
    all: Mutex<HashMap<Vec<u8>, PushChannel>>,
}

#[derive(Debug, Default)]
struct PushChannel {
    /// Whether the server knows of us.
    heard: bool,
    /// Held while the server is being told: of two who come at once the second
    /// waits for what the first is answered, and does not undo it.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Who says when it does not need it any more.
    users: usize,
    /// When somebody last came who does not say.
    used: Option<Moment>,
}

impl Channels {
    pub(super) fn new(link: RedisLink, clock: Clock) -> Self {
        Self { link, clock, all: Mutex::default() }
    }

    /// Whether messages come; it counts as use.
    pub(super) fn is_heard(&self, channel: &[u8]) -> bool {
        self.all().get_mut(channel).is_some_and(|it| {
            it.used = Some(self.clock.now());
            it.heard
        })
    }

    /// Listens from now on, as long as the channel is used.
    pub(super) async fn listen(&self, channel: &[u8]) -> Result<()> {
        let turn = self.turn(channel);
        let _turn = turn.lock().await;
        if !self.is_heard(channel) {
            self.link.subscribe(channel).await?;
            let mut all = self.all();
            let it = all.entry(channel.to_vec()).or_default();
            (it.heard, it.used) = (true, Some(self.clock.now()));
        }
        Ok(())
    }

    /// Listens until it is told to leave as often.
    pub(super) async fn stay(&self, channel: &[u8]) -> Result<()> {
        self.all().entry(channel.to_vec()).or_default().users += 1;
        let listens = self.listen(channel).await;
        if listens.is_err() {
            self.leave(channel).await;
        }
        listens
    }

    pub(super) async fn leave(&self, channel: &[u8]) {
        if let Some(it) = self.all().get_mut(channel) {
            (it.users, it.used) = (it.users.saturating_sub(1), None);
        }
        self.fall_silent(channel).await;
    }

    /// Whether it is time to tidy up.
    pub(super) fn are_many(&self) -> bool {
        self.all().len() > MANY
    }

    /// Lets go of what nobody uses.
    pub(super) async fn tidy(&self) {
        for channel in self.unused() {
            self.fall_silent(&channel).await;
        }
    }

    fn unused(&self) -> Vec<Vec<u8>> {
        let (all, now) = (self.all(), self.clock.now());
        let idle = all.iter().filter(|(_, it)| it.is_idle(now));
        idle.map(|(channel, _)| channel.clone()).collect()
    }

    async fn fall_silent(&self, channel: &[u8]) {
        let turn = self.turn(channel);
        let _turn = turn.lock().await;
        let now = self.clock.now();
        // Who looks now is told to wait for its turn.
        let heard = match self.all().get_mut(channel) {
            Some(it) if it.is_idle(now) => std::mem::take(&mut it.heard),
            _ => return,
        };
        if heard {
            // A server that does not hear it has no subscription to end.
            let _ = self.link.unsubscribe(channel).await;
        }
        // Two have the turn if nobody waits for it: the table and we.
        let mut all = self.all();
        let last = |it: &PushChannel| it.is_idle(now) && Arc::strong_count(&it.turn) == 2;
        if all.get(channel).is_some_and(last) {
            all.remove(channel);
        }
    }

    fn turn(&self, channel: &[u8]) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(&self.all().entry(channel.to_vec()).or_default().turn)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Vec<u8>, PushChannel>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PushChannel {
    fn is_idle(&self, now: Moment) -> bool {
        self.users == 0 && self.used.is_none_or(|used| now.since(used) >= IDLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_let_go_when_nobody_needs_it() {
        let (now, mut channel) = (Moment::default().after(2 * IDLE), PushChannel::default());
        assert!(channel.is_idle(now));
        channel.used = Some(Moment::default().after(IDLE));
        assert!(channel.is_idle(now));
        channel.used = Some(Moment::default().after(IDLE + IDLE / 2));
        assert!(!channel.is_idle(now), "it was used not long ago");
        (channel.used, channel.users) = (None, 1);
        assert!(!channel.is_idle(now), "somebody stays");
    }
}
