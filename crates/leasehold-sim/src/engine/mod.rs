//! The contract level: an engine whose server is the pure core, and whose
//! messages are late, lost, repeated and out of order.
//!
//! It keeps every freedom that the contract gives an engine, and no more: what
//! breaks above it breaks on some real engine too.

mod bells;
pub mod bus;
mod records;
pub mod server;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use leasehold::claim::{
    Claim, Ending, Mode, Refresh, Released, Renewal, Stance, Ticket, Verdict, Wake,
};
use leasehold::engine::profile::{self, Fencing, Grants, Limits, Order, Reach, Timekeeper, WakeUp};
use leasehold::engine::{
    BoxFuture, Engine, Events, Evicted, Eviction, Finding, Listing, Page, RecordStore, Selector,
};
use leasehold::{Clock, Error, ErrorKind, Moment, Profile, Result};
use tokio::sync::oneshot;

use self::bells::Bells;
use self::bus::{Bus, Call};
use self::server::Server;
pub use self::trouble::Troubles;

/// One client's way to one server.
#[derive(Debug)]
pub struct SimEngine {
    line: Line,
    bells: Arc<Bells>,
    profile: Profile,
}

/// What a request needs.
#[derive(Clone, Debug)]
struct Line {
    bus: Arc<Bus>,
    client: u8,
    server: u8,
    timeout: Duration,
}

impl SimEngine {
    /// The way of `client` to `server`, for leases of at most `ttl_max`.
    #[must_use]
    pub fn new(
        bus: &Arc<Bus>,
        client: u8,
        server: u8,
        timeout: Duration,
        ttl_max: Duration,
    ) -> Self {
        let bells = Arc::new(Bells::new());
        bus.listen(client, server, Arc::clone(&bells));
        let line = Line { bus: Arc::clone(bus), client, server, timeout };
        Self { line, bells, profile: promise(server, ttl_max) }
    }
}

fn promise(server: u8, ttl_max: Duration) -> Profile {
    let mut profile = Profile::new("sim", format!("server {server}"));
    profile.grants = Grants::Counted;
    profile.fencing = Fencing::Strict;
    profile.order = Order::Fifo;
    profile.clock = Timekeeper::Server;
    profile.wake = WakeUp::Push;
    profile.reach = Reach::Network;
    profile.listing = profile::Lists::Indexed;
    profile.predecessor = true;
    profile.lock_delay = true;
    profile.keep_closed = true;
    profile.convert = true;
    profile.revocation = true;
    profile.limits = limits(ttl_max);
    profile
}

fn limits(ttl_max: Duration) -> Limits {
    let mut limits = Limits::default();
    limits.ttl_max = ttl_max;
    limits
}

impl Line {
    /// Sends a request, and waits for its reply as long as a client does.
    fn ask<T: Send + 'static>(&self, call: Call<T>) -> BoxFuture<Result<T>> {
        let (tell, told) = oneshot::channel();
        self.bus.send(self.client, self.server, call, tell);
        let timeout = self.timeout;
        Box::pin(async move {
            let reply = async {
                match told.await {
                    Ok(reply) => reply,
                    // It is lost, and nobody says so.
                    Err(_) => std::future::pending().await,
                }
            };
            match tokio::time::timeout(timeout, reply).await {
                Ok(reply) => Ok(reply),
                Err(_) => Err(Error::new(ErrorKind::Unavailable, "no reply in time").unknown()),
            }
        })
    }
}

/// The moment a request leaves, by the clock of the client that sends it.
fn now() -> Moment {
    Clock::System.now()
}

fn stamped(verdict: Verdict, sent: Moment) -> Verdict {
    match verdict {
        Verdict::Granted(mut grant) => {
            grant.sent_at = sent;
            Verdict::Granted(grant)
        }
        Verdict::Busy(mut busy) => {
            if let Some(place) = &mut busy.place {
                place.sent_at = sent;
            }
            Verdict::Busy(busy)
        }
    }
}

fn restamped(renewal: Renewal, sent: Moment) -> Renewal {
    match renewal {
        Renewal::Held { ttl, .. } => Renewal::Held { ttl, sent_at: sent },
        Renewal::Queued(mut place) => {
            place.sent_at = sent;
            Renewal::Queued(place)
        }
        other => other,
    }
}

impl Engine for SimEngine {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let (sent, id, bells) = (now(), claim.ticket.id, Arc::clone(&self.bells));
        let what = format!("claims {} as {}", claim.ticket.name.as_str(), claim.owner.label());
        if matches!(claim.stance, Stance::Wait { .. }) {
            bells.expect(id);
        }
        let ask = move |server: &mut Server, client| server.acquire(client, claim.clone());
        let reply = self.line.ask(Call::again(what, ask, server::shown_verdict));
        Box::pin(async move {
            let verdict = stamped(reply.await??, sent);
            bells.answered(id, &verdict);
            Ok(verdict)
        })
    }

    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        let bells = Arc::clone(&self.bells);
        Box::pin(async move { Ok(bells.wait(ticket.id, until).await) })
    }

    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        let (sent, count) = (now(), tickets.len());
        let what = server::shown_refresh(&tickets);
        let ask = move |server: &mut Server, _| server.renew(tickets.clone());
        let reply = self.line.ask(Call::again(what, ask, server::shown_renewals));
        Box::pin(async move {
            match reply.await {
                Ok(renewals) => renewals.into_iter().map(|it| restamped(it, sent)).collect(),
                Err(error) => vec![Renewal::Unknown(error); count],
            }
        })
    }

    fn release(&self, ticket: Ticket, ending: Ending) -> BoxFuture<Result<Released>> {
        let (bells, id) = (Arc::clone(&self.bells), ticket.id);
        let what = format!("releases {}", ticket.name.as_str());
        let ask = move |server: &mut Server, _| server.release(ticket.clone(), ending.clone());
        let reply = self.line.ask(Call::again(what, ask, server::shown));
        Box::pin(async move {
            let released = reply.await?;
            bells.forget(id);
            released
        })
    }

    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        let sent = now();
        let what = format!("converts {} to {to}", ticket.name.as_str());
        let ask = move |server: &mut Server, _| server.convert(ticket.clone(), to);
        let reply = self.line.ask(Call::again(what, ask, server::shown));
        Box::pin(async move { Ok(restamped(reply.await??, sent)) })
    }

    fn events(&self) -> Events {
        self.bells.events()
    }

    fn inspect(&self, selector: Selector, page: Page) -> BoxFuture<Result<Listing>> {
        let ask = move |server: &mut Server, _| server.inspect(selector.clone(), page.clone());
        let reply = self.line.ask(Call::again("looks".into(), ask, |_| "listed".into()));
        Box::pin(async move { reply.await? })
    }

    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        let what = format!(
            "evicts {}{}",
            eviction.name.as_str(),
            if eviction.ask { " by asking" } else { "" }
        );
        let ask = move |server: &mut Server, _| server.evict(eviction.clone());
        let reply = self.line.ask(Call::once(what, ask, |_| "done".into()));
        Box::pin(async move { reply.await? })
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn records(&self) -> Option<&dyn RecordStore> {
        Some(&self.line)
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.bells.close();
        self.line.bus.closed(self.line.client, self.line.server);
        Box::pin(std::future::ready(Ok(())))
    }
}
