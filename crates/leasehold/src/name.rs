//! Names: what is locked.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
#[cfg(not(leasehold_sim))]
use std::hash::RandomState;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use crate::error::{Error, Result};
#[cfg(leasehold_sim)]
use crate::sim::RandomState;

/// The longest name in bytes; every engine can store it.
pub const NAME_MAX: usize = 255;
/// The longest namespace in bytes.
pub const NAMESPACE_MAX: usize = 64;

/// What is locked: 1 to 255 bytes of UTF-8 without control characters, in a
/// [`Namespace`].
///
/// Names are compared byte by byte. `a`, `A`, `a ` and both Unicode forms of
/// `é` are names of their own on every engine; nothing is folded or trimmed.
///
/// ```
/// use leasehold::{Name, Namespace};
///
/// let shop = Namespace::new("shop")?;
/// assert_eq!(Name::new(&shop, "order/42")?.as_str(), "order/42");
/// assert!(Name::new(&shop, "two\nlines").is_err());
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone)]
pub struct Name {
    namespace: Namespace,
    text: Arc<str>,
    /// Of both, made once: one call looks a name up in half a dozen tables.
    hash: u64,
}

impl Name {
    /// Checks `text` and puts it into `namespace`.
    ///
    /// # Errors
    ///
    /// `Invalid` if `text` is empty, longer than 255 bytes or has a control
    /// character.
    pub fn new(namespace: &Namespace, text: impl Into<Arc<str>>) -> Result<Self> {
        let text = text.into();
        match fault(&text) {
            None => {
                let hash = hash_of(namespace, &text);
                Ok(Self { namespace: namespace.clone(), text, hash })
            }
            Some(why) => Err(Error::invalid(format!("invalid name {}: {why}", shown(&text)))),
        }
    }

    /// The name as the user wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Where the name lives.
    #[must_use]
    pub const fn namespace(&self) -> &Namespace {
        &self.namespace
    }
}

/// Keyed by chance, so that nobody can choose names that meet in a table.
fn hash_of(namespace: &Namespace, text: &str) -> u64 {
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    HASHER.hash_one((namespace.as_str(), text))
}

/// A table by name.
pub(crate) type NameMap<T> = HashMap<Name, T, BuildHasherDefault<Same>>;

/// A hasher for what has a good hash already, as a name has, or is one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    /// A lease id: random as a whole.
    fn write_u128(&mut self, id: u128) {
        let [low, high] = [id, id >> 64].map(|half| (half & u128::from(u64::MAX)) as u64);
        self.0 = low ^ high;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.text == other.text && self.namespace == other.namespace
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.namespace, &self.text).cmp(&(&other.namespace, &other.text))
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:?}", self.namespace.0, self.text)
    }
}

fn fault(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("a name has at least one byte".into());
    }
    if text.len() > NAME_MAX {
        return Some(format!("{} bytes long, a name has at most {NAME_MAX}", text.len()));
    }
    let bad = control_character(text);
    bad.map(|(at, c)| format!("control character {c:?} at byte {at}"))
}

/// The first one, and where it is.
pub(crate) fn control_character(text: &str) -> Option<(usize, char)> {
    // Each has one of these bytes; most texts have none.
    if !text.bytes().any(|b| b < b' ' || b == 0x7f || b == 0xc2) {
        return None;
    }
    text.char_indices().find(|(_, c)| c.is_control())
}

/// A name as it may appear in an error: escaped and short.
fn shown(text: &str) -> String {
    let head: String = text.chars().take(40).collect();
    let dots = if head.len() < text.len() { "..." } else { "" };
    format!("{head:?}{dots}")
}

/// A set of names with a fence counter of its own: 1 to 64 of `a-z A-Z 0-9 . _ -`.
///
/// Two services that share a server but not their locks use two namespaces.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// Checks `text`.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is empty, too long or has other characters.
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self> {
        let text = text.into();
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if (1..=NAMESPACE_MAX).contains(&text.len()) && text.bytes().all(plain) {
            return Ok(Self(text));
        }
        Err(Error::invalid(format!(
            "invalid namespace {}: use 1 to {NAMESPACE_MAX} of a-z A-Z 0-9 . _ -",
            shown(&text)
        )))
    }

    /// The namespace as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Namespace {
    /// `default`.
    fn default() -> Self {
        Self("default".into())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Result<Name> {
        Name::new(&Namespace::default(), text)
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        let long = "x".repeat(256);
        let cases = [
            ("", "at least one byte"),
            (&long, "256 bytes long"),
            ("a\tb", "'\\t' at byte 1"),
            ("a\0", "at byte 1"),
        ];
        for (text, expected) in cases {
            let message = name(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
            assert!(message.len() < 160, "an error must not repeat a long name: {message}");
        }
    }

    #[test]
    fn look_alikes_are_different_names() {
        let forms = ["a", "A", "a ", " a", "a/", "\u{e9}", "e\u{301}"];
        for (i, a) in forms.iter().enumerate() {
            for b in &forms[i + 1..] {
                assert_ne!(name(a).unwrap(), name(b).unwrap());
            }
        }
    }

    proptest! {
        #[test]
        fn accepts_exactly_what_the_rule_says(text in ".{0,300}") {
            let rule = (1..=255).contains(&text.len()) && !text.chars().any(char::is_control);
            prop_assert_eq!(name(&text).is_ok(), rule);
        }

        #[test]
        fn namespaces_are_plain(text in ".{0,70}") {
            if let Ok(space) = Namespace::new(text.as_str()) {
                prop_assert!(space.as_str().bytes().all(|b| b.is_ascii_graphic() && b != b'/'));
            }
        }
    }
}
