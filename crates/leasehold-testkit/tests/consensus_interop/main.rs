//! Leasehold and other software on the same locks of a ZooKeeper or an etcd:
//! Curator on the JVM, and etcd's own command.

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

mod contest;
mod deaths;
mod elections;
mod etcdctl;
mod mutex;
mod permits;
mod read_write;
mod records;
mod revocation;
mod stage;
