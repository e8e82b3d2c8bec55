//! Finds the server that takes writes, again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::address::Address;
use super::fault::Fault;
use super::notices::Ear;
use super::settings::Settings;
use super::wire::{Kind, Look, Wire};
use super::{fault, within};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;

/// How long a second server that takes writes has to show itself.
const GRACE: Duration = Duration::from_millis(250);
/// How often two connections are compared.
const COMPARISONS: usize = 8;

/// Makes connections.
pub(super) struct Dialer {
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    /// Whether a pooler stands in between, once that is known.
    pooled: Mutex<Option<bool>>,
    /// Whether more than one server took writes when it was last looked for.
    rivals: AtomicBool,
    /// How often a shared connection broke.
    breaks: AtomicU64,
    /// Which server that was.
    chosen: watch::Sender<Option<Address>>,
}

impl Dialer {
    pub(super) fn new(settings: Settings, clock: Clock) -> Self {
        let pooled = Mutex::new(settings.pooler);
        let (rivals, chosen) = (AtomicBool::new(false), watch::Sender::new(None));
        Self { settings, clock, pooled, rivals, breaks: AtomicU64::new(0), chosen }
    }

    /// A connection to the server that takes writes.
    pub(super) async fn dial(&self, kind: Kind, ear: Option<Ear>) -> Result<Arc<Wire>> {
        let limit = self.settings.connect;
        let made = within(&self.clock, limit, Box::pin(self.make(kind, ear))).await;
        made.unwrap_or_else(|| Err(fault::away("no connection within the time-out")))
    }

    async fn make(&self, kind: Kind, ear: Option<Ear>) -> Result<Arc<Wire>> {
        let (wire, look) = self.primary(ear).await?;
        let address = wire.address().clone();
        if self.is_through_pooler(&wire, &look).await? {
            wire.set_pooled();
        }
        let settled = wire.settle(&self.settings, kind).await;
        settled.map_err(|fault| before(fault.error).with("server", address))?;
        Ok(Arc::new(wire))
    }

    /// Whether a transaction pooler stands in between.
    pub(super) fn is_pooled(&self) -> bool {
        self.known().unwrap_or(false)
    }

    /// It has shown itself.
    pub(super) fn set_pooled(&self) {
        *self.known() = Some(true);
    }

    /// Whether more than one server took writes when it was last looked for.
    pub(super) fn has_rivals(&self) -> bool {
        self.rivals.load(Ordering::Relaxed)
    }

    /// How often a shared connection broke so far.
    pub(super) fn breaks(&self) -> u64 {
        self.breaks.load(Ordering::Acquire)
    }

    /// One broke; said before another takes its place.
    pub(super) fn note_break(&self) {
        self.breaks.fetch_add(1, Ordering::Release);
    }

    /// Looks whether this is still the server to use, where there are others.
    pub(super) async fn survey(&self) {
        if self.settings.target.hosts.len() > 1 {
            // If none is found, the connections that stand are all there is.
            let _ = within(&self.clock, self.settings.connect, self.primary(None)).await;
        }
    }

