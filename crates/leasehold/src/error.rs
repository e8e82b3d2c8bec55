//! The one error type.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// A result of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, where, and what to do about it.
///
/// Cheap to clone, and opaque: look at [`Error::kind`], [`Error::effect`] or
/// one of the predicates. No secret ever appears in its text.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// use std::time::Duration;
/// use leasehold::{Effect, ErrorKind};
///
/// let order = locks.mutex("order/42");
/// let guard = order.lock().await?;
/// let error = order.lock().within(Duration::ZERO).await.unwrap_err();
///
/// assert!(error.is_timed_out());
/// assert_eq!(error.kind(), ErrorKind::TimedOut);
/// assert_eq!(error.effect(), Effect::NotApplied, "nothing was left behind");
/// assert!(error.to_string().contains("held by"), "it says who: {error}");
/// # drop(guard);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Error(Arc<ErrorParts>);

#[derive(Clone)]
struct ErrorParts {
    kind: ErrorKind,
    effect: Effect,
    message: String,
    context: Vec<(&'static str, String)>,
    cause: Option<String>,
}

/// What a program may want to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The wait limit passed; the message says who held the name.
    TimedOut,
    /// The lease ended before its guard did.
    Lost,
    /// The caller does not hold what it wants to act on.
    NotHeld,
    /// The request can never be right: a bad name, URL or option, kinds mixed.
    Invalid,
    /// The opened engine does not promise what was asked for.
    Unsupported,
    /// The engine cannot be reached or cannot serve now; worth a retry.
    Unavailable,
    /// The engine refuses this user.
    Denied,
    /// A bug, here or in the engine, or a damaged store.
    Unexpected,
}

/// Whether the request may have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It certainly had no effect.
    NotApplied,
    /// It may have had one: the reply was lost.
    Unknown,
}

impl Error {
    /// An error that certainly had no effect.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(ErrorParts {
            kind,
            effect: Effect::NotApplied,
            message: message.into(),
            context: Vec::new(),
            cause: None,
        }))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// The same error, with the reply lost: the request may have taken effect.
    #[must_use]
    pub fn unknown(self) -> Self {
        self.edit(|parts| parts.effect = Effect::Unknown)
    }

    /// The same error with its cause, as text: drivers are not part of our API.
    #[must_use]
    pub fn caused_by(self, cause: impl fmt::Display) -> Self {
        self.edit(|parts| parts.cause = Some(cause.to_string()))
    }

    /// The same error with one more fact: where it happened, to what. What was
    /// said closer to the fault stays.
    #[must_use]
    pub fn with(self, key: &'static str, value: impl fmt::Display) -> Self {
        if self.0.context.iter().any(|(known, _)| *known == key) {
            return self;
        }
        self.edit(|parts| parts.context.push((key, value.to_string())))
    }

    /// What a program may want to act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the request may have taken effect.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// The wait limit passed.
    #[must_use]
    pub fn is_timed_out(&self) -> bool {
        self.kind() == ErrorKind::TimedOut
    }

    /// The lease ended before its guard did.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.kind() == ErrorKind::Lost
    }

    /// The same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut)
    }

    fn edit(self, change: impl FnOnce(&mut ErrorParts)) -> Self {
        let mut parts = self.0;
        change(Arc::make_mut(&mut parts));
        Self(parts)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for (at, (key, value)) in self.0.context.iter().enumerate() {
            let open = if at == 0 { " (" } else { ", " };
            write!(f, "{open}{key}: {value}")?;
        }
        if !self.0.context.is_empty() {
            f.write_str(")")?;
        }
        match &self.0.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.kind())?;
        if self.effect() == Effect::Unknown {
            f.write_str(" (effect unknown)")?;
        }
        write!(f, ": {self}")
    }
}

impl StdError for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_one_sentence_with_its_place() {
        let error = Error::new(ErrorKind::Unavailable, "the server closed the connection")
            .with("engine", "redis")
            .with("name", "order/42")
            .unknown();
        assert_eq!(
            error.to_string(),
            "the server closed the connection (engine: redis, name: order/42)"
        );
        assert!(format!("{error:?}").starts_with("Unavailable (effect unknown): the server"));
    }

    #[test]
    fn adding_to_a_clone_leaves_the_original() {
        let first = Error::invalid("no");
        let second = first.clone().with("name", "x");
        assert_eq!(first.to_string(), "no");
        assert_eq!(second.to_string(), "no (name: x)");
        assert_eq!(second.with("name", "y").to_string(), "no (name: x)", "said once");
    }
}
