//! How waiters are woken, and how often they look by themselves.

use std::time::Duration;

use crate::engines::database::pool::Pool;
use crate::error::{Error, Result};
use crate::url::Options;

/// How soon a waiter looks that nobody tells, and how rarely at the end.
const POLL: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_secs(1);
/// How often a waiter looks that is told.
const LOOK: Duration = Duration::from_secs(5);

/// How waiters are woken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wakes {
    /// They are told, and look only in case.
    pub(super) push: bool,
    first: Duration,
    most: Duration,
}

impl Wakes {
    pub(super) fn from_options(options: &Options, pool: &Pool) -> Result<Self> {
        let able = pool.family().tells() && !pool.behind_pooler();
        let push = match options.get("wake")? {
            None => able,
            Some("push") if able => true,
            Some("push") => {
                return Err(Error::invalid(
                    "option \"wake\": nobody can be told here; leave it out, and waiters look",
                ));
            }
            Some("poll") => false,
            Some(_) => return Err(Error::invalid("option \"wake\" takes push or poll")),
        };
        let first = options.duration("poll")?.unwrap_or(POLL).max(Duration::from_millis(1));
        let most = options.duration("poll_max")?.unwrap_or(POLL_MAX).max(first);
        Ok(Self { push, first, most })
    }

    /// How long to rest before the next look.
    pub(super) fn next(self, pace: Duration) -> Duration {
        if self.push {
            return LOOK;
        }
        if pace.is_zero() { self.first } else { (pace * 3 / 2).min(self.most) }
    }
}
