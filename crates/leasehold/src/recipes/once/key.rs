//! Keys: which requests are the same one.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::name::control_character;

/// What begins a key that is a hash, and no key of a client.
const HASHED: char = '~';

/// Which requests are the same one: a text that the client has chosen, or a
/// [trace](Key::trace). Long keys are hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    text: String,
    pub(crate) trace: Option<Trace>,
}

/// When a client says it has asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// Milliseconds since 1970; never 0.
    pub(crate) stamp: u64,
    pub(crate) window: u64,
}

impl Key {
    /// For clients that send no key: who, from where, and when *by the client's
    /// clock*. All that a user asks for from one device within `window` of the
    /// first is one request; what comes later is a new one.
    ///
    /// The window begins with the first request, wherever that falls: two clicks
    /// are never told apart because they lie on two sides of a full minute. The
    /// time has to be the client's, taken once and sent again with every retry:
    /// a time that the server takes would make every retry a new request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::{Duration, SystemTime};
    /// # use leasehold::once::{Fingerprint, Key};
    /// # let once = leasehold::Locks::memory().once("orders");
    /// let clicked = SystemTime::now();
    /// let order = async |at| {
    ///     let key = Key::trace("ann", "phone 7", at, Duration::from_secs(60));
    ///     once.run(key, Fingerprint::none(), async |_| Ok::<_, String>("ordered")).await
    /// };
    /// assert!(!order(clicked).await?.replayed);
    /// assert!(order(clicked + Duration::from_secs(59)).await?.replayed);
    /// assert!(!order(clicked + Duration::from_secs(60)).await?.replayed, "a new order");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn trace(user: &str, device: &str, at: SystemTime, window: Duration) -> Self {
        let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let trace = Trace { stamp: millis(at).max(1), window: millis(window) };
        // Lengths first, so that no two pairs are written the same way.
        let text = format!("{}:{user}{}:{device}", user.len(), device.len());
        Self { text: hashed(text.as_bytes()), trace: Some(trace) }
    }

    /// The key as part of a name that has this much room.
    pub(crate) fn within(&self, room: usize) -> Result<Cow<'_, str>> {
        if self.text.is_empty() {
            return Err(Error::invalid("an idempotency key has at least one character"));
        }
        let made = self.trace.is_some();
        let odd = self.text.starts_with(HASHED) || control_character(&self.text).is_some();
        if made || (!odd && self.text.len() <= room) {
            return Ok(Cow::Borrowed(&self.text));
        }
        Ok(hashed(self.text.as_bytes()).into())
    }
}

/// `~` and a SHA-256.
fn hashed(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(65);
    text.push(HASHED);
    crate::hex::encode_to(&Sha256::digest(bytes), &mut text);
    text
}

/// Whole milliseconds; for ever if there are too many.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl<T: Into<String>> From<T> for Key {
    fn from(text: T) -> Self {
        Self { text: text.into(), trace: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_odd_keys_are_hashed_and_do_not_meet_others() {
        let key = |text: &str| Key::from(text).within(64).unwrap().into_owned();
        assert_eq!(key("order-42"), "order-42");
        let long = key(&"x".repeat(65));
        assert!(long.starts_with('~') && long.len() == 65);
        assert_ne!(key(&long), long, "a key that looks like a hash is hashed itself");
        assert_ne!(key("a\n"), key("a\t"));
        assert!(Key::from("").within(64).is_err());
    }

    #[test]
    fn users_and_devices_do_not_run_together() {
        let key = |user, device| Key::trace(user, device, SystemTime::UNIX_EPOCH, Duration::ZERO);
        assert_ne!(key("ab", "c"), key("a", "bc"));
    }
}
