//! From a request to a lease.

mod request;
mod seeker;
mod start;
mod tenancy;
mod wish;

use std::sync::Arc;

use crate::claim::Verdict;
use crate::core::Core;
use crate::engine::BoxFuture;
use crate::error::Result;
use crate::parcel::Parcel;

pub(crate) use request::{Effort, Request};
pub(crate) use start::{Begun, Start, begin};
pub(crate) use tenancy::Tenancy;

use seeker::Seeker;
use wish::Wish;

/// What an engine answers to a claim that has left.
type Answer = BoxFuture<Result<Verdict>>;

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
