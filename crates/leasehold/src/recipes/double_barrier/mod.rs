//! The double barrier: all begin together, and all end together.

mod entering;
mod inside;
mod round;
mod round_record;

use std::sync::Arc;
use std::time::Duration;

pub use entering::Enter;
pub use inside::{Inside, Leave};

use super::request_builder::TTL;
use crate::error::{Error, Result};
use crate::locks::Locks;
use crate::name::Name;

/// The most members of one round.
const MOST: usize = 1000;

/// A barrier where so many wait for each other before they begin, and again before
/// they end.
///
/// Who waits is a record below its name, bound to the lease of its client. Once there
/// are enough of them, one record says who begins: it is written once for each round,
/// so all members of a round are told the same, even those who gave up in that very
/// moment. Who has died is counted until its lease has ended: before the decision as one
/// who waits, after it as one who is inside.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// let import = locks.double_barrier("import", 2);
/// let work = async |who: &str| -> leasehold::Result<u64> {
///     let inside = import.enter().await?;
///     println!("{who} begins with the others of round {}", inside.round());
///     let round = inside.round();
///     inside.leave().await?;
///     Ok(round)
/// };
/// let (one, two) = tokio::join!(work("one"), work("two"));
/// assert_eq!(one?, two?);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    locks: Locks,
    path: Arc<str>,
    size: usize,
    ttl: Duration,
    label: Arc<str>,
}

impl Locks {
    /// The barrier of this name where `size` members begin and end together; needs
    /// the cargo feature `records`. All must say the same size.
    ///
    /// What is not valid is an error of the first call that uses it.
    #[must_use]
    pub fn double_barrier(&self, name: impl AsRef<str>, size: usize) -> DoubleBarrier {
        let path = name.as_ref().trim_end_matches('/');
        let locks = self.routed(&format!("{path}/")).clone();
        let label = locks.owner().label().into();
        DoubleBarrier { locks, path: path.into(), size, ttl: TTL, label }
    }
}

impl DoubleBarrier {
    /// Who has died is waited for at most this long: 30 s unless set.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// What others see as the process behind a member.
    #[must_use]
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.label = label.as_ref().into();
        self
    }

    /// Waits until so many are here, and begins with them; see [`Enter`] for limits.
    ///
    /// # Errors
    ///
    /// `TimedOut` after a wait limit: then nobody has counted us. `Invalid` for a bad
    /// name or size; `Unsupported` if the engine keeps no records; the engine's error
    /// if it cannot be reached at first. Later it is asked again for as long as the
    /// wait may last.
    ///
    /// # Cancel safety
    ///
    /// A dropped future waits no more. If the others had begun with us already, they
    /// see us leave.
    pub fn enter(&self) -> Enter {
        Enter::new(self.clone(), self.locks.own_wait_limit())
    }

    fn check(&self) -> Result<()> {
        if (1..=MOST).contains(&self.size) {
            return self.locks.record_store().map(drop);
        }
        let text = format!("a double barrier has 1 to {MOST} members, not {}", self.size);
        Err(Error::invalid(text).with("barrier", &self.path))
    }

    /// Where the rounds are decided.
    fn round_name(&self) -> Result<Name> {
        self.locks.name(&format!("{}/round", self.path))
    }

    /// What those who wait or are inside are below.
    fn members_path(&self) -> String {
        format!("{}/member", self.path)
    }
}
