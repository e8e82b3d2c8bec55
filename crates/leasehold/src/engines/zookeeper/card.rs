//! What a node says about itself: a label, and what else is known, a line each.
//!
//! Other software writes what it likes there: an address, nothing, or a word
//! that asks the holder to let go.

use std::sync::Arc;

use crate::claim::Mode;
use crate::engines::consensus::Card;

/// What Curator writes over a node to ask its holder for the lock.
const REVOKE: &[u8] = b"__REVOKE__";
/// A label of other software may be longer than ours can be.
const LABEL_MAX: usize = crate::claim::LABEL_MAX;

pub(super) fn write(card: &Card) -> Vec<u8> {
    let mut text = card.label.to_string();
    if let Some(Mode::Permits { take, of }) = card.mode {
        text.push_str(&format!("\nmode={take}/{of}"));
    }
    if let Some(meta) = &card.meta {
        text.push_str(&format!("\nmeta={meta}"));
    }
    text.into_bytes()
}

pub(super) fn read(bytes: &[u8]) -> Card {
    if bytes == REVOKE {
        return Card::default();
    }
    let text = String::from_utf8_lossy(bytes);
    let (label, rest) = text.split_once('\n').unwrap_or((&text, ""));
    // A meta text may have lines of its own, so it stands last.
    let (mode, meta) = match rest.split_once("meta=") {
        Some((mode, meta)) => (mode.trim_end(), Some(Arc::from(meta))),
        None => (rest, None),
    };
    Card { label: tidy(label), mode: mode.strip_prefix("mode=").and_then(permits), meta }
}

fn permits(text: &str) -> Option<Mode> {
    let (take, of) = text.trim_end().split_once('/')?;
    Some(Mode::Permits { take: take.parse().ok()?, of: of.parse().ok()? })
}

fn tidy(label: &str) -> Arc<str> {
    let clean = label.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(LABEL_MAX).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_come_back() {
        for mode in [None, Some(Mode::Permits { take: 3, of: 5 })] {
            for meta in [None, Some("why=x\nmode=1/1".into())] {
                let card = Card { label: "host:1".into(), mode, meta };
                assert_eq!(read(&write(&card)), card);
            }
        }
    }

    #[test]
    fn whatever_others_wrote_is_a_label_or_nothing() {
        assert_eq!(&*read(b"127.0.0.1").label, "127.0.0.1");
        assert_eq!(read(b""), Card::default());
        assert_eq!(read(b"__REVOKE__"), Card::default());
        assert_eq!(read(b"a\nmode=x/y\nb").mode, None);
        let _ = read(&[0xff, 0, b'\n', 0xfe]);
    }
}
