//! Many records: those below a path.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::versioned::{Versioned, decode};
use super::watch::Watch;
use crate::engine::{Page, Scope};
use crate::error::Result;
use crate::locks::Locks;
use crate::name::Name;

/// The records below a path.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// locks.record("price/apple").set(&3).await?;
/// locks.record("price/pear").set(&4).await?;
///
/// let prices = locks.records::<u32>("price").list(1).await?;
/// assert_eq!(prices[1].0.as_str(), "price/pear");
/// assert_eq!(prices[1].1.value, 4);
/// # Ok(()) }
/// ```
pub struct Records<T> {
    locks: Locks,
    path: Arc<str>,
    kind: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Records<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Records").field(&self.path).finish()
    }
}

impl Locks {
    /// The records below `path`; needs the cargo feature `records`. `""` is
    /// above all. Of several engines that names are routed to, it shows the
    /// one that the path is routed to.
    #[must_use]
    pub fn records<T: Serialize + DeserializeOwned>(&self, path: impl AsRef<str>) -> Records<T> {
        let path: Arc<str> = path.as_ref().into();
        let below = if path.is_empty() || path.ends_with('/') { "" } else { "/" };
        let locks = self.routed(&format!("{path}{below}")).clone();
        Records { locks, path, kind: PhantomData }
    }
}

impl<T: Serialize + DeserializeOwned + Send> Records<T> {
    fn scope(&self, depth: usize) -> Scope {
        Scope::below(self.locks.own_namespace(), &self.path, depth)
    }

    /// All records, by name in byte order, at most `depth` segments below the
    /// path: 1 for its direct children, `usize::MAX` for all.
    ///
    /// It is read page by page: each record as it was at some moment, not all
    /// as they were at one.
    ///
    /// # Errors
    ///
    /// Those of [`Record::get`](crate::Record::get).
    ///
    /// # Cancel safety
    ///
    /// A dropped call has changed nothing.
    pub async fn list(&self, depth: usize) -> Result<Vec<(Name, Versioned<T>)>> {
        let (mut all, mut page) = (Vec::new(), Page::default());
        loop {
            let record_store = self.locks.record_store()?;
            let found = self.locks.at_home(|| record_store.list(self.scope(depth), page)).await?;
            for (name, record) in &found.records {
                all.push((name.clone(), decode(name, record)?));
            }
            match found.records.into_iter().next_back() {
                Some((last, _)) if found.more => page = Page::after(last),
                _ => return Ok(all),
            }
        }
    }

    /// Changes of the records at most `depth` segments below the path, from
    /// now on.
    ///
    /// # Errors
    ///
    /// Those of [`Record::get`](crate::Record::get).
    ///
    /// # Cancel safety
    ///
    /// A dropped call watches nothing.
    pub async fn watch(&self, depth: usize) -> Result<Watch<T>> {
        Watch::start(&self.locks, self.scope(depth)).await
    }
}
