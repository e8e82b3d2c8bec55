//! From a request to a lease: the only waiting loop.

mod start;
mod wish;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::{
    Busy, Claim, Grant, Holder, Mode, Owner, Record, Stance, Ticket, Verdict, Wake, rounded,
};
use crate::clock::{Clock, Moment};
use crate::core::Core;
use crate::engine::{BoxFuture, Profile};
use crate::error::{Error, ErrorKind, Result};
use crate::gate::Pass;
use crate::hold::{Hold, Terms};
use crate::name::Name;
use crate::parcel::Parcel;

pub(crate) use start::{Begun, Start, begin};

use start::First;
use wish::Wish;

/// The shortest pause between two looks at a busy name.
const BREATH: Duration = Duration::from_millis(1);
/// How often a grant may come too late to be used before we give up.
const LATE_GRANTS: u32 = 5;

/// What a recipe asks for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) name: Name,
    pub(crate) mode: Mode,
    pub(crate) owner: Owner,
    /// Whether the owner may take what it already holds.
    pub(crate) reentrant: bool,
    pub(crate) terms: Terms,
    pub(crate) meta: Option<Arc<str>>,
    pub(crate) fair: bool,
    /// Whether the grant is to bring the record of the same name.
    pub(crate) load: bool,
    /// Whether that record will do instead of a grant.
    pub(crate) unless_found: bool,
    pub(crate) effort: Effort,
}

/// How hard to try.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effort {
    /// Once.
    Try,
    /// Until granted, or until this moment.
    Wait { since: Moment, until: Moment },
    /// So many times, with pauses, and not after this moment.
    Attempts { count: u32, every: Duration, since: Moment, until: Moment },
}

impl Effort {
    /// When the wait began: now, for a try.
    fn since(self, clock: &Clock) -> Moment {
        match self {
            Self::Wait { since, .. } | Self::Attempts { since, .. } => since,
            Self::Try => clock.now(),
        }
    }
}

impl Request {
    /// Refuses what no engine could do, and what the claim does not tell it.
    fn check(&self, profile: &Profile) -> Result<()> {
        if !self.terms.hold_at_least.is_zero() && !profile.keep_closed {
            let text = format!("the {} engine cannot keep a released name closed", profile.scheme);
            return Err(Error::new(ErrorKind::Unsupported, text + " (hold_at_least)"));
        }
        match self.terms.max_hold {
            Some(Duration::ZERO) => {
                Err(Error::invalid("max_hold is zero: such a lease would be lost at once"))
            }
            _ => Ok(()),
        }
    }

    /// Whether it stands in line with those of this process. An owner's claims
    /// do so in any case, or it would wait for itself.
    const fn is_gated(&self) -> bool {
        !self.fair || self.reentrant
    }

    fn claim(&self, ticket: Ticket, stance: Stance) -> Claim {
        let mut claim = Claim::new(ticket, self.owner.clone(), self.terms.ttl);
        claim.lock_delay = self.terms.lock_delay;
        claim.renewed = self.terms.renewed;
        claim.meta.clone_from(&self.meta);
        claim.fair = self.fair;
        claim.load = self.load;
        claim.unless_found = self.unless_found;
        claim.stance = stance;
        claim
    }
}

/// A hold that gives itself back: made before the first request leaves, so
/// that whatever happens next, nothing stays behind.
#[derive(Debug)]
pub(crate) struct Tenancy {
    pub(crate) core: Arc<Core>,
    pub(crate) hold: Arc<Hold>,
    /// Whether its share has been given back already.
    pub(crate) spent: bool,
    /// What the grant brought, if it was asked to and could: a lease that was
    /// handed over brings nothing.
    #[cfg_attr(
        not(any(feature = "once", feature = "ids")),
        allow(dead_code, reason = "only asked for by these")
    )]
    pub(crate) loaded: Option<Option<Record>>,
}

impl Tenancy {
    fn new(core: &Arc<Core>, request: &Request) -> Self {
        let ticket = Ticket::new(request.name.clone(), request.mode);
        let owner = request.reentrant.then_some(request.owner.id);
        let hold = Arc::new(Hold::new(ticket, owner, request.terms, core.clock.clone()));
        Self { core: Arc::clone(core), hold, spent: false, loaded: None }
    }

