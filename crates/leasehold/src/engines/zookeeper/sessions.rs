//! The sessions of a client: one for each kind of ttl.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fault;
use super::tether::{Terms, Tether};
use crate::engines::consensus::Session;
use crate::error::{Error, ErrorKind, Result};

pub(super) struct Sessions {
    terms: Arc<Terms>,
    /// The shortest time-out that the servers give.
    shortest: Duration,
    all: Mutex<Vec<Arc<Tether>>>,
    /// One is opened at a time, so that all who want the same one share it.
    opening: tokio::sync::Mutex<()>,
    closed: AtomicBool,
}

impl Sessions {
    /// Learns how short a session can be; opens none yet.
    pub(super) async fn new(terms: &Arc<Terms>) -> Result<Self> {
        Ok(Self {
            terms: Arc::clone(terms),
            shortest: terms.probe().await?,
            all: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    pub(super) const fn shortest(&self) -> Duration {
        self.shortest
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// A session that is good for at most `ttl` after our last sign of life, and
    /// ends `delay` later.
    pub(super) async fn of_ttl(&self, ttl: Duration, delay: Duration) -> Result<Arc<Tether>> {
        let asked = ttl.min(self.terms.settings.session);
        let fits = |tether: &Arc<Tether>| {
            let like = tether.asked <= asked && tether.asked > asked / 2;
            like && tether.session().delay() == delay && self.unfit(tether, ttl).is_none()
        };
        let tether = match self.find(fits) {
            Some(tether) => tether,
            None => self.open(asked, delay, fits).await?,
        };
        if let Some(error) = self.unfit(&tether, ttl) {
            self.forget(&tether).await;
            return Err(error);
        }
        Ok(tether)
    }

    /// Why a session cannot be that of a lease: the servers keep it for too long,
    /// or not for long enough.
    fn unfit(&self, tether: &Tether, ttl: Duration) -> Option<Error> {
        let (timeout, delay) = (tether.timeout(), tether.session().delay());
        if timeout > ttl.saturating_add(delay) {
            return Some(too_short(ttl, timeout));
        }
        let closes = !delay.is_zero() && timeout < self.shortest.saturating_add(delay);
        closes.then(|| too_long(delay, timeout))
    }

    /// How far the leader may be behind: the servers tell it of us every half tick.
    pub(super) fn lag(&self) -> Duration {
        self.terms.settings.tick.unwrap_or(self.shortest / 2) / 2
    }

    /// The one that `session` is.
    pub(super) fn of(&self, session: &Session) -> Result<Arc<Tether>> {
        let same = |tether: &Arc<Tether>| tether.session().id() == session.id();
        self.find(same).ok_or_else(fault::over)
    }

    /// Any, best one that has a connection.
    pub(super) async fn any(&self) -> Result<Arc<Tether>> {
        let living = self.find(|tether| tether.is_up()).or_else(|| self.find(|_| true));
        match living {
            Some(tether) => Ok(tether),
            None => self.open(self.terms.settings.session, Duration::ZERO, |_| true).await,
        }
    }

    /// All that are not over.
    pub(super) fn living(&self) -> Vec<Arc<Tether>> {
        let mut all = self.locked();
        all.retain(|tether| !tether.session().is_over());
        all.clone()
    }

    /// Ends all, within the request time-out.
    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        let all = std::mem::take(&mut *self.locked());
        let ends: Vec<_> = all
            .into_iter()
            .map(|tether| self.terms.home.spawn(async move { tether.close().await }))
            .collect();
        for end in ends {
            // It has ended by itself, or home has.
            let _ = end.await;
        }
    }

    async fn open(
        &self,
        asked: Duration,
        delay: Duration,
        fits: impl Fn(&Arc<Tether>) -> bool,
    ) -> Result<Arc<Tether>> {
        let _turn = self.opening.lock().await;
        if let Some(tether) = self.find(fits) {
            return Ok(tether);
        }
        let tether = Arc::new(Tether::open(&self.terms, asked, delay, self.lag()).await?);
        self.locked().push(Arc::clone(&tether));
        if self.is_closed() {
            self.forget(&tether).await;
            return Err(fault::away("this client is closed"));
        }
        Ok(tether)
    }

    async fn forget(&self, tether: &Arc<Tether>) {
        self.locked().retain(|other| !Arc::ptr_eq(other, tether));
        tether.close().await;
        self.terms.moods.over(tether.session().id());
    }

    fn find(&self, fits: impl Fn(&Arc<Tether>) -> bool) -> Option<Arc<Tether>> {
        self.living().into_iter().find(|tether| fits(tether))
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Arc<Tether>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_short(ttl: Duration, shortest: Duration) -> Error {
    let message = format!(
        "the servers keep a session for {shortest:?}, which is longer than the ttl of {ttl:?}; \
         ask for a longer ttl, or lower tickTime and minSessionTimeout together"
    );
    Error::new(ErrorKind::Unsupported, message)
}

fn too_long(delay: Duration, longest: Duration) -> Error {
    let message = format!(
        "the servers keep a session for {longest:?}, which leaves too little beside a lock delay \
         of {delay:?}; ask for a shorter one, or raise maxSessionTimeout"
    );
    Error::new(ErrorKind::Unsupported, message)
}
