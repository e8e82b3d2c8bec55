//! Which keys a lock, a value and a tombstone have.

use std::fmt::Write as _;
use std::sync::Arc;

use super::proto::KeyValue;
use super::settings::KeyNames;
use super::txn::{end_of, fence};
use crate::claim::{LeaseId, Mode};
use crate::engines::consensus::{Metadata, QueueEntry, QueueId, QueuePart, RecordFormat};
use crate::error::{Error, Result};
use crate::name::{Name, Namespace};

pub(super) const DOOR: &str = "locks/";
pub(super) const PERMITS: &str = "leases/";
/// Where the marks of a line lie, below its keys: earlier releases take what they see
/// there for permits, and refuse the name. No lease is called like that.
pub(super) const MARKS: &str = "locks/~/";

/// Where everything lies.
#[derive(Clone, Debug)]
pub(super) struct EtcdKeys {
    root: String,
    names: KeyNames,
    records: RecordFormat,
}

/// What a key below a line's prefix is.
#[derive(Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "read off a key and taken apart at once")]
pub(super) enum KeyKind {
    QueueEntry(QueueEntry),
    /// The name is used for permits as well.
    Permits(Mode),
    /// It belongs to another name.
    Other,
    /// It is about a line, and no entry of it.
    Mark,
}

impl EtcdKeys {
    pub(super) const fn new(root: String, names: KeyNames, records: RecordFormat) -> Self {
        Self { root, names, records }
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// What says which layout the keys below the root have. No namespace has it.
    pub(super) fn layout(&self) -> String {
        format!("{}/layout", self.root)
    }

    /// All keys of ours but the tombstones, as ranges.
    pub(super) fn all_but_tombstones(&self) -> [(Vec<u8>, Vec<u8>); 2] {
        let all = format!("{}/", self.root);
        let tombstones = format!("{all}tombstones/");
        let (behind, end) = (end_of(&tombstones), end_of(&all));
        [(all.into_bytes(), tombstones.into_bytes()), (behind, end)]
    }

    pub(super) const fn names(&self) -> KeyNames {
        self.names
    }

    /// What all keys of a line begin with.
    pub(super) fn line(&self, line: &QueueId) -> Result<String> {
        let base = self.base(&line.name)?;
        Ok(match line.part {
            QueuePart::Queue => base,
            QueuePart::Door => base + DOOR,
            QueuePart::Permits => base + PERMITS,
        })
    }

    /// What all keys of a name's locks begin with.
    pub(super) fn base(&self, name: &Name) -> Result<String> {
        match self.names {
            KeyNames::Escaped => Ok(self.locks(name.namespace()) + &escape(name.as_str()) + "/"),
            KeyNames::Raw => {
                Self::check_raw("names", name.namespace())?;
                self.check_apart(name)?;
                Ok(format!("{name}/"))
            }
        }
    }

    /// Raw names share the store with everything else in it.
    fn check_raw(option: &str, namespace: &Namespace) -> Result<()> {
        if *namespace == Namespace::default() {
            return Ok(());
        }
        let message = "there are no namespaces; leave out ?namespace=";
        Err(Error::invalid(format!("with ?{option}=raw {message}")).with("namespace", namespace))
    }

    fn check_apart(&self, name: &Name) -> Result<()> {
        if !self.is_own(&format!("{name}/")) {
            return Ok(());
        }
        let message = "a raw name cannot lie below ?root=; choose another one of them";
        Err(Error::invalid(message).with("name", name))
    }

    /// Whether a key is one of ours, and none that others share.
    fn is_own(&self, key: &str) -> bool {
        key.strip_prefix(&self.root).is_some_and(|rest| rest.starts_with('/'))
    }

    /// The key of one claim in a line. It says how the name is taken: values may be
    /// written over, keys are what they are.
    pub(super) fn own(prefix: &str, lease: u64, id: LeaseId, mode: Mode) -> String {
        format!("{prefix}{lease:x}{}{}", word(mode), suffix(id))
    }

    /// Whoever finds it there has been given up, in this part.
    pub(super) fn tombstone(&self, part: QueuePart, id: LeaseId) -> String {
        let part = match part {
            QueuePart::Queue => "",
            QueuePart::Door => "-door",
            QueuePart::Permits => "-permits",
        };
        format!("{}/tombstones/{:032x}{part}", self.root, id.to_bits())
    }

    /// What the keys of all locks of a namespace begin with, if they are escaped.
    pub(super) fn locks(&self, namespace: &Namespace) -> String {
        format!("{}/{namespace}/locks/", self.root)
    }

    /// What the keys of all values of a namespace begin with.
    pub(super) fn records(&self, namespace: &Namespace) -> Result<String> {
        if self.records == RecordFormat::Own {
            return Ok(format!("{}/{namespace}/records/", self.root));
        }
        Self::check_raw("records", namespace)?;
        Ok(String::new())
    }

    pub(super) fn record(&self, name: &Name) -> Result<String> {
        if self.records == RecordFormat::Raw {
            self.check_apart(name)?;
        }
        Ok(self.records(name.namespace())? + name.as_str())
    }

    /// The name of the value with this key, where the keys of its namespace begin like
    /// that.
    pub(super) fn record_name(
        &self,
        namespace: &Namespace,
        records: &str,
        key: &[u8],
    ) -> Option<Name> {
        let text = str::from_utf8(key).ok()?.strip_prefix(records)?;
        let hidden = self.records == RecordFormat::Raw && self.is_own(text);
        Name::new(namespace, text).ok().filter(|_| !hidden)
    }

    /// Where values go on behind this key: past all of ours, if raw ones lie around them.
    pub(super) fn past_own(&self, key: Vec<u8>) -> Vec<u8> {
        let own = format!("{}/", self.root);
        match self.records == RecordFormat::Raw && key.starts_with(own.as_bytes()) {
            true => end_of(own),
            false => key,
        }
    }

    /// The name that a key of a lock belongs to.
    pub(super) fn name_of(&self, namespace: &Namespace, key: &str) -> Option<Name> {
        let text = match self.names {
            KeyNames::Escaped => {
                let rest = key.strip_prefix(&self.locks(namespace))?;
                unescape(rest.split_once('/')?.0)?
            }
            KeyNames::Raw => self.raw_name_of(key)?.to_owned(),
        };
        Name::new(namespace, text).ok()
    }

    /// Only keys that end in a lease: the rest of the store is not ours.
    fn raw_name_of<'a>(&self, key: &'a str) -> Option<&'a str> {
        let (name, last) = key.rsplit_once('/')?;
        let lease = last.split('-').next()?;
        let is_lease = u64::from_str_radix(lease, 16).is_ok();
        let part = |word: &str| name.strip_suffix(word.trim_end_matches('/'))?.strip_suffix('/');
        let name = part(DOOR).or_else(|| part(PERMITS)).unwrap_or(name);
        (is_lease && !self.is_own(key)).then_some(name)
    }
}

