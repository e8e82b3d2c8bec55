//! The guard, for threads.

use std::marker::PhantomData;
use std::time::Duration;

use super::bound::Anywhere;
use super::call::block_on;
use crate::claim::{Mode, Predecessor, Released};
use crate::clock::Moment;
use crate::error::Result;
use crate::fence::Sequencer;
use crate::hold::Standing;
use crate::name::Name;

/// A held lease; see [`crate::Guard`]. It is renewed in the background until it
/// is released, dropped or lost.
///
/// A `Guard<ThisThread>`, of a recipe with `.reentrant()`, stays on its thread;
/// any other may be sent to another thread and dropped there.
#[must_use = "the lease is given back when the guard is dropped"]
#[derive(Debug)]
pub struct Guard<K = Anywhere> {
    pub(super) inner: crate::Guard,
    bound: PhantomData<K>,
}

/// What needs no waiting is the async guard's.
macro_rules! forward {
    ($($(#[$doc:meta])* $call:ident() -> $answer:ty;)*) => {
        impl<K> Guard<K> {$(
            $(#[$doc])*
            #[must_use]
            pub fn $call(&self) -> $answer {
                self.inner.$call()
            }
        )*}
    };
}

forward! {
    /// What is held.
    name() -> &Name;
    /// How it is held.
    mode() -> Mode;
    /// The fencing token: larger than that of every earlier conflicting grant.
    fence() -> u64;
    /// Name, mode and fence as one text, for a server that checks it.
    sequencer() -> Sequencer;
    /// How the holder before ended. After `Expired` or `Evicted` the protected
    /// state may be half changed.
    predecessor() -> Predecessor;
    /// How long it is certainly still ours, if nothing more is heard.
    remaining() -> Duration;
    /// When it stops being certainly ours, on [`Guard::remaining`]'s clock.
    deadline() -> Moment;
    /// How the lease stands now.
    standing() -> Standing;
}

impl<K> Guard<K> {
    pub(super) const fn new(inner: crate::Guard) -> Self {
        Self { inner, bound: PhantomData }
    }

    /// Still ours? Costs no request: it looks at the clock.
    ///
    /// # Errors
    ///
    /// `Lost`, with the reason.
    pub fn check(&self) -> Result<()> {
        self.inner.check()
    }

    /// Waits, `limit` at most, for the end of the lease; tells why, or `None` if
    /// it is still ours: for a thread that watches over another's work.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::{Standing, blocking::Locks};
    /// let ttl = Duration::from_millis(50);
    /// let guard = Locks::memory().mutex("job").ttl(ttl).renew(false).lock()?;
    /// assert!(guard.lost_within(Duration::from_millis(1))?.is_none());
    /// let ended = guard.lost_within(Duration::from_secs(10))?;
    /// assert!(matches!(ended, Some(Standing::Lost(_))));
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Invalid` inside an async runtime.
    pub fn lost_within(&self, limit: Duration) -> Result<Option<Standing>> {
        let lost = self.inner.within(limit, self.inner.lost());
        block_on(async { Ok(lost.await) })
    }

    /// Runs `work` under this lease, then releases it.
    ///
    /// Nobody can stop a thread: work that takes long calls [`Guard::check`]
    /// between its steps and ends by itself.
    ///
    /// # Errors
    ///
    /// `Lost` if the lease ended before the work.
    pub fn run<T>(self, work: impl FnOnce(&Self) -> T) -> Result<T> {
        let done = work(&self);
        self.check()?;
        block_on(self.inner.release_as_held())?;
        Ok(done)
    }

    /// Makes the lease run for at least `ttl` from now: for fixed leases.
    ///
    /// # Errors
    ///
    /// `Lost` if it has ended; `Invalid` inside an async runtime; the engine's
    /// error if it cannot be reached.
    pub fn extend(&self, ttl: Duration) -> Result<()> {
        block_on(self.inner.extend(ttl))
    }

    /// Turns a write lease into a read lease without letting go; waiting
    /// readers come in.
    ///
    /// # Errors
    ///
    /// `Invalid` for any other change of mode, or inside an async runtime;
    /// `Lost` if the lease has ended; the engine's error if it cannot be reached.
    pub fn convert(&mut self, to: Mode) -> Result<()> {
        block_on(self.inner.convert(to))
    }

    /// Gives the lease back and says what was found. One of several guards of
    /// an owner gives back its share; the lease ends with the last.
    ///
    /// # Errors
    ///
    /// The engine's error if it cannot be reached; the release is then tried
    /// again in the background. Inside an async runtime `Invalid`; the guard is
    /// then dropped, which gives the lease back too.
    pub fn release(self) -> Result<Released> {
        block_on(self.inner.release())
    }
}
