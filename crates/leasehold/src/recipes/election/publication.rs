//! The publication: the record that says who leads.
//!
//! Each writing of it expects what was there before. A request that was not
//! answered may arrive late, after another one of ours: it then finds a newer
//! version, and changes nothing.

use std::sync::Arc;
use std::time::Duration;

use super::leader::Leader;
use crate::claim::{Expect, RawRecord, Store};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::locks::Locks;
use crate::name::Name;
use crate::recipes::request_builder::RequestBuilder;

/// The pause before an engine is asked again that was away.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Publication {
    locks: Locks,
    label: Arc<str>,
    /// What is there, as far as is known.
    found: Option<Expect>,
}

impl Publication {
    pub(super) fn of(builder: &RequestBuilder) -> Self {
        let locks = builder.locks.clone();
        Self { locks, label: builder.owner.label().into(), found: None }
    }

    /// Whether a record says who leads: not where an entry does, nor without records.
    pub(super) fn has_record(&self) -> bool {
        !self.locks.profile().candidates_in_entries && self.locks.record_store().is_ok()
    }

    /// Has everybody see that the holder of this lease leads.
    pub(super) async fn publish(&mut self, guard: &Guard, value: &str) -> Result<()> {
        if self.locks.profile().candidates_in_entries {
            return Err(fixed(guard.name()));
        }
        let leader = Leader::new(guard.fence(), value, &self.label);
        loop {
            guard.check()?;
            match self.try_once(guard, &leader).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if is_worth_another_try(&error) => self.locks.rest(PAUSE).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes over what is there; false if that was something else.
    async fn try_once(&mut self, guard: &Guard, leader: &Leader) -> Result<bool> {
        let expect = match self.found.take() {
            Some(expect) => expect,
            None => {
                let there = self.load(guard.name()).await?;
                if is_said(guard.name(), there.as_ref(), leader)? {
                    self.found = there.map(|record| Expect::Version(record.version));
                    return Ok(true);
                }
                there.map_or(Expect::Absent, |record| Expect::Version(record.version))
            }
        };
        let written = self.store(guard, leader, expect).await?;
        self.found = written.map(Expect::Version);
        Ok(written.is_some())
    }

    async fn load(&self, name: &Name) -> Result<Option<RawRecord>> {
        let record_store = self.locks.record_store()?;
        self.locks.at_home(|| record_store.load(name.clone())).await
    }

    async fn store(&self, guard: &Guard, leader: &Leader, expect: Expect) -> Result<Option<u64>> {
        let mut store = Store::put(guard.name().clone(), leader.written()).expecting(expect);
        store.bound_to = Some(guard.ticket());
        let record_store = self.locks.record_store()?;
        let written = self.locks.at_home(|| record_store.store(store)).await?;
        Ok(written.ok())
    }
}

/// Whether everybody can see this already: an earlier try was carried out. A
/// successor's word is not written over: then we do not lead any more.
fn is_said(name: &Name, there: Option<&RawRecord>, leader: &Leader) -> Result<bool> {
    let Some(record) = there else { return Ok(false) };
    let found = Leader::read(name, record)?;
    if found.fence > leader.fence {
        let text = format!("another one leads, with fence {}: {}", found.fence, found.label);
        return Err(Error::new(ErrorKind::Lost, text).with("election", name));
    }
    Ok(found == *leader)
}

/// What was written is known by its fence and its words, so it may be asked again.
fn is_worth_another_try(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable || error.effect() == Effect::Unknown
}

fn fixed(name: &Name) -> Error {
    let text = "with names=raw a leader is known by its entry, which stays as it is: resign, and \
                campaign with the other value";
    Error::new(ErrorKind::Unsupported, text).with("election", name)
}
