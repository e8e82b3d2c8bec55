//! A member, as others see it.

use std::sync::Arc;

use crate::name::Name;
use crate::recipes::present_record::PresentValue;

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Member {
    /// Its id in the group.
    pub id: Arc<str>,
    /// What it says about itself.
    pub payload: Arc<str>,
    /// The process behind it: host, process and thread unless it has chosen
    /// something else.
    pub label: Arc<str>,
}

impl Member {
    /// The member of this record; `None` if it is not below the group's path.
    pub(super) fn of(path: &str, name: &Name, value: &PresentValue) -> Option<Self> {
        let id = name.as_str().strip_prefix(path)?.strip_prefix('/')?;
        let (payload, label) = (Arc::clone(&value.payload), Arc::clone(&value.label));
        Some(Self { id: id.into(), payload, label })
    }
}
