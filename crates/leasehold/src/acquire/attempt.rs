//! An attempt: one claim, and what its answer means.

use std::future::ready;
use std::sync::Arc;
use std::task::Context;

use super::releaser::Releaser;
use super::request::{Effort, LockRequest};
use super::sought::{PendingVerdict, Sought};
use crate::claim::{Busy, Mode, RawRecord, Stance, Verdict};
use crate::core::Core;
use crate::detached::at_once;
use crate::error::{Error, Result};
use crate::gate::GatePass;
use crate::layers::guardrail::check_ttl;
use crate::observe::Asked;

/// A request, for whom, and under whose eyes.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) core: &'a Arc<Core>,
    pub(super) request: &'a LockRequest,
    pub(super) asked: &'a Asked,
}

/// How far a request came without waiting.
pub(super) enum Begun {
    /// To its end.
    Done(Result<Sought<Releaser>>),
    /// The engine was asked, and it is not the end.
    UnderWay(Box<UnderWay>),
    /// Nowhere: others are before it, or it is for the waiting loop to refuse.
    NotYet,
}

/// A request that has left.
pub(super) struct UnderWay {
    pub(super) asked: Asked,
    pub(super) first: FirstClaim,
}

/// The first claim of a request: its ticket, the right to ask, and the answer to
/// wait for.
pub(super) struct FirstClaim {
    pub(super) releaser: Releaser,
    pub(super) pass: Option<GatePass>,
    pub(super) answer: PendingVerdict,
}

/// What a verdict means to the one who asked.
pub(super) enum Admitted {
    Lease(Releaser),
    /// No lease, but a record that will do.
    Record(RawRecord),
    Busy(Releaser, Busy),
    /// Granted too late to be of use, and given back.
    TooLate,
}

/// Starts a request, as far as it comes without waiting: a free name on an
/// engine that answers at once needs no other thread and no timer. What comes no
/// further is handed on: the same ticket, the same request to the engine, and
/// nobody asks twice.
pub(super) fn begin(core: &Arc<Core>, request: &LockRequest, cx: &mut Context<'_>) -> Begun {
    let Some((stance, pass)) = may_ask(core, request) else { return Begun::NotYet };
    let since = || request.effort.since(&core.clock);
    let asked = core.observer.asked(&request.name, request.mode, since);
    let attempt = Attempt { core, request, asked: &asked };
    if let Some(entered) = asked.inside(|| attempt.reenter()).transpose() {
        return Begun::Done(entered.map(Sought::Lease));
    }
    let releaser = Releaser::new(core, request);
    // Nobody else knows the ticket yet.
    releaser.hold.try_turn();
    let ask = || core.engine.acquire(request.claim(releaser.hold.ticket(), stance));
    let answer = match asked.inside(|| at_once(&core.home, cx, ask)) {
        Ok(Ok(verdict)) if !matches!(verdict, Verdict::Busy(Busy { found: None, .. })) => {
            releaser.hold.end_turn();
            return asked.inside(|| attempt.admit(releaser, verdict)).at_once(core);
        }
        Ok(other) => Box::pin(ready(other)),
        Err(under_way) => under_way,
    };
    Begun::UnderWay(Box::new(UnderWay { asked, first: FirstClaim { releaser, pass, answer } }))
}

impl Admitted {
    /// What the first answer means to a request that has not waited yet.
    fn at_once(self, core: &Core) -> Begun {
        match self {
            Self::Lease(releaser) => {
                Begun::Done(core.check_open().map(|()| Sought::Lease(releaser)))
            }
            Self::Record(record) => Begun::Done(Ok(Sought::Record(record))),
            Self::Busy(..) | Self::TooLate => Begun::NotYet,
        }
    }
}

/// What it takes to ask at once; `None` if that cannot be.
fn may_ask(core: &Core, request: &LockRequest) -> Option<(Stance, Option<GatePass>)> {
    if core.is_closed() || request.check(core.engine.profile()).is_err() {
        return None;
    }
    match request.effort {
        Effort::Try => Some((Stance::Try, None)),
        Effort::Wait { until, .. } if !request.is_gated() => Some((Stance::Wait { until }, None)),
        Effort::Wait { until, .. } => {
            let pass = core.gate.try_enter(&request.name)?;
            Some((Stance::Wait { until }, Some(pass)))
        }
        Effort::Attempts { .. } => None,
    }
}

impl Attempt<'_> {
    /// One more share in what the owner already holds.
    pub(super) fn reenter(&self) -> Result<Option<Releaser>> {
        let (request, core) = (self.request, self.core);
        let countable = !matches!(request.mode, Mode::Permits { .. });
        let found = (request.reentrant && countable)
            .then(|| core.owners.find(request.owner.id, &request.name));
        let Some(hold) = found.flatten() else { return Ok(None) };
        let releaser = Releaser::of(core, hold);
        let held = releaser.hold.mode();
        if !held.covers(request.mode) {
            return Err(self.placed_error(Error::invalid(format!(
                "the owner holds this name for {held} and cannot enter it again for {}",
                request.mode
            ))));
        }
        check_ttl(request.terms.ttl, core.engine.profile())
            .map_err(|error| self.placed_error(error))?;
        if releaser.hold.raise_ttl(request.terms.ttl) {
            core.schedule.keep_now(&releaser.hold);
        }
        core.observer.reentered(self.asked, &releaser.hold);
        Ok(Some(releaser))
    }

    /// Takes in what the engine has answered: the only way from a verdict to a
    /// lease.
    pub(super) fn admit(&self, mut releaser: Releaser, verdict: Verdict) -> Admitted {
        match verdict {
            Verdict::Granted(grant) => {
                if !releaser.granted(grant, self.request.wants.record()) {
                    return Admitted::TooLate;
                }
                Admitted::Lease(self.entered(releaser))
            }
            Verdict::Busy(Busy { found: Some(record), .. }) => {
                releaser.forget();
                Admitted::Record(record)
            }
            Verdict::Busy(busy) => Admitted::Busy(releaser, busy),
        }
    }

    /// The lease is ours: those of this process may know.
    pub(super) fn entered(&self, releaser: Releaser) -> Releaser {
        self.core.owners.enter(&releaser.hold);
        self.core.observer.granted(self.asked, &releaser.hold);
        releaser
    }

    pub(super) fn placed_error(&self, error: Error) -> Error {
        error.with("engine", self.core.engine.profile().scheme).with("name", &self.request.name)
    }
}
