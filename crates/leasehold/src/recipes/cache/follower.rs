//! The task of a cache: it watches, lists, and looks at what is in doubt.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle, yield_now};

use super::entry::CacheEntry;
use super::event::StaleReason;
use super::shared::SharedView;
use super::view::{CachePage, CacheView};
use crate::claim::RawRecord;
use crate::connection::{ConnectionEvents, ConnectionState};
use crate::core::Core;
use crate::engine::{PAGE_MAX, Page, RecordEvent, RecordListing, RecordStore, Scope};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;
use crate::watches::Hearer;

/// How many records are looked at together.
const TOGETHER: usize = 64;
/// How many values are read in one go: home is there for others, too.
const IN_ONE_GO: usize = 128;
/// The first pause between two lists, which doubles, and the longest.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The longest pause of a cache for which there is too much.
const TOO_LARGE_PAUSE: Duration = Duration::from_secs(60);

/// What comes from the engine without being asked for.
enum CacheNews {
    Record(RecordEvent),
    Connection(ConnectionState),
}

/// The task of a cache. Wherever it waits for an answer, it takes in news, so that
/// they do not pile up; `None` says that the engine was closed.
pub(super) struct Follower<T> {
    core: Arc<Core>,
    scopes: Vec<Scope>,
    hearer: Hearer,
    connection: Option<ConnectionEvents>,
    shared: Arc<SharedView<T>>,
    read: ReadEntry<T>,
    pause: Duration,
}

/// What becomes of a record as the store has it.
pub(super) type ReadEntry<T> = fn(&Name, &RawRecord) -> CacheEntry<T>;

