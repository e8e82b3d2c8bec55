//! How long a call may block: an option of the recipe, since the call itself
//! cannot be told any more.

use super::bound::Bound;
use super::call::block_on;
use super::guard::Guard;
use crate::claim::Mode;
use crate::error::Result;
use crate::recipes::request_builder::{Patience, RequestBuilder};

/// Who asks when this thread does.
pub(super) fn asker_of<K: Bound>(builder: &RequestBuilder) -> RequestBuilder {
    K::owner().map_or_else(|| builder.clone(), |owner| builder.owned_by(owner))
}

/// Waits for a lease as the thread or recipe that asks.
pub(super) fn wait<K: Bound>(
    builder: &RequestBuilder,
    patience: Patience,
    mode: Mode,
) -> Result<Guard<K>> {
    let lock = asker_of::<K>(builder).lock(mode).with_patience(patience);
    block_on(lock.into_future()).map(Guard::new)
}

/// Takes a lease if it is free.
pub(super) fn try_now<K: Bound>(builder: &RequestBuilder, mode: Mode) -> Result<Option<Guard<K>>> {
    let taken = block_on(asker_of::<K>(builder).try_lock(mode))?;
    Ok(taken.map(Guard::new))
}

/// The wait limit of every recipe with a `patience`.
macro_rules! limit {
    ($recipe:ty $(, $kind:ident)?) => {
        impl$(<$kind>)? $recipe {
            /// Waits at most this long; then the error `TimedOut` says who held it.
            #[must_use]
            pub const fn within(mut self, limit: ::std::time::Duration) -> Self {
                self.patience = self.patience.within(limit);
                self
            }
        }
    };
}
pub(super) use limit;

/// Tries instead of a place in the queue, for every recipe with a `patience`.
macro_rules! attempts {
    ($recipe:ty $(, $kind:ident)?) => {
        impl$(<$kind>)? $recipe {
            /// Does not queue, but tries this many times, 100 ms apart unless
            /// `every` says otherwise.
            #[must_use]
            pub const fn attempts(mut self, count: u32) -> Self {
                self.patience = self.patience.attempts(count);
                self
            }

            /// The pause between two attempts.
            #[must_use]
            pub const fn every(mut self, pause: ::std::time::Duration) -> Self {
                self.patience = self.patience.every(pause);
                self
            }
        }
    };
}
pub(super) use attempts;
