//! A cluster: a map of slots, and a line to every primary on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::RedisError;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

use super::super::address::RedisAddress;
use super::fault;
use super::line::ServerLine;
use super::listener::{ChannelKind, PushListener};
use super::push::Push;
use super::redirect::Redirect;
use super::slots::{COUNT, SlotMap, slot};
use super::ways::Way;
use super::wire::{ConnectionTerms, Wire};
use crate::engines::kit::health::{Health, Report};
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;
use crate::mutant::{self, Mutant};

/// Two surveys are this far apart at least, whoever asks for them.
const APART: Duration = Duration::from_millis(50);
/// The longest pause between two surveys that find a channel nowhere.
const LONGEST: Duration = Duration::from_secs(1);
/// How often a channel is looked for at most, before whoever wants it is told.
const SEARCHES: usize = 5;

/// All primaries. Ends with its value.
pub(super) struct Cluster {
    shared: Arc<ClusterShared>,
    surveyor: AbortHandle,
}

struct ClusterShared {
    seeds: Vec<RedisAddress>,
    terms: Arc<ConnectionTerms>,
    health: Arc<Health>,
    pushes: UnboundedSender<Push>,
    survey: Arc<Notify>,
    state: Mutex<ClusterState>,
}

#[derive(Default)]
struct ClusterState {
    slots: SlotMap,
    lines: BTreeMap<RedisAddress, ServerLine>,
    listeners: BTreeMap<RedisAddress, PushListener>,
    channels: BTreeMap<Vec<u8>, Spot>,
}

/// Where a channel is subscribed to.
#[derive(Default)]
struct Spot {
    at: Option<RedisAddress>,
    /// Whether that server has confirmed it. Until it has, nothing is heard.
    heard: bool,
}

impl Cluster {
    pub(super) async fn open(
        seeds: Vec<RedisAddress>,
        terms: &Arc<ConnectionTerms>,
        health: &Arc<Health>,
        pushes: UnboundedSender<Push>,
    ) -> Result<Self> {
        let shared = Arc::new(ClusterShared {
            seeds,
            terms: Arc::clone(terms),
            health: Arc::clone(health),
            pushes,
            survey: Arc::default(),
            state: Mutex::default(),
        });
        shared.look().await?;
        for (_, line) in shared.everywhere() {
            line.wire(terms.connect).await?;
        }
        let surveyor = Handle::current().spawn(Arc::clone(&shared).surveys()).abort_handle();
        Ok(Self { shared, surveyor })
    }

    /// The way to the primary of a key; to any primary without one.
    pub(super) fn line(&self, key: Option<&[u8]>) -> Result<ServerLine> {
        let slot = key.map_or_else(|| fastrand::u16(..COUNT), slot);
        self.shared.owner(slot).map(|address| self.shared.line(&address))
    }

    /// Which primary has the slot of a key.
    pub(super) fn home(&self, key: &[u8]) -> Option<RedisAddress> {
        self.shared.state().slots.owner(slot(key))
    }

    pub(super) fn everywhere(&self) -> Vec<(String, ServerLine)> {
        self.shared.everywhere()
    }

    /// Has the map drawn anew, soon.
    pub(super) fn survey(&self) {
        self.shared.survey.notify_one();
    }

    pub(super) fn refused(&self, line: &ServerLine, cause: &RedisError) -> Redirect {
        match fault::code(cause) {
            Some("MOVED") => self.moved(line, cause),
            Some("ASK") => match self.shared.told(line, cause) {
                Some((_, address)) => Redirect::Aside(self.shared.line(&address)),
                None => Redirect::Later,
            },
            Some("TRYAGAIN" | "LOADING") => Redirect::Later,
            Some("CLUSTERDOWN" | "READONLY" | "MASTERDOWN") => {
                self.survey();
                Redirect::Later
            }
            _ => Redirect::Over,
        }
    }

    /// One slot is known to be elsewhere; more may be.
    fn moved(&self, line: &ServerLine, cause: &RedisError) -> Redirect {
        self.survey();
        match self.shared.told(line, cause) {
            Some((slot, address)) => {
                self.shared.state().slots.assign(slot, &address);
                Redirect::Again
            }
            None => Redirect::Later,
        }
    }

