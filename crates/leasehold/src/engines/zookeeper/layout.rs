//! Names, paths and node names: those of Curator.

use super::paths::{dotless, escape, is_path, unescape};
use super::placed_child::{PlacedChild, around, unwrap};
use super::settings::{ElectionLayout, PathNames, ZkSettings};
use super::stored::{Stored, packed};
use super::wire::Stat;
use crate::claim::{LeaseId, Mode};
use crate::engines::consensus::{Newcomer, QueueEntry, QueueId, QueuePart, RecordFormat};
use crate::error::{Error, Result};
use crate::name::{Name, Namespace};

/// What stands before the number in a node's name.
const READ: &str = "__READ__";
const WRITE: &str = "__WRIT__";
const LEASE: &str = "lease-";
const LOCK: &str = "lock-";
const LATCH: &str = "latch-";
/// The two lines of a semaphore, below its path.
pub(super) const LOCKS: &str = "locks";
pub(super) const LEASES: &str = "leases";
/// How long `_c_<uuid>-` is.
const PREFIX: usize = 40;

#[derive(Clone, Debug)]
pub(super) struct PathLayout {
    chroot: String,
    /// Chroot and root.
    top: String,
    names: PathNames,
    records: RecordFormat,
    word: String,
    /// What stands before the number of a candidacy.
    election: String,
}

impl PathLayout {
    pub(super) fn new(settings: &ZkSettings) -> Self {
        Self {
            chroot: settings.chroot.clone(),
            top: format!("{}{}", settings.chroot, settings.root),
            names: settings.names,
            records: settings.records,
            word: settings.word.clone(),
            election: election(settings),
        }
    }

    /// Where the claims on a name are.
    pub(super) fn base(&self, name: &Name) -> Result<String> {
        match self.names {
            PathNames::Escaped => {
                Ok(format!("{}/{}", self.names_of(name.namespace())?, escape(name.as_str())))
            }
            PathNames::Raw => self.raw("names", name),
        }
    }

    fn raw(&self, option: &str, name: &Name) -> Result<String> {
        check_namespace(option, name.namespace())?;
        if !is_path(name.as_str()) {
            return Err(no_path(option).with("name", name));
        }
        Ok(self.path(name.as_str()))
    }

    /// Where the node of a raw name is.
    pub(super) fn path(&self, name: &str) -> String {
        match format!("{}{name}", self.chroot) {
            top if top.is_empty() => "/".into(),
            path => path,
        }
    }

    /// The raw name of our own root.
    pub(super) fn own_name(&self) -> &str {
        &self.top[self.chroot.len()..]
    }

