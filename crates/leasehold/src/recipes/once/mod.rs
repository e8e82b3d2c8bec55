//! Once: work that is done one time for each key, and its outcome given to
//! everyone who asks again.

mod builder;
mod call;
mod entry;
mod fingerprint;
mod flight;
mod key;
mod lookup;
mod refusal;
mod run;
mod seen;
mod token;
#[cfg(feature = "postgres")]
mod transact;
mod transaction;
mod turn;

pub use builder::{Done, Failure, Kept, OnBusy, OnCrash, Once};
pub use fingerprint::{Fields, Fingerprint};
pub use key::Key;
pub use refusal::{OnceError, Refusal, TokenFault};
pub use token::{TokenKeys, Tokens};
pub use transaction::{First, InTransaction};
pub use turn::Turn;
