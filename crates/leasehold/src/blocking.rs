//! The same API for threads: every call that would be awaited blocks instead.
//!
//! Names, options and guards are those of the async API; leases are renewed and
//! released by the library's own thread, so no runtime is needed. A wait limit
//! is an option of the recipe here, because `lock()` waits at once.
//!
//! ```
//! use std::time::Duration;
//! use leasehold::blocking::{self, Locks};
//!
//! fn main() -> leasehold::Result<()> {
//!     let locks = blocking::open("memory:")?; // or Locks::memory()
//!     let order = locks.mutex("order/42").ttl(Duration::from_secs(10));
//!
//!     let guard = order.lock()?; // waits
//!     assert!(order.try_lock()?.is_none()); // never waits
//!     let limit = Duration::from_millis(20);
//!     assert!(order.clone().within(limit).lock().unwrap_err().is_timed_out());
//!     guard.release()?; // or drop it
//!
//!     order.run(|guard| println!("write with fence {}", guard.fence()))
//! }
//! ```
//!
//! Handles of `once`, `ids`, `cache`, elections, groups and barriers are the same for
//! both: their calls that wait have a twin here, such as `once.blocking_run(..)` and
//! `reign.blocking_resign()`, and what is awaited with options has `.blocking()`.
//!
//! # Inside an async runtime
//!
//! A call that blocks is refused there with `Invalid`: it would stop every other
//! task of its thread, perhaps the one that would release the lock. Await the
//! async API ([`Locks::as_async`] has it), or block on a thread of your own.
//! `spawn_blocking` gives a thread of the runtime, which a library cannot tell
//! from its workers; there, `Handle::current().block_on(..)` an async lock.
//! Making recipes, looking at guards and dropping them is fine everywhere.
//!
//! # Re-entrancy
//!
//! A lock is not re-entrant by itself. `.reentrant()` makes the current thread
//! the owner: its second `lock()` enters at once, with the same fence, and the
//! lease ends with the last guard. Such a guard stays on its thread.
//!
//! ```
//! # use leasehold::blocking::Locks;
//! # let locks = Locks::memory();
//! let order = locks.mutex("order/42").reentrant();
//! let outer = order.lock()?;
//! let inner = order.lock()?;
//! assert_eq!(outer.fence(), inner.fence());
//! # Ok::<(), leasehold::Error>(())
//! ```

mod all;
#[cfg(feature = "records")]
mod barrier;
mod bound;
#[cfg(feature = "records")]
mod cache;
mod call;
mod connection;
#[cfg(feature = "records")]
mod counter;
#[cfg(feature = "records")]
mod double_barrier;
#[cfg(feature = "records")]
mod election;
#[cfg(feature = "records")]
mod group;
mod guard;
#[cfg(feature = "ids")]
mod ids;
#[cfg(feature = "records")]
mod latch;
mod locks;
mod mutex;
#[cfg(feature = "once")]
mod once;
mod patience;
mod rwlock;
mod semaphore;

pub use all::{All, Guards};
pub use bound::{Anywhere, Bound, ThisThread};
pub use connection::ConnectionEvents;
#[cfg(feature = "records")]
pub use counter::Counter;
pub use guard::Guard;
#[cfg(feature = "records")]
pub use latch::Latch;
pub use locks::{Locks, open};
pub use mutex::Mutex;
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