    /// Whether a raw name is that of a node of ours, and none that others share.
    pub(super) fn is_own(&self, name: &str) -> bool {
        let rest = name.strip_prefix(self.own_name());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    pub(super) const fn records(&self) -> RecordFormat {
        self.records
    }

    /// Refuses the beginning of raw names that no path begins with.
    pub(super) fn check_path(namespace: &Namespace, root: &str) -> Result<()> {
        check_namespace("records", namespace)?;
        match root.strip_suffix('/').unwrap_or(root) {
            "" => Ok(()),
            path if is_path(path) => Ok(()),
            _ => Err(no_path("records").with("path", root)),
        }
    }

    /// What is followed for values whose names begin like this: all of them lie there.
    pub(super) fn followed(&self, namespace: &Namespace, prefix: &str) -> Result<String> {
        match self.records {
            RecordFormat::Own => Ok(self.values_of(namespace)),
            RecordFormat::Raw => {
                Self::check_path(namespace, prefix)?;
                Ok(self.path(prefix.trim_end_matches('/')))
            }
        }
    }

    /// The name of the value in this node, if it is one.
    pub(super) fn value_name(&self, namespace: &Namespace, path: &str) -> Option<Name> {
        match self.records {
            RecordFormat::Own => {
                let segment = path.strip_prefix(&self.values_of(namespace))?.strip_prefix('/')?;
                unescape(namespace, segment)
            }
            RecordFormat::Raw => {
                let text = path.strip_prefix(&self.chroot)?;
                let name = Name::new(namespace, text).ok()?;
                (text != "/" && !self.is_own(text)).then_some(name)
            }
        }
    }

    /// What lies in the node of a value.
    pub(super) fn stored(&self, bytes: Vec<u8>, stat: Stat) -> Stored {
        match self.records {
            RecordFormat::Own => Stored::read(bytes, stat),
            RecordFormat::Raw => Stored::raw(bytes, stat),
        }
    }

    /// The bytes of a value that is there until then.
    pub(super) fn packed(&self, until: i64, bytes: &[u8]) -> Vec<u8> {
        match self.records {
            RecordFormat::Own => packed(until, bytes),
            RecordFormat::Raw => bytes.to_vec(),
        }
    }

    /// Where the names of a namespace are.
    pub(super) fn names_of(&self, namespace: &Namespace) -> Result<String> {
        match self.names {
            PathNames::Escaped => Ok(format!("{}/{}/locks", self.top, dotless(namespace.as_str()))),
            PathNames::Raw => Err(Error::invalid("with ?names=raw names cannot be listed")),
        }
    }

    /// Where the values of a namespace are.
    pub(super) fn values_of(&self, namespace: &Namespace) -> String {
        format!("{}/{}/records", self.top, dotless(namespace.as_str()))
    }

    /// Chroot and root: what all of ours lies below.
    pub(super) fn root(&self) -> &str {
        &self.top
    }

    /// What says which layout the nodes below the root have.
    pub(super) fn version(&self) -> String {
        format!("{}/layout", self.top)
    }

    /// A node to write in order to learn the leader's time.
    pub(super) fn clock(&self) -> String {
        format!("{}/clock", self.top)
    }

    pub(super) fn value(&self, name: &Name) -> Result<String> {
        match self.records {
            RecordFormat::Own => {
                Ok(format!("{}/{}", self.values_of(name.namespace()), escape(name.as_str())))
            }
            RecordFormat::Raw if self.is_own(name.as_str()) => {
                let message = "a record cannot lie below ?root=; choose another one of them";
                Err(Error::invalid(message).with("name", name))
            }
            RecordFormat::Raw => self.raw("records", name),
        }
    }

    /// Where the entries of a line are.
    pub(super) fn line(&self, line: &QueueId) -> Result<String> {
        let base = self.base(&line.name)?;
        Ok(match line.part {
            QueuePart::Queue => base,
            QueuePart::Door => format!("{base}/{LOCKS}"),
            QueuePart::Permits => format!("{base}/{LEASES}"),
        })
    }

    /// What a new node is called, before the server adds its number.
    pub(super) fn node(&self, part: QueuePart, newcomer: &Newcomer) -> String {
        let word = match (part, newcomer.mode) {
            (QueuePart::Queue, Mode::Read) => READ,
            (QueuePart::Queue, Mode::Write) => WRITE,
            (QueuePart::Queue, _) if newcomer.candidate => &self.election,
            (QueuePart::Queue, _) => &self.word,
            (QueuePart::Door, _) => LOCK,
            (QueuePart::Permits, _) => LEASE,
        };
        format!("{}{word}", prefix(newcomer.id))
    }

    /// The entries among the children of a line's path, in order.
    pub(super) fn entries(
        &self,
        part: QueuePart,
        path: &str,
        children: &[String],
    ) -> Vec<QueueEntry> {
        let mut placed = self.placed(part, children);
        placed.sort_by_key(PlacedChild::rank);
        placed.iter().map(|child| entry(path, child)).collect()
    }

    /// Those of them that one of them has to know of. The others are looked at and no
    /// more: it is thousands who list a line of thousands.
    pub(super) fn around(
        &self,
        part: QueuePart,
        path: &str,
        children: &[String],
        mine: &str,
    ) -> Vec<QueueEntry> {
        let name = mine.rsplit_once('/').map_or(mine, |(_, name)| name);
        let near = around(&self.placed(part, children), name);
        near.iter().map(|child| entry(path, child)).collect()
    }

    /// Who is in line, and where, in no order.
    fn placed<'a>(&self, part: QueuePart, children: &'a [String]) -> Vec<PlacedChild<'a>> {
        let folder = |child: &str| part == QueuePart::Queue && [LOCKS, LEASES].contains(&child);
        let placed = children.iter().filter(|child| !folder(child)).map(|child| {
            let (mode, order) = self.place(part, child);
            PlacedChild { order, name: child, mode }
        });
        let mut placed: Vec<_> = placed.collect();
        unwrap(&mut placed);
        placed
    }

    pub(super) fn entry(&self, part: QueuePart, path: &str, child: &str) -> QueueEntry {
        let (mode, order) = self.place(part, child);
        entry(path, &PlacedChild { order, name: child, mode })
    }

    /// How a child takes the name, and its place.
    fn place(&self, part: QueuePart, child: &str) -> (Mode, i64) {
        let words: &[(&str, Mode)] = match part {
            QueuePart::Queue => &[
                (READ, Mode::Read),
                (WRITE, Mode::Write),
                (&self.word, Mode::Exclusive),
                (&self.election, Mode::Exclusive),
            ],
            QueuePart::Door => &[(LOCK, Mode::Exclusive)],
            QueuePart::Permits => &[(LEASE, Mode::Permits { take: 1, of: 0 })],
        };
        let found = words.iter().find_map(|(word, mode)| Some((*mode, number(child, word)?)));
        found.unwrap_or_else(|| (words.last().map_or(Mode::Exclusive, |last| last.1), odd(child)))
    }
}

