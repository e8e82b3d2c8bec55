//! The bytes of ZooKeeper's protocol. Knows no connection and no lock.

mod jute;
mod numbers;
mod reply;
mod request;

pub(super) use jute::JuteReader;
pub(super) use numbers::{PING_XID, version};
pub(super) use reply::{Body, Code, Greeting, Head, RequestKind, Stat, WatchNotice, What};
pub(super) use request::{Acl, CreateMode, Hello, ZkRequest, digest};
