//! The group, for threads.

use super::call::block_on;
use crate::error::Result;
use crate::recipes::group::{Group, GroupEvent, GroupWatch, Member, Membership, MembershipState};

impl super::Locks {
    /// The group of this name; see [`crate::Locks::group`].
    ///
    /// ```
    /// use leasehold::blocking::Locks;
    ///
    /// let workers = Locks::memory().group("workers");
    /// let me = workers.blocking_join("node-1", "10.0.0.7:8080")?;
    /// assert_eq!(workers.blocking_members()?.len(), 1);
    /// me.blocking_leave()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn group(&self, name: impl AsRef<str>) -> Group {
        self.as_async().group(name)
    }
}

impl Group {
    /// Like `join`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Group::join`]; `Invalid` inside an async runtime.
    pub fn blocking_join(
        &self,
        id: impl AsRef<str>,
        payload: impl AsRef<str>,
    ) -> Result<Membership> {
        block_on(self.join(id, payload))
    }

    /// Like `members`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Group::members`]; `Invalid` inside an async runtime.
    pub fn blocking_members(&self) -> Result<Vec<Member>> {
        block_on(self.members())
    }

    /// Like `watch`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Group::watch`]; `Invalid` inside an async runtime.
    pub fn blocking_watch(&self) -> Result<GroupWatch> {
        block_on(self.watch())
    }
}

impl Membership {
    /// Like `changed`, for threads.
    ///
    /// # Errors
    ///
    /// `Invalid` inside an async runtime.
    pub fn blocking_changed(&mut self) -> Result<Option<MembershipState>> {
        block_on(async { Ok(self.changed().await) })
    }

    /// Like `set`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Membership::set`]; `Invalid` inside an async runtime.
    pub fn blocking_set(&self, payload: impl AsRef<str>) -> Result<()> {
        block_on(self.set(payload))
    }

    /// Like `leave`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Membership::leave`]. Inside an async runtime `Invalid`; the group is
    /// then left all the same.
    pub fn blocking_leave(self) -> Result<bool> {
        block_on(self.leave())
    }
}

impl GroupWatch {
    /// Like `next`, for threads.
    ///
    /// # Errors
    ///
    /// `Invalid` inside an async runtime.
    pub fn blocking_next(&mut self) -> Result<Option<GroupEvent>> {
        block_on(async { Ok(self.next().await) })
    }
}
