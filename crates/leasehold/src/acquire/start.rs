//! The start of a request: as far as it comes without waiting.
//!
//! A free name on an engine that answers at once needs no errand, no parcel and
//! no timer. What comes no further is handed on: the same ticket, the same
//! request to the engine, and nobody asks twice.

use std::future::ready;
use std::sync::Arc;
use std::task::Context;

use super::{Answer, Effort, Request, Tenancy, Wish};
use crate::claim::{Busy, Grant, Stance, Verdict};
use crate::core::Core;
use crate::error::Result;
use crate::gate::Pass;
use crate::observe::Asked;
use crate::parcel::at_once;

/// How far a request came.
pub(crate) enum Start {
    /// To its end.
    Done(Result<Option<Tenancy>>),
    /// The engine was asked, and it is not the end.
    UnderWay(Box<Begun>),
    /// Nowhere: others are before it, or it is for the waiting loop to refuse.
    NotYet,
}

/// A request that has left.
pub(crate) struct Begun {
    pub(super) asked: Asked,
    pub(super) first: First,
}

/// The first claim of a request.
pub(super) struct First {
    pub(super) tenancy: Tenancy,
    pub(super) pass: Option<Pass>,
    pub(super) answer: Answer,
}

/// Starts a request.
pub(crate) fn begin(core: &Arc<Core>, request: &Request, cx: &mut Context<'_>) -> Start {
    let Some((stance, pass)) = admitted(core, request) else { return Start::NotYet };
    let since = || request.effort.since(&core.clock);
    let asked = core.observer.asked(&request.name, request.mode, since);
    let wish = Wish { core, request, asked: &asked };
    if let Some(entered) = asked.inside(|| wish.reenter()).transpose() {
        return Start::Done(entered.map(Some));
    }
    let tenancy = Tenancy::new(core, request);
    // Nobody else knows the ticket yet.
    tenancy.hold.try_turn();
    let ask = || core.engine.acquire(request.claim(tenancy.hold.ticket(), stance));
    let answer = match asked.inside(|| at_once(&core.home, cx, ask)) {
        Ok(Ok(Verdict::Granted(grant))) => {
            tenancy.hold.end_turn();
            return asked.inside(|| wish.granted(tenancy, grant));
        }
        Ok(Ok(Verdict::Busy(Busy { found: Some(record), .. }))) => {
            tenancy.hold.end_turn();
            return Start::Done(Ok(Some(tenancy.found(record))));
        }
        Ok(other) => Box::pin(ready(other)),
        Err(under_way) => under_way,
    };
    Start::UnderWay(Box::new(Begun { asked, first: First { tenancy, pass, answer } }))
}

/// What it takes to ask at once; `None` if that cannot be.
fn admitted(core: &Core, request: &Request) -> Option<(Stance, Option<Pass>)> {
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

impl Wish<'_> {
    /// The engine has granted the first claim at once.
    fn granted(&self, mut tenancy: Tenancy, grant: Grant) -> Start {
        if !tenancy.granted(grant, self.request.wants.record()) {
            // Too late to be of use, and given back.
            return Start::NotYet;
        }
        self.core.look_after(&tenancy.hold);
        self.moved_in(&tenancy);
        Start::Done(self.core.check_open().map(|()| Some(tenancy)))
    }
}
