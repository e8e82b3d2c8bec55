//! The run: the work of one caller under a lease, and how it ends.

use std::fmt::Display;
use std::time::Duration;

use super::builder::{Done, Failure, Kept, OnCrash, Once};
use super::entry::{Found, KeyEntry, Progress};
use super::flight::Lead;
use super::key::millis;
use super::lookup::OnceCall;
use super::refusal::{OnceError, late};
use super::turn::Turn;
use crate::claim::{Expect, Predecessor, RawRecord, Released, SPAN_MAX, Store};
use crate::error::Result;
use crate::guard::Guard;
use crate::mutant::{self, Mutant};
use crate::name::Name;

/// A run. One that is dropped was cut off, and its successor is told.
pub(super) struct Run<'a> {
    once: &'a Once,
    call: OnceCall,
    guard: Option<Guard>,
    lead: Option<Lead>,
    found: Option<Found>,
}

impl<'a> Run<'a> {
    pub(super) const fn new(
        once: &'a Once,
        call: OnceCall,
        guard: Guard,
        lead: Lead,
        found: Option<Found>,
    ) -> Self {
        Self { once, call, guard: Some(guard), lead: Some(lead), found }
    }

    pub(super) async fn carry_out<F, Fut, T, E>(&mut self, work: F) -> Result<Done, OnceError<E>>
    where
        F: FnOnce(Turn) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Into<Kept>,
        E: Display,
    {
        let Some(guard) = &self.guard else { return Err(late(&self.call.name).into()) };
        let took_over = self.cut_off_before().is_some();
        let (turn, lost) = (Turn { hold: guard.watched(), took_over }, guard.lost());
        if self.marks() {
            Box::pin(self.mark()).await?;
        }
        // To mark it takes time: what was lost meanwhile is not begun.
        turn.check()?;
        let done = tokio::select! {
            biased;
            // First, because what blocks a thread has come to its end before it is
            // looked at; to record it is refused if the lease is not ours any more.
            done = work(turn) => done,
            _ = lost => return Err(cut_off(&self.call.name)),
        };
        match done {
            Ok(outcome) => self.record(outcome.into()).await,
            // Rare, so it takes no room in the future of those that succeed.
            Err(error) => Box::pin(self.fail(error)).await,
        }
    }

    /// How long ago a run before this one was cut off, if it was.
    pub(super) fn cut_off_before(&self) -> Option<Duration> {
        let begun = self.found.as_ref().map(|found| &found.entry);
        if let Some(entry) = begun.filter(|entry| entry.state == Progress::Started) {
            return Some(entry.age(self.once.now()));
        }
        let before = self.guard.as_ref().map(Guard::predecessor);
        let died = matches!(before, Some(Predecessor::Expired | Predecessor::Evicted));
        // With a mark, what left none had not begun.
        (died && !self.marks()).then_some(Duration::ZERO)
    }

    /// Whether it is written down that the work begins: where that must not be
    /// forgotten, and where the engine cannot tell how a holder ended.
    fn marks(&self) -> bool {
        self.once.crash == OnCrash::Unknown || !self.once.builder.locks.profile().predecessor
    }

    /// Writes down that the work begins. It expects what we have seen, so that
    /// one who was stopped right here cannot cover up an outcome when it wakes.
    async fn mark(&mut self) -> Result<()> {
        let seen = self.found.as_ref().map_or(Expect::Absent, |f| Expect::Version(f.version));
        let mut marked = self.mark_over(seen).await;
        if seen != Expect::Absent && matches!(marked, Ok(Err(None))) {
            // What we have seen has come to the end of its time meanwhile.
            marked = self.mark_over(Expect::Absent).await;
        }
        match marked {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(late(&self.call.name)),
            Err(error) => {
                // The mark may stand there although nothing has begun.
                let found = self.found.take();
                let _ = self.unmark(found).await;
                Err(error)
            }
        }
    }

    async fn mark_over(&self, seen: Expect) -> Result<Result<u64, Option<RawRecord>>> {
        let mark = self.store_of(&self.entry(Progress::Started, Vec::new()));
        let store = mark.expecting(seen).lasting();
        let locks = &self.once.builder.locks;
        let record_store = locks.record_store()?;
        locks.at_home(|| record_store.store(store)).await
    }

