//! The connections that statements share, one user at a time.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::fault;
use super::settings::Settings;
use super::wire::Wire;
use crate::clock::Clock;
use crate::error::Result;

pub(super) struct Pool {
    settings: Settings,
    clock: Clock,
    /// First come, first served.
    turns: Arc<Semaphore>,
    idle: Mutex<Vec<Wire>>,
}

impl Pool {
    pub(super) async fn open(settings: &Settings, clock: Clock) -> Result<Arc<Self>> {
        let pool = Arc::new(Self {
            turns: Arc::new(Semaphore::new(settings.connections)),
            settings: settings.clone(),
            clock,
            idle: Mutex::default(),
        });
        pool.lend().await?.give_back();
        Ok(pool)
    }

    /// A connection, once it is our turn. It is closed unless it is given back.
    pub(super) async fn lend(self: &Arc<Self>) -> Result<Lent> {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.map_err(|_| fault::away("this client is closed"))?;
        let idle = self.idle().pop();
        let wire = match idle {
            Some(wire) => wire,
            None => Wire::open(&self.settings.target.hosts[0], &self.settings, &self.clock).await?,
        };
        Ok(Lent { wire, pool: Arc::clone(self), _turn: turn })
    }

    pub(super) fn close(&self) {
        self.turns.close();
        self.idle().clear();
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Wire>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection of ours for a while.
pub(super) struct Lent {
    pub(super) wire: Wire,
    pool: Arc<Pool>,
    _turn: OwnedSemaphorePermit,
}

impl Lent {
    /// Nothing is under way on it: the next may have it.
    pub(super) fn give_back(self) {
        if !self.pool.turns.is_closed() {
            self.pool.idle().push(self.wire);
        }
    }
}
