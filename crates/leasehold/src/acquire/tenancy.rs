//! Tenancies: holds that give themselves back.

use std::sync::Arc;

use super::Request;
use crate::claim::{Grant, Record, Ticket};
use crate::core::Core;
use crate::hold::Hold;

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
    pub(super) fn new(core: &Arc<Core>, request: &Request) -> Self {
        let ticket = Ticket::new(request.name.clone(), request.mode);
        let owner = request.reentrant.then_some(request.owner.id);
        let hold = Arc::new(Hold::new(ticket, owner, request.terms, core.clock.clone()));
        Self { core: Arc::clone(core), hold, spent: false, loaded: None }
    }

    /// The engine has granted it; false if that came too late to be of use, or
    /// after the news that it was lost.
    pub(super) fn granted(&mut self, grant: Grant, asked: bool) -> bool {
        let lost = self.core.losses.concern(self.hold.id, grant.sent_at);
        let ours = !lost && self.hold.granted(&grant, self.core.drift(grant.ttl));
        self.loaded = asked.then_some(grant.record);
        ours && self.core.take_on(&self.hold, grant.sent_at)
    }

    /// Nothing was granted and nothing is left behind; this record is all it has.
    pub(super) fn found(mut self, record: Record) -> Self {
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
