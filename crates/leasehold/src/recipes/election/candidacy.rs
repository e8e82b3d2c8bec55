//! A candidacy: taking part in the background.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};

use super::Election;
use super::lead::Backoff;
use super::reign::Reign;
use crate::error::{Error, ErrorKind, Result};
use crate::hold::{Hold, Standing};
use crate::locks::Locks;

/// How a candidate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Leadership {
    /// Another one leads, or nobody.
    Following,
    /// We lead.
    Leading {
        /// The fence of this reign.
        fence: u64,
    },
    /// We lead until the deadline of the lease, and cannot renew it: what two may
    /// not do at once should pause.
    Unsure {
        /// The fence of this reign.
        fence: u64,
    },
}

/// Takes part in an election until it is withdrawn or dropped.
///
/// Whoever asks for the [state](Candidacy::state) is answered by the clock: it is
/// never `Leading` after the deadline of the lease, however busy this process is.
///
/// Dropping it waits until the lead is given up, normally one round trip and a second
/// at most; [`Candidacy::withdraw`] does not block.
#[must_use = "the candidacy is withdrawn when it is dropped"]
#[derive(Debug)]
pub struct Candidacy {
    shared: Arc<CandidateState>,
    news: watch::Receiver<u64>,
    /// What was told last.
    told: Option<Leadership>,
    withdrawn: Option<oneshot::Sender<()>>,
    done: Option<oneshot::Receiver<Result<()>>>,
    /// Closes once the task has given back what it had.
    ended: Mutex<Receiver<()>>,
    locks: Locks,
}

/// What the candidate and its task know.
#[derive(Debug, Default)]
struct CandidateState(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The lease of the present reign.
    hold: Option<Arc<Hold>>,
    failure: Option<Error>,
}

impl CandidateState {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> Leadership {
        let known = self.known();
        match &known.hold {
            Some(hold) => match hold.standing() {
                Standing::Held => Leadership::Leading { fence: hold.fence() },
                Standing::Jeopardy => Leadership::Unsure { fence: hold.fence() },
                Standing::Lost(_) | Standing::Released => Leadership::Following,
            },
            None => Leadership::Following,
        }
    }
}

impl Candidacy {
    pub(super) fn start(election: Election, value: String) -> Self {
        let (shared, (news, heard)) = (Arc::new(CandidateState::default()), watch::channel(0));
        let (withdraw, withdrawn) = oneshot::channel();
        let (tell, done) = oneshot::channel();
        let (ending, over) = channel();
        let locks = election.builder.locks.clone();
        let candidate = Candidate { election, value, shared: Arc::clone(&shared), news };
        locks.spawn(async move {
            // Nobody may care any more how it ended.
            let _ = tell.send(candidate.run(withdrawn).await);
            drop(ending);
        });
        let (withdrawn, done) = (Some(withdraw), Some(done));
        Self { shared, news: heard, told: None, withdrawn, done, ended: Mutex::new(over), locks }
    }

    /// How we stand, by the clock.
    #[must_use]
    pub fn state(&self) -> Leadership {
        self.shared.state()
    }

    /// Why we do not take part any more, or what went wrong with the last
    /// campaign; it is tried again if that may help.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.shared.known().failure.clone()
    }

    /// The present state at the first call, then each other one; `None` once we do
    /// not take part any more, and [`Candidacy::failure`] says why. What changed and
    /// changed back meanwhile is left out, but a new reign has a new fence.
    ///
    /// # Cancel safety
    ///
    /// A dropped call misses nothing: the next one returns it.
    pub async fn changed(&mut self) -> Option<Leadership> {
        loop {
            self.news.mark_unchanged();
            let state = self.state();
            if self.told != Some(state) {
                self.told = Some(state);
                return Some(state);
            }
            self.news.changed().await.ok()?;
        }
    }

    /// Waits until we lead; the fence of the reign.
    ///
    /// # Errors
    ///
    /// What ended the candidacy.
    ///
    /// # Cancel safety
    ///
    /// A dropped call misses nothing.
    pub async fn leading(&mut self) -> Result<u64> {
        while let Some(state) = self.changed().await {
            if let Leadership::Leading { fence } = state {
                return Ok(fence);
            }
        }
        Err(self.failure().unwrap_or_else(ended))
    }

    /// Takes part no longer, and gives the lead up if we have it.
    ///
    /// # Errors
    ///
    /// The engine's error if it cannot be reached; the lead is then given up in the
    /// background.
    ///
    /// # Cancel safety
    ///
    /// The candidacy is withdrawn even if the future is dropped.
    pub async fn withdraw(mut self) -> Result<()> {
        drop(self.withdrawn.take());
        match self.done.take() {
            Some(done) => done.await.unwrap_or_else(|_| Err(ended())),
            None => Ok(()),
        }
    }
}

impl Drop for Candidacy {
    fn drop(&mut self) {
        drop(self.withdrawn.take());
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.locks.wait_for(ended);
    }
}

fn ended() -> Error {
    Error::new(ErrorKind::Unavailable, "the candidacy has ended with its client")
}

/// The task behind a candidacy.
struct Candidate {
    election: Election,
    value: String,
    shared: Arc<CandidateState>,
    news: watch::Sender<u64>,
}

impl Candidate {
    /// Campaigns until it is withdrawn; then gives back what it has.
    async fn run(self, mut withdrawn: oneshot::Receiver<()>) -> Result<()> {
        let mut reign = None;
        let failure = tokio::select! {
            biased;
            _ = &mut withdrawn => None,
            error = self.campaign(&mut reign) => Some(error),
        };
        self.tell(|known| known.failure = failure.or(known.failure.take()));
        match reign {
            Some(reign) => Reign::resign(reign).await.map(drop),
            None => Ok(()),
        }
    }

    /// Leads again and again; ends with what no other try could mend.
    async fn campaign(&self, reign: &mut Option<Reign>) -> Error {
        let mut away = Backoff::default();
        loop {
            match self.election.campaign(&*self.value).await {
                Ok(won) => {
                    away = Backoff::default();
                    self.reign(reign.insert(won)).await;
                    *reign = None;
                }
                Err(error) => {
                    self.tell(|known| known.failure = Some(error.clone()));
                    let rested = match away.after(&self.election, error) {
                        Ok(rest) => rest.await,
                        Err(error) => Err(error),
                    };
                    if let Err(error) = rested {
                        return error;
                    }
                }
            }
        }
    }

    /// Tells how a reign stands, until it is lost.
    async fn reign(&self, reign: &Reign) {
        let hold = reign.guard().watched();
        self.tell(|known| {
            known.hold = Some(Arc::clone(&hold));
            known.failure = None;
        });
        let mut standing = Standing::Held;
        while !hold.has_ended() {
            standing = hold.turned(&standing).await;
            self.tell(|_| {});
        }
    }

    fn tell(&self, news: impl FnOnce(&mut Known)) {
        news(&mut self.shared.known());
        self.news.send_modify(|count| *count += 1);
    }
}
