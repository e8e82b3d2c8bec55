//! Flights: of the tasks of one process that come with one key, one asks the
//! engine and the others wait for what it learns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::entry::Entry;
use crate::name::Name;

/// What a leader tells: nothing yet, or what became of the key.
type News = Option<Arc<Entry>>;

/// The keys that someone of this process is at. The channel is made by the first
/// who follows: most have no followers.
#[derive(Debug, Default)]
pub(crate) struct Flights(Mutex<HashMap<Name, Option<watch::Sender<News>>>>);

/// What a task is to do about a key.
pub(crate) enum Role {
    Lead(Lead),
    Follow(watch::Receiver<News>),
}

/// The one that asks the engine. When it goes without a word, a follower leads.
#[derive(Debug)]
pub(crate) struct Lead {
    flights: Arc<Flights>,
    name: Name,
}

impl Flights {
    pub(crate) fn join(self: &Arc<Self>, name: &Name) -> Role {
        let mut flights = self.all();
        if let Some(flight) = flights.get_mut(name) {
            return Role::Follow(
                flight.get_or_insert_with(|| watch::Sender::new(None)).subscribe(),
            );
        }
        flights.insert(name.clone(), None);
        Role::Lead(Lead { flights: Arc::clone(self), name: name.clone() })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Name, Option<watch::Sender<News>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lead {
    /// Tells those who follow, and ends.
    pub(crate) fn tell(self, entry: impl FnOnce() -> Entry) {
        let followed = self.flights.all().get_mut(&self.name).and_then(Option::take);
        if let Some(followed) = followed {
            followed.send_replace(Some(Arc::new(entry())));
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.flights.all().remove(&self.name);
    }
}

/// What the leader learned; `None` if it went without a word.
pub(crate) async fn landed(mut news: watch::Receiver<News>) -> News {
    news.wait_for(Option::is_some).await.ok()?.clone()
}
