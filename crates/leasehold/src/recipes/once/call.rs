//! The call: one caller, from its key to an outcome.

use std::fmt::Display;
use std::time::Duration;

use super::builder::{Done, Kept, OnBusy, OnCrash, Once};
use super::entry::{Entry, State};
use super::fingerprint::Fingerprint;
use super::flight::{Lead, Role, landed};
use super::key::{Key, Trace, millis};
use super::refusal::{OnceError, Refusal};
use super::run::Run;
use super::turn::Turn;
use crate::acquire::{Effort, Sought};
use crate::claim::{Mode, RawRecord, Released, Store, Wants};
use crate::clock::Moment;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::name::Name;

/// What one caller asks for.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: Name,
    pub(super) fingerprint: Fingerprint,
    pub(super) trace: Option<Trace>,
    pub(super) keep: Duration,
}

/// An entry in the version it was found in.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) entry: Entry,
    pub(super) version: u64,
}

/// What a claim of a key has brought.
enum Claimed {
    /// The lease, and what is known of the key.
    Lease(Guard, Option<Found>),
    /// Something that is known, and no lease.
    Known(Found),
}

impl Claimed {
    const fn entry(&self) -> Option<&Entry> {
        match self {
            Self::Lease(_, Some(found)) | Self::Known(found) => Some(&found.entry),
            Self::Lease(_, None) => None,
        }
    }
}

/// What a call is about to do.
#[expect(clippy::large_enum_variant, reason = "it is opened as soon as it is there")]
enum Step<'a> {
    Replay(Done),
    Run(Run<'a>),
}

impl Once {
    /// Runs `work` if nobody has with this key; otherwise gives what the first
    /// run came to.
    ///
    /// `work` returns its outcome, a text or bytes. If the lease is lost meanwhile it is
    /// dropped at its next await point. An outcome is recorded in the request
    /// that gives the lease back, and only if the lease is still ours: a run
    /// that wakes up late changes nothing.
    ///
    /// # Errors
    ///
    /// [`OnceError::Failed`] with the error of `work`; [`OnceError::Refused`] if
    /// it was not run; [`OnceError::Unrecorded`] if it was, and its outcome is
    /// not known to others.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work. That is a crash in the middle: what
    /// follows is [`OnCrash`]'s to say. Where a caller may go away and the work
    /// must not, run it on a task.
    pub async fn run<F, Fut, T, E>(
        &self,
        key: impl Into<Key>,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<Done, OnceError<E>>
    where
        F: FnOnce(Turn) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Into<Kept>,
        E: Display,
    {
        let call = self.call(&key.into(), fingerprint, self.keep)?;
        self.carry_out(call, work).await
    }

    pub(super) async fn carry_out<F, Fut, T, E>(
        &self,
        call: Call,
        work: F,
    ) -> Result<Done, OnceError<E>>
    where
        F: FnOnce(Turn) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Into<Kept>,
        E: Display,
    {
        if self.seen.has(&call.name)
            && let Some(done) = self.recall(&call).await?
        {
            return Ok(done);
        }
        match self.step(call).await? {
            Step::Replay(done) => Ok(done),
            Step::Run(mut run) => run.carry_out(work).await,
        }
    }

    /// The outcome of a key, if there is one: never runs anything, and waits for
    /// nobody.
    ///
    /// # Errors
    ///
    /// As [`Once::run`], without those of the work.
    pub async fn outcome(
        &self,
        key: impl Into<Key>,
        fingerprint: Fingerprint,
    ) -> Result<Option<Done>, Refusal> {
        let call = self.call(&key.into(), fingerprint, self.keep)?;
        self.recall(&call).await
    }

    /// Says what a run that was cut off came to, after someone has looked: from
    /// now on everyone gets this outcome. A key that has an outcome keeps it.
    ///
    /// # Errors
    ///
    /// [`Refusal::Running`] if someone is at it; the engine's error.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have settled the key.
    pub async fn settle(
        &self,
        key: impl Into<Key>,
        fingerprint: Fingerprint,
        outcome: impl Into<Vec<u8>>,
    ) -> Result<Done, OnceError<Error>> {
        let call = self.call(&key.into(), fingerprint, self.keep)?;
        let patient = Self { crash: OnCrash::Rerun, ..self.clone() };
        let outcome = outcome.into();
        patient.carry_out(call, async |_| Ok::<_, Error>(outcome)).await
    }

    /// Forgets a key: the next caller runs the work. For an operator who knows
    /// that a run which was cut off did nothing.
    ///
    /// # Errors
    ///
    /// [`Refusal::Running`] if someone is at it; the engine's error.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have forgotten the key.
    pub async fn forget(&self, key: impl Into<Key>) -> Result<(), Refusal> {
        let name = self.name(&key.into())?;
        let Sought::Lease(guard) = self.claim(&name, self.effort(), Wants::Lease).await? else {
            return Err(running(&name));
        };
        match guard.release_storing(&Store::delete(name.clone())).await? {
            Released::Released => Ok(()),
            Released::AlreadyLost => Err(late(&name).into()),
        }
    }

    pub(super) fn call(
        &self,
        key: &Key,
        fingerprint: Fingerprint,
        keep: Duration,
    ) -> Result<Call, Refusal> {
        Ok(Call { name: self.name(key)?, fingerprint, trace: key.trace, keep })
    }

    /// What a plain look finds: one request, and no lease.
    pub(super) async fn recall(&self, call: &Call) -> Result<Option<Done>, Refusal> {
        match self.load(&call.name).await? {
            Some(found) => self.judge(call, found.entry),
            None => Ok(None),
        }
    }

    /// Replay or run: leads the tasks of this process that have the same key, or
    /// follows the one that leads.
    async fn step(&self, call: Call) -> Result<Step<'_>, Refusal> {
        let effort = self.effort();
        let until = match effort {
            Effort::Wait { until, .. } | Effort::Attempts { until, .. } => until,
            Effort::Try => Moment::default(),
        };
        loop {
            let news = match self.flights.join(&call.name) {
                Role::Lead(lead) => return self.lead(call, lead, effort).await,
                Role::Follow(_) if self.busy == OnBusy::Refuse => return Err(running(&call.name)),
                Role::Follow(news) => news,
            };
            let landed = self.builder.locks.until(until, landed(news)).await;
            let entry = landed.ok_or_else(|| running(&call.name))?;
            if let Some(entry) = entry
                && let Some(done) = self.judge(&call, Entry::clone(&entry))?
            {
                return Ok(Step::Replay(done));
            }
        }
    }

