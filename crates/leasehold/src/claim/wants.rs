//! What a claim wants: a lease, a record, or both.

/// What a claim wants with the record of its name, beside the lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wants {
    /// Nothing: the lease alone.
    #[default]
    Lease,
    /// A grant brings the record, if there is one.
    LeaseAndRecord,
    /// The same, and the record alone is as good as a grant. An engine that
    /// finds one may answer [`Busy`](super::Busy) with it, at once and with
    /// nothing left behind, unless the lease id is held or queued already. It
    /// may also grant.
    ///
    /// Such claims come in large numbers and mostly end soon: an engine need
    /// not list their names before they are renewed.
    RecordOrLease,
}

impl Wants {
    /// Whether a grant brings the record.
    #[must_use]
    pub const fn record(self) -> bool {
        matches!(self, Self::LeaseAndRecord | Self::RecordOrLease)
    }
}