    /// Until another server than this is the one to use.
    pub(super) fn replaced(&self, current: &Address) -> impl Future<Output = ()> + Send + use<> {
        let (mut chosen, current) = (self.chosen.subscribe(), current.clone());
        async move {
            let other = |it: &Option<Address>| it.as_ref().is_some_and(|it| *it != current);
            if chosen.wait_for(other).await.is_err() {
                std::future::pending().await
            }
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Option<bool>> {
        self.pooled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn is_through_pooler(&self, wire: &Wire, look: &Look) -> Result<bool> {
        if let Some(known) = *self.known() {
            return Ok(known);
        }
        let found = look.through && self.shares_sessions(wire).await?;
        *self.known() = Some(found);
        Ok(found)
    }

    /// Two connections of ours that are served by one process, or one that is
    /// served by two, show a pooler that hands out sessions by the transaction.
    /// One that keeps them apart is as good as none.
    async fn shares_sessions(&self, one: &Wire) -> Result<bool> {
        let two = Wire::open(one.address(), &self.settings, &self.clock, None).await?;
        let mut last = None;
        for _ in 0..COMPARISONS {
            let here = one.backend().await.map_err(|fault| before(fault.error))?;
            let there = two.backend().await.map_err(|fault| before(fault.error))?;
            if here == there || last.is_some_and(|last| last != here) {
                return Ok(here.is_some());
            }
            last = Some(here);
        }
        Ok(false)
    }

    /// Asks all at once, so that a dead one holds up nobody. Of several that
    /// take writes it is the one that was promoted last, or named first.
    async fn primary(&self, ear: Option<Ear>) -> Result<(Wire, Look)> {
        let mut asked = JoinSet::new();
        for (at, address) in self.settings.target.hosts.iter().enumerate() {
            let (address, settings) = (address.clone(), self.settings.clone());
            let (clock, ear) = (self.clock.clone(), ear.clone());
            let look = async move { (at, reach(&address, &settings, &clock, ear).await) };
            Handle::current().spawn_in(&mut asked, look);
        }
        let mut found = Found::default();
        found.gather(&mut asked, |found| found.best.is_some()).await;
        within(&self.clock, GRACE, found.gather(&mut asked, |_| false)).await;
        self.rivals.store(found.has_rivals(), Ordering::Relaxed);
        if let Some(twins) = found.twins().filter(|_| !self.settings.rivals) {
            return Err(fault::rivals(&twins, self.settings.apart));
        }
        let Some((_, wire, look)) = found.best else {
            return Err(found.worst.unwrap_or_else(fault::read_only));
        };
        let news = |chosen: &mut Option<Address>| {
            let told = chosen.as_ref() == Some(wire.address());
            *chosen = Some(wire.address().clone());
            !told
        };
        self.chosen.send_if_modified(news);
        Ok((wire, look))
    }
}

/// What the servers have said so far.
#[derive(Default)]
struct Found {
    best: Option<(usize, Wire, Look)>,
    /// Those that take writes: rank, which server it is, and how we call it.
    writers: Vec<(i64, String, Address)>,
    worst: Option<Error>,
}

impl Found {
    async fn gather(
        &mut self,
        asked: &mut JoinSet<(usize, Result<Reached>)>,
        enough: fn(&Self) -> bool,
    ) {
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok((at, Ok(reached))) => self.add(at, reached),
                Ok((_, Err(error))) => self.fail(error),
                Err(cause) => self.fail(fault::away("a task ended").caused_by(cause)),
            }
            if enough(self) {
                return;
            }
        }
    }

    /// Whether more than one server takes writes.
    fn has_rivals(&self) -> bool {
        self.writers.iter().any(|one| self.writers.iter().any(|other| one.1 != other.1))
    }

    /// The names of several that nothing tells apart: each client would choose
    /// for itself.
    fn twins(&self) -> Option<String> {
        let rank = self.best.as_ref().map(|(_, _, look)| look.rank)?;
        let best: Vec<_> = self.writers.iter().filter(|writer| writer.0 == rank).collect();
        let apart = best.iter().any(|one| best.iter().any(|other| one.1 != other.1));
        let mut names: Vec<_> = best.iter().map(|writer| writer.2.to_string()).collect();
        names.sort();
        apart.then(|| names.join(" and "))
    }

    fn add(&mut self, at: usize, (wire, look, place): Reached) {
        self.writers.push((look.rank, place, wire.address().clone()));
        let beats =
            |(other, _, their): &(usize, Wire, Look)| (look.rank, *other) > (their.rank, at);
        if self.best.as_ref().is_none_or(beats) {
            self.best = Some((at, wire, look));
        }
    }

    /// What the caller can mend comes before what may mend itself.
    fn fail(&mut self, error: Error) {
        let mild = |known: &Error| known.kind() == ErrorKind::Unavailable;
        if self.worst.as_ref().is_none_or(mild) {
            self.worst = Some(error);
        }
    }
}

/// A server that takes writes, and which one it is where there are others.
type Reached = (Wire, Look, String);

/// A connection to a server that takes writes.
async fn reach(
    address: &Address,
    settings: &Settings,
    clock: &Clock,
    ear: Option<Ear>,
) -> Result<Reached> {
    let wire = Wire::open(address, settings, clock, ear).await?;
    let unsaid = |fault: Fault| before(fault.error).with("server", address);
    let look = wire.look().await.map_err(unsaid)?;
    if look.read_only {
        return Err(fault::read_only().with("server", address));
    }
    let alone = settings.target.hosts.len() == 1;
    let place = if alone { String::new() } else { wire.place(settings).await.map_err(unsaid)? };
    Ok((wire, look, place))
}

/// Nothing of the caller's was sent yet.
fn before(error: Error) -> Error {
    Error::new(error.kind(), "the server did not tell what it is").caused_by(error)
}
