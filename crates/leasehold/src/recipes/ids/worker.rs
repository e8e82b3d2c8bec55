//! A worker number: a lease, and a mark that outlives it.
//!
//! The record beside the lease says up to which millisecond its holder may have
//! made ids. The next holder starts above it, whatever its clock says. Only the
//! version that a holder has read or written last is replaced, so one that was
//! overtaken can neither lower nor raise the mark, and ends at its own.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Mode, Wants};
use crate::core::Core;
use crate::engine::{Expect, RawRecord, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::locks::Locks;
use crate::name::Name;
use crate::recipes::request_builder::RequestBuilder;

/// How often a mark is written anew because of replies that were lost.
const TRIES: u32 = 4;

/// Which number, of which tag, and how it is held.
#[derive(Clone, Debug)]
pub(super) struct Post {
    pub(super) locks: Locks,
    pub(super) tag: String,
    pub(super) ttl: Duration,
    /// How far a mark may be ahead of the clock, in milliseconds.
    pub(super) budget: u64,
}

/// What the record of a held number says, and how to say more.
#[derive(Debug)]
pub(super) struct Mark {
    name: Name,
    fence: u64,
    version: Option<u64>,
    /// Up to here ids may have been made, in milliseconds since 1970.
    until: u64,
}

/// What came of a claim.
pub(super) enum WorkerClaim {
    /// The number, and the mark of the holder before, if there was one.
    Ours(Guard, Mark, u64),
    /// Someone has it.
    Busy,
    /// The clock is so many milliseconds behind its mark.
    Ahead(u64),
}

impl Post {
    /// Takes a number if it is free and its mark not ahead of `now`.
    pub(super) async fn claim(&self, number: u32, now: u64) -> Result<WorkerClaim> {
        let name = format!("ids/{}/worker/{number}", self.tag);
        let mut builder = RequestBuilder::new(&self.locks, &name);
        (builder.terms.ttl, builder.wants) = (self.ttl, Wants::LeaseAndRecord);
        let Some(mut guard) = builder.try_lock(Mode::Exclusive).await? else {
            return Ok(WorkerClaim::Busy);
        };
        let found = guard.take_loaded().flatten();
        let locks = self.locks.routed(&name).clone();
        let name = guard.name().clone();
        let mut mark = Mark { name, fence: guard.fence(), version: None, until: 0 };
        let (core, budget) = (Arc::clone(locks.core()), self.budget);
        let until = now + guard.remaining().as_millis() as u64;
        let taken = locks.at_home(|| {
            Box::pin(async move {
                let before =
                    mark.take_over(&core, found, now.saturating_add(budget), until).await?;
                Ok((mark, before))
            })
        });
        let (mark, before) = taken.await?;
        if mark.version.is_none() {
            guard.release().await?;
            return Ok(WorkerClaim::Ahead(before.saturating_sub(now)));
        }
        Ok(WorkerClaim::Ours(guard, mark, before))
    }
}

impl Mark {
    /// Writes the first mark over that of the holder before, which was found and
    /// which it tells; unless that is later than `latest`.
    async fn take_over(
        &mut self,
        core: &Core,
        mut found: Option<RawRecord>,
        latest: u64,
        until: u64,
    ) -> Result<u64> {
        let (mut before, mut expect) = (0, Expect::Absent);
        for _ in 0..TRIES {
            if let Some(record) = found {
                before = said(&self.name, &record)?.0.max(before);
                expect = Expect::Version(record.version);
            }
            if before > latest {
                return Ok(before);
            }
            match self.write(core, expect, until.max(before + 1)).await? {
                Ok(()) => return Ok(before),
                Err(record) => found = Some(record),
            }
        }
        Err(disturbed(&self.name))
    }

    pub(super) const fn until(&self) -> u64 {
        self.until
    }

    /// Raises the mark; it never falls.
    pub(super) async fn raise(&mut self, core: &Core, until: u64) -> Result<()> {
        let until = until.max(self.until);
        for _ in 0..TRIES {
            let expect = self.version.map_or(Expect::Absent, Expect::Version);
            let Err(found) = self.write(core, expect, until).await? else { return Ok(()) };
            if said(&self.name, &found)?.1 != self.fence {
                return Err(overtaken(&self.name));
            }
            // Our own, of which the reply was lost.
            self.version = Some(found.version);
        }
        Err(disturbed(&self.name))
    }

    /// The holder is done: ids were made up to `until` and no further.
    pub(super) async fn settle(&mut self, core: &Core, until: u64) -> Result<()> {
        let expect = self.version.map_or(Expect::Absent, Expect::Version);
        self.write(core, expect, until).await.map(drop)
    }

    /// Writes if the expectation holds; otherwise says what is there.
    async fn write(
        &mut self,
        core: &Core,
        expect: Expect,
        until: u64,
    ) -> Result<Result<(), RawRecord>> {
        let value = format!("{until} {}", self.fence).into_bytes();
        let store = Store::put(self.name.clone(), value).expecting(expect).lasting();
        match core.record_store()?.store(store).await? {
            Ok(version) => {
                (self.version, self.until) = (Some(version), until);
                Ok(Ok(()))
            }
            Err(Some(found)) => Ok(Err(found)),
            // Deleted by someone: nothing is known of it any more.
            Err(None) => Err(disturbed(&self.name)),
        }
    }
}

/// Mark and fence of a record.
fn said(name: &Name, record: &RawRecord) -> Result<(u64, u64)> {
    let text = std::str::from_utf8(&record.value).ok().and_then(|text| text.split_once(' '));
    let said = text.and_then(|(until, fence)| Some((until.parse().ok()?, fence.parse().ok()?)));
    said.ok_or_else(|| {
        let text = "the record of a worker holds something else: look who else writes it";
        Error::new(ErrorKind::Unexpected, text).with("record", name)
    })
}

fn overtaken(name: &Name) -> Error {
    let text = "another process has this worker number now; open the generator anew";
    Error::new(ErrorKind::Lost, text).with("record", name)
}

fn disturbed(name: &Name) -> Error {
    let text = "the mark of a worker was changed or deleted again and again; try again";
    Error::new(ErrorKind::Unavailable, text).with("record", name)
}
