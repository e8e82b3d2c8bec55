//! The optimistic half: versioned values beside the leases.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use super::{BoxFuture, Page};
use crate::claim::{RawRecord, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::name::{Name, Namespace};

/// The most records of one page.
pub const PAGE_MAX: usize = 1000;
/// A page ends once its values have this many bytes together.
pub(crate) const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Which records to list or watch: one, or those below a path.
///
/// Names are paths of segments with `/` between them. A record is *below* a
/// path if its name goes on after it with a slash; how deep is the number of
/// segments that follow. `a/b` and `a/` (an empty segment) are one below `a`,
/// `a/b/c` is two below; `ab` and `a` itself are not below it. The empty path
/// is above everything. A slash at the end of a path changes nothing.
///
/// ```
/// use leasehold::engine::Scope;
/// use leasehold::{Name, Namespace};
///
/// let space = Namespace::default();
/// let children = Scope::below(&space, "a", 1);
/// let covers = |text: &str| children.covers(&Name::new(&space, text).unwrap());
/// assert!(covers("a/b") && covers("a/"));
/// assert!(!covers("a") && !covers("ab") && !covers("a/b/c"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    namespace: Namespace,
    /// The name itself, or what all names start with.
    root: Arc<str>,
    depth: usize,
}

impl Scope {
    /// This record alone.
    #[must_use]
    pub fn name(name: &Name) -> Self {
        Self { namespace: name.namespace().clone(), root: name.as_str().into(), depth: 0 }
    }

    /// The records below `path`, at most `depth` segments deep: 1 for direct
    /// children, `usize::MAX` for all, 0 for the record at the path itself.
    #[must_use]
    pub fn below(namespace: &Namespace, path: &str, depth: usize) -> Self {
        let closed = depth == 0 || path.is_empty() || path.ends_with('/');
        let root = if closed { path.into() } else { format!("{path}/").into() };
        Self { namespace: namespace.clone(), root, depth }
    }

    /// Where its records live.
    #[must_use]
    pub const fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// What all names in scope start with; at depth 0, the name.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// How many segments below the root.
    #[must_use]
    pub const fn depth(&self) -> usize {
        self.depth
    }

    /// Whether a record is in scope.
    #[must_use]
    pub fn covers(&self, name: &Name) -> bool {
        *name.namespace() == self.namespace && self.reaches(name.as_str())
    }

    /// Whether a name, or the last slash of a path, lies deep enough and not too deep.
    pub(crate) fn reaches(&self, text: &str) -> bool {
        match text.strip_prefix(&*self.root) {
            Some(rest) if self.depth == 0 => rest.is_empty(),
            Some(rest) => rest.bytes().filter(|byte| *byte == b'/').count() < self.depth,
            None => false,
        }
    }

    /// Where a walk in byte order goes from `text`, which starts with the root:
    /// `None` if it is in scope, otherwise past everything that is too deep.
    pub(crate) fn leap(&self, text: &str) -> Option<String> {
        if self.reaches(text) {
            return None;
        }
        let rest = &text[self.root.len()..];
        let slash = rest.match_indices('/').nth(self.depth.saturating_sub(1));
        let end = self.root.len() + slash.map_or(rest.len(), |(at, _)| at);
        // What begins with the text and a slash ends before the text and a 0.
        Some(format!("{}0", &text[..end]))
    }
}

/// One page of records, by name in byte order.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RecordListing {
    /// The records of this page.
    pub records: Vec<(Name, RawRecord)>,
    /// Whether more may follow.
    pub more: bool,
}

impl RecordListing {
    /// A page.
    #[must_use]
    pub const fn new(records: Vec<(Name, RawRecord)>, more: bool) -> Self {
        Self { records, more }
    }
}

/// A change of a watched record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordEvent {
    /// It has a new value.
    Stored(Name, RawRecord),
    /// It was deleted, its time was up, or the lease it was bound to ended; and
    /// the version of that. It is larger than the version of the value that went:
    /// nothing of this name with this version or a smaller one is there any more,
    /// and whatever is stored later has a larger one. Who has read a larger one
    /// already leaves the deletion out.
    Deleted(Name, u64),
    /// Changes may have been missed: load again.
    Resync,
}

/// Changes of watched records, those of each record in the order they were made:
/// each of them, or a [`RecordEvent::Resync`] in place of those that are missing.
/// Two records that live on two servers have no common order.
pub trait RecordEvents: Debug + Send {
    /// The next change; `None` once the engine is closed. May be dropped at
    /// any point: what it has not returned comes with the next call.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<RecordEvent>> + Send + '_>>;
}

/// Versioned values under names, for optimistic updates and for what recipes
/// have to remember.
///
/// A record and a lease may have the same name and do not know of each other.
/// Every change of a record, its end included, draws a version larger than all
/// before in its namespace; in a Redis cluster, in the part of it that one server
/// keeps, which a record does not leave.
///
/// # Cancel safety
///
/// A future that has begun is driven to its end, as those of an
/// [`Engine`](crate::Engine) are.
pub trait RecordStore: Debug + Send + Sync {
    /// The value and version of one name. What has expired, or was bound to a
    /// lease that has ended, is not there.
    fn load(&self, name: Name) -> BoxFuture<Result<Option<RawRecord>>>;

    /// Writes if the expectation holds: `Ok(Ok(version))`, or `Ok(Err(found))`
    /// with what is there instead. `NotHeld` if it is to be bound to a lease
    /// that is not held.
    ///
    /// Not idempotent: after a lost reply, load before writing again.
    fn store(&self, store: Store) -> BoxFuture<Result<Result<u64, Option<RawRecord>>>>;

