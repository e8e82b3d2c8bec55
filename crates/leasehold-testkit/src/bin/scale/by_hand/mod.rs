//! What the layouts of others need at least: the bare requests of a line, one
//! after the other, by one client. A lock in that layout cannot be cheaper.

pub(crate) mod etcd;
pub(crate) mod zookeeper;
