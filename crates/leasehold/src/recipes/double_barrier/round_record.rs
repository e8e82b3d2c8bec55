//! The record that the rounds are decided in: read, and written if nobody else was
//! faster.

use super::round::BarrierRounds;
use crate::claim::{Expect, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::Locks;
use crate::name::Name;

#[derive(Clone, Debug)]
pub(super) struct RoundRecord {
    locks: Locks,
    name: Name,
}

impl RoundRecord {
    pub(super) const fn new(locks: Locks, name: Name) -> Self {
        Self { locks, name }
    }

    /// The rounds as they are stored, and what a write must expect.
    pub(super) async fn load(&self) -> Result<(Expect, BarrierRounds)> {
        let record_store = self.locks.record_store()?;
        let found = self.locks.at_home(|| record_store.load(self.name.clone())).await?;
        let Some(found) = found else { return Ok((Expect::Absent, BarrierRounds::default())) };
        Ok((Expect::Version(found.version), self.read(&found.value)?))
    }

    /// Writes the rounds; false if somebody else was faster.
    pub(super) async fn write(&self, expect: Expect, rounds: &BarrierRounds) -> Result<bool> {
        let value = serde_json::to_vec(rounds).unwrap_or_default();
        let store = Store::put(self.name.clone(), value).expecting(expect);
        let record_store = self.locks.record_store()?;
        Ok(self.locks.at_home(|| record_store.store(store)).await?.is_ok())
    }

    pub(super) fn read(&self, value: &[u8]) -> Result<BarrierRounds> {
        serde_json::from_slice(value).map_err(|cause| {
            let text = "the record of the rounds was written by something else";
            let error = Error::new(ErrorKind::Unexpected, text);
            error.with("record", &self.name).caused_by(cause)
        })
    }
}
