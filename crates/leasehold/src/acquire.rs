//! From a request to a lease.
//!
//! [`acquire`] is the only way in. It [begins](attempt::begin) on the caller's
//! thread; what comes to no end there goes on as a detached call, in the
//! [waiting loop](wait::WaitLoop).

mod attempt;
mod releaser;
mod request;
mod sought;
mod wait;

use std::sync::Arc;

use crate::claim::RENEW_FRACTION;
use crate::core::Core;
use crate::detached::{Detached, Handoff, here};
use crate::error::Result;

pub(crate) use releaser::Releaser;
pub(crate) use request::{Effort, LockRequest};
pub(crate) use sought::Sought;

use attempt::{Attempt, Begun, UnderWay, begin};
use sought::Delivery;
use wait::WaitLoop;

/// Carries out a request: here as far as it need not wait. `check_home` says
/// whether there is anyone to leave the rest to.
pub(crate) async fn acquire(
    core: &Arc<Core>,
    request: &LockRequest,
    check_home: impl FnOnce() -> Result<()>,
) -> Result<Sought<Releaser>> {
    let under_way = match here(|cx| begin(core, request, cx)).await {
        Begun::Done(sought) => return sought,
        Begun::UnderWay(under_way) => Some(under_way),
        Begun::NotYet => None,
    };
    check_home()?;
    Box::pin(go_on(core, request, under_way)).await
}

/// Goes on with a request; asks again if the grant was taken back because nobody
/// polled for it.
async fn go_on(
    core: &Arc<Core>,
    request: &LockRequest,
    mut under_way: Option<Box<UnderWay>>,
) -> Result<Sought<Releaser>> {
    loop {
        let (own, again, begun) = (Arc::clone(core), request.clone(), under_way.take());
        let call = |handoff| deliver(own, again, begun, handoff);
        match Detached::new(core.home.clone(), call).await {
            Delivery::Done(sought) => return sought,
            Delivery::TakenBack if matches!(request.effort, Effort::Try) => {
                return Ok(Sought::Busy);
            }
            Delivery::TakenBack => {}
        }
    }
}

/// Carries out a request, from where it has come to, and hands over what came of
/// it.
async fn deliver(
    core: Arc<Core>,
    request: LockRequest,
    begun: Option<Box<UnderWay>>,
    handoff: Arc<Handoff<Delivery>>,
) {
    // The last handle waits for what a dropped future leaves to be done.
    let _counted = core.tasks.begin();
    let since = || request.effort.since(&core.clock);
    let (asked, first) = match begun.map(|begun| *begun) {
        Some(UnderWay { asked, first }) => (asked, Some(first)),
        None => (core.observer.asked(&request.name, request.mode, since), None),
    };
    let attempt = Attempt { core: &core, request: &request, asked: &asked };
    let wait = WaitLoop { attempt, handoff: &handoff };
    let mut sought = asked.around(wait.seek(first)).await;
    if let (Ok(Sought::Lease(_)), Err(closed)) = (&sought, core.check_open()) {
        sought = Err(closed);
    }
    let fetched = handoff.is_awaited_here() || !matches!(sought, Ok(Sought::Lease(_)));
    handoff.put(Delivery::Done(sought));
    if !fetched {
        take_back_unfetched(&core, &request, &handoff).await;
    }
}

/// A future that is not polled must not keep the name from everyone else.
async fn take_back_unfetched(core: &Core, request: &LockRequest, handoff: &Handoff<Delivery>) {
    let patience = core.clock.now().after(request.terms.ttl / RENEW_FRACTION);
    tokio::select! {
        biased;
        () = handoff.settled() => {}
        () = core.clock.sleep_until(patience) => {
            if let Some(unfetched) = handoff.take_back() {
                drop(unfetched);
                handoff.put(Delivery::TakenBack);
            }
        }
    }
}