    fn entry(&self, state: Progress, outcome: Vec<u8>) -> KeyEntry {
        let at = self.once.now();
        KeyEntry {
            state,
            fence: self.guard.as_ref().map_or(0, Guard::fence),
            at,
            until: at.saturating_add(millis(self.call.keep)),
            stamp: self.call.trace.map_or(0, |trace| trace.stamp),
            fingerprint: self.call.fingerprint,
            outcome,
        }
    }

    fn store_of(&self, entry: &KeyEntry) -> Store {
        self.store_for(entry, self.call.keep)
    }

    fn store_for(&self, entry: &KeyEntry, keep: Duration) -> Store {
        let mut store = Store::put(self.call.name.clone(), entry.encode());
        // What is to be kept for ever is kept for as long as a store can tell.
        let keep = keep.saturating_add(self.once.tombstone);
        store.ttl =
            Some(if mutant::lives(Mutant::EndlessSpans) { keep } else { keep.min(SPAN_MAX) });
        store.unlisted = true;
        store
    }

    async fn record<E>(&mut self, kept: Kept) -> Result<Done, OnceError<E>> {
        let (entry, outcome) = match kept {
            Kept(Some(outcome)) if outcome.len() <= self.once.max_outcome => {
                (self.entry(Progress::Done, outcome), None)
            }
            Kept(outcome) => (self.entry(Progress::Bare, Vec::new()), outcome),
        };
        let finished = self.finish(&entry).await;
        let outcome = outcome.unwrap_or(entry.outcome);
        match finished {
            Ok(()) => Ok(Done::new(outcome, false, Duration::ZERO)),
            Err(cause) => Err(OnceError::Unrecorded { outcome, cause }),
        }
    }

    async fn fail<E: Display>(&mut self, error: E) -> Result<Done, OnceError<E>> {
        // That it cannot be written down changes nothing for this caller.
        let _ = match self.once.failure {
            Failure::Forget if self.marks() => {
                // A run that was cut off before has its end with this one.
                let found = self.found.take().filter(|it| it.entry.state != Progress::Started);
                self.unmark(found).await
            }
            Failure::Forget => {
                self.leave().await;
                Ok(())
            }
            Failure::Record => {
                let mut message = error.to_string().into_bytes();
                message.truncate(self.once.max_outcome);
                self.finish(&self.entry(Progress::Failed, message)).await
            }
        };
        Err(OnceError::Failed(error))
    }

    /// Stores the end and gives the lease back, in one request.
    async fn finish(&mut self, entry: &KeyEntry) -> Result<()> {
        let store = self.store_of(entry);
        let Some(guard) = self.guard.take() else { return Err(late(&self.call.name)) };
        // Without a reply the engine was asked twice: look what the first did.
        if guard.release_storing(&store).await? == Released::AlreadyLost {
            let found = Box::pin(self.once.load(&self.call.name)).await?;
            // The mark of this run has the same fence, and is no end.
            let is_end = |Found { entry: it, .. }: &Found| {
                let ended = it.state != Progress::Started || mutant::lives(Mutant::MarkIsOutcome);
                it.fence == entry.fence && ended
            };
            if !found.as_ref().is_some_and(is_end) {
                return Err(late(&self.call.name));
            }
        }
        self.once.seen.note(&self.call.name);
        if let Some(lead) = self.lead.take() {
            lead.tell(entry);
        }
        Ok(())
    }

    /// Gives the lease back, and leaves everything as it is.
    pub(super) async fn leave(&mut self) {
        if let Some(guard) = self.guard.take() {
            // An error changes nothing: home tries again.
            let _ = guard.release().await;
        }
    }

    /// Takes the mark back together with the lease, and leaves what it had covered.
    async fn unmark(&mut self, found: Option<Found>) -> Result<()> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        let store = found.and_then(|found| self.give_back(&found.entry));
        let store = store.unwrap_or_else(|| Store::delete(self.call.name.clone()));
        guard.release_storing(&store).await.map(drop)
    }

    /// An entry for the rest of its time, if there is any left.
    fn give_back(&self, entry: &KeyEntry) -> Option<Store> {
        let left = Duration::from_millis(entry.until.saturating_sub(self.once.now()));
        let store = self.store_for(entry, left);
        store.ttl.is_some_and(|left| !left.is_zero()).then_some(store)
    }
}

/// The lease was lost in the middle of the work.
fn cut_off<E>(name: &Name) -> OnceError<E> {
    if mutant::lives(Mutant::CutOffIsRefused) {
        return late(name).into();
    }
    OnceError::CutOff(late(name))
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.cut_off();
        }
    }
}