    /// How hard a call tries that begins now.
    fn effort(&self) -> Effort {
        match self.busy {
            OnBusy::Wait(limit) => Effort::wait(self.builder.locks.clock().now(), limit),
            OnBusy::Refuse => Effort::Try,
        }
    }

    async fn lead(&self, call: Call, lead: Lead, effort: Effort) -> Result<Step<'_>, Refusal> {
        let mut claimed = self.claim_and_load(&call.name, effort, self.builder.wants).await?;
        let (guard, found) = loop {
            if let Some(entry) = claimed.entry().cloned()
                && let Some(judged) = self.judge(&call, entry.clone()).transpose()
            {
                // A lease goes back in the background: nobody waits for that.
                drop(claimed);
                lead.tell(&entry);
                return judged.map(Step::Replay);
            }
            match claimed {
                Claimed::Lease(guard, found) => break (guard, found),
                // What is there is no outcome: now it takes the lease.
                Claimed::Known(_) => {
                    let wants = Wants::LeaseAndRecord;
                    claimed = self.claim_and_load(&call.name, effort, wants).await?;
                }
            }
        };
        let mut run = Run::new(self, call, guard, lead, found);
        if self.crash == OnCrash::Unknown
            && let Some(age) = run.cut_off_before()
        {
            Box::pin(run.leave()).await;
            return Err(Refusal::Unknown { age });
        }
        Ok(Step::Run(run))
    }

    /// The lease with what is known of the key; or, if that will do, something
    /// that is known and no lease.
    async fn claim_and_load(
        &self,
        name: &Name,
        effort: Effort,
        wants: Wants,
    ) -> Result<Claimed, Refusal> {
        let mut guard = match self.claim(name, effort, wants).await? {
            Sought::Lease(guard) => guard,
            Sought::Record(record) => return Ok(Claimed::Known(found(record)?)),
            Sought::Busy => return Err(running(name)),
        };
        let found = match guard.take_loaded() {
            Some(record) => record.map(found).transpose()?,
            None => self.load(name).await?,
        };
        Ok(Claimed::Lease(guard, found))
    }

    async fn claim(
        &self,
        name: &Name,
        effort: Effort,
        wants: Wants,
    ) -> Result<Sought<Guard>, Refusal> {
        let mut request = self.builder.request_for(name.clone(), Mode::Exclusive, effort);
        request.wants = wants;
        self.builder.locks.acquire(&request).await.map_err(|error| {
            let waited = error.is_timed_out() && error.effect() == Effect::NotApplied;
            if waited { Refusal::Running(error) } else { Refusal::Engine(error) }
        })
    }

    pub(super) async fn load(&self, name: &Name) -> Result<Option<Found>> {
        let locks = &self.builder.locks;
        let record_store = locks.record_store()?;
        let record = locks.at_home(|| record_store.load(name.clone())).await?;
        record.map(found).transpose()
    }

    /// What an entry means to a caller; `None` if the work has to be run.
    fn judge(&self, call: &Call, entry: Entry) -> Result<Option<Done>, Refusal> {
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
        if entry.state != State::Started {
            self.seen.note(&call.name);
        }
        // Without a tombstone it is kept for as long as the engine has it: a wall
        // clock that is ahead must not run the work again.
        let over = now >= entry.until && !self.tombstone.is_zero();
        match entry.state {
            State::Started => Ok(None),
            _ if over => Err(Refusal::Gone { age }),
            State::Done => Ok(Some(Done::new(entry.outcome, true, age))),
            State::Bare => Err(Refusal::NotKept { age }),
            State::Failed => {
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

fn found(record: RawRecord) -> Result<Found> {
    Ok(Found { version: record.version, entry: Entry::decode(record.value)? })
}

fn running(name: &Name) -> Refusal {
    let text = "the key is held by the first request";
    Refusal::Running(Error::new(ErrorKind::TimedOut, text).with("name", name))
}

pub(super) fn late(name: &Name) -> Error {
    let text = "the lease ended before the work did; what it came to was not recorded";
    Error::new(ErrorKind::Lost, text).with("name", name)
}
