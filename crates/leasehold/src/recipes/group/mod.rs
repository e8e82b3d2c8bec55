//! The group: who is here.

mod member;
mod membership;
mod watch;

use std::sync::Arc;
use std::time::Duration;

pub use member::Member;
pub use membership::{Membership, MembershipState};
pub use watch::{GroupEvent, GroupWatch};

use super::present_record::{PresentRecord, PresentValue};
use super::request_builder::TTL;
use crate::detached::Detached;
use crate::error::{Error, Result};
use crate::locks::Locks;
use crate::name::Name;

/// A group of members that live as long as their clients.
///
/// A member is a record `group/id`, bound to one lease that stands for the whole
/// client: to be in a hundred groups costs one renewal. Whoever dies is gone one ttl
/// later; whoever was only away for so long joins again by itself.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// let workers = locks.group("workers");
/// let me = workers.join("node-1", "10.0.0.7:8080").await?;
///
/// for member in workers.members().await? {
///     println!("{} at {}", member.id, member.payload);
/// }
/// me.leave().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Group {
    locks: Locks,
    path: Arc<str>,
    ttl: Duration,
    label: Arc<str>,
}

impl Locks {
    /// The group of this name; needs the cargo feature `records`.
    ///
    /// A name that is not valid is an error of the first call that uses it.
    #[must_use]
    pub fn group(&self, name: impl AsRef<str>) -> Group {
        let path = name.as_ref().trim_end_matches('/');
        let locks = self.routed(&format!("{path}/")).clone();
        let label = locks.owner().label().into();
        Group { locks, path: path.into(), ttl: TTL, label }
    }
}

impl Group {
    /// Who has died is gone at most this long after: 30 s unless set. Groups with one
    /// ttl share one lease.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// What others see as the process behind a member: by default host, process and
    /// thread.
    #[must_use]
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.label = label.as_ref().into();
        self
    }

    /// Joins as `id`, which nobody else may have: with `payload`, what others need to
    /// know of a member.
    ///
    /// # Errors
    ///
    /// `Invalid` if another member has this id, or it is empty or has a slash;
    /// `Unsupported` if the engine keeps no records; the engine's error if it cannot
    /// be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped call leaves the group again.
    pub async fn join(&self, id: impl AsRef<str>, payload: impl AsRef<str>) -> Result<Membership> {
        let name = self.name_of(id.as_ref())?;
        let value = PresentValue::new(&self.label, payload.as_ref());
        let (locks, ttl) = (self.locks.clone(), self.ttl);
        locks.record_store()?;
        let join = async move {
            let record = PresentRecord::enter(&locks, name, ttl, value).await?;
            Ok(Membership::new(&locks, record))
        };
        Detached::of(self.locks.home().clone(), join).await
    }

    /// Who is here now, by id in byte order.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the engine keeps no records; the engine's error if it cannot
    /// be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped call has changed nothing.
    pub async fn members(&self) -> Result<Vec<Member>> {
        let all = self.locks.records::<PresentValue>(&self.path).list(1).await?;
        Ok(all.into_iter().filter_map(|(name, found)| self.member(&name, found.value)).collect())
    }

    /// Who is here, now and from now on.
    ///
    /// # Errors
    ///
    /// Those of [`Group::members`].
    ///
    /// # Cancel safety
    ///
    /// A dropped call watches nothing.
    pub async fn watch(&self) -> Result<GroupWatch> {
        let cache = self.locks.cache(&self.path).depth(1).start().await?;
        Ok(GroupWatch::new(Arc::clone(&self.path), cache))
    }

    fn member(&self, name: &Name, value: PresentValue) -> Option<Member> {
        Member::of(&self.path, name, &value)
    }

    fn name_of(&self, id: &str) -> Result<Name> {
        if id.is_empty() || id.contains('/') {
            return Err(Error::invalid("the id of a member is not empty and has no slash"));
        }
        self.locks.name(&format!("{}/{id}", self.path))
    }
}
