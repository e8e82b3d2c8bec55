//! The contract between the library and what stores its leases.
//!
//! An engine grants, renews and releases leases, one atomic request each.
//! Everything a user sees beyond that (waiting, deadlines, renewal, loss,
//! guards, recipes) is written once, above this line.
//!
//! The rules, which the library keeps towards an engine and an engine towards
//! the library (`docs/decisions/0001-engine-contract.md` has the reasons):
//!
//! - Verbs are called and polled on home, or on another thread within home's
//!   runtime. They own their arguments.
//! - `acquire`, `renew`, `release` and `convert` are driven to their end and end
//!   by themselves within the engine's request time-out, as an answer or as
//!   [`Effect::Unknown`](crate::Effect::Unknown), never as a guess. A caller
//!   that loses interest hands the future to home; nobody cuts it short, because
//!   a release that overtakes its claim leaves a ghost.
//! - `wait` may be dropped at any point. It then stops at once, and a grant it
//!   has not returned stays with the engine.
//! - One verb at a time per ticket, except that `renew` runs beside `wait`.
//! - An engine may keep private state by lease id, but can clean up from the
//!   ticket alone. A lease id is never claimed again after its release.
//! - Who proxies for others (a service with clients of its own) owns their
//!   ttls: an engine sees one client.
//!
//! Six more, each of which was broken once and let two in, or told a lie
//! (`docs/decisions/0002-late-answers.md` tells how):
//!
//! 1. *Attempts are numbered.* A ticket is claimed again after an unknown
//!    outcome, and after its place has lapsed. Whatever answers, cleans up or is
//!    pushed for an older attempt changes nothing of a newer one: it is dropped,
//!    or undoes only what it names. A [`Place`](crate::claim::Place) says with `floor`
//!    which grants are older than itself.
//! 2. *A deadline follows the last confirmation*, down as well as up. What is
//!    confirmed is what the store will keep, not what was asked for. The request
//!    that left last counts, whenever its answer comes. Renewals, extensions and
//!    conversions obey the limits of claims. `renew` never shortens.
//! 3. *One snapshot.* A state and the time by which it is judged are read
//!    together, and still hold when the judgement is written down.
//! 4. *Nothing that is not idempotent by ticket is sent twice*, by no layer and
//!    no driver; a verb that is repeated reports its first effect.
//! 5. *The truth does not live where others may overwrite it*: a mode, a queue, a
//!    lock of the operating system.
//! 6. *Unknown stays unknown.* Once a write was sent, no later error of the same
//!    verb is [`NotApplied`](crate::Effect::NotApplied), unless the store itself has
//!    said that it did nothing.
//!
//! The library keeps for every engine: deadlines (`hold`), limits and spans
//! (`layers/guardrail`), what a retry may say (`layers/retry`), losses that are
//! heard of before their grants (`losses`), and conversions in doubt (`keeper`).

mod events;
pub(crate) mod inspect;
pub mod profile;
pub(crate) mod records;
pub(crate) mod state;

use std::fmt::Debug;
use std::pin::Pin;

pub use events::{Bus, Event, Events, Loss};
pub use inspect::{
    Evicted, Eviction, Finding, Held, Last, Listing, Page, Queued, Selector, Severity, Status,
    Target,
};
pub use profile::Profile;
pub use records::{PAGE_MAX, RecordEvent, RecordEvents, RecordListing, RecordStore, Scope};

use crate::claim::{Claim, Ending, Mode, Refresh, Released, Renewal, Ticket, Verdict, Wake};
pub use crate::claim::{Expect, RawRecord, Store};
use crate::clock::Moment;
use crate::error::Result;

/// A future that owns what it needs.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// What stores leases.
///
/// No method has a default, so that a layer that wraps an engine cannot skip
/// one by accident.
///
/// # Cancel safety
///
/// A future of an engine that has begun is driven to its end, by home if nobody
/// else is interested (unless its process is a fork, or home has ended): a release
/// must not overtake the claim it belongs to. Only
/// that of [`Engine::wait`] may be dropped at any point. It then stops at once,
/// and what it has not returned stays with the engine.
pub trait Engine: Debug + Send + Sync + 'static {
    /// What this engine, as opened, promises and costs.
    fn profile(&self) -> &Profile;

    /// Asks for a lease: one atomic request.
    ///
    /// Idempotent in the lease id. A repeated claim that was granted before is
    /// granted again, with the same fence and no less time than was told
    /// before; it never waits for its own ghost. A `Wait` claim that is `Busy` has joined the queue where
    /// the engine has one. A `Try` never leaves anything behind, and neither does
    /// a claim that was answered with a record ([`Wants::RecordOrLease`](crate::claim::Wants::RecordOrLease)).
    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>>;

    /// Waits until the ticket may succeed, or `until` at the latest.
    ///
    /// May be early, never late. The caller passes the earlier of its deadline
    /// and `Busy::recheck_in`. Where the engine hands over directly it comes
    /// back with the grant.
    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>>;

    /// Keeps tickets alive, held and queued, in one request or pipeline.
    ///
    /// Compare-and-extend only: what is gone stays gone, and nothing ends sooner
    /// than it would have. The answers come in the order of the tickets, each
    /// with an error of its own. A ticket that holds is never told `Queued` by a
    /// request that left after its grant: it takes that for a loss. This is also
    /// the safety poll for pushes that got lost: a waiter that is told `Held`
    /// claims again to learn its fence. On an engine with sessions, `Held`
    /// means that the session was renewed and nothing was heard of its loss.
    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>>;

    /// Gives a lease back, or a place in the queue, or whatever a claim with
    /// an unknown outcome may have left.
    ///
    /// Idempotent, and never touches a successor. Once it has answered, nothing
    /// of an earlier request of this lease id stays for longer than a ttl. After
    /// a conversion whose outcome is unknown, the ticket may have either mode.
    fn release(&self, ticket: Ticket, ending: Ending) -> BoxFuture<Result<Released>>;

    /// Turns a held `Write` into a `Read` without letting go.
    ///
    /// Idempotent: one that is repeated, with the ticket as it was before, is
    /// answered as the first. After an unknown outcome the library takes the
    /// lease for the weaker of the two, and repeats the verb until it is known.
    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>>;

    /// What happens without being asked for: the connection comes and goes, a
    /// ticket is lost, an operator wants a lease back, less is kept than was said
    /// ([`Event::Kept`]). Events may overtake
    /// replies: a grant for a ticket whose loss was seen is lost.
    fn events(&self) -> Events;

    /// Who holds and who waits.
    fn inspect(&self, selector: Selector, page: Page) -> BoxFuture<Result<Listing>>;

    /// Takes leases away from their holders.
    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>>;

    /// What an operator should know about the server behind this engine.
    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>>;

    /// The versioned values beside the leases, where the engine has them.
    fn records(&self) -> Option<&dyn RecordStore>;

    /// Lets go of connections, tasks and threads. It does not wait for
    /// releases; leases that live on a connection end with it.
    fn close(&self) -> BoxFuture<Result<()>>;
}
