#![doc = include_str!("../../../README.md")]

mod acquire;
pub mod blocking;
pub mod claim;
mod client;
mod clock;
mod connection;
mod core;
mod detached;
pub mod engine;
mod engines;
mod error;
mod fence;
mod gate;
mod guard;
#[cfg(feature = "once")]
mod hex;
mod hold;
mod home;
mod keeper;
mod layers;
mod locks;
mod losses;
#[cfg(not(leasehold_sim))]
#[allow(unreachable_pub, reason = "public in a simulation")]
mod mutant;
#[cfg(leasehold_sim)]
pub mod mutant;
mod name;
mod observe;
mod open;
mod owners;
mod recipes;
mod schedule;
mod shrink;
#[cfg(leasehold_sim)]
pub mod sim;
pub mod sql;
mod url;
#[cfg(feature = "records")]
mod watches;

pub use claim::{Mode, Owner, Predecessor, Released};
pub use clock::{Clock, Moment, TestClock};
pub use connection::{ConnectionEvents, ConnectionState};
pub use engine::{Engine, Loss, Profile, Status};
pub use engines::{is_engine_url, lifelines, schema};
pub use error::{Effect, Error, ErrorKind, Result};
pub use fence::{Fenced, SEQUENCER_HEADER, Sequencer};
pub use guard::Guard;
pub use hold::Standing;
pub use layers::retry::Retry;
pub use locks::Locks;
pub use name::{NAME_MAX, NAMESPACE_MAX, Name, Namespace};
#[cfg(all(leasehold_sim, feature = "quorum"))]
pub use open::staged;
pub use open::{Opening, open};
pub use recipes::all::{All, Guards, LockAll};
#[cfg(feature = "records")]
pub use recipes::barrier::{Barrier, WaitOpen};
#[cfg(feature = "records")]
pub use recipes::counter::{Counter, Updated};
#[cfg(feature = "records")]
pub use recipes::double_barrier::{DoubleBarrier, Enter, Inside, Leave};
#[cfg(feature = "records")]
pub use recipes::election::{
    Campaign, Candidacy, Election, Leader, Leadership, Observed, Observer, Reign, Requeue,
};
#[cfg(feature = "records")]
pub use recipes::group::{Group, GroupEvent, GroupWatch, Member, Membership, MembershipState};
#[cfg(feature = "ids")]
pub use recipes::ids;
#[cfg(feature = "records")]
pub use recipes::latch::{Latch, LatchWait};
pub use recipes::mutex::Mutex;
#[cfg(feature = "records")]
pub use recipes::record::Record;
#[cfg(feature = "records")]
pub use recipes::records::Records;
pub use recipes::request_builder::Lock;
pub use recipes::rwlock::RwLock;
pub use recipes::semaphore::Semaphore;
#[cfg(feature = "records")]
pub use recipes::versioned::{Swap, Versioned};
#[cfg(feature = "records")]
pub use recipes::watch::{Change, Watch};

/// Records of a path, kept here as the store has them. It begins with
/// [`Locks::cache`].
#[cfg(feature = "records")]
pub mod cache {
    pub use crate::recipes::cache::{
        Cache, CacheBuilder, CacheEntry, CacheEvent, CacheEvents, CacheFreshness, KeyOnly,
        Snapshot, StaleReason,
    };
}

/// Work that is done one time for each key: idempotency keys, one-time tokens and
/// fingerprints. It begins with [`Locks::once`].
#[cfg(feature = "once")]
pub mod once {
    pub use crate::recipes::once::{
        Done, Failure, Fields, Fingerprint, First, InTransaction, Kept, Key, OnBusy, OnCrash, Once,
        OnceError, Refusal, TokenFault, TokenKeys, Tokens, Turn,
    };
}

/// The guides, so that their code is compiled and run with the other tests.
#[cfg(doctest)]
mod guide {
    #[cfg(feature = "records")]
    #[doc = include_str!("../../../docs/guide/barriers-and-latches.md")]
    mod barriers_and_latches {}
    #[cfg(feature = "records")]
    #[doc = include_str!("../../../docs/guide/caches.md")]
    mod caches {}
    #[doc = include_str!("../../../docs/guide/choosing-a-ttl.md")]
    mod choosing_a_ttl {}
    #[cfg(feature = "redis")]
    #[doc = include_str!("../../../docs/guide/coming-from-redisson.md")]
    mod coming_from_redisson {}
    #[cfg(feature = "records")]
    #[doc = include_str!("../../../docs/guide/counters.md")]
    mod counters {}
    #[doc = include_str!("../../../docs/guide/database-locks.md")]
    mod database_locks {}
    #[cfg(feature = "records")]
    #[doc = include_str!("../../../docs/guide/elections.md")]
    mod elections {}
    #[doc = include_str!("../../../docs/guide/fencing.md")]
    mod fencing {}
    #[doc = include_str!("../../../docs/guide/first-lock.md")]
    mod first_lock {}
    #[cfg(feature = "records")]
    #[doc = include_str!("../../../docs/guide/groups.md")]
    mod groups {}
    #[cfg(feature = "once")]
    #[doc = include_str!("../../../docs/guide/idempotency.md")]
    mod idempotency {}
    #[cfg(feature = "ids")]
    #[doc = include_str!("../../../docs/guide/ids.md")]
    mod ids {}
    #[cfg(feature = "records")]
    #[doc = include_str!("../../../docs/guide/latch.md")]
    mod latch {}
    #[doc = include_str!("../../../docs/guide/many-names.md")]
    mod many_names {}
    #[doc = include_str!("../../../docs/guide/observability.md")]
    mod observability {}
    #[doc = include_str!("../../../docs/guide/read-write.md")]
    mod read_write {}
    #[cfg(feature = "records")]
    #[doc = include_str!("../../../docs/guide/records.md")]
    mod records {}
    #[doc = include_str!("../../../docs/guide/reentrancy.md")]
    mod reentrancy {}
    #[doc = include_str!("../../../docs/guide/semaphore.md")]
    mod semaphore {}
}
