//! An observer: sees who leads, and does not take part.

use std::sync::Arc;

use tokio::sync::watch;

use super::leader::{Leader, Observations, Observed};
use super::sentry::Sentry;
use crate::connection::{ConnectionEvents, ConnectionState};
use crate::error::Result;
use crate::locks::Locks;
use crate::name::Name;
use crate::recipes::live_record::LiveRecord;

/// Who leads, as it changes. The latest counts: who does not look for a while is
/// told what is so by then.
///
/// It never tells of a leader from before: of two leaders, the one with the
/// smaller fence is told first or not at all.
#[derive(Debug)]
pub struct Observer {
    news: watch::Receiver<Option<Result<Observed>>>,
    _locks: Locks,
}

impl Observer {
    pub(super) async fn start(locks: &Locks, name: Name) -> Result<Self> {
        if locks.profile().candidates_in_entries {
            return Self::of_entries(locks, name).await;
        }
        let connection = locks.events();
        let record = LiveRecord::follow(locks, &name).await?;
        let (tell, news) = watch::channel(None);
        let mut lookout = Lookout { name, record, observations: Observations::default(), tell };
        lookout.look();
        locks.spawn(lookout.run(connection));
        Ok(Self { news, _locks: locks.clone() })
    }

    /// Sees who is first in line, asking again and again.
    async fn of_entries(locks: &Locks, name: Name) -> Result<Self> {
        let (tell, news) = watch::channel(None);
        let core = Arc::clone(locks.core());
        let mut sentry = Sentry { core, name, observations: Observations::default(), tell };
        sentry.look().await?;
        locks.spawn(sentry.run());
        Ok(Self { news, _locks: locks.clone() })
    }

    /// Who leads, at the first call; then each change. `None` once the locks were
    /// shut down.
    ///
    /// # Errors
    ///
    /// `Unexpected` if something else wrote the record of this election; the
    /// observer goes on.
    ///
    /// # Cancel safety
    ///
    /// A dropped call misses nothing: the next one returns it.
    pub async fn next(&mut self) -> Result<Option<Observed>> {
        while self.news.changed().await.is_ok() {
            if let Some(news) = self.news.borrow_and_update().clone() {
                return news.map(Some);
            }
        }
        Ok(None)
    }
}

/// The task behind an observer.
struct Lookout {
    name: Name,
    record: LiveRecord,
    observations: Observations,
    tell: watch::Sender<Option<Result<Observed>>>,
}

impl Lookout {
    /// Looks on until nobody listens, or the locks were shut down.
    async fn run(mut self, mut connection: ConnectionEvents) {
        let tell = self.tell.clone();
        loop {
            let seen = tokio::select! {
                biased;
                () = tell.closed() => return,
                state = connection.next() => match state {
                    None => return,
                    Some(state) => {
                        self.note(state);
                        continue;
                    }
                },
                changed = self.record.changed() => changed,
            };
            match seen {
                Ok(()) => self.look(),
                // Whoever shuts the locks down knows that nothing more will come.
                Err(_) if self.record.is_closed() => return,
                Err(error) => return self.say(Err(error)),
            }
        }
    }

    /// While the connection is gone nobody knows who leads.
    fn note(&mut self, state: ConnectionState) {
        if matches!(state, ConnectionState::Suspended | ConnectionState::Lost) {
            self.record.doubt();
            let _ = self.observations.doubt().map(|observed| self.say(Ok(observed)));
        }
    }

    /// Tells what is there, if that is news, and if it is known.
    fn look(&mut self) {
        if self.record.is_in_doubt() {
            return;
        }
        let found = self.record.record().map(|record| Leader::read(&self.name, record));
        match found.transpose() {
            Ok(found) => {
                let _ = self.observations.see(found).map(|observed| self.say(Ok(observed)));
            }
            Err(error) => self.say(Err(error)),
        }
    }

    fn say(&self, what: Result<Observed>) {
        let _ = self.tell.send(Some(what));
    }
}
