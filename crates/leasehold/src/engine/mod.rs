//! The contract between the library and what stores its leases.
//!
//! An engine grants, renews and releases leases, one atomic request each.
//! Everything a user sees beyond that (waiting, deadlines, renewal, loss,
//! guards, recipes) is written once, above this line.
//!
//! Rules that every verb keeps:
//!
//! - A verb owns its arguments and its future is `'static`: when a user drops
//!   an acquire, home finishes it, reads the reply and cleans up.
//! - The future needs no runtime around it; what an engine spawns lives on
//!   home, where it was opened.
//! - One verb at a time per ticket. An engine may keep private state by lease
//!   id, but can clean up from the ticket alone.
//! - A lost reply is [`Outcome::Unknown`](crate::Outcome::Unknown), never a
//!   guess.
//! - Who proxies for others (a service with clients of its own) owns their
//!   ttls: an engine sees one client.

mod events;
pub(crate) mod inspect;
pub mod profile;
mod records;
pub(crate) mod state;

use std::fmt::Debug;
use std::pin::Pin;

pub use events::{Bus, Event, Events, Loss};
pub use inspect::{
    Evicted, Eviction, Finding, Held, Last, Listing, Page, Queued, Selector, Severity, Status,
    Target,
};
pub use profile::Profile;
pub use records::{Expect, Record, RecordEvent, RecordEvents, Records, Store};

use crate::claim::{Claim, Ending, Mode, Refresh, Released, Renewal, Ticket, Verdict, Wake};
use crate::clock::Moment;
use crate::error::Result;

/// A future that owns what it needs.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// What stores leases.
///
/// No method has a default, so that a layer that wraps an engine cannot skip
/// one by accident.
pub trait Engine: Debug + Send + Sync + 'static {
    /// What this engine, as opened, promises and costs.
    fn profile(&self) -> &Profile;

    /// Asks for a lease: one atomic request.
    ///
    /// Idempotent in the lease id. A repeated claim that was granted before is
    /// granted again, with the same fence and the full ttl; it never waits for
    /// its own ghost. A `Wait` claim that is `Busy` has joined the queue where
    /// the engine has one. A `Try` never leaves anything behind.
    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>>;

    /// Waits until the ticket may succeed, or `until` at the latest.
    ///
    /// May be early, never late. Where the engine hands over directly it comes
    /// back with the grant.
    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>>;

    /// Keeps tickets alive, held and queued, in one request or pipeline.
    ///
    /// Compare-and-extend only: what is gone stays gone. The answers come in
    /// the order of the tickets, each with an error of its own. This is also
    /// the safety poll for pushes that got lost.
    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>>;

    /// Gives a lease back, or a place in the queue, or whatever a claim with
    /// an unknown outcome may have left.
    ///
    /// Idempotent, and never touches a successor.
    fn release(&self, ticket: Ticket, ending: Ending) -> BoxFuture<Result<Released>>;

    /// Turns a held `Write` into a `Read` without letting go.
    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>>;

    /// What happens without being asked for: the connection comes and goes, a
    /// ticket is lost, an operator wants a lease back.
    fn events(&self) -> Events;

    /// Who holds and who waits.
    fn inspect(&self, selector: Selector, page: Page) -> BoxFuture<Result<Listing>>;

    /// Takes leases away from their holders.
    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>>;

    /// What an operator should know about the server behind this engine.
    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>>;

    /// The versioned values beside the leases, where the engine has them.
    fn records(&self) -> Option<&dyn Records>;

    /// Lets go of connections, tasks and threads. Leases are not released.
    fn close(&self) -> BoxFuture<Result<()>>;
}