    /// Listens where the slot of the channel is, and where it goes later.
    pub(super) async fn subscribe(&self, channel: &[u8]) -> Result<()> {
        let mut outcome = Err(fault::away("no server serves this channel now"));
        self.shared.state().channels.entry(channel.to_vec()).or_default();
        for _ in 0..SEARCHES {
            outcome = self.shared.settle(channel).await;
            if !matches!(&outcome, Err(error) if may_move(error)) {
                break;
            }
            self.shared.pause(APART).await;
            if let Err(error) = self.shared.look().await {
                outcome = Err(error);
                break;
            }
        }
        if outcome.is_err() {
            self.shared.give_up(channel);
        }
        outcome
    }

    pub(super) async fn unsubscribe(&self, channel: &[u8]) -> Result<()> {
        let listener = {
            let mut state = self.shared.state();
            let spot = state.channels.remove(channel);
            spot.and_then(|spot| state.listeners.get(&spot.at?).cloned())
        };
        match listener {
            Some(listener) => listener.unsubscribe(channel).await,
            None => Ok(()),
        }
    }

    pub(super) fn close(&self) {
        self.surveyor.abort();
        let state = std::mem::take(&mut *self.shared.state());
        state.lines.values().for_each(ServerLine::close);
        state.listeners.values().for_each(|listener| listener.line().close());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.surveyor.abort();
    }
}

/// `MOVED` is `Invalid` to those who do not know clusters.
fn may_move(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Invalid)
}

