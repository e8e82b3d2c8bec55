//! Once, for threads.

use std::fmt::Display;
use std::future::ready;

use super::call::block_on;
use crate::error::{Error, Result};
use crate::recipes::once::{Done, Fingerprint, Kept, Key, Once, OnceError, Refusal, Tokens, Turn};

impl super::Locks {
    /// Work that is done one time for each key of `scope`; see
    /// [`crate::Locks::once`].
    ///
    /// ```
    /// use leasehold::blocking::Locks;
    /// use leasehold::once::Fingerprint;
    ///
    /// let payments = Locks::memory().once("payments");
    /// let pay = || {
    ///     let work = |_turn| Ok::<_, String>("paid 10");
    ///     payments.blocking_run("key-of-the-client", Fingerprint::none(), work)
    /// };
    /// assert!(!pay()?.replayed);
    /// assert_eq!(pay()?.outcome, b"paid 10", "not paid twice");
    /// # Ok::<(), leasehold::once::OnceError<String>>(())
    /// ```
    #[must_use]
    pub fn once(&self, scope: impl AsRef<str>) -> Once {
        self.as_async().once(scope)
    }
}

impl Once {
    /// Like `run`, for threads: waits for whoever has the key, and runs `work` on
    /// this thread. It never waits with [`OnBusy::Refuse`](crate::once::OnBusy).
    ///
    /// Work on a thread cannot be cut off when its lease is lost: before each
    /// effect it asks [`Turn::check`]. What it comes to after a loss is not
    /// recorded.
    ///
    /// # Errors
    ///
    /// Those of [`Once::run`]; `Invalid` inside an async runtime.
    pub fn blocking_run<F, T, E>(
        &self,
        key: impl Into<Key>,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<Done, OnceError<E>>
    where
        F: FnOnce(Turn) -> Result<T, E>,
        T: Into<Kept>,
        E: Display,
    {
        block_on(self.run(key, fingerprint, |turn| ready(work(turn))))
    }

    /// Like `outcome`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Once::outcome`]; `Invalid` inside an async runtime.
    pub fn blocking_outcome(
        &self,
        key: impl Into<Key>,
        fingerprint: Fingerprint,
    ) -> Result<Option<Done>, Refusal> {
        block_on(self.outcome(key, fingerprint))
    }

    /// Like `settle`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Once::settle`]; `Invalid` inside an async runtime.
    pub fn blocking_settle(
        &self,
        key: impl Into<Key>,
        fingerprint: Fingerprint,
        outcome: impl Into<Vec<u8>>,
    ) -> Result<Done, OnceError<Error>> {
        block_on(self.settle(key, fingerprint, outcome))
    }

    /// Like `forget`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Once::forget`]; `Invalid` inside an async runtime.
    pub fn blocking_forget(&self, key: impl Into<Key>) -> Result<(), Refusal> {
        block_on(self.forget(key))
    }
}

impl Tokens {
    /// Like `redeem`, for threads; `work` is as for [`Once::blocking_run`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::blocking::Locks;
    /// use leasehold::once::{Fingerprint, TokenKeys};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let secret = [7; 32];
    /// let tokens = Locks::memory().once("orders").tokens(TokenKeys::new(1, &secret)?);
    /// let token = tokens.issue("ann", Duration::from_secs(900));
    /// let order = || {
    ///     let work = |_turn| Ok::<_, String>("order 7");
    ///     tokens.blocking_redeem(&token, "ann", Fingerprint::none(), work)
    /// };
    /// assert!(!order()?.replayed);
    /// assert_eq!(order()?.outcome, b"order 7", "a second click sees the same order");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Tokens::redeem`]; `Invalid` inside an async runtime.
    pub fn blocking_redeem<F, T, E>(
        &self,
        token: &str,
        subject: &str,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<Done, OnceError<E>>
    where
        F: FnOnce(Turn) -> Result<T, E>,
        T: Into<Kept>,
        E: Display,
    {
        block_on(self.redeem(token, subject, fingerprint, |turn| ready(work(turn))))
    }
}
