//! What an entry says about itself: a label, and a line for whatever else is
//! known. Other software writes what it likes: an address, nothing, or a word
//! that asks the holder to let go.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::mark::EntryMark;
use crate::claim::{Claim, LABEL_MAX, Mode};
use crate::clock::wall_micros;

/// For people and for `inspect`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::engines) struct Metadata {
    /// What somebody has written before it.
    pub(in crate::engines) mark: Option<EntryMark>,
    pub(in crate::engines) label: Arc<str>,
    /// How it takes the name, if it says so.
    pub(in crate::engines) mode: Option<Mode>,
    /// When it joined, in microseconds since 1970 by the calendar of its host.
    pub(in crate::engines) since: Option<u64>,
    pub(in crate::engines) meta: Option<Arc<str>>,
    /// All that is written, where it is no metadata of ours: other software reads it,
    /// and finds nothing beside it.
    pub(in crate::engines) bare: Option<Arc<[u8]>>,
}

impl Metadata {
    /// The metadata of a claim, which takes the name in this way; `bare` if a candidacy
    /// writes what it proposes, and nothing else.
    pub(super) fn of(claim: &Claim, way: Mode, bare: bool) -> Self {
        let (label, since) = (claim.owner.label().into(), Some(wall_micros()));
        let bare = claim.candidate.clone().filter(|_| bare);
        Self { mark: None, label, mode: Some(way), since, meta: claim.meta.clone(), bare }
    }

    /// The same, with this before it.
    pub(super) fn marked(&self, mark: EntryMark) -> Self {
        Self { mark: Some(mark), ..self.clone() }
    }

    pub(in crate::engines) fn write(&self) -> Vec<u8> {
        let mut text = String::new();
        if let Some(mark) = &self.mark {
            mark.write(&mut text);
        }
        if let Some(bare) = &self.bare {
            return [text.as_bytes(), bare].concat();
        }
        text.push_str(&self.label);
        // Writing to a String cannot fail.
        let _ = match self.mode {
            None => Ok(()),
            Some(Mode::Permits { take, of }) => write!(text, "\nmode={take}/{of}"),
            Some(mode) => write!(text, "\nmode={mode}"),
        };
        if let Some(since) = self.since {
            let _ = write!(text, "\nsince={since}");
        }
        // It may have lines of its own, so it stands last.
        if let Some(meta) = &self.meta {
            let _ = write!(text, "\nmeta={meta}");
        }
        text.into_bytes()
    }

    /// Never fails: what cannot be understood is a label, or nothing.
    pub(in crate::engines) fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (mark, rest) = EntryMark::read(&text);
        // A mark is ours, and has no byte that cannot be read.
        let bare = bytes.get(text.len() - rest.len()..).filter(|bare| !bare.is_empty());
        let metadata = Self { mark, ..Self::read_text(rest) };
        match (metadata.mode, metadata.since) {
            (None, None) => Self { bare: bare.map(Arc::from), ..metadata },
            _ => metadata,
        }
    }

    fn read_text(text: &str) -> Self {
        let (text, meta) = match text.split_once("\nmeta=") {
            Some((text, meta)) => (text, Some(meta.into())),
            None => (text, None),
        };
        let mut lines = text.split('\n');
        let label = tidy(lines.next().unwrap_or_default());
        let mut metadata = Self { label, meta, ..Self::default() };
        lines.for_each(|line| metadata.add(line));
        metadata
    }

    fn add(&mut self, line: &str) {
        match line.split_once('=') {
            Some(("mode", word)) => self.mode = mode(word),
            Some(("since", micros)) => self.since = micros.parse().ok(),
            _ => {}
        }
    }

    /// How long ago it joined.
    pub(super) fn age(&self) -> Option<Duration> {
        self.since.map(|since| Duration::from_micros(wall_micros().saturating_sub(since)))
    }
}

fn mode(word: &str) -> Option<Mode> {
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

/// A label of other software may be longer than ours can be.
fn tidy(label: &str) -> Arc<str> {
    let clean = label.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(LABEL_MAX).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Owner, Ticket};
    use crate::name::{Name, Namespace};

    #[test]
    fn a_card_comes_back() {
        let modes = [Mode::Exclusive, Mode::Read, Mode::Write, Mode::Permits { take: 3, of: 5 }];
        for mode in modes.map(Some).into_iter().chain([None]) {
            for meta in [None, Some("two\nlines, mode=read".into())] {
                let label = "host:1/a mode=x".into();
                let metadata =
                    Metadata { label, mode, since: Some(7), meta, ..Metadata::default() };
                let reason = "why\nmode=read".into();
                let evicted = metadata.marked(EntryMark::Evicted { actor: "ann".into(), reason });
                let closed = metadata.marked(EntryMark::Closed { until: 7 });
                for metadata in [metadata.marked(EntryMark::Asked), evicted, closed, metadata] {
                    assert_eq!(Metadata::read(&metadata.write()), metadata);
                }
            }
        }
    }

    #[test]
    fn what_a_candidate_proposes_is_written_as_it_is() {
        let name = Name::new(&Namespace::default(), "n").unwrap();
        let ticket = Ticket::new(name, Mode::Exclusive);
        let mut claim = Claim::new(ticket, Owner::new("me"), Duration::from_secs(1));
        for value in [&b"10.0.0.1:80"[..], b"", b"{\n\"a\": 1\n}", b"\xff\0\nmeta=x\xfe"] {
            claim.candidate = Some(value.into());
            let bare = Metadata::of(&claim, Mode::Exclusive, true);
            assert_eq!(bare.write(), value);
            assert_ne!(Metadata::of(&claim, Mode::Exclusive, false).write(), value);
            let (actor, reason) = ("ann".into(), "why\nnot".into());
            let evicted = EntryMark::Evicted { actor, reason };
            let marked = Metadata::read(&Metadata::read(value).marked(evicted.clone()).write());
            assert_eq!(marked.mark, Some(evicted));
            assert_eq!(Metadata { mark: None, ..marked }.write(), value, "a word changes nothing");
        }
    }

    #[test]
    fn whatever_others_wrote_is_a_label_or_nothing() {
        assert_eq!(&*Metadata::read(b"127.0.0.1").label, "127.0.0.1");
        assert_eq!(Metadata::read(b""), Metadata::default());
        let asked = Metadata::default().marked(EntryMark::Asked);
        assert_eq!(Metadata::read(b"__REVOKE__"), asked);
        assert_eq!(Metadata::read(b"a\nmode=x/y\nb").mode, None);
        let _ = Metadata::read(&[0xff, 0, b'\n', 0xfe]);
    }
}
