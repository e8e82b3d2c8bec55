//! A hold that gives itself back.

use std::sync::Arc;

use super::request::LockRequest;
use crate::claim::{Grant, RawRecord, Ticket};
use crate::core::Core;
use crate::hold::Hold;

/// Releases its hold on drop: made before the first request leaves, so that
/// whatever happens next, nothing stays behind.
#[derive(Debug)]
pub(crate) struct Releaser {
    pub(crate) core: Arc<Core>,
    pub(crate) hold: Arc<Hold>,
    /// Whether its share has been given back already.
    pub(crate) released: bool,
    /// What the grant brought, if it was asked to and could: a lease that was
    /// handed over brings nothing.
    #[cfg_attr(
        not(any(feature = "once", feature = "ids")),
        allow(dead_code, reason = "only asked for by these")
    )]
    pub(crate) loaded: Option<Option<RawRecord>>,
}

impl Releaser {
    pub(super) fn new(core: &Arc<Core>, request: &LockRequest) -> Self {
        let ticket = Ticket::new(request.name.clone(), request.mode);
        let owner = request.reentrant.then_some(request.owner.id);
        Self::of(core, Arc::new(Hold::new(ticket, owner, request.terms, core.clock.clone())))
    }

    /// One more share in a hold.
    pub(super) fn of(core: &Arc<Core>, hold: Arc<Hold>) -> Self {
        Self { core: Arc::clone(core), hold, released: false, loaded: None }
    }

    /// The engine has granted it; false if that came too late to be of use, or
    /// after the news that it was lost.
    pub(super) fn granted(&mut self, grant: Grant, asked: bool) -> bool {
        let lost = self.core.losses.concern(self.hold.id, grant.sent_at);
        let ours = !lost && self.hold.granted(&grant, self.core.drift(grant.ttl));
        self.loaded = asked.then_some(grant.record);
        ours && self.core.take_on(&self.hold, grant.sent_at)
    }

    /// Nothing was granted, and nothing was left behind.
    pub(super) fn forget(self) {
        self.hold.give_back();
        self.core.schedule.forget(&self.hold);
    }
}

impl Drop for Releaser {
    fn drop(&mut self) {
        if !self.released && self.hold.unshare() && !self.hold.has_ended() {
            self.core.end_apart(Arc::clone(&self.hold));
        }
    }
}
