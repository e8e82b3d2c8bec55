//! Which keys this process has seen done: for those a plain look comes first,
//! which is one request instead of two. A wrong guess costs a request, no more.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::name::Name;

/// How many keys are remembered, at most.
const PLACES: usize = 4096;

#[derive(Debug)]
pub(crate) struct Seen {
    places: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Default for Seen {
    fn default() -> Self {
        let places = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        Self { places, hasher: RandomState::new() }
    }
}

impl Seen {
    pub(crate) fn note(&self, name: &Name) {
        let (place, mark) = self.place(name);
        place.store(mark, Ordering::Relaxed);
    }

    pub(crate) fn has(&self, name: &Name) -> bool {
        let (place, mark) = self.place(name);
        place.load(Ordering::Relaxed) == mark
    }

    fn place(&self, name: &Name) -> (&AtomicU64, u64) {
        let mark = self.hasher.hash_one(name) | 1;
        let at = usize::try_from(mark >> 32).unwrap_or(0) % PLACES;
        (&self.places[at], mark)
    }
}
