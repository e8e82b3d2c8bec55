//! The names of Redisson's keys and channels.

use crate::claim::{Mode, Ticket};
use crate::engines::redis::compat::metadata::{beside, ours};
use crate::engines::redis::layout::LockKind;

/// Those of one lock.
#[derive(Debug)]
pub(super) struct RedissonKeys(String);

impl RedissonKeys {
    pub(super) const fn of(name: String) -> Self {
        Self(name)
    }

    /// The name in braces, unless it has some.
    fn braced(&self) -> String {
        if self.0.contains('{') { self.0.clone() } else { format!("{{{}}}", self.0) }
    }

    fn prefixed(&self, prefix: &str) -> Vec<u8> {
        format!("{prefix}:{}", self.braced()).into()
    }

    fn lock_channel(&self) -> Vec<u8> {
        self.prefixed("redisson_lock__channel")
    }

    fn rw_channel(&self) -> Vec<u8> {
        self.prefixed("redisson_rwlock")
    }

    fn permits_channel(&self) -> Vec<u8> {
        self.prefixed("redisson_sc")
    }

    fn queue(&self) -> Vec<u8> {
        self.prefixed("redisson_lock_queue")
    }

    fn timeouts(&self) -> Vec<u8> {
        beside(&self.0, "timeout")
    }

    /// The key that lives as long as a reader's lease.
    fn reader(&self, ticket: &Ticket) -> Vec<u8> {
        beside(&self.0, &format!("{}:1:rwlock_timeout:1", ticket.id.to_uuid()))
    }

    /// The lock, and our two keys beside it.
    fn common(&self) -> [Vec<u8>; 3] {
        let ours = |what| ours(&self.0, what);
        [self.0.clone().into(), ours("leasehold"), ours("leasehold:waiting")]
    }

    /// What the scripts of a ticket's mode take, in their order.
    pub(super) fn of_ticket(&self, ticket: &Ticket, kind: LockKind) -> Vec<Vec<u8>> {
        let own = match (ticket.mode, kind) {
            (Mode::Exclusive, LockKind::Fair) => {
                vec![self.lock_channel(), self.queue(), self.prefixed("redisson_lock_timeout")]
            }
            (Mode::Exclusive, LockKind::Fenced) => {
                vec![self.lock_channel(), self.prefixed("redisson_lock_token")]
            }
            (Mode::Exclusive, _) => vec![self.lock_channel()],
            (Mode::Read | Mode::Write, _) => {
                vec![self.rw_channel(), self.reader(ticket), self.braced().into()]
            }
            (Mode::Permits { .. }, _) => vec![self.permits_channel(), self.timeouts()],
        };
        [self.common().to_vec(), own].concat()
    }

    /// What a look takes, which does not know the kind.
    pub(super) fn of_any_kind(&self) -> Vec<Vec<u8>> {
        let own = [
            self.lock_channel(),
            self.timeouts(),
            self.queue(),
            self.braced().into(),
            self.rw_channel(),
            self.permits_channel(),
        ];
        [self.common().to_vec(), own.to_vec()].concat()
    }

    /// Where a waiter is told: in a fair queue each has a channel of its own.
    pub(super) fn woken_by(&self, ticket: &Ticket, kind: LockKind) -> Vec<u8> {
        match (ticket.mode, kind) {
            (Mode::Exclusive, LockKind::Fair) => {
                [self.lock_channel(), format!(":{}:1", ticket.id.to_uuid()).into()].concat()
            }
            (Mode::Exclusive, _) => self.lock_channel(),
            (Mode::Read | Mode::Write, _) => self.rw_channel(),
            (Mode::Permits { .. }, _) => self.permits_channel(),
        }
    }
}