    /// Adds to a number, which may be negative as the amount may, and returns
    /// the new one. Of an amount above zero it is the largest number of the range
    /// that is now the caller's. A missing number is zero. The value is the number
    /// in decimal digits, after a minus sign if it is below zero; ttl and binding
    /// stay as they are.
    ///
    /// `Invalid`, and nothing changes, if the value is no such number or the
    /// sum does not fit into 64 bits with a sign.
    ///
    /// Not idempotent: after a lost reply it may or may not have been added.
    fn add(&self, name: Name, amount: i64) -> BoxFuture<Result<i64>>;

    /// One page of the records in scope, each as it was at one moment. A page
    /// may be shorter than asked for: it ends after 1,000 records or 4 MiB.
    fn list(&self, scope: Scope, page: Page) -> BoxFuture<Result<RecordListing>>;

    /// Changes of the records in scope, from the moment it answers.
    fn watch(&self, scope: Scope) -> BoxFuture<Result<Box<dyn RecordEvents>>>;
}

/// The sum that [`RecordStore::add`] stores.
pub(crate) fn sum(name: &Name, found: Option<&RawRecord>, amount: i64) -> Result<i64> {
    let Some(record) = found else { return Ok(amount) };
    let error = match number(&record.value).map(|number| number.checked_add(amount)) {
        Some(Some(sum)) => return Ok(sum),
        Some(None) => "the sum does not fit into 64 bits; nothing was added",
        None => "the value is no number; nothing was added",
    };
    Err(Error::invalid(error).with("record", name))
}

/// The number that a value is: digits, and a minus sign before them if it is below
/// zero.
pub(crate) fn number(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok().filter(|text| !text.starts_with('+'))?;
    text.parse().ok()
}

/// A record cannot be bound to what is not held.
pub(crate) fn not_held(store: &Store) -> Error {
    let message = "the lease that the record is to be bound to is not held; nothing was stored";
    Error::new(ErrorKind::NotHeld, message).with("record", &store.name)
}

/// A page as it is filled, until it is long or heavy enough.
#[derive(Debug)]
pub(crate) struct PageInProgress {
    most: usize,
    bytes: usize,
    listing: RecordListing,
}

impl PageInProgress {
    pub(crate) fn new(page: &Page) -> Self {
        Self { most: page.size.clamp(1, PAGE_MAX), bytes: 0, listing: RecordListing::default() }
    }

    /// Adds a record; false if the page is full without it.
    pub(crate) fn add(&mut self, name: Name, record: RawRecord) -> bool {
        let count = self.listing.records.len();
        let full = count >= self.most || self.bytes + record.value.len() > PAGE_BYTES;
        if count > 0 && full {
            self.listing.more = true;
            return false;
        }
        self.bytes += record.value.len();
        self.listing.records.push((name, record));
        true
    }

    pub(crate) fn done(self) -> RecordListing {
        self.listing
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scope(path: &str, depth: usize) -> Scope {
        Scope::below(&Namespace::default(), path, depth)
    }

    #[test]
    fn depth_counts_the_segments_that_follow() {
        let names = ["%", "_", "a", "a/", "a//", "a/b", "a/b/c", "ab", "ab/c"];
        let seen = |path: &str, depth: usize| -> Vec<&str> {
            let scope = scope(path, depth);
            names.into_iter().filter(|name| scope.reaches(name)).collect()
        };
        assert_eq!(seen("a", 0), ["a"]);
        assert_eq!(seen("a", 1), ["a/", "a/b"]);
        assert_eq!(seen("a/", 1), seen("a", 1));
        assert_eq!(seen("a", 2), ["a/", "a//", "a/b", "a/b/c"]);
        assert_eq!(seen("a", usize::MAX), seen("a", 2));
        assert_eq!(seen("", 1), ["%", "_", "a", "ab"]);
        assert_eq!(seen("", usize::MAX), names);
        assert_eq!(seen("a//", 1), ["a//"]);
        assert!(seen("%", 9).is_empty() && seen("_", 9).is_empty());
    }

    #[test]
    fn adding_to_what_is_no_number_or_too_large_changes_nothing() {
        let name = Name::new(&Namespace::default(), "n").unwrap();
        let add = |text: &str, amount| sum(&name, Some(&RawRecord::new(text.into(), 1)), amount);
        assert_eq!(add("41", 1).unwrap(), 42);
        assert_eq!(add("-41", -1).unwrap(), -42);
        assert_eq!(sum(&name, None, -7).unwrap(), -7);
        for (text, amount) in [("9223372036854775807", 1), ("-9223372036854775808", -1)] {
            assert_eq!(add(text, 0).unwrap().to_string(), text);
            assert!(add(text, amount).unwrap_err().to_string().contains("64 bits"), "{text}");
        }
        for text in ["", "x", "-", "+1", "--1", "1-", "1.5", "\"1\"", "9223372036854775808"] {
            assert!(add(text, 1).unwrap_err().to_string().contains("no number"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_leap_misses_nothing_and_gets_ahead(
            mut names in proptest::collection::btree_set("[a/0]{1,6}", 1..60),
            path in "[a/]{0,3}",
            depth in 1_usize..4,
        ) {
            let scope = scope(&path, depth);
            let wanted: Vec<String> =
                names.iter().filter(|name| scope.reaches(name)).cloned().collect();
            let mut found = Vec::new();
            names = names.split_off(scope.root());
            while let Some(name) = names.first().cloned() {
                if !name.starts_with(scope.root()) {
                    break;
                }
                let from = scope.leap(&name).unwrap_or_else(|| {
                    found.push(name.clone());
                    format!("{name}\0")
                });
                prop_assert!(from > name);
                names = names.split_off(&from);
            }
            prop_assert_eq!(found, wanted);
        }
    }
}
