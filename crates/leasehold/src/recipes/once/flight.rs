//! Flights: of the tasks of one process that come with one key, one asks the
//! engine and the others wait for what it learns.

use std::collections::hash_map::Entry as Place;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::entry::KeyEntry;
use crate::name::{Name, NameMap};

/// What a leader tells: nothing yet, or what became of the key.
type News = Option<Arc<KeyEntry>>;

/// The keys that someone of this process is at. The channel is made by the first
/// who follows: most have no followers.
#[derive(Debug, Default)]
pub(crate) struct Flights(Mutex<NameMap<Option<watch::Sender<News>>>>);

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
    has_landed: bool,
}

impl Flights {
    pub(crate) fn join(self: &Arc<Self>, name: &Name) -> Role {
        match self.all().entry(name.clone()) {
            Place::Occupied(mut flight) => {
                let told = flight.get_mut().get_or_insert_with(|| watch::Sender::new(None));
                Role::Follow(told.subscribe())
            }
            Place::Vacant(place) => {
                place.insert(None);
                let name = name.clone();
                Role::Lead(Lead { flights: Arc::clone(self), name, has_landed: false })
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, NameMap<Option<watch::Sender<News>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lead {
    /// Tells those who follow, and ends.
    pub(crate) fn tell(mut self, entry: &KeyEntry) {
        self.has_landed = true;
        let followed = self.flights.all().remove(&self.name).flatten();
        if let Some(followed) = followed {
            followed.send_replace(Some(Arc::new(entry.clone())));
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if !self.has_landed {
            self.flights.all().remove(&self.name);
        }
    }
}

/// What the leader learned; `None` if it went without a word.
pub(crate) async fn landed(mut news: watch::Receiver<News>) -> News {
    news.wait_for(Option::is_some).await.ok()?.clone()
}
