//! A record that stands for us, and lives as long as this client: nobody else
//! writes it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::presence::presence;
use crate::claim::{Expect, LeaseId, RawRecord, Store};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::locks::Locks;
use crate::name::Name;

/// How often an engine is asked that is away, and the pause between, which doubles.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(50);

/// What such a record says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PresentValue {
    /// Random: which of all who ever had this name it is.
    pub(super) mark: Arc<str>,
    pub(super) label: Arc<str>,
    pub(super) payload: Arc<str>,
}

impl PresentValue {
    pub(super) fn new(label: &str, payload: &str) -> Self {
        let mark = format!("{:032x}", LeaseId::random().to_bits());
        Self { mark: mark.into(), label: label.into(), payload: payload.into() }
    }

    /// What another one of ours says; `None` if it is something else.
    fn read(record: &RawRecord) -> Option<Self> {
        serde_json::from_slice(&record.value).ok()
    }

    fn written(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// A record of ours, while it is there.
#[derive(Debug)]
pub(super) struct PresentRecord {
    locks: Locks,
    name: Name,
    ttl: Duration,
    value: PresentValue,
    presence: Arc<Guard>,
    version: u64,
}

impl PresentRecord {
    /// Puts it there, if nobody else has this name. What may have been left by a
    /// failure is removed in the background.
    pub(super) async fn enter(
        locks: &Locks,
        name: Name,
        ttl: Duration,
        value: PresentValue,
    ) -> Result<Self> {
        let presence = presence(locks, ttl, &value.label).await?;
        let (locks, version) = (locks.clone(), 0);
        let mut record = Self { locks, name, ttl, value, presence, version };
        match record.write(Expect::Absent).await {
            Ok(()) => Ok(record),
            Err(error) => {
                if error.effect() == Effect::Unknown {
                    record.leave_apart();
                }
                Err(error)
            }
        }
    }

    /// Puts it there again after the lease was lost that it was bound to.
    pub(super) async fn enter_again(&mut self) -> Result<()> {
        self.presence = presence(&self.locks, self.ttl, &self.value.label).await?;
        self.write(Expect::Absent).await
    }

    /// Says something else from now on.
    pub(super) async fn say(&mut self, payload: &str) -> Result<()> {
        let before = std::mem::replace(&mut self.value.payload, payload.into());
        let said = self.write(Expect::Version(self.version)).await;
        if said.as_ref().is_err_and(|error| error.effect() == Effect::NotApplied) {
            self.value.payload = before;
        }
        said
    }

    pub(super) const fn value(&self) -> &PresentValue {
        &self.value
    }

    /// The lease that it lives as long as.
    pub(super) const fn presence(&self) -> &Arc<Guard> {
        &self.presence
    }

    /// Writes what we say. An answer that got lost is found out: our mark is there,
    /// or it is not.
    async fn write(&mut self, mut expect: Expect) -> Result<()> {
        let mut failed = None;
        for attempt in 0..TRIES {
            self.rest(attempt).await?;
            match self.store(Some(self.value.written()), expect).await {
                Ok(Ok(version)) => {
                    self.version = version;
                    return Ok(());
                }
                Ok(Err(Some(found))) => match self.met(&found) {
                    // Ours, as we say it now: an earlier try was carried out.
                    Some(value) if value == self.value => {
                        self.version = found.version;
                        return Ok(());
                    }
                    Some(_) => expect = Expect::Version(found.version),
                    None => return Err(self.taken(&found)),
                },
                Ok(Err(None)) => expect = Expect::Absent,
                Err(error) if is_worth_another_try(&error) => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failed.unwrap_or_else(|| self.too_busy()).unknown())
    }

    /// What was found, if it is ours.
    fn met(&self, found: &RawRecord) -> Option<PresentValue> {
        PresentValue::read(found).filter(|value| value.mark == self.value.mark)
    }

    /// Takes it away; false if it was not there any more.
    pub(super) async fn leave(&self) -> Result<bool> {
        let mut failed = None;
        for attempt in 0..TRIES {
            self.rest(attempt).await?;
            match self.remove().await {
                Ok(Some(removed)) => return Ok(removed),
                Ok(None) => {}
                Err(error) if is_worth_another_try(&error) => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failed.unwrap_or_else(|| self.too_busy()))
    }

    /// Removes what is there if it is ours; `None` if it was changed meanwhile.
    async fn remove(&self) -> Result<Option<bool>> {
        let record_store = self.locks.record_store()?;
        let found = self.locks.at_home(|| record_store.load(self.name.clone())).await?;
        let Some(found) = found.filter(|found| self.met(found).is_some()) else {
            return Ok(Some(false));
        };
        let removed = self.store(None, Expect::Version(found.version)).await?;
        Ok(removed.is_ok().then_some(true))
    }

    /// Takes it away in the background. The end of the client waits for it.
    pub(super) fn leave_apart(self) {
        let locks = self.locks.clone();
        locks.finish(async move {
            // What cannot be removed goes with the lease.
            let _ = self.leave().await;
        });
    }

    async fn store(
        &self,
        value: Option<Vec<u8>>,
        expect: Expect,
    ) -> Result<Result<u64, Option<RawRecord>>> {
        let mut store = Store::delete(self.name.clone()).expecting(expect);
        store.bound_to = value.as_ref().map(|_| self.presence.ticket());
        store.value = value;
        let record_store = self.locks.record_store()?;
        self.locks.at_home(|| record_store.store(store)).await
    }

    async fn rest(&self, attempt: u32) -> Result<()> {
        let Some(shift) = attempt.checked_sub(1) else { return Ok(()) };
        self.locks.rest(PAUSE * (1 << shift)).await
    }

    fn taken(&self, found: &RawRecord) -> Error {
        let text = match PresentValue::read(found) {
            Some(other) => format!("another member has this id: {}", other.label),
            None => "the record of this name was written by something else".into(),
        };
        Error::invalid(text).with("record", &self.name)
    }

    fn too_busy(&self) -> Error {
        let text = "the record was changed by others as often as it was written; try again";
        Error::new(ErrorKind::Unavailable, text).with("record", &self.name)
    }
}

/// What was written is known by its mark, so it may be asked for again.
fn is_worth_another_try(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable || error.effect() == Effect::Unknown
}
