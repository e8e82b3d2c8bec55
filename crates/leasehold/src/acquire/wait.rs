//! The only waiting loop.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Admitted, Attempt, FirstClaim};
use super::releaser::Releaser;
use super::request::Effort;
use super::sought::{Delivery, PendingVerdict, Sought};
use crate::claim::{Busy, Holder, Stance, Verdict, Wake, rounded};
use crate::clock::Moment;
use crate::detached::Handoff;
use crate::error::{Error, ErrorKind, Result};
use crate::gate::GatePass;
use crate::hold::Hold;

/// The shortest pause between two looks at a busy name.
const BREATH: Duration = Duration::from_millis(1);
/// How often a grant may come too late to be used before we give up.
const LATE_GRANTS: u32 = 5;

/// Claims and waits until it has what it is after, or must not wait any longer.
pub(super) struct WaitLoop<'a> {
    pub(super) attempt: Attempt<'a>,
    pub(super) handoff: &'a Handoff<Delivery>,
}

impl WaitLoop<'_> {
    pub(super) async fn seek(&self, first: Option<FirstClaim>) -> Result<Sought<Releaser>> {
        self.attempt.request.check(self.attempt.core.engine.profile())?;
        match self.attempt.request.effort {
            Effort::Try => self.try_and_see(first).await.map(|(sought, _)| sought),
            Effort::Attempts { count, every, until, .. } => {
                self.try_often(count, every, until).await
            }
            Effort::Wait { until, .. } => self.wait(until, first).await,
        }
    }

    /// One claim that leaves nothing behind if it is not granted; who holds it
    /// then.
    async fn try_and_see(
        &self,
        mut first: Option<FirstClaim>,
    ) -> Result<(Sought<Releaser>, Option<Holder>)> {
        if first.is_none()
            && let Some(releaser) = self.attempt.reenter()?
        {
            return Ok((Sought::Lease(releaser), None));
        }
        for _ in 0..LATE_GRANTS {
            let (releaser, answer) = self.take_up(&mut first);
            let verdict = self.ask(&releaser.hold, answer, Stance::Try, Moment::NEVER).await?;
            match self.attempt.admit(releaser, verdict) {
                Admitted::Lease(releaser) => return Ok((Sought::Lease(releaser), None)),
                Admitted::Record(record) => return Ok((Sought::Record(record), None)),
                Admitted::Busy(releaser, busy) => {
                    // Nothing to release: a try leaves nothing behind.
                    releaser.forget();
                    return Ok((Sought::Busy, busy.holder));
                }
                Admitted::TooLate => {}
            }
        }
        Err(self.too_slow())
    }

    async fn try_often(
        &self,
        count: u32,
        every: Duration,
        until: Moment,
    ) -> Result<Sought<Releaser>> {
        let mut holder = None;
        for attempt in 0..count {
            if attempt > 0 {
                self.rest_until(self.attempt.core.clock.now().after(every).min(until)).await?;
            }
            match self.try_and_see(None).await? {
                (Sought::Busy, found) => holder = found,
                (sought, _) => return Ok(sought),
            }
            if self.attempt.core.clock.now() >= until {
                break;
            }
        }
        Err(self.timed_out(holder.as_ref()))
    }

    /// The ticket of the first claim with what to wait for, or a fresh one.
    fn take_up(&self, first: &mut Option<FirstClaim>) -> (Releaser, Option<PendingVerdict>) {
        match first.take() {
            Some(FirstClaim { releaser, answer, .. }) => (releaser, Some(answer)),
            None => (Releaser::new(self.attempt.core, self.attempt.request), None),
        }
    }

    async fn wait(&self, until: Moment, mut first: Option<FirstClaim>) -> Result<Sought<Releaser>> {
        let mut pass = first.as_mut().and_then(|first| first.pass.take());
        if first.is_none() {
            if let Some(releaser) = self.attempt.reenter()? {
                return Ok(Sought::Lease(releaser));
            }
            pass =
                if self.attempt.request.is_gated() { Some(self.pass(until).await?) } else { None };
            if let Some(releaser) = self.attempt.reenter()? {
                return Ok(Sought::Lease(releaser));
            }
        }
        for _ in 0..LATE_GRANTS {
            let (releaser, answer) = self.take_up(&mut first);
            if let Some(sought) = self.wait_with(releaser, answer, until, pass.as_ref()).await? {
                return Ok(sought);
            }
        }
        Err(self.too_slow())
    }

    /// The turn to ask, among the tasks of this process.
    async fn pass(&self, until: Moment) -> Result<GatePass> {
        tokio::select! {
            biased;
            pass = self.attempt.core.gate.enter(&self.attempt.request.name) => Ok(pass),
            error = self.given_up() => Err(error),
            () = self.attempt.core.clock.sleep_until(until) => {
                let holder = self.attempt.core.gate.holder(&self.attempt.request.name);
                Err(self.timed_out(holder.as_ref()))
            }
        }
    }

    /// Claims and waits, again and again with the same ticket; `None` if it was
    /// granted too late to be of use.
    async fn wait_with(
        &self,
        mut releaser: Releaser,
        mut answer: Option<PendingVerdict>,
        until: Moment,
        pass: Option<&GatePass>,
    ) -> Result<Option<Sought<Releaser>>> {
        let core = self.attempt.core;
        let mut holder = None;
        loop {
            let stance = Stance::Wait { until };
            let asked = self.ask(&releaser.hold, answer.take(), stance, until).await;
            let verdict = asked.map_err(|error| last_seen(error, holder.as_ref()))?;
            let busy = match self.attempt.admit(releaser, verdict) {
                Admitted::Lease(releaser) => return Ok(Some(Sought::Lease(releaser))),
                Admitted::Record(record) => return Ok(Some(Sought::Record(record))),
                Admitted::TooLate => return Ok(None),
                Admitted::Busy(again, busy) => {
                    releaser = again;
                    busy
                }
            };
            if let Some(pass) = pass {
                pass.note(busy.holder.clone());
            }
            let hold = &releaser.hold;
            if let Some(place) = busy.place {
                hold.placed(place, core.drift(place.ttl));
                core.look_after(hold);
            }
            // Its place was confirmed a third of a ttl ago at most, so the next
            // renewal is soon enough: a hand-over costs two requests.
            if core.clock.now() < until
                && let Wake::Granted { fence, predecessor } = self.pause(hold, &busy, until).await?
                && !core.losses.concern(hold.id, hold.confirmed())
                && hold.handed_over(fence, predecessor)
            {
                // Lost in this very moment, it is of no use for another try.
                let ours = core.take_on(hold, hold.confirmed());
                return Ok(ours.then(|| Sought::Lease(self.attempt.entered(releaser))));
            }
            if core.clock.now() >= until {
                return Err(self.timed_out(busy.holder.as_ref()));
            }
            holder = busy.holder;
        }
    }

    /// Resolves when there is no use in waiting: the caller has gone, or the
    /// client was shut down.
    async fn given_up(&self) -> Error {
        tokio::select! {
            biased;
            () = self.handoff.abandoned() => abandoned(),
            error = self.attempt.core.closing() => error,
        }
    }

    /// Sends one claim, unless it has left already. It is never cut short: when
    /// the time is up the request is finished apart, and the release that
    /// follows waits for it.
    async fn ask(
        &self,
        hold: &Arc<Hold>,
        answer: Option<PendingVerdict>,
        stance: Stance,
        until: Moment,
    ) -> Result<Verdict> {
        let mut asked = match answer {
            Some(answer) => answer,
            None => {
                self.attempt.core.check_open()?;
                self.turn(hold, until).await?;
                self.attempt.core.engine.acquire(self.attempt.request.claim(hold.ticket(), stance))
            }
        };
        self.handoff.set_asking(true);
        let verdict = tokio::select! {
            biased;
            verdict = &mut asked => verdict,
            () = self.attempt.core.clock.sleep_until(until) => {
                self.handoff.set_asking(false);
                let hold = Arc::clone(hold);
                self.attempt.core.home.spawn(async move {
                    let _ = asked.await;
                    hold.end_turn();
                });
                return Err(self.waited_for("and the engine has not answered").unknown());
            }
        };
        self.handoff.set_asking(false);
        hold.end_turn();
        if let Ok(Verdict::Busy(Busy { found: None, .. })) = &verdict {
            self.attempt.asked.busy();
        }
        verdict.map_err(|error| self.attempt.placed_error(error))
    }

    /// The turn to send the claim: a renewal of the place may be under way, and
    /// take longer than the caller.
    async fn turn(&self, hold: &Hold, until: Moment) -> Result<()> {
        if hold.try_turn() {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = hold.turn() => Ok(()),
            error = self.given_up() => Err(error),
            () = self.attempt.core.clock.sleep_until(until) => {
                Err(self.waited_for("and the engine has not answered"))
            }
        }
    }

    /// Waits until it is worth to claim again.
    async fn pause(&self, hold: &Hold, busy: &Busy, until: Moment) -> Result<Wake> {
        let now = self.attempt.core.clock.now();
        let look = busy.recheck_in.map_or(Moment::NEVER, |span| now.after(span.max(BREATH)));
        let wait = self.attempt.core.engine.wait(hold.ticket(), look.min(until));
        tokio::select! {
            biased;
            error = self.given_up() => Err(error),
            wake = wait => wake.map_err(|error| self.attempt.placed_error(error)),
            () = hold.stirred() => Ok(Wake::Look),
        }
    }

    async fn rest_until(&self, moment: Moment) -> Result<()> {
        let mut rest = pin!(self.attempt.core.clock.sleep_until(moment));
        tokio::select! {
            biased;
            error = self.given_up() => Err(error),
            () = &mut rest => Ok(()),
        }
    }

    fn timed_out(&self, holder: Option<&Holder>) -> Error {
        match holder {
            Some(holder) => self.waited_for(&format!("held by {holder}")),
            None => self.waited_for("kept closed or waited for by others"),
        }
    }

    fn waited_for(&self, why: &str) -> Error {
        let (core, request) = (self.attempt.core, self.attempt.request);
        let now = core.clock.now();
        core.observer.timed_out(self.attempt.asked, &request.name, request.mode, now);
        let waited = rounded(now.since(request.effort.since(&core.clock)));
        let name = self.attempt.request.name.as_str();
        Error::new(ErrorKind::TimedOut, format!("waited {waited:?} for {name:?}, {why}"))
    }

    fn too_slow(&self) -> Error {
        let text = "leases expired before their grants arrived; use a longer ttl";
        self.attempt.placed_error(Error::new(ErrorKind::Unavailable, text))
    }
}

/// Whoever asks again and again is often in the middle of a question when the
/// time is up: the answer before it still says whom it waited for.
fn last_seen(error: Error, holder: Option<&Holder>) -> Error {
    match holder {
        Some(holder) if error.is_timed_out() => error.with("last held by", holder),
        _ => error,
    }
}

/// The user has dropped the future; nobody reads this.
fn abandoned() -> Error {
    Error::new(ErrorKind::TimedOut, "the caller has gone")
}
