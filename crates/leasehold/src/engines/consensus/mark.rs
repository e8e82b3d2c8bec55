//! A word on an entry, for its owner or about it. It stands before the metadata and
//! leaves that as it is: who looks at the entry still sees how it takes its name.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::engine::{Eviction, Loss};

/// What Curator writes over an entry to ask its holder to let go.
pub(super) const REVOKE: &str = "__REVOKE__";
const EVICT: &str = "__EVICT__";
const CLOSED: &str = "__CLOSED__";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engines) enum EntryMark {
    /// Its owner is asked to let go.
    Asked,
    /// Its owner has to go.
    Evicted { actor: Arc<str>, reason: Arc<str> },
    /// Its owner has lost it, and the name stays closed until then: microseconds
    /// since 1970.
    Closed { until: u64 },
}

impl EntryMark {
    /// What an operator leaves on an entry.
    pub(super) fn of(eviction: &Eviction) -> Self {
        if eviction.ask {
            return Self::Asked;
        }
        let actor = eviction.actor.replace('\n', " ").into();
        Self::Evicted { actor, reason: Arc::clone(&eviction.reason) }
    }

    /// How a lease is lost by it.
    pub(super) fn loss(self) -> Option<Loss> {
        match self {
            Self::Evicted { actor, reason } => Some(Loss::Evicted { actor, reason }),
            Self::Asked | Self::Closed { .. } => None,
        }
    }

    /// Writes it before what `text` is going to be.
    pub(super) fn write(&self, text: &mut String) {
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Asked => writeln!(text, "{REVOKE}"),
            Self::Evicted { actor, reason } => {
                writeln!(text, "{EVICT}\n{actor}\n{}\n{reason}", reason.len())
            }
            Self::Closed { until } => writeln!(text, "{CLOSED}\n{until}"),
        };
    }

    /// A mark, and the metadata behind it. Curator leaves no metadata.
    pub(super) fn read(text: &str) -> (Option<Self>, &str) {
        if text == REVOKE {
            return (Some(Self::Asked), "");
        }
        match marked(text) {
            Some((mark, metadata)) => (Some(mark), metadata),
            None => (None, text),
        }
    }
}

fn marked(text: &str) -> Option<(EntryMark, &str)> {
    let (word, rest) = text.split_once('\n')?;
    match word {
        REVOKE => Some((EntryMark::Asked, rest)),
        EVICT => evicted(rest),
        CLOSED => {
            let (until, metadata) = rest.split_once('\n')?;
            Some((EntryMark::Closed { until: until.parse().ok()? }, metadata))
        }
        _ => None,
    }
}

/// A reason may have lines of its own, so its length stands before it.
fn evicted(text: &str) -> Option<(EntryMark, &str)> {
    let (actor, text) = text.split_once('\n')?;
    let (length, text) = text.split_once('\n')?;
    let (reason, metadata) = text.split_at_checked(length.parse().ok()?)?;
    let mark = EntryMark::Evicted { actor: actor.into(), reason: reason.into() };
    Some((mark, metadata.strip_prefix('\n')?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Target;
    use crate::name::{Name, Namespace};

    #[test]
    fn an_eviction_tells_who_and_why() {
        let name = Name::new(&Namespace::default(), "n").unwrap();
        let eviction = Eviction::new(name, Target::All, "ann", "stuck\nfor hours").unwrap();
        let mut text = String::new();
        EntryMark::of(&eviction).write(&mut text);
        let (mark, metadata) = EntryMark::read(&text);
        assert_eq!((mark.and_then(EntryMark::loss), metadata), (Some(eviction.loss()), ""));
        assert_eq!(EntryMark::of(&eviction.asking()), EntryMark::Asked);
    }

    #[test]
    fn what_is_no_mark_is_a_card() {
        for text in ["", "host:1", "host:1\nmode=read", "__EVICT__\nann\n99\nwhy\n", "__CLOSED__"] {
            assert_eq!(EntryMark::read(text), (None, text));
        }
        assert_eq!(EntryMark::read("__REVOKE__"), (Some(EntryMark::Asked), ""));
    }
}
