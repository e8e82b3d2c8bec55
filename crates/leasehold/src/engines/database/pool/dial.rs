//! Finds the server that takes writes, again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::engines::database::drivers::DatabaseSettings;
use crate::engines::database::drivers::NoticeSender;
use crate::engines::database::drivers::fault;
use crate::engines::database::drivers::fault::SqlFault;
use crate::engines::database::drivers::{ConnectionUse, DatabaseConnection, ServerFacts};
use crate::engines::kit::hosts::ServerAddress;
use crate::engines::kit::timeout::timeout;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;

/// How long a second server that takes writes has to show itself.
const GRACE: Duration = Duration::from_millis(250);
/// How often two connections are compared.
const COMPARISONS: usize = 8;

/// Makes connections.
pub(super) struct PoolDialer {
    pub(super) settings: DatabaseSettings,
    pub(super) clock: Clock,
    /// Whether a pooler stands in between, once that is known.
    pooled: Mutex<Option<bool>>,
    /// Whether more than one server took writes when it was last looked for.
    rivals: AtomicBool,
    /// How often a shared connection broke.
    breaks: AtomicU64,
    /// Which server that was.
    chosen: watch::Sender<Option<ServerAddress>>,
}

impl PoolDialer {
    pub(super) fn new(settings: DatabaseSettings, clock: Clock) -> Self {
        let pooled = Mutex::new(settings.pooler);
        let (rivals, chosen) = (AtomicBool::new(false), watch::Sender::new(None));
        Self { settings, clock, pooled, rivals, breaks: AtomicU64::new(0), chosen }
    }

    /// A connection to the server that takes writes.
    pub(super) async fn dial(
        &self,
        kind: ConnectionUse,
        notices: Option<NoticeSender>,
    ) -> Result<Arc<DatabaseConnection>> {
        let limit = self.settings.connect;
        let made = timeout(&self.clock, limit, Box::pin(self.make(kind, notices))).await;
        made.unwrap_or_else(|| Err(fault::away("no connection within the time-out")))
    }

    async fn make(
        &self,
        kind: ConnectionUse,
        notices: Option<NoticeSender>,
    ) -> Result<Arc<DatabaseConnection>> {
        let (connection, look) = self.primary(notices).await?;
        let address = connection.address().clone();
        if self.is_through_pooler(&connection, &look).await? {
            connection.set_pooled();
        }
        let settled = connection.settle(&self.settings, kind).await;
        settled.map_err(|fault| before(fault.error).with("server", address))?;
        Ok(Arc::new(connection))
    }

    /// Whether a transaction pooler stands in between.
    pub(super) fn behind_pooler(&self) -> bool {
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
            let _ = timeout(&self.clock, self.settings.connect, self.primary(None)).await;
        }
    }

    /// Until another server than this is the one to use.
    pub(super) fn replaced(
        &self,
        current: &ServerAddress,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (mut chosen, current) = (self.chosen.subscribe(), current.clone());
        async move {
            let other = |it: &Option<ServerAddress>| it.as_ref().is_some_and(|it| *it != current);
            if chosen.wait_for(other).await.is_err() {
                std::future::pending().await
            }
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Option<bool>> {
        self.pooled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn is_through_pooler(
        &self,
        connection: &DatabaseConnection,
        look: &ServerFacts,
    ) -> Result<bool> {
        if let Some(known) = *self.known() {
            return Ok(known);
        }
        let found = look.through && self.shares_sessions(connection).await?;
        *self.known() = Some(found);
        Ok(found)
    }

    /// Two connections of ours that are served by one process, or one that is
    /// served by two, show a pooler that hands out sessions by the transaction.
    /// One that keeps them apart is as good as none.
    async fn shares_sessions(&self, one: &DatabaseConnection) -> Result<bool> {
        let two =
            DatabaseConnection::open(one.address(), &self.settings, &self.clock, None).await?;
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
    async fn primary(
        &self,
        notices: Option<NoticeSender>,
    ) -> Result<(DatabaseConnection, ServerFacts)> {
        let mut asked = JoinSet::new();
        for (at, address) in self.settings.target.hosts.iter().enumerate() {
            let (address, settings) = (address.clone(), self.settings.clone());
            let (clock, notices) = (self.clock.clone(), notices.clone());
            let look = async move { (at, reach(&address, &settings, &clock, notices).await) };
            Handle::current().spawn_in(&mut asked, look);
        }
        let mut found = Candidates::default();
        found.gather(&mut asked, |found| found.best.is_some()).await;
        timeout(&self.clock, GRACE, found.gather(&mut asked, |_| false)).await;
        self.rivals.store(found.has_rivals(), Ordering::Relaxed);
        if let Some(twins) = found.twins().filter(|_| !self.settings.rivals) {
            return Err(fault::rivals(&twins, self.settings.apart));
        }
        let Some((_, connection, look)) = found.best else {
            return Err(found.worst.unwrap_or_else(fault::read_only));
        };
        let news = |chosen: &mut Option<ServerAddress>| {
            let told = chosen.as_ref() == Some(connection.address());
            *chosen = Some(connection.address().clone());
            !told
        };
        self.chosen.send_if_modified(news);
        Ok((connection, look))
    }
}

/// What the servers have said so far.
#[derive(Default)]
struct Candidates {
    best: Option<(usize, DatabaseConnection, ServerFacts)>,
    /// Those that take writes: rank, which server it is, and how we call it.
    writers: Vec<(i64, String, ServerAddress)>,
    worst: Option<Error>,
}

impl Candidates {
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

    fn add(&mut self, at: usize, (connection, look, place): Reached) {
        self.writers.push((look.rank, place, connection.address().clone()));
        let beats = |(other, _, their): &(usize, DatabaseConnection, ServerFacts)| {
            (look.rank, *other) > (their.rank, at)
        };
        if self.best.as_ref().is_none_or(beats) {
            self.best = Some((at, connection, look));
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
type Reached = (DatabaseConnection, ServerFacts, String);

/// A connection to a server that takes writes.
async fn reach(
    address: &ServerAddress,
    settings: &DatabaseSettings,
    clock: &Clock,
    notices: Option<NoticeSender>,
) -> Result<Reached> {
    let connection = DatabaseConnection::open(address, settings, clock, notices).await?;
    let unsaid = |fault: SqlFault| before(fault.error).with("server", address);
    let look = connection.look().await.map_err(unsaid)?;
    if look.read_only {
        return Err(fault::read_only().with("server", address));
    }
    let alone = settings.target.hosts.len() == 1;
    let place =
        if alone { String::new() } else { connection.place(settings).await.map_err(unsaid)? };
    Ok((connection, look, place))
}

/// Nothing of the caller's was sent yet.
fn before(error: Error) -> Error {
    Error::new(error.kind(), "the server did not tell what it is").caused_by(error)
}