/// Whether a key is that of this claim, in whichever session.
pub(super) fn is_of(key: &[u8], id: LeaseId) -> bool {
    key.ends_with(suffix(id).as_bytes())
}

/// How a key says its mode. A mutex has nothing to say.
fn word(mode: Mode) -> String {
    match mode {
        Mode::Exclusive => String::new(),
        Mode::Read => "-r".into(),
        Mode::Write => "-w".into(),
        Mode::Permits { take, of } => format!("-{take}.{of}"),
    }
}

/// The mode that a key of ours says.
fn mode_of(key: &str) -> Option<Mode> {
    let (rest, _) = key.rsplit_once('-')?;
    let last = rest.rsplit('/').next().unwrap_or(rest);
    match last.split_once('-').map(|(_, word)| word) {
        None => Some(Mode::Exclusive),
        Some("r") => Some(Mode::Read),
        Some("w") => Some(Mode::Write),
        Some(counted) => {
            let (take, of) = counted.split_once('.')?;
            Some(Mode::Permits { take: take.parse().ok()?, of: of.parse().ok()? })
        }
    }
}

fn suffix(id: LeaseId) -> String {
    format!("-{:032x}", id.to_bits())
}

/// Reads a key below the prefix of a line.
pub(super) fn read(prefix: &str, part: QueuePart, key: &KeyValue) -> KeyKind {
    let Ok(text) = std::str::from_utf8(&key.key) else { return KeyKind::Other };
    let Some(rest) = text.strip_prefix(prefix) else { return KeyKind::Other };
    let counted = rest.starts_with(DOOR) || rest.starts_with(PERMITS);
    let is_entry = !rest.contains('/');
    match part {
        _ if is_entry => KeyKind::QueueEntry(entry(text.into(), part, key)),
        _ if is_mark(rest) => KeyKind::Mark,
        QueuePart::Queue if counted => KeyKind::Permits(mode(text, QueuePart::Permits, None)),
        _ => KeyKind::Other,
    }
}

