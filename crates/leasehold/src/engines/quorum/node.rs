//! A node: one independent place that keeps its own locks and numbers.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Claim, Holder, LeaseId, Mode, Refresh, Ticket};
use crate::engine::profile::{Fencing, Reach};
use crate::engine::{BoxFuture, Finding, Held};
use crate::error::Result;
use crate::name::Name;

/// What a quorum asks of each of its nodes. Every verb ends by itself and is
/// driven to its end, however long the others have given up waiting for it.
///
/// The tickets here are bids: a ticket in one of its rounds. Rounds of one
/// ticket are different leases, and an earlier one was given up for good.
pub(in crate::engines) trait Node: Debug + Send + Sync + 'static {
    /// What this node is good for.
    fn trust(&self) -> Trust;

    /// Takes the name if it is free, and gives the lease a number: larger than
    /// every number of the name so far on this node, and not below `floor`. A
    /// lease that has it already is told its number again. Where a node can
    /// tell, a lease takes the place of earlier rounds of its ticket.
    fn lock(&self, claim: Claim, floor: u64) -> BoxFuture<Result<LockAnswer>>;

    /// Makes `fence` the number of the lease, if the lease is still there and
    /// still has the number that was seen. A lost reply is a no: the same
    /// question again cannot tell its own success from a stranger's.
    fn raise(&self, ticket: Ticket, seen: Number, fence: u64) -> BoxFuture<Result<bool>>;

    /// Keeps each ticket that is there alive for its ttl at least, never for
    /// less than it was told before; says how long it is kept from when this
    /// was asked, or that it was not there.
    fn extend(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Result<Kept>>>;

    /// Turns a writer into a reader, and extends it.
    fn convert(&self, refresh: Refresh) -> BoxFuture<Result<Kept>>;

    /// Removes the lease, where a node can tell those of earlier rounds of its
    /// ticket too, and nobody else's; whether there was one.
    fn unlock(&self, ticket: Ticket) -> BoxFuture<Result<bool>>;

    /// The leases of one name.
    fn look(&self, name: Name) -> BoxFuture<Result<Vec<NodeMark>>>;

    /// What an operator should know.
    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>>;

    fn close(&self) -> BoxFuture<Result<()>>;
}

/// How long a node keeps a lease, counted from when it was asked; `None` if it
/// has no such lease.
pub(in crate::engines) type Kept = Option<Duration>;

/// What a node promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) struct Trust {
    /// How far its numbers can be trusted to grow, its restarts included.
    pub(in crate::engines) fencing: Fencing,
    pub(in crate::engines) reach: Reach,
    pub(in crate::engines) convert: bool,
}

/// The number of a lease on a node, and which writing of it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) struct Number {
    pub(in crate::engines) value: u64,
    pub(in crate::engines) version: u64,
}

/// The answer to a lock.
#[derive(Clone, Debug)]
pub(in crate::engines) enum LockAnswer {
    /// The name is ours here, for so long from when it was asked.
    Vote(Number, Duration),
    /// It is someone else's, whose fence is the number it has here.
    Busy(Option<Holder>),
}

/// What a node keeps of one lease.
#[derive(Clone, Debug)]
pub(in crate::engines) struct NodeMark {
    pub(in crate::engines) id: LeaseId,
    pub(in crate::engines) number: u64,
    pub(in crate::engines) mode: Mode,
    pub(in crate::engines) label: Arc<str>,
    pub(in crate::engines) meta: Option<Arc<str>>,
    pub(in crate::engines) held_for: Option<Duration>,
    pub(in crate::engines) time_left: Option<Duration>,
}

impl NodeMark {
    pub(in crate::engines) fn holder(self) -> Holder {
        let mut holder = Holder::new(self.label);
        (holder.held_for, holder.time_left) = (self.held_for, self.time_left);
        holder.fence = Some(self.number);
        holder
    }

    pub(super) fn held(&self, fence: Option<u64>) -> Held {
        Held {
            label: Arc::clone(&self.label),
            mode: self.mode,
            fence,
            held_for: self.held_for,
            time_left: self.time_left,
            meta: self.meta.clone(),
        }
    }
}

/// The text that people may read about a lease, as nodes store it: the length
/// of the label, the label, the owner's remark.
pub(in crate::engines) fn inscribe(claim: &Claim) -> String {
    let (label, meta) = (claim.owner.label(), claim.meta.as_deref().unwrap_or_default());
    format!("{}:{label}{meta}", label.len())
}

/// Label and remark of an inscription; `None` if it is not one of ours.
pub(in crate::engines) fn read(text: &str) -> Option<(Arc<str>, Option<Arc<str>>)> {
    let (length, rest) = text.split_once(':')?;
    let (label, meta) = rest.split_at_checked(length.parse().ok()?)?;
    Some((label.into(), (!meta.is_empty()).then(|| meta.into())))
}

/// How many counters a namespace has on each node. Names share them, so that
/// nothing stays behind for each name that was ever locked.
const COUNTERS: u32 = 1024;

/// The counter of a name: the same on every node and in every version.
pub(in crate::engines) fn counter(name: &Name) -> u32 {
    hash(name.as_str()) as u32 % COUNTERS
}

/// FNV-1a, 64 bits.
pub(in crate::engines) fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Owner;
    use crate::name::Namespace;

    #[test]
    fn an_inscription_is_read_as_it_was_written() {
        let ticket = Ticket::new(Name::new(&Namespace::default(), "n").unwrap(), Mode::Exclusive);
        let mut claim = Claim::new(ticket, Owner::new("é: 3:x"), Duration::from_secs(1));
        assert_eq!(read(&inscribe(&claim)), Some(("é: 3:x".into(), None)));
        claim.meta = Some("why\n9:".into());
        assert_eq!(read(&inscribe(&claim)), Some(("é: 3:x".into(), Some("why\n9:".into()))));
        for strange in ["", "x", "9:short", "1:é", "-1:a"] {
            assert_eq!(read(strange), None, "{strange}");
        }
    }

    #[test]
    fn hashes_never_change() {
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
