//! What the contract asks for, each inside a transaction.

mod acquire;
mod convert;
mod evict;
mod inspect;
mod peek;
mod reap;
mod record;
mod release;
mod renew;
mod watch;

pub(super) use acquire::Acquire;
pub(super) use convert::Convert;
pub(super) use evict::Evict;
pub(super) use inspect::Inspect;
pub(super) use peek::{Peek, Peeked};
pub(super) use reap::Reap;
pub(super) use record::{AddRecord, ListRecords, LoadRecord, StoreRecord};
pub(super) use release::Release;
pub(super) use renew::Renew;
pub(super) use watch::{Around, EnterWatcher, LeaveWatcher, LookAround, ReadNews, SweepUp};