fn check_namespace(option: &str, namespace: &Namespace) -> Result<()> {
    if *namespace == Namespace::default() {
        return Ok(());
    }
    let message = format!("with ?{option}=raw there is no namespace: a name is a path");
    Err(Error::invalid(message).with("namespace", namespace))
}

fn no_path(option: &str) -> Error {
    Error::invalid(format!("with ?{option}=raw a name is a path such as /apps/job"))
}

/// Only where paths are shared do candidates have a word of their own.
fn election(settings: &ZkSettings) -> String {
    match (settings.names, settings.election) {
        (PathNames::Escaped, _) => settings.word.clone(),
        (PathNames::Raw, ElectionLayout::Latch) => LATCH.into(),
        (PathNames::Raw, ElectionLayout::Selector) => LOCK.into(),
    }
}

/// The name of the node for reading that takes the place of one for writing.
pub(super) fn downgraded(key: &str) -> Option<String> {
    let (before, number) = key.rsplit_once(WRITE)?;
    Some(format!("{before}{READ}{number}"))
}

pub(super) fn sort(entries: &mut [QueueEntry]) {
    entries.sort_by(|a, b| (a.order, &a.key).cmp(&(b.order, &b.key)));
}

fn entry(path: &str, child: &PlacedChild<'_>) -> QueueEntry {
    let (order, id, mode) = (child.order, owner(child.name), child.mode);
    let key = format!("{path}/{}", child.name).into();
    QueueEntry { key, order, id, mode, fence: None, metadata: None, behind: None }
}

/// What the nodes of a lease begin with.
pub(super) fn prefix(id: LeaseId) -> String {
    format!("_c_{}-", id.to_uuid())
}

/// Whose a node is, if its name says so.
fn owner(child: &str) -> Option<LeaseId> {
    let prefix = child.get(..PREFIX)?.strip_prefix("_c_")?.strip_suffix('-')?;
    LeaseId::from_uuid(prefix).filter(|id| id.to_uuid() == prefix)
}

/// The number after the last occurrence of `word`. The server counts in 32 bits.
fn number(child: &str, word: &str) -> Option<i64> {
    let (_, number) = child.rsplit_once(word)?;
    number.parse::<i32>().ok().map(i64::from)
}

