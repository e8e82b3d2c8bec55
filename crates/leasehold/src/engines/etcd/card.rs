//! What an entry says about itself, as its value.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::claim::{LABEL_MAX, Mode};
use crate::engines::consensus::Card;

/// A line with the label, one with the mode, and the meta text after it.
pub(super) fn write(card: &Card) -> Vec<u8> {
    let mut text = card.label.to_string();
    // Writing to a String cannot fail.
    let _ = match card.mode {
        None => Ok(()),
        Some(Mode::Permits { take, of }) => write!(text, "\nmode={take}/{of}"),
        Some(mode) => write!(text, "\nmode={mode}"),
    };
    if let Some(meta) = &card.meta {
        let _ = write!(text, "\nmeta={meta}");
    }
    text.into_bytes()
}

/// The value of one of our entries.
pub(super) fn read(value: &[u8]) -> Card {
    let text = String::from_utf8_lossy(value);
    let (text, meta) = match text.split_once("\nmeta=") {
        Some((text, meta)) => (text, Some(meta.into())),
        None => (&*text, None),
    };
    let (label, mode) = text.split_once("\nmode=").unwrap_or((text, ""));
    Card { label: label.into(), mode: mode_of(mode), meta }
}

/// The value of somebody else's, with the lease it lives on: a mutex has an empty
/// one, an election whatever its candidates propose.
pub(super) fn guess(value: &[u8], lease: i64) -> Card {
    let text = String::from_utf8_lossy(value);
    let text: String = text.chars().take(LABEL_MAX).filter(|c| !c.is_control()).collect();
    let label: Arc<str> = if text.is_empty() { format!("lease {lease:x}") } else { text }.into();
    Card { label, mode: None, meta: None }
}

fn mode_of(word: &str) -> Option<Mode> {
    match word {
        "exclusive" => Some(Mode::Exclusive),
        "read" => Some(Mode::Read),
        "write" => Some(Mode::Write),
        counted => {
            let (take, of) = counted.split_once('/')?;
            Some(Mode::Permits { take: take.parse().ok()?, of: of.parse().ok()? })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_comes_back() {
        let modes = [Mode::Exclusive, Mode::Read, Mode::Write, Mode::Permits { take: 3, of: 5 }];
        for mode in modes.map(Some).into_iter().chain([None]) {
            for meta in [None, Some("two\nlines, mode=read".into())] {
                let card = Card { label: "host:1/a mode=x".into(), mode, meta };
                assert_eq!(read(&write(&card)), card);
            }
        }
    }

    #[test]
    fn a_guest_is_called_by_what_it_says_or_by_its_lease() {
        assert_eq!(&*guess(b"", 0x1f).label, "lease 1f");
        assert_eq!(&*guess(b"me\n\xff", 1).label, "me\u{fffd}");
    }
}
