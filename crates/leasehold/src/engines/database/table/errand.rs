//! What a verb wants with a name.

use crate::claim::LeaseId;
use crate::engine::state::SessionId;
use crate::name::Name;

/// What a verb wants with a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Errand<'a> {
    pub(super) name: &'a Name,
    /// One of our sessions whose end we want to know, and which must live for the
    /// swap; or 0. Once it has ended, nothing is written: a verb does nothing then.
    pub(super) session: SessionId,
    /// Of whose seat it is about, if any.
    pub(super) lease: Option<LeaseId>,
    /// It gives something back: nobody is served before.
    pub(super) leaves: bool,
}

impl<'a> Errand<'a> {
    pub(super) const fn to(name: &'a Name) -> Self {
        Self { name, session: 0, lease: None, leaves: false }
    }

    pub(super) const fn about(self, lease: LeaseId) -> Self {
        Self { lease: Some(lease), ..self }
    }

    pub(super) const fn with(self, session: SessionId) -> Self {
        Self { session, ..self }
    }

    pub(super) const fn to_leave(self) -> Self {
        Self { leaves: true, ..self }
    }
}
