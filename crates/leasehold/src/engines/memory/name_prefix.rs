//! The names of a namespace that start with a text: one range in byte order.

use std::ops::Bound;

use crate::name::{Name, Namespace};

#[derive(Clone, Copy, Debug)]
pub(super) struct NamePrefix<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) text: &'a str,
}

impl NamePrefix<'_> {
    /// Where the range begins, or goes on after a name; `None` if there is no such
    /// name at all.
    pub(super) fn after(&self, seen: Option<&Name>) -> Option<Bound<Name>> {
        // The empty text is no name; this is the smallest there is.
        let first = if self.text.is_empty() { " " } else { self.text };
        let first = Name::new(self.namespace, first).ok()?;
        let seen = seen.filter(|seen| **seen >= first).cloned();
        Some(seen.map_or_else(|| Bound::Included(first), Bound::Excluded))
    }

    pub(super) fn covers(&self, name: &Name) -> bool {
        name.namespace() == self.namespace && name.as_str().starts_with(self.text)
    }
}
