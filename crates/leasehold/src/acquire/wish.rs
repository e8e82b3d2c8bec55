//! A wish: what start and waiting loop know of a request.

use std::sync::Arc;

use super::{Request, Tenancy};
use crate::claim::Mode;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::layers::guardrail::check_ttl;
use crate::observe::Asked;

/// A request, for whom, and under whose eyes.
#[derive(Clone, Copy)]
pub(super) struct Wish<'a> {
    pub(super) core: &'a Arc<Core>,
    pub(super) request: &'a Request,
    pub(super) asked: &'a Asked,
}

impl Wish<'_> {
    /// One more share in what the owner already holds.
    pub(super) fn reenter(&self) -> Result<Option<Tenancy>> {
        let (request, core) = (self.request, self.core);
        let countable = !matches!(request.mode, Mode::Permits { .. });
        let found = (request.reentrant && countable)
            .then(|| core.owners.find(request.owner.id, &request.name));
        let Some(hold) = found.flatten() else { return Ok(None) };
        let tenancy = Tenancy { core: Arc::clone(core), hold, spent: false, loaded: None };
        let held = tenancy.hold.mode();
        if !held.covers(request.mode) {
            return Err(self.placed_error(Error::invalid(format!(
                "the owner holds this name for {held} and cannot enter it again for {}",
                request.mode
            ))));
        }
        check_ttl(request.terms.ttl, core.engine.profile())
            .map_err(|error| self.placed_error(error))?;
        if tenancy.hold.raise_ttl(request.terms.ttl) {
            core.schedule.keep_now(&tenancy.hold);
        }
        core.observer.reentered(self.asked, &tenancy.hold);
        Ok(Some(tenancy))
    }

    /// The engine has granted it, or has said why there is no need to.
    pub(super) fn moved_in(&self, tenancy: &Tenancy) {
        if tenancy.spent {
            return;
        }
        self.core.owners.enter(&tenancy.hold);
        self.core.observer.granted(self.asked, &tenancy.hold);
    }

    pub(super) fn placed_error(&self, error: Error) -> Error {
        error.with("engine", self.core.engine.profile().scheme).with("name", &self.request.name)
    }
}
