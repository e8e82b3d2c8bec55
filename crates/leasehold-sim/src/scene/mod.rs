//! A scene: the servers and the network that a schedule is played on.

mod contract;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::engine::BoxFuture;
use leasehold::{Locks, Result};

pub use self::contract::Contract;
pub use self::wire::Wire;
use crate::ledger::{Ledger, Truth};
use crate::schedule::{Fault, FaultKind};
use crate::world::World;

/// What a play needs of its scene.
pub trait Scene: Truth + Send + Sync + 'static {
    /// A new handle of this client, opened in its process.
    fn open(&self, client: u8) -> BoxFuture<Result<Locks>>;

    /// Something goes wrong with servers or messages.
    fn fault(&self, world: &World, fault: Fault);

    /// A fault has bitten that was none of servers or messages.
    fn bit(&self, kind: FaultKind);

    /// Begins to look at the ledger whenever all is at rest.
    fn begin(self: Arc<Self>, world: &World, ledger: Arc<Ledger>);

    /// The longest time that anything may stay after the last client has gone.
    fn linger(&self) -> Duration;

    /// What is still there, and should not be; those who died may leave
    /// connections behind.
    fn residue(&self, dead: &[u8]) -> Vec<String>;

    /// How often each kind of fault has bitten, by its word.
    fn bites(&self) -> BTreeMap<&'static str, u64>;

    /// All requests, and the most that one client has sent in one second.
    fn requests(&self) -> (u64, u64);
}