impl<T: Send + Sync + 'static> Follower<T> {
    pub(super) fn new(
        core: &Arc<Core>,
        scopes: Vec<Scope>,
        shared: Arc<SharedView<T>>,
        read: ReadEntry<T>,
    ) -> Self {
        let (hearer, connection) = (core.watches.enter(&scopes), Some(core.events()));
        let core = Arc::clone(core);
        Self { core, scopes, hearer, connection, shared, read, pause: PAUSE }
    }

    /// Follows the store until the last handle has gone or the engine is closed. Says
    /// when all is there for the first time.
    pub(super) async fn follow(
        mut self,
        gone: oneshot::Receiver<()>,
        started: oneshot::Sender<Result<()>>,
    ) {
        let core = Arc::clone(&self.core);
        tokio::select! {
            biased;
            _ = gone => return,
            // An engine that others use as well is not closed.
            _ = core.closing() => {}
            () = self.run(started) => {}
        }
        self.shared.close();
    }

    async fn run(&mut self, started: oneshot::Sender<Result<()>>) {
        let begun = self.start().await;
        let goes_on = matches!(begun, Some(Ok(())));
        // Nobody is left to hear of it if it was not waited for.
        let _ = started.send(begun.unwrap_or_else(|| Err(crate::core::shut_down())));
        if goes_on {
            self.go_on().await;
        }
    }

    async fn start(&mut self) -> Option<Result<()>> {
        if let Err(error) = self.hearer.begin(&self.core.engine, &self.core.home).await {
            return Some(Err(error));
        }
        loop {
            if let Err(error) = self.list_all().await? {
                return Some(Err(error));
            }
            if self.shared.look(CacheView::is_too_large) {
                return Some(Err(self.shared.look(CacheView::too_large_error)));
            }
            if self.is_live() {
                return Some(Ok(()));
            }
            self.rest_after_try().await?;
        }
    }

    async fn go_on(&mut self) -> Option<Infallible> {
        loop {
            self.rest().await?;
            let done = if self.is_due() { self.list_all().await? } else { self.look().await? };
            if done.is_err() || !self.is_live() {
                self.rest_after_try().await?;
            }
        }
    }

    fn is_live(&self) -> bool {
        self.shared.look(|view| view.stale().is_none())
    }

    fn is_too_large(&self) -> bool {
        self.shared.look(|view| view.stale() == Some(StaleReason::TooLarge))
    }

    /// Whether all has to be listed. What did not fit may fit now: it has rested.
    fn is_due(&self) -> bool {
        self.shared.look(|view| view.is_due()) || self.is_too_large()
    }

    /// Takes in news until there is something to ask.
    async fn rest(&mut self) -> Option<()> {
        while !self.is_due() && self.shared.look(|view| view.doubts(1).is_empty()) {
            self.pause = PAUSE;
            let news = self.news().await?;
            self.take(news);
        }
        Some(())
    }

    /// A pause after what has not made it live, never the same for two.
    async fn rest_after_try(&mut self) -> Option<()> {
        let longest = if self.is_too_large() { TOO_LARGE_PAUSE } else { PAUSE_MAX };
        let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = self.pause.saturating_mul(2).min(longest);
        let (clock, until) = (self.core.clock.clone(), self.core.clock.now().after(pause));
        self.meanwhile(async move { clock.sleep_until(until).await }).await
    }

    /// Lists all records, page by page, and looks at those that were not there.
    async fn list_all(&mut self) -> Option<Result<()>> {
        self.shared.change(|view| {
            view.begin();
            None
        });
        for scope in self.scopes.clone() {
            if let Err(error) = self.list(&scope).await? {
                self.shared.change(CacheView::miss);
                return Some(Err(error));
            }
        }
        let looked = self.look().await?;
        self.shared.change(CacheView::finish);
        Some(looked)
    }

    async fn list(&mut self, scope: &Scope) -> Option<Result<()>> {
        let mut page = Page { after: None, size: PAGE_MAX };
        loop {
            self.ask();
            let asked = self.records().list(scope.clone(), page.clone());
            let found = match self.meanwhile(asked).await? {
                Ok(found) => found,
                Err(error) => return Some(Err(error)),
            };
            let last = found.records.last().filter(|_| found.more).map(|(name, _)| name.clone());
            let listed = self.read_page(page.after.take(), found).await;
            self.shared.change(|view| view.listed(scope, listed));
            if last.is_none() || self.gives_up() {
                return Some(Ok(()));
            }
            page.after = last;
        }
    }

    /// At the start nothing is kept of what does not fit.
    fn gives_up(&self) -> bool {
        let starts = |view: &CacheView<T>| view.stale() == Some(StaleReason::Starting);
        self.shared.look(|view| starts(view) && view.is_too_large())
    }

    async fn read_page(&self, after: Option<Name>, found: RecordListing) -> CachePage<T> {
        let more = found.more && !found.records.is_empty();
        let mut records = Vec::with_capacity(found.records.len());
        for (name, record) in found.records {
            if records.len() % IN_ONE_GO == IN_ONE_GO - 1 {
                yield_now().await;
            }
            let entry = (self.read)(&name, &record);
            records.push((name, entry));
        }
        CachePage { after, records, more }
    }

    /// Looks at the records that are in doubt.
    async fn look(&mut self) -> Option<Result<()>> {
        loop {
            let names = self.shared.look(|view| view.doubts(TOGETHER));
            if names.is_empty() {
                return Some(Ok(()));
            }
            self.ask();
            let load = |name: &Name| self.core.home.spawn(self.records().load(name.clone()));
            let asked: Vec<_> = names.iter().map(load).collect();
            match self.meanwhile(all(asked)).await? {
                Ok(found) => self.take_looks(names, found),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn take_looks(&self, names: Vec<Name>, found: Vec<Option<RawRecord>>) {
        let entry = |(name, record): (Name, Option<RawRecord>)| {
            let entry = record.map(|record| (self.read)(&name, &record));
            (name, entry)
        };
        let looked = names.into_iter().zip(found).map(entry).collect();
        self.shared.change(|view| view.looked(looked));
    }

    fn records(&self) -> &dyn RecordStore {
        self.core.engine.records().expect("it has begun to watch them")
    }

    fn ask(&self) {
        self.shared.change(|view| {
            view.ask();
            None
        });
    }

    /// What `asked` comes to. News are taken in until then.
    async fn meanwhile<R>(&mut self, asked: impl Future<Output = R>) -> Option<R> {
        let mut asked = pin!(asked);
        loop {
            let news = tokio::select! {
                biased;
                answer = &mut asked => return Some(answer),
                news = self.news() => news?,
            };
            self.take(news);
        }
    }

    async fn news(&mut self) -> Option<CacheNews> {
        loop {
            let Some(connection) = &mut self.connection else {
                return self.hearer.next().await.map(CacheNews::Record);
            };
            tokio::select! {
                biased;
                state = connection.next() => match state {
                    Some(state) => return Some(CacheNews::Connection(state)),
                    None => self.connection = None,
                },
                event = self.hearer.next() => return event.map(CacheNews::Record),
            }
        }
    }

    fn take(&self, news: CacheNews) {
        match news {
            CacheNews::Record(RecordEvent::Stored(name, record)) => {
                let entry = (self.read)(&name, &record);
                self.shared.change(|view| view.stored(name, entry));
            }
            CacheNews::Record(RecordEvent::Deleted(name, version)) => {
                self.shared.change(|view| view.deleted(&name, version));
            }
            CacheNews::Record(RecordEvent::Resync) => self.shared.change(CacheView::miss),
            CacheNews::Connection(ConnectionState::Suspended | ConnectionState::Lost) => {
                self.shared.change(CacheView::disconnect);
            }
            CacheNews::Connection(_) => self.shared.change(|view| {
                view.reconnect();
                None
            }),
        }
    }
}

async fn all(asked: Vec<JoinHandle<Result<Option<RawRecord>>>>) -> Result<Vec<Option<RawRecord>>> {
    let mut found = Vec::with_capacity(asked.len());
    for asked in asked {
        let died = |died: JoinError| Err(Error::new(ErrorKind::Unexpected, died.to_string()));
        found.push(asked.await.unwrap_or_else(died)?);
    }
    Ok(found)
}