/// Whether it is one of the marks of the line, or of another line of the name.
fn is_mark(rest: &str) -> bool {
    matches!(rest.trim_start_matches(DOOR), "~/tail" | "~/front")
}

/// An entry as its key shows it.
pub(super) fn shown(key: &Arc<str>, order: i64) -> QueueEntry {
    let (id, mode) = (id_of(key), mode_of(key).unwrap_or(Mode::Exclusive));
    let fence = Some(order.unsigned_abs());
    QueueEntry { key: Arc::clone(key), order, id, mode, fence, metadata: None, behind: None }
}

/// The lease of this key, if one of ours made it and takes the name alone.
pub(super) fn lone_lease(key: &str) -> Option<i64> {
    id_of(key).filter(|_| mode_of(key) == Some(Mode::Exclusive))?;
    let last = key.rsplit('/').next()?;
    u64::from_str_radix(last.split('-').next()?, 16).ok().map(u64::cast_signed)
}

/// What an entry says about itself.
pub(super) fn card_of(key: &KeyValue) -> Metadata {
    match std::str::from_utf8(&key.key).ok().and_then(id_of) {
        Some(_) => Metadata::read(&key.value),
        None => guess(&key.value, key.lease),
    }
}

/// The value of somebody else's, with the lease it lives on, as etcdctl writes it:
/// a mutex has an empty one, an election whatever its candidates propose.
fn guess(value: &[u8], lease: i64) -> Metadata {
    let metadata = Metadata::read(value);
    if metadata.label.is_empty() {
        Metadata { label: format!("lease {lease:016x}").into(), ..metadata }
    } else {
        metadata
    }
}

fn entry(whole: Arc<str>, part: QueuePart, key: &KeyValue) -> QueueEntry {
    let (id, metadata) = (id_of(&whole), card_of(key));
    let mode = mode(&whole, part, metadata.mode);
    let (order, fence) = (key.create_revision, Some(fence(key)));
    QueueEntry { key: whole, order, id, mode, fence, metadata: Some(metadata), behind: None }
}

/// How an entry takes its name: as its key says, which is the most it can be. Its
/// metadata can only say that it is less by now. Go's clients say nothing, and lock.
fn mode(key: &str, part: QueuePart, metadata: Option<Mode>) -> Mode {
    let told = id_of(key).and_then(|_| mode_of(key));
    match (part, told, metadata) {
        (QueuePart::Door, ..) => Mode::Exclusive,
        (QueuePart::Queue, Some(Mode::Write), Some(Mode::Read)) => Mode::Read,
        (QueuePart::Queue, Some(mode), _) => mode,
        (QueuePart::Queue, None, _) => Mode::Exclusive,
        (QueuePart::Permits, Some(mode @ Mode::Permits { .. }), _) => mode,
        (QueuePart::Permits, ..) => ALL,
    }
}

/// Of whoever stands among those who count permits and does not say how many it
/// has: more than there are.
const ALL: Mode = Mode::Permits { take: u32::MAX, of: 0 };