    /// The engine has granted it; false if that came too late to be of use.
    fn granted(&mut self, grant: Grant, asked: bool) -> bool {
        let ours = self.hold.granted(&grant, self.core.drift(grant.ttl));
        self.loaded = asked.then_some(grant.record);
        ours
    }

    /// Nothing was granted and nothing is left behind; this record is all it has.
    fn found(mut self, record: Record) -> Self {
        self.hold.give_back();
        self.core.schedule.forget(&self.hold);
        self.spent = true;
        self.loaded = Some(Some(record));
        self
    }
}

impl Drop for Tenancy {
    fn drop(&mut self) {
        if !self.spent && self.hold.unshare() && !self.hold.has_ended() {
            self.core.end_apart(Arc::clone(&self.hold));
        }
    }
}

/// What reaches the user's future.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// The end of the request.
    Done(Result<Option<Tenancy>>),
    /// It was granted, but nobody came for it; ask again.
    TakenBack,
}

/// Carries out a request, from where it has come to, and puts what came of it
/// into the parcel.
pub(crate) async fn deliver(
    core: Arc<Core>,
    request: Request,
    begun: Option<Box<Begun>>,
    parcel: Arc<Parcel<Delivery>>,
) {
    // The last handle waits for what a dropped future leaves to be done.
    let _counted = core.errands.begin();
    let since = || request.effort.since(&core.clock);
    let (asked, first) = match begun.map(|begun| *begun) {
        Some(Begun { asked, first }) => (asked, Some(first)),
        None => (core.observer.asked(&request.name, request.mode, since), None),
    };
    let wish = Wish { core: &core, request: &request, asked: &asked };
    let seeker = Seeker { wish, parcel: &parcel };
    let mut sought = asked.around(seeker.seek(first)).await;
    if let (Ok(Some(_)), Err(closed)) = (&sought, core.check_open()) {
        sought = Err(closed);
    }
    let fetched = parcel.is_awaited_here() || !matches!(sought, Ok(Some(_)));
    parcel.put(Delivery::Done(sought));
    if fetched {
        return;
    }
    // A future that is not polled must not keep the name from everyone else.
    let patience = async {
        core.clock.sleep_until(core.clock.now().after(request.terms.ttl / 3)).await;
    };
    tokio::select! {
        biased;
        () = parcel.settled() => {}
        () = patience => {
            if let Some(unfetched) = parcel.take_back() {
                drop(unfetched);
                parcel.put(Delivery::TakenBack);
            }
        }
    }
}

struct Seeker<'a> {
    wish: Wish<'a>,
    parcel: &'a Parcel<Delivery>,
}

impl<'a> std::ops::Deref for Seeker<'a> {
    type Target = Wish<'a>;

    fn deref(&self) -> &Wish<'a> {
        &self.wish
    }
}

impl Seeker<'_> {
    async fn seek(&self, first: Option<First>) -> Result<Option<Tenancy>> {
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
                    if tenancy.granted(grant, self.request.load) {
                        self.core.schedule.keep(&tenancy.hold);
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
                    let ours = tenancy.granted(grant, self.request.load);
                    core.schedule.keep(hold);
                    return Ok(ours.then_some(tenancy));
                }
            };
            if let Some(pass) = pass {
                pass.note(busy.holder.clone());
            }
            if let Some(place) = busy.place {
                hold.placed(place, core.drift(place.ttl));
                core.schedule.keep(hold);
            }
            if core.clock.now() < until
                && let Wake::Granted { fence, predecessor } = self.pause(hold, &busy, until).await?
                && hold.handed_over(fence, predecessor)
            {
                // Its place was confirmed a third of a ttl ago at most, so the
                // next renewal is soon enough: a hand-over costs two requests.
                core.schedule.keep(hold);
                return Ok(Some(tenancy));
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
                hold.turn().await;
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

/// What an engine answers to a claim that has left.
type Answer = BoxFuture<Result<Verdict>>;

/// The user has dropped the future; nobody will read this.
fn abandoned() -> Error {
    Error::new(ErrorKind::TimedOut, "the caller has gone")
}
