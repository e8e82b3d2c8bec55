#![doc = include_str!("../../../README.md")]

mod acquire;
pub mod claim;
mod client;
mod clock;
mod core;
pub mod engine;
mod engines;
mod error;
mod gate;
mod guard;
mod hold;
mod home;
mod keeper;
mod locks;
mod name;
mod open;
mod owners;
mod parcel;
mod recipes;
mod schedule;
mod url;

pub use claim::{Mode, Owner, Predecessor, Released};
pub use clock::{Clock, Moment, TestClock};
pub use engine::{Engine, Loss, Profile, Status};
pub use error::{Error, ErrorKind, Outcome, Result};
pub use guard::{Guard, Sequencer};
pub use hold::Standing;
pub use locks::Locks;
pub use name::{NAME_MAX, NAMESPACE_MAX, Name, Namespace};
pub use open::{Opening, open};
pub use recipes::all::{All, Guards, LockAll};
pub use recipes::asker::Lock;
pub use recipes::mutex::Mutex;
pub use recipes::rwlock::RwLock;
pub use recipes::semaphore::Semaphore;
