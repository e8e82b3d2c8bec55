//! The bytes of ZooKeeper's protocol. Knows no connection and no lock.

mod jute;
mod reply;
mod request;

pub(super) use jute::JuteReader;
pub(super) use reply::{
    Body, Code, Greeting, Head, PING_XID, RequestKind, Stat, WatchNotice, What,
};
pub(super) use request::{Acl, Hello, Node, Request, digest};
