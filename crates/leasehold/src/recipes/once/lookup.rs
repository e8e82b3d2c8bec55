//! The look: what a key has come to, seen without a lease.

use std::time::Duration;

use super::builder::{Done, Once};
use super::entry::{Found, KeyEntry, Progress};
use super::fingerprint::Fingerprint;
use super::key::{Key, Trace, millis};
use super::refusal::Refusal;
use crate::error::Result;
use crate::name::Name;

/// What one caller asks for.
#[derive(Debug)]
pub(super) struct OnceCall {
    pub(super) name: Name,
    pub(super) fingerprint: Fingerprint,
    pub(super) trace: Option<Trace>,
    pub(super) keep: Duration,
}

impl Once {
    pub(super) fn call(
        &self,
        key: &Key,
        fingerprint: Fingerprint,
        keep: Duration,
    ) -> Result<OnceCall, Refusal> {
        Ok(OnceCall { name: self.name(key)?, fingerprint, trace: key.trace, keep })
    }

    /// What a plain look finds: one request, and no lease.
    pub(super) async fn recall(&self, call: &OnceCall) -> Result<Option<Done>, Refusal> {
        match self.load(&call.name).await? {
            Some(found) => self.judge(call, found.entry),
            None => Ok(None),
        }
    }

    pub(super) async fn load(&self, name: &Name) -> Result<Option<Found>> {
        let locks = &self.builder.locks;
        let record_store = locks.record_store()?;
        let record = locks.at_home(|| record_store.load(name.clone())).await?;
        record.map(Found::of).transpose()
    }

    /// What an entry means to a caller; `None` if the work has to be run.
    pub(super) fn judge(&self, call: &OnceCall, entry: KeyEntry) -> Result<Option<Done>, Refusal> {
        let now = self.now();
        let age = entry.age(now);
        if let Some(trace) = call.trace {
            if trace.stamp >= entry.stamp.saturating_add(trace.window) {
                return Ok(None);
            }
            if entry.stamp >= trace.stamp.saturating_add(trace.window) {
                return Err(Refusal::Gone { age });
            }
        }
        if !entry.fingerprint.fits(call.fingerprint) {
            return Err(Refusal::Mismatch);
        }
        if entry.state != Progress::Started {
            self.seen.note(&call.name);
        }
        // Without a tombstone it is kept for as long as the engine has it: a wall
        // clock that is ahead must not run the work again.
        let over = now >= entry.until && !self.tombstone.is_zero();
        match entry.state {
            Progress::Started => Ok(None),
            _ if over => Err(Refusal::Gone { age }),
            Progress::Done => Ok(Some(Done::new(entry.outcome, true, age))),
            Progress::Bare => Err(Refusal::NotKept { age }),
            Progress::Failed => {
                let message = String::from_utf8_lossy(&entry.outcome).into_owned();
                Err(Refusal::FailedBefore { message, age })
            }
        }
    }

    /// Milliseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        millis(self.builder.locks.clock().wall())
    }
}
