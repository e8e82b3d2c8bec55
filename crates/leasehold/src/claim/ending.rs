//! Endings: how a lease is given back.

use std::time::Duration;

use super::record::Store;
use crate::clock::Moment;

/// How a lease ends.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Ending {
    /// Keep the name closed this much longer, although it is released: for a
    /// job that must not run again on a host whose clock is behind.
    pub keep_closed: Option<Duration>,
    /// The holder did not let go by itself: its successor is told `Expired`, and
    /// a lock delay runs, where the engine has them.
    pub cut_off: bool,
    /// The grant never came to its user: the next one is told what this one
    /// would have been told, where the engine remembers how holders end.
    pub unseen: bool,
    /// A record to store in the same request, if the lease is still ours; it
    /// expects [`Expect::Any`](super::Expect::Any). `AlreadyLost` means that it was not stored,
    /// or, after a lost reply, that the first try has stored it.
    pub store: Option<Store>,
    /// Until when the lease is certainly ours, if it is: for a layer that repeats
    /// a release, and has to tell what it finds from what it did. Engines need
    /// not look.
    pub sure_until: Option<Moment>,
}

impl Ending {
    /// An ordinary release.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A release after which the name stays closed for `span`.
    #[must_use]
    pub const fn closed_for(span: Duration) -> Self {
        Self {
            keep_closed: Some(span),
            cut_off: false,
            unseen: false,
            store: None,
            sure_until: None,
        }
    }

    /// The end of a lease that was taken from its holder for being late.
    #[must_use]
    pub const fn cut_off() -> Self {
        Self { keep_closed: None, cut_off: true, unseen: false, store: None, sure_until: None }
    }

    /// Whether the next one need not be told of it, nor kept waiting; it may
    /// leave a record.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.keep_closed.is_none() && !self.cut_off && !self.unseen
    }

    /// A release that leaves a record, if the lease is still ours.
    #[must_use]
    pub const fn storing(store: Store) -> Self {
        let store = Some(store);
        Self { keep_closed: None, cut_off: false, unseen: false, store, sure_until: None }
    }
}

/// What a release found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Released {
    /// The lease, or the place in the queue, was ours and is gone.
    Released,
    /// It was not ours any more; nothing was touched.
    AlreadyLost,
}