/// The claim that made a key, if one of ours did.
fn id_of(key: &str) -> Option<LeaseId> {
    let (_, id) = key.rsplit_once('-').filter(|(_, id)| id.len() == 32)?;
    u128::from_str_radix(id, 16).ok().map(LeaseId::from_bits)
}

/// A name as one segment of a key. What it begins with begins its escaped form.
pub(super) fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for c in name.chars() {
        // Writing to a String cannot fail.
        let _ = match c {
            '/' | '%' => write!(escaped, "%{:02X}", u32::from(c)),
            c => escaped.write_char(c),
        };
    }
    escaped
}

pub(super) fn unescape(segment: &str) -> Option<String> {
    crate::url::decode(segment).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(names: KeyNames) -> EtcdKeys {
        EtcdKeys::new("top/leasehold".into(), names, RecordFormat::Own)
    }

    fn name(text: &str) -> Name {
        Name::new(&Namespace::default(), text).unwrap()
    }

    fn line(text: &str, part: QueuePart) -> QueueId {
        QueueId { name: name(text), part }
    }

    fn stored(key: &str) -> KeyValue {
        KeyValue { key: key.into(), create_revision: 7, ..KeyValue::default() }
    }

    #[test]
    fn a_claim_has_one_key_in_each_line() {
        let id = LeaseId::random();
        for names in [KeyNames::Escaped, KeyNames::Raw] {
            for part in [QueuePart::Queue, QueuePart::Door, QueuePart::Permits] {
                let prefix = keys(names).line(&line("a/b", part)).unwrap();
                let mode = match part {
                    QueuePart::Queue => Mode::Write,
                    QueuePart::Door => Mode::Exclusive,
                    QueuePart::Permits => Mode::Permits { take: 3, of: 5 },
                };
                let own = EtcdKeys::own(&prefix, 0xabc, id, mode);
                assert!(is_of(own.as_bytes(), id));
                let KeyKind::QueueEntry(entry) = read(&prefix, part, &stored(&own)) else {
                    panic!("{own}")
                };
                assert_eq!((entry.id, entry.fence, entry.order), (Some(id), Some(7), 7));
                assert_eq!(entry.mode, mode, "{own}");
                assert_eq!(
                    keys(names).name_of(&Namespace::default(), &own),
                    Some(name("a/b")),
                    "{own}"
                );
            }
        }
    }

    /// What a release without marks does with each of them, in any line of the name:
    /// it refuses the name, or takes no notice, and grants it in neither case.
    #[test]
    fn marks_are_no_entries_and_look_like_permits_to_earlier_releases() {
        for part in [QueuePart::Queue, QueuePart::Door] {
            let base = keys(KeyNames::Escaped).base(&name("a")).unwrap();
            let prefix = keys(KeyNames::Escaped).line(&line("a", part)).unwrap();
            let mark = format!("{prefix}{MARKS}tail");
            assert!(mark[base.len()..].starts_with(DOOR), "{mark}");
            for part in [QueuePart::Queue, QueuePart::Door, QueuePart::Permits] {
                let prefix = keys(KeyNames::Escaped).line(&line("a", part)).unwrap();
                let found = read(&prefix, part, &stored(&mark));
                assert!(!matches!(found, KeyKind::QueueEntry(_) | KeyKind::Permits(_)), "{mark}");
            }
        }
    }

    #[test]
    fn a_guest_has_the_layout_of_go() {
        let prefix = keys(KeyNames::Raw).line(&line("a", QueuePart::Queue)).unwrap();
        assert_eq!(prefix, "a/");
        let KeyKind::QueueEntry(guest) = read(&prefix, QueuePart::Queue, &stored("a/694d8")) else {
            panic!()
        };
        assert_eq!((guest.id, guest.mode), (None, Mode::Exclusive));
        assert_eq!(read(&prefix, QueuePart::Queue, &stored("a/b/694d8")), KeyKind::Other);
        for key in ["a/leases/694d8", "a/locks/694d8"] {
            assert_eq!(read(&prefix, QueuePart::Queue, &stored(key)), KeyKind::Permits(ALL));
        }
    }

    #[test]
    fn what_is_written_over_a_value_changes_no_mode() {
        let prefix = "a/";
        let seen = |part, mode, value: &[u8]| {
            let key = stored(&EtcdKeys::own(prefix, 0xabc, LeaseId::random(), mode));
            match read(prefix, part, &KeyValue { value: value.into(), ..key }) {
                KeyKind::QueueEntry(entry) => entry.mode,
                found => panic!("{found:?}"),
            }
        };
        let permits = Mode::Permits { take: 5, of: 5 };
        for value in [&b""[..], b"__REVOKE__", b"x\nmode=1/5", b"x\nmode=exclusive", b"\xff"] {
            assert_eq!(seen(QueuePart::Queue, Mode::Write, value), Mode::Write);
            assert_eq!(seen(QueuePart::Queue, Mode::Read, value), Mode::Read);
            assert_eq!(seen(QueuePart::Queue, Mode::Exclusive, value), Mode::Exclusive);
            assert_eq!(seen(QueuePart::Permits, permits, value), permits);
        }
        assert_eq!(seen(QueuePart::Queue, Mode::Write, b"x\nmode=read"), Mode::Read, "a downgrade");
        assert_eq!(seen(QueuePart::Queue, Mode::Exclusive, b"x\nmode=read"), Mode::Exclusive);
        assert_eq!(seen(QueuePart::Permits, Mode::Read, b""), ALL, "whoever does not say");
    }

    #[test]
    fn raw_names_keep_away_from_our_own_keys() {
        let raw = keys(KeyNames::Raw);
        assert!(raw.base(&name("top/leasehold")).is_err());
        assert!(raw.base(&name("top/leasehold2")).is_ok());
        let elsewhere = Name::new(&Namespace::new("shop").unwrap(), "a").unwrap();
        assert!(raw.base(&elsewhere).is_err());
        assert_eq!(raw.name_of(&Namespace::default(), "top/leasehold/tombstones/12"), None);
        assert_eq!(raw.name_of(&Namespace::default(), "config/host"), None);
    }

    #[test]
    fn a_raw_record_is_the_key_of_its_name() {
        let raw = EtcdKeys::new("top/own".into(), KeyNames::Escaped, RecordFormat::Raw);
        assert_eq!(raw.record(&name("shop/price")).unwrap(), "shop/price");
        for ours in ["top/own", "top/own/layout"] {
            assert!(raw.record(&name(ours)).is_err(), "{ours}");
        }
        let elsewhere = Namespace::new("shop").unwrap();
        assert!(raw.records(&elsewhere).is_err());
        let named = |key: &[u8]| raw.record_name(&Namespace::default(), "", key);
        assert_eq!(named(b"top/own2"), Some(name("top/own2")));
        assert_eq!((named(b"top/own/layout"), named(b"\xff"), named(b"")), (None, None, None));
        let past = |key: &str| raw.past_own(key.into());
        assert_eq!(
            (past("top/own/x"), past("top/own2")),
            (b"top/own0".to_vec(), b"top/own2".to_vec())
        );
    }

    proptest! {
        #[test]
        fn no_name_is_part_of_another(a in "[a/%]{1,6}", b in "[a/%]{1,6}") {
            let base = |text: &str| keys(KeyNames::Escaped).base(&name(text)).unwrap();
            prop_assert_eq!(a == b, base(&a).starts_with(&base(&b)));
        }

        #[test]
        fn escaped_names_come_back(text in "\\PC{1,20}") {
            prop_assert_eq!(unescape(&escape(&text)), Some(text));
        }
    }

    #[test]
    fn a_stranger_is_named_by_its_lease_with_all_its_zeros() {
        assert_eq!(&*guess(b"", 0x0838_a1e1_ea94_8809).label, "lease 0838a1e1ea948809");
        assert_eq!(&*guess(b"candidate", 1).label, "candidate");
    }
}
