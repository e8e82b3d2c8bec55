//! The cache: records of a path, kept here as the store has them.
//!
//! | file | what it is |
//! |---|---|
//! | `builder`, `handle` | how one is made; what the user has |
//! | `follower` | its task on home: watches, lists, looks |
//! | `view` | what it knows, and what it makes of what it hears. Pure |
//! | `shared` | the view, as the task and its readers share it |
//! | `listener`, `backlog` | a reader of events; what it has not read yet |
//! | `life` | what the handles keep alive |
//! | `event`, `entry`, `snapshot`, `chunks` | what users are given |

mod backlog;
mod builder;
mod chunks;
mod entry;
mod event;
mod follower;
mod handle;
mod life;
mod listener;
mod shared;
mod snapshot;
mod view;

pub use builder::{CacheBuilder, KeyOnly};
pub use entry::CacheEntry;
pub use event::{CacheEvent, StaleReason};
pub use handle::{Cache, CacheFreshness};
pub use listener::CacheEvents;
pub use snapshot::Snapshot;
