//! The only waiting loop.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::start::First;
use super::wish::Wish;
use super::{Answer, Delivery, Effort, Tenancy};
use crate::claim::{Busy, Holder, Stance, Verdict, Wake, rounded};
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Result};
use crate::gate::Pass;
use crate::hold::Hold;
use crate::parcel::Parcel;

/// The shortest pause between two looks at a busy name.
const BREATH: Duration = Duration::from_millis(1);
/// How often a grant may come too late to be used before we give up.
const LATE_GRANTS: u32 = 5;

/// Claims and waits until it has what it is after, or must not wait any longer.
pub(super) struct Seeker<'a> {
    pub(super) wish: Wish<'a>,
    pub(super) parcel: &'a Parcel<Delivery>,
}

impl<'a> std::ops::Deref for Seeker<'a> {
    type Target = Wish<'a>;

    fn deref(&self) -> &Wish<'a> {
        &self.wish
    }
}

impl Seeker<'_> {
    pub(super) async fn seek(&self, first: Option<First>) -> Result<Option<Tenancy>> {
        self.request.check(self.core.engine.profile())?;
        match self.request.effort {
            Effort::Try => Ok(self.try_and_see(first).await?.ok()),
            Effort::Attempts { count, every, until, .. } => {
                self.try_often(count, every, until).await.map(Some)
            }
            Effort::Wait { until, .. } => self.wait(until, first).await.map(Some),
        }
    }

    /// One claim that leaves nothing behind if it is not granted.
    async fn try_and_see(&self, mut first: Option<First>) -> Result<Result<Tenancy, Busy>> {
        if first.is_none()
            && let Some(tenancy) = self.reenter()?
        {
            return Ok(Ok(tenancy));
        }
        for _ in 0..LATE_GRANTS {
            let (mut tenancy, answer) = self.take_up(&mut first);
            match self.ask(&tenancy, answer, Stance::Try, Moment::NEVER).await? {
                Verdict::Granted(grant) => {
                    if tenancy.granted(grant, self.request.wants.record()) {
                        self.moved_in(&tenancy);
                        return Ok(Ok(tenancy));
                    }
                }
                Verdict::Busy(Busy { found: Some(record), .. }) => {
                    return Ok(Ok(tenancy.found(record)));
                }
                Verdict::Busy(busy) => {
                    // Nothing to release: a try leaves nothing behind.
                    tenancy.hold.give_back();
                    return Ok(Err(busy));
                }
            }
        }
        Err(self.too_slow())
    }

    async fn try_often(&self, count: u32, every: Duration, until: Moment) -> Result<Tenancy> {
        let mut holder = None;
        for attempt in 0..count {
            if attempt > 0 {
                self.rest_until(self.core.clock.now().after(every).min(until)).await?;
            }
            match self.try_and_see(None).await? {
                Ok(tenancy) => return Ok(tenancy),
                Err(busy) => holder = busy.holder,
            }
            if self.core.clock.now() >= until {
                break;
            }
        }
        Err(self.timed_out(holder.as_ref()))
    }

    /// The ticket of the first claim with what to wait for, or a fresh one.
    fn take_up(&self, first: &mut Option<First>) -> (Tenancy, Option<Answer>) {
        match first.take() {
            Some(First { tenancy, answer, .. }) => (tenancy, Some(answer)),
            None => (Tenancy::new(self.core, self.request), None),
        }
    }

    async fn wait(&self, until: Moment, mut first: Option<First>) -> Result<Tenancy> {
        let mut pass = first.as_mut().and_then(|first| first.pass.take());
        if first.is_none() {
            if let Some(tenancy) = self.reenter()? {
                return Ok(tenancy);
            }
            pass = if self.request.is_gated() { Some(self.pass(until).await?) } else { None };
            if let Some(tenancy) = self.reenter()? {
                return Ok(tenancy);
            }
        }
        for _ in 0..LATE_GRANTS {
            let (tenancy, answer) = self.take_up(&mut first);
            if let Some(tenancy) = self.wait_with(tenancy, answer, until, pass.as_ref()).await? {
                self.moved_in(&tenancy);
                return Ok(tenancy);
            }
        }
        Err(self.too_slow())
    }

    /// The turn to ask, among the tasks of this process.
    async fn pass(&self, until: Moment) -> Result<Pass> {
        tokio::select! {
            biased;
            pass = self.core.gate.enter(&self.request.name) => Ok(pass),
            error = self.given_up() => Err(error),
            () = self.core.clock.sleep_until(until) => {
                let holder = self.core.gate.holder(&self.request.name);
                Err(self.timed_out(holder.as_ref()))
            }
        }
    }

    /// Claims and waits, again and again with the same ticket; `None` if it was
    /// granted too late to be of use. A record that was found ends it as well.
    async fn wait_with(
        &self,
        mut tenancy: Tenancy,
        mut answer: Option<Answer>,
        until: Moment,
        pass: Option<&Pass>,
    ) -> Result<Option<Tenancy>> {
        let (core, hold) = (self.core, &Arc::clone(&tenancy.hold));
        loop {
            let stance = Stance::Wait { until };
            let busy = match self.ask(&tenancy, answer.take(), stance, until).await? {
                Verdict::Busy(Busy { found: Some(record), .. }) => {
                    return Ok(Some(tenancy.found(record)));
                }
                Verdict::Busy(busy) => busy,
                Verdict::Granted(grant) => {
                    let ours = tenancy.granted(grant, self.request.wants.record());
                    return Ok(ours.then_some(tenancy));
                }
            };
            if let Some(pass) = pass {
                pass.note(busy.holder.clone());
            }
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
                return Ok(core.take_on(hold, hold.confirmed()).then_some(tenancy));
            }
            if core.clock.now() >= until {
                return Err(self.timed_out(busy.holder.as_ref()));
            }
        }
    }

    /// Resolves when there is no use in waiting: the caller has gone, or the
    /// client was shut down.
    async fn given_up(&self) -> Error {
        tokio::select! {
            biased;
            () = self.parcel.abandoned() => abandoned(),
            error = self.core.closing() => error,
        }
    }

    /// Sends one claim, unless it has left already. It is never cut short: when
    /// the time is up the request is finished apart, and the release that
    /// follows waits for it.
    async fn ask(
        &self,
        tenancy: &Tenancy,
        answer: Option<Answer>,
        stance: Stance,
        until: Moment,
    ) -> Result<Verdict> {
        let hold = &tenancy.hold;
        let mut asked = match answer {
            Some(answer) => answer,
            None => {
                self.core.check_open()?;
                self.turn(hold, until).await?;
                self.core.engine.acquire(self.request.claim(hold.ticket(), stance))
            }
        };
        self.parcel.set_asking(true);
        let verdict = tokio::select! {
            biased;
            verdict = &mut asked => verdict,
            () = self.core.clock.sleep_until(until) => {
                self.parcel.set_asking(false);
                let hold = Arc::clone(hold);
                self.core.home.spawn(async move {
                    let _ = asked.await;
                    hold.end_turn();
                });
                return Err(self.waited_for("and the engine has not answered").unknown());
            }
        };
        self.parcel.set_asking(false);
        hold.end_turn();
        if let Ok(Verdict::Busy(Busy { found: None, .. })) = &verdict {
            self.asked.busy();
        }
        verdict.map_err(|error| self.placed_error(error))
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
            () = self.core.clock.sleep_until(until) => {
                Err(self.waited_for("and the engine has not answered"))
            }
        }
    }

    /// Waits until it is worth to claim again.
    async fn pause(&self, hold: &Hold, busy: &Busy, until: Moment) -> Result<Wake> {
        let now = self.core.clock.now();
        let look = busy.recheck_in.map_or(Moment::NEVER, |span| now.after(span.max(BREATH)));
        let wait = self.core.engine.wait(hold.ticket(), look.min(until));
        tokio::select! {
            biased;
            error = self.given_up() => Err(error),
            wake = wait => wake.map_err(|error| self.placed_error(error)),
            () = hold.stirred() => Ok(Wake::Look),
        }
    }

    async fn rest_until(&self, moment: Moment) -> Result<()> {
        let mut rest = pin!(self.core.clock.sleep_until(moment));
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
        let (core, request) = (self.core, self.request);
        let now = core.clock.now();
        core.observer.timed_out(self.asked, &request.name, request.mode, now);
        let waited = rounded(now.since(request.effort.since(&core.clock)));
        let name = self.request.name.as_str();
        Error::new(ErrorKind::TimedOut, format!("waited {waited:?} for {name:?}, {why}"))
    }

    fn too_slow(&self) -> Error {
        let text = "leases expired before their grants arrived; use a longer ttl";
        self.placed_error(Error::new(ErrorKind::Unavailable, text))
    }
}

/// The user has dropped the future; nobody will read this.
fn abandoned() -> Error {
    Error::new(ErrorKind::TimedOut, "the caller has gone")
}