impl ClusterShared {
    fn state(&self) -> MutexGuard<'_, ClusterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owner(&self, slot: u16) -> Result<RedisAddress> {
        let nobody = || fault::away("no primary has this part of the cluster; try again soon");
        self.state().slots.owner(slot).ok_or_else(|| {
            self.survey.notify_one();
            nobody()
        })
    }

    /// The line to a server, started if there is none.
    fn line(&self, address: &RedisAddress) -> ServerLine {
        let start = || {
            let (report, survey) = (Report::new(&self.health), Arc::clone(&self.survey));
            let tell = move |up| {
                report.set(up);
                if !up {
                    survey.notify_one();
                }
            };
            Way::Fixed(address.clone()).command_line(&self.terms, Box::new(tell))
        };
        self.state().lines.entry(address.clone()).or_insert_with(start).clone()
    }

    fn listener(&self, address: &RedisAddress) -> PushListener {
        let start = || {
            let survey = Arc::clone(&self.survey);
            PushListener::start(
                Way::Fixed(address.clone()),
                Arc::clone(&self.terms),
                ChannelKind::Sharded,
                self.pushes.clone(),
                Box::new(move || survey.notify_one()),
            )
        };
        self.state().listeners.entry(address.clone()).or_insert_with(start).clone()
    }

    fn everywhere(&self) -> Vec<(String, ServerLine)> {
        let primaries = self.state().slots.primaries();
        primaries.iter().map(|address| (address.to_string(), self.line(address))).collect()
    }

    /// Where a redirection points to.
    fn told(&self, line: &ServerLine, cause: &RedisError) -> Option<(u16, RedisAddress)> {
        let (address, slot) = cause.redirect_node()?;
        let state = self.state();
        let asked = state.lines.iter().find(|(_, known)| known.is(line)).map(|(asked, _)| asked);
        Some((slot, RedisAddress::told(address, asked.unwrap_or(self.seeds.first()?))?))
    }

    /// Draws the map whenever someone has reason to doubt it.
    async fn surveys(self: Arc<Self>) {
        let mut rest = APART;
        loop {
            self.survey.notified().await;
            if self.look().await.is_ok() && !self.follow().await {
                // Who listens there hears nothing until it is found.
                self.survey.notify_one();
                rest = (rest * 2).min(LONGEST);
            } else {
                rest = APART;
            }
            self.pause(rest).await;
        }
    }

    async fn pause(&self, span: Duration) {
        let clock = &self.terms.clock;
        clock.sleep_until(clock.now().after(span)).await;
    }

    /// Asks for the map: those who answer now first, then the seeds.
    async fn look(&self) -> Result<()> {
        let mut wires: Vec<Wire> =
            self.state().lines.values().filter_map(ServerLine::standing).collect();
        fastrand::shuffle(&mut wires);
        for wire in wires {
            if self.ask(&wire).await.is_ok() {
                return Ok(());
            }
        }
        let mut outcome = Err(fault::away("no node of the cluster is known"));
        for seed in &self.seeds {
            outcome = match Wire::open(seed, &self.terms, None).await {
                Ok(wire) => self.ask(&wire).await,
                Err(error) => Err(error),
            };
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    async fn ask(&self, wire: &Wire) -> Result<()> {
        let command = redis::cmd("CLUSTER").arg("SLOTS").to_owned();
        let answer = wire.ask(command).await.map_err(|error| match error.kind() {
            ErrorKind::Unexpected => {
                Error::invalid("the server is no cluster; open it as redis://").caused_by(error)
            }
            _ => error,
        })?;
        let slots = SlotMap::read(answer, wire.address());
        let slots = slots.filter(|slots| !slots.primaries().is_empty());
        self.draw(slots.ok_or_else(|| fault::away("the cluster has no slots yet"))?);
        Ok(())
    }

    /// Takes a new map. Lines to those who are on it no more end.
    fn draw(&self, slots: SlotMap) {
        let primaries = slots.primaries();
        let dropped: Vec<ServerLine> = {
            let mut state = self.state();
            state.slots = slots;
            let gone = state.lines.keys().filter(|address| !primaries.contains(*address));
            let gone: Vec<RedisAddress> = gone.cloned().collect();
            gone.iter().filter_map(|address| state.lines.remove(address)).collect()
        };
        // Not under the lock: a line that ends tells of it.
        drop(dropped);
        for address in &primaries {
            self.line(address);
        }
    }

    /// Subscribes where the channels are now. False if some are still astray.
    async fn follow(&self) -> bool {
        let astray = self.astray();
        // One server that does not answer is asked for one channel, not for all.
        let mut silent: Vec<Option<RedisAddress>> = Vec::new();
        for (channel, old) in &astray {
            let home = self.state().slots.owner(slot(channel));
            if silent.contains(&home) {
                continue;
            }
            if let Some(old) = old.as_ref().filter(|old| home.as_ref() != Some(*old)) {
                self.forget(channel, old);
            }
            if self.settle(channel).await.is_err() {
                silent.push(home);
            }
        }
        if !astray.is_empty() {
            let _ = self.pushes.send(Push::Gap);
        }
        self.leave();
        silent.is_empty()
    }

    fn forget(&self, channel: &[u8], old: &RedisAddress) {
        let listener = self.state().listeners.get(old).cloned();
        if let Some(listener) = listener {
            listener.forget(channel);
        }
    }

    /// Channels that are subscribed to where their slot is not, or nowhere.
    fn astray(&self) -> Vec<(Vec<u8>, Option<RedisAddress>)> {
        let state = self.state();
        let home = |channel: &[u8]| state.slots.owner(slot(channel));
        let lost = state.channels.iter();
        let lost = lost.filter(|(channel, spot)| !spot.heard || home(channel) != spot.at);
        lost.map(|(channel, spot)| (channel.clone(), spot.at.clone())).collect()
    }

    /// Subscribes at the owner of the channel's slot, unless nobody wants it any
    /// more. A channel for which that fails is astray, and looked for again.
    async fn settle(&self, channel: &[u8]) -> Result<()> {
        let address = self.owner(slot(channel))?;
        let listener = self.listener(&address);
        if !self.note(channel, &address, mutant::lives(Mutant::DeafChannels)) {
            return Ok(());
        }
        listener.subscribe(channel).await?;
        if !self.note(channel, &address, true) {
            return listener.unsubscribe(channel).await;
        }
        Ok(())
    }

    /// Notes where a channel is, and whether that server has confirmed it. False
    /// if nobody wants it.
    fn note(&self, channel: &[u8], at: &RedisAddress, confirmed: bool) -> bool {
        let mut state = self.state();
        let Some(spot) = state.channels.get_mut(channel) else { return false };
        let same = spot.at.as_ref() == Some(at);
        // Of two who look for it the later one may have found another place.
        if same || !confirmed || mutant::lives(Mutant::DeafChannels) {
            *spot = Spot { at: Some(at.clone()), heard: confirmed || (same && spot.heard) };
        }
        true
    }

    /// Nobody waits for this channel, unless it was found for somebody else.
    fn give_up(&self, channel: &[u8]) {
        let mut state = self.state();
        if state.channels.get(channel).is_some_and(|spot| !spot.heard) {
            state.channels.remove(channel);
        }
    }

    /// Ends connections for pushes that nobody needs.
    fn leave(&self) {
        let mut state = self.state();
        let needed: Vec<_> = state.channels.values().filter_map(|it| it.at.clone()).collect();
        state.listeners.retain(|address, _| needed.contains(address));
    }
}
