//! The sessions of a client: one for each kind of ttl.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fault;
use super::session_link::{SessionLink, SessionTerms};
use crate::engines::consensus::Session;
use crate::error::{Error, ErrorKind, Result};

pub(super) struct Sessions {
    terms: Arc<SessionTerms>,
    /// The shortest time-out that the servers give.
    shortest: Duration,
    all: Mutex<Vec<Arc<SessionLink>>>,
    /// One is opened at a time, so that all who want the same one share it.
    opening: tokio::sync::Mutex<()>,
    closed: AtomicBool,
}

impl Sessions {
    /// Learns how short a session can be; opens none yet.
    pub(super) async fn new(terms: &Arc<SessionTerms>) -> Result<Self> {
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
    pub(super) async fn of_ttl(&self, ttl: Duration, delay: Duration) -> Result<Arc<SessionLink>> {
        let asked = ttl.min(self.terms.settings.session);
        let fits = |session_link: &Arc<SessionLink>| {
            let like = session_link.asked <= asked && session_link.asked > asked / 2;
            like && session_link.session().delay() == delay
                && self.unfit(session_link, ttl).is_none()
        };
        let session_link = match self.find(fits) {
            Some(session_link) => session_link,
            None => self.open(asked, delay, fits).await?,
        };
        if let Some(error) = self.unfit(&session_link, ttl) {
            self.forget(&session_link).await;
            return Err(error);
        }
        Ok(session_link)
    }

    /// Why a session cannot be that of a lease: the servers keep it for too long,
    /// or not for long enough.
    fn unfit(&self, session_link: &SessionLink, ttl: Duration) -> Option<Error> {
        let (timeout, delay) = (session_link.timeout(), session_link.session().delay());
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
    pub(super) fn of(&self, session: &Session) -> Result<Arc<SessionLink>> {
        let same = |session_link: &Arc<SessionLink>| session_link.session().id() == session.id();
        self.find(same).ok_or_else(fault::over)
    }

    /// Any, best one that has a connection.
    pub(super) async fn any(&self) -> Result<Arc<SessionLink>> {
        let living = self.find(|session_link| session_link.is_up()).or_else(|| self.find(|_| true));
        match living {
            Some(session_link) => Ok(session_link),
            None => self.open(self.terms.settings.session, Duration::ZERO, |_| true).await,
        }
    }

    /// All that are not over.
    pub(super) fn living(&self) -> Vec<Arc<SessionLink>> {
        let mut all = self.locked();
        all.retain(|session_link| !session_link.session().is_over());
        all.clone()
    }

    /// Ends all, within the request time-out.
    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        let all = std::mem::take(&mut *self.locked());
        let ends: Vec<_> = all
            .into_iter()
            .map(|session_link| self.terms.home.spawn(async move { session_link.close().await }))
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
        fits: impl Fn(&Arc<SessionLink>) -> bool,
    ) -> Result<Arc<SessionLink>> {
        let _turn = self.opening.lock().await;
        if let Some(session_link) = self.find(fits) {
            return Ok(session_link);
        }
        let session_link =
            Arc::new(SessionLink::open(&self.terms, asked, delay, self.lag()).await?);
        self.locked().push(Arc::clone(&session_link));
        if self.is_closed() {
            self.forget(&session_link).await;
            return Err(fault::away("this client is closed"));
        }
        Ok(session_link)
    }

    async fn forget(&self, session_link: &Arc<SessionLink>) {
        self.locked().retain(|other| !Arc::ptr_eq(other, session_link));
        session_link.close().await;
        self.terms.state_publisher.over(session_link.session().id());
    }

    /// Ends those in which a look was taken before there was any lease: each lease
    /// has one that suits its ttl.
    pub(super) async fn begin_anew(&self) {
        for session_link in self.living() {
            self.forget(&session_link).await;
        }
        self.terms.state_publisher.begin_anew();
    }

    fn find(&self, fits: impl Fn(&Arc<SessionLink>) -> bool) -> Option<Arc<SessionLink>> {
        self.living().into_iter().find(|session_link| fits(session_link))
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Arc<SessionLink>>> {
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
