//! The bytes of ZooKeeper's protocol. Knows no connection and no lock.

mod jute;
mod reply;
mod request;

pub(super) use jute::Text;
pub(super) use reply::{Body, Code, Greeting, Head, Kind, Notice, PING_XID, Stat, What};
pub(super) use request::{Acl, Hello, Node, Request, digest};