/// The place of what has no number: before or behind all others, as texts are
/// compared by those we share the line with.
fn odd(child: &str) -> i64 {
    if child.as_bytes() < b"0".as_slice() { i64::MIN } else { i64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Wants;
    use crate::engines::consensus::Metadata;
    use crate::url::Url;

    fn layout(options: &str) -> PathLayout {
        let url = Url::parse(&format!("zookeeper://a/c{options}")).unwrap();
        PathLayout::new(&ZkSettings::from_url(&url).unwrap())
    }

    fn name(text: &str) -> Name {
        Name::new(&Namespace::default(), text).unwrap()
    }

    #[test]
    fn names_are_one_segment_or_a_path() {
        let base = |options, text| layout(options).base(&name(text));
        assert_eq!(base("", "order/42").unwrap(), "/c/leasehold/default/locks/order%2F42");
        assert_eq!(base("", "..").unwrap(), "/c/leasehold/default/locks/%2E%2E");
        assert_eq!(base("?names=raw", "/apps/job").unwrap(), "/c/apps/job");
        assert!(base("?names=raw", "job").is_err());
        assert!(base("?names=raw", "/a//b").is_err());
    }

    fn newcomer(id: LeaseId, candidate: bool) -> Newcomer {
        Newcomer {
            id,
            mode: Mode::Exclusive,
            metadata: Metadata::default(),
            only_if_empty: false,
            again: false,
            wants: Wants::Lease,
            candidate,
        }
    }

    #[test]
    fn a_raw_record_is_the_node_of_its_name() {
        let (layout, space) = (layout("?records=raw&root=/own"), Namespace::default());
        assert_eq!(layout.value(&name("/shop/price")).unwrap(), "/c/shop/price");
        for bad in ["price", "/shop/", "/a//b", "/own", "/own/layout", "/"] {
            assert!(layout.value(&name(bad)).is_err(), "{bad}");
        }
        let named = |path: &str| layout.value_name(&space, path);
        assert_eq!(named("/c/shop/price"), Some(name("/shop/price")));
        assert_eq!(named("/c/own2"), Some(name("/own2")));
        assert_eq!((named("/c/own/layout"), named("/c"), named("/x")), (None, None, None));
        let followed = |prefix: &str| layout.followed(&space, prefix).ok();
        assert_eq!(followed("/shop/").as_deref(), Some("/c/shop"));
        assert_eq!(followed("").as_deref(), Some("/c"));
        assert_eq!(followed("shop"), None);
    }

    #[test]
    fn a_candidacy_has_a_node_of_its_kind_where_paths_are_shared() {
        let id = LeaseId::random();
        for (options, lock, election) in [
            ("", "lock-", "lock-"),
            ("?names=raw", "lock-", "latch-"),
            ("?names=raw&election=selector&lock=seq-", "seq-", "lock-"),
        ] {
            let layout = layout(options);
            for (candidate, word) in [(false, lock), (true, election)] {
                let node = layout.node(QueuePart::Queue, &newcomer(id, candidate));
                assert_eq!(node, format!("{}{word}", prefix(id)), "{options}");
                let children = [format!("{node}0000000007")];
                let line = layout.entries(QueuePart::Queue, "/n", &children);
                assert_eq!((line[0].order, line[0].id), (7, Some(id)), "{options}");
            }
        }
    }

    #[test]
    fn nodes_stand_in_the_order_of_their_numbers() {
        let layout = layout("");
        let id = LeaseId::random();
        let ours = format!("{}0000000003", layout.node(QueuePart::Queue, &newcomer(id, false)));
        let children = [
            "locks".into(),
            "_c_x-lock-0000000010".into(),
            "zebra".into(),
            ours.clone(),
            "_c_y-__WRIT__0000000001".into(),
            "a-lock-b-lock--2147483648".into(),
            "!first".into(),
        ];
        let line = layout.entries(QueuePart::Queue, "/b", &children);
        let seen: Vec<_> = line.iter().map(|entry| (entry.order, entry.mode)).collect();
        assert_eq!(
            seen,
            [
                (i64::MIN, Mode::Exclusive),
                (-2_147_483_648, Mode::Exclusive),
                (1, Mode::Write),
                (3, Mode::Exclusive),
                (10, Mode::Exclusive),
                (i64::MAX, Mode::Exclusive),
            ]
        );
        assert_eq!((line[3].id, &*line[3].key), (Some(id), format!("/b/{ours}").as_str()));
        assert!(line[4].id.is_none());
    }

    #[test]
    fn who_comes_after_the_largest_number_stands_behind_it() {
        let children =
            ["a-lock--2147483648", "b-lock-2147483646", "c-lock-2147483647", "d-lock--2147483647"];
        let children = children.map(str::to_owned);
        let line = layout("").entries(QueuePart::Queue, "/n", &children);
        let keys: Vec<_> = line.iter().map(|entry| &entry.key[3..4]).collect();
        assert_eq!(keys, ["b", "c", "a", "d"]);
        let later =
            layout("").entries(QueuePart::Queue, "/n", &["x-lock--5".into(), "y-lock-3".into()]);
        assert!(later[0].key.starts_with("/n/x"), "they are far from the turn");
    }

    fn around(children: &[String], mine: &str) -> Vec<String> {
        let near = layout("").around(QueuePart::Queue, "/n", children, &format!("/n/{mine}"));
        near.iter().map(|entry| entry.key["/n/".len()..].to_owned()).collect()
    }

    /// It does not grow with the line.
    #[test]
    fn of_a_line_as_much_is_told_as_matters_to_one_in_it() {
        let mut line: Vec<String> = (0..1000).map(|at| format!("x-lock-{at:010}")).collect();
        line.reverse();
        let own = |at: u32| format!("x-lock-{at:010}");
        assert_eq!(around(&line, &own(700)), [own(0), own(699), own(700)]);
        assert_eq!(around(&line, &own(1)), [own(0), own(1)]);
        assert_eq!(around(&line, &own(0)), [own(0)]);
        assert!(around(&line, "x-lock-0000001000").is_empty(), "it is not in line");
        line.extend(["locks".into(), "!odd".into(), "zebra".into()]);
        assert_eq!(around(&line, &own(700))[0], "!odd");
        line.extend(["b-__WRIT__0000000007".into(), "b-__READ__0000000008".into()]);
        let near = around(&line, &own(700));
        let near: Vec<_> = near.iter().map(String::as_str).collect();
        assert_eq!(
            near,
            ["!odd", "b-__WRIT__0000000007", "b-__READ__0000000008", &own(699), &own(700)]
        );
    }

    #[test]
    fn a_reader_takes_the_place_of_the_writer_it_was() {
        let key = "/a/_c_u-__WRIT__0000000007";
        assert_eq!(downgraded(key).unwrap(), "/a/_c_u-__READ__0000000007");
        assert_eq!(downgraded("/a/_c_u-lock-0000000007"), None);
    }
}
