//! The call: one caller, from its key to an outcome.

use std::fmt::Display;

use super::builder::{Done, Kept, OnBusy, OnCrash, Once};
use super::entry::{Found, KeyEntry};
use super::fingerprint::Fingerprint;
use super::flight::{Lead, Role, landed};
use super::key::Key;
use super::lookup::OnceCall;
use super::refusal::{OnceError, Refusal, late, running};
use super::run::Run;
use super::turn::Turn;
use crate::acquire::{Effort, Sought};
use crate::claim::{Mode, Released, Store, Wants};
use crate::clock::Moment;
use crate::error::{Effect, Error, Result};
use crate::guard::Guard;
use crate::name::Name;

/// What a claim of a key has brought.
enum KeyClaim {
    /// The lease, and what is known of the key.
    Lease(Guard, Option<Found>),
    /// Something that is known, and no lease.
    Known(Found),
}

impl KeyClaim {
    const fn entry(&self) -> Option<&KeyEntry> {
        match self {
            Self::Lease(_, Some(found)) | Self::Known(found) => Some(&found.entry),
            Self::Lease(_, None) => None,
        }
    }
}

/// What a call is about to do.
#[expect(clippy::large_enum_variant, reason = "it is opened as soon as it is there")]
enum CallStep<'a> {
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
        call: OnceCall,
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
            CallStep::Replay(done) => Ok(done),
            CallStep::Run(mut run) => run.carry_out(work).await,
        }
    }

    /// The outcome of a key, if there is one: never runs anything, and waits for
    /// nobody.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold::once::Fingerprint;
    ///
    /// let orders = leasehold::Locks::memory().once("orders");
    /// assert!(orders.outcome("key-1", Fingerprint::none()).await?.is_none());
    ///
    /// orders.run("key-1", Fingerprint::none(), async |_| Ok::<_, String>("ordered")).await?;
    /// let done = orders.outcome("key-1", Fingerprint::none()).await?.expect("it was run");
    /// assert_eq!(done.outcome, b"ordered");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Once::run`], without those of the work.
    ///
    /// # Cancel safety
    ///
    /// A dropped call has changed nothing.
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

    /// Replay or run: leads the tasks of this process that have the same key, or
    /// follows the one that leads.
    async fn step(&self, call: OnceCall) -> Result<CallStep<'_>, Refusal> {
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
                && let Some(done) = self.judge(&call, KeyEntry::clone(&entry))?
            {
                return Ok(CallStep::Replay(done));
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

    async fn lead(
        &self,
        call: OnceCall,
        lead: Lead,
        effort: Effort,
    ) -> Result<CallStep<'_>, Refusal> {
        let mut claimed = self.claim_and_load(&call.name, effort, self.builder.wants).await?;
        let (guard, found) = loop {
            if let Some(entry) = claimed.entry().cloned()
                && let Some(judged) = self.judge(&call, entry.clone()).transpose()
            {
                // A lease goes back in the background: nobody waits for that.
                drop(claimed);
                lead.tell(&entry);
                return judged.map(CallStep::Replay);
            }
            match claimed {
                KeyClaim::Lease(guard, found) => break (guard, found),
                // What is there is no outcome: now it takes the lease.
                KeyClaim::Known(_) => {
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
        Ok(CallStep::Run(run))
    }

    /// The lease with what is known of the key; or, if that will do, something
    /// that is known and no lease.
    async fn claim_and_load(
        &self,
        name: &Name,
        effort: Effort,
        wants: Wants,
    ) -> Result<KeyClaim, Refusal> {
        let mut guard = match self.claim(name, effort, wants).await? {
            Sought::Lease(guard) => guard,
            Sought::Record(record) => return Ok(KeyClaim::Known(Found::of(record)?)),
            Sought::Busy => return Err(running(name)),
        };
        let found = match guard.take_loaded() {
            Some(record) => record.map(Found::of).transpose()?,
            None => self.load(name).await?,
        };
        Ok(KeyClaim::Lease(guard, found))
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
}
