//! A server: the pure core with a clock of its own, limits, and a memory that
//! may fail.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold::claim::{
    Busy, Claim, Ending, LeaseId, Mode, Place, Refresh, Released, Renewal, Ticket, Verdict, Wake,
};
use leasehold::engine::{
    BoxFuture, Engine, Event, Events, Evicted, Eviction, Held, Listing, Page, RawRecord,
    RecordListing, RecordStore, Scope, Selector, Store,
};
use leasehold::sim::Process;
use leasehold::staged::{self, Shorten};
use leasehold::{Error, ErrorKind, Moment, Name, Namespace, Result};

use super::bells::Push;

/// One server.
pub struct Server {
    /// Its process: its clock is its own.
    pub process: Arc<Process>,
    core: Arc<dyn Engine>,
    shorten: Shorten,
    events: Events,
    waits: BTreeMap<LeaseId, Waiting>,
    labels: BTreeMap<LeaseId, Arc<str>>,
    /// The largest fence that it has given out.
    top: u64,
    /// How long it grants nothing, because it may have forgotten leases.
    closed_until: Moment,
    /// The longest ttl it grants, if it has been curbed.
    pub curb: Option<Duration>,
    /// Whether that has made a difference since somebody last looked.
    pub curbed: bool,
    /// Why it refuses everything, if it does.
    refusing: Option<ErrorKind>,
    evicted: BTreeSet<Arc<str>>,
    released: BTreeMap<Arc<str>, u32>,
    longest: Duration,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Server").field(&self.process).finish()
    }
}

struct Waiting {
    client: u8,
    wake: BoxFuture<Result<Wake>>,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("client", &self.client).finish_non_exhaustive()
    }
}

/// Whom a push goes to: one client, or all.
pub type Pushes = Vec<(Option<u8>, Push)>;

impl Server {
    /// A server that has never been asked.
    #[must_use]
    pub fn new(process: Arc<Process>) -> Self {
        let (core, shorten) = process.enter(staged::core);
        let events = core.events();
        Self {
            process,
            core,
            shorten,
            events,
            waits: BTreeMap::new(),
            labels: BTreeMap::new(),
            top: 0,
            closed_until: Moment::default(),
            curb: None,
            curbed: false,
            refusing: None,
            evicted: BTreeSet::new(),
            released: BTreeMap::new(),
            longest: Duration::ZERO,
        }
    }

    /// Forgets everything, and waits until all it may have granted is over.
    pub fn forget(&mut self, ttl_max: Duration) {
        let Self { process, labels, evicted, released, .. } = self;
        let (labels, evicted, released) =
            (std::mem::take(labels), std::mem::take(evicted), std::mem::take(released));
        let fresh = Self::new(Arc::clone(process));
        let closed_until = fresh.now().after(ttl_max + ttl_max / 50);
        let (curb, refusing, longest) = (self.curb, self.refusing, self.longest);
        *self = Self { labels, evicted, released, closed_until, curb, refusing, longest, ..fresh };
    }

    fn now(&self) -> Moment {
        Moment::from_nanos(self.process.now())
    }

    /// Does `work` by this server's clock.
    fn work<T>(&self, work: impl FnOnce(&dyn Engine) -> BoxFuture<T>) -> T {
        self.process.enter(|| at_once(work(&*self.core)))
    }

    fn check(&self) -> Result<()> {
        match self.refusing {
            Some(kind) => Err(Error::new(kind, "the server refuses")),
            None => Ok(()),
        }
    }

    /// Refuses from now on, or does not.
    pub(super) fn refuse(&mut self, by: Option<u64>) {
        let kind = |by| if by % 2 == 0 { ErrorKind::Unavailable } else { ErrorKind::Denied };
        self.refusing = by.map(kind);
    }

    fn curbed(&mut self, ttl: Duration) -> Duration {
        let less = self.curb.filter(|most| *most < ttl);
        self.curbed |= less.is_some();
        less.unwrap_or(ttl)
    }

    pub(super) fn acquire(&mut self, client: u8, mut claim: Claim) -> Result<Verdict> {
        self.check()?;
        let closed = self.closed_until.since(self.now());
        if !closed.is_zero() {
            let mut busy = Busy::new();
            busy.recheck_in = Some(closed);
            return Ok(Verdict::Busy(busy));
        }
        let ticket = claim.ticket.clone();
        self.labels.insert(ticket.id, claim.owner.label().into());
        claim.ttl = self.curbed(claim.ttl);
        self.longest = self.longest.max(claim.ttl);
        let mut verdict = self.work(|core| core.acquire(claim))?;
        match &mut verdict {
            Verdict::Granted(grant) => {
                self.top = self.top.max(grant.fence);
                self.waits.remove(&ticket.id);
            }
            Verdict::Busy(busy) => {
                if let Some(place) = &mut busy.place {
                    self.listen_for(client, ticket);
                    *place = self.above(*place);
                }
            }
        }
        Ok(verdict)
    }

    /// What was granted before this place was looked at was not granted to it.
    fn above(&self, place: Place) -> Place {
        place.above(self.top)
    }

    fn listen_for(&mut self, client: u8, ticket: Ticket) {
        if !self.waits.contains_key(&ticket.id) {
            let id = ticket.id;
            let wake = self.process.enter(|| self.core.wait(ticket, Moment::NEVER));
            self.waits.insert(id, Waiting { client, wake });
        }
    }

    pub(super) fn renew(&mut self, tickets: Vec<Refresh>) -> Vec<Renewal> {
        if let Err(error) = self.check() {
            return vec![Renewal::Unknown(error); tickets.len()];
        }
        let mut tickets = tickets;
        tickets.iter_mut().for_each(|it| it.ttl = self.curbed(it.ttl));
        let longest = tickets.iter().map(|it| it.ttl).max().unwrap_or_default();
        self.longest = self.longest.max(longest);
        if let Some(most) = self.curb {
            self.process.enter(|| tickets.iter().for_each(|it| (self.shorten)(&it.ticket, most)));
        }
        let renewals = self.work(|core| core.renew(tickets));
        let above = |renewal| match renewal {
            Renewal::Queued(place) => Renewal::Queued(self.above(place)),
            other => other,
        };
        renewals.into_iter().map(above).collect()
    }

    pub(super) fn release(&mut self, ticket: Ticket, ending: Ending) -> Result<Released> {
        self.check()?;
        let id = ticket.id;
        let released = self.work(|core| core.release(ticket, ending))?;
        self.waits.remove(&id);
        if released == Released::Released
            && let Some(label) = self.labels.get(&id)
        {
            *self.released.entry(Arc::clone(label)).or_default() += 1;
        }
        Ok(released)
    }

    pub(super) fn convert(&mut self, ticket: Ticket, to: Mode) -> Result<Renewal> {
        self.check()?;
        self.work(|core| core.convert(ticket, to))
    }

    pub(super) fn inspect(&self, selector: Selector, page: Page) -> Result<Listing> {
        self.check()?;
        self.work(|core| core.inspect(selector, page))
    }

    pub(super) fn evict(&self, eviction: Eviction) -> Result<Evicted> {
        self.check()?;
        self.work(|core| core.evict(eviction))
    }

    pub(super) fn load(&self, name: Name) -> Result<Option<RawRecord>> {
        self.check()?;
        self.work(|core| records(core).load(name))
    }

    pub(super) fn store(&self, store: Store) -> Result<Result<u64, Option<RawRecord>>> {
        self.check()?;
        self.work(|core| records(core).store(store))
    }

    pub(super) fn add(&self, name: Name, amount: i64) -> Result<i64> {
        self.check()?;
        self.work(|core| records(core).add(name, amount))
    }

    pub(super) fn list(&self, scope: Scope, page: Page) -> Result<RecordListing> {
        self.check()?;
        self.work(|core| records(core).list(scope, page))
    }

    /// What it has to say to those who did not ask.
    pub(super) fn pushes(&mut self) -> Pushes {
        let mut pushes = Vec::new();
        let mut rung = Vec::new();
        for (id, waiting) in &mut self.waits {
            let Some(wake) = poll(&mut waiting.wake) else { continue };
            rung.push(*id);
            if let Ok(Wake::Granted { fence, predecessor }) = wake {
                self.top = self.top.max(fence);
                pushes.push((Some(waiting.client), Push::Granted(*id, fence, predecessor)));
            }
        }
        rung.iter().for_each(|id| drop(self.waits.remove(id)));
        while let Some(Some(event)) = poll(&mut pin!(self.events.next())) {
            if let Event::TicketLost(id, _) = &event
                && let Some(label) = self.labels.get(id)
            {
                self.evicted.insert(Arc::clone(label));
            }
            pushes.push((None, Push::Event(event)));
        }
        pushes
    }

    /// Who holds the name now, by this server's clock.
    #[must_use]
    pub fn holders(&self, name: &str) -> Vec<Held> {
        let found = self.statuses(Some(name));
        found.names.into_iter().flat_map(|status| status.holders).collect()
    }

    /// Everything that is still held or waited for.
    #[must_use]
    pub fn left(&self) -> Vec<String> {
        let busy = self.statuses(None).names.into_iter().filter(leasehold::Status::is_busy);
        busy.map(|status| {
            let held = status.holders.iter().map(|held| format!("held as {}", held.label));
            let waits = status.waiters.iter().map(|it| format!("waited for as {}", it.label));
            let how: Vec<String> = held.chain(waits).collect();
            format!("{} is {}", status.name.as_str(), how.join(", "))
        })
        .collect()
    }

    fn statuses(&self, name: Option<&str>) -> Listing {
        let space = Namespace::default();
        let selector = match name.map(|name| Name::new(&space, name)) {
            Some(Ok(name)) => Selector::Name(name),
            _ => Selector::Prefix(space, "".into()),
        };
        let found = self.work(|core| core.inspect(selector, Page::default()));
        found.unwrap_or_else(|_| Listing::new(Vec::new(), false))
    }

    /// Whether an operator has taken the lease with this label away.
    #[must_use]
    pub fn has_evicted(&self, label: &str) -> bool {
        self.evicted.contains(label)
    }

    /// How many leases with this label a release has ended.
    #[must_use]
    pub fn released(&self, label: &str) -> u32 {
        self.released.get(label).copied().unwrap_or(0)
    }

    /// The longest ttl that it was asked for.
    #[must_use]
    pub const fn longest(&self) -> Duration {
        self.longest
    }
}

fn records(core: &dyn Engine) -> &dyn RecordStore {
    core.records().expect("the core keeps records")
}

/// The core answers at once.
fn at_once<T>(mut answer: BoxFuture<T>) -> T {
    poll(&mut answer).expect("the core answers at once")
}

fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    let mut cx = Context::from_waker(Waker::noop());
    match std::pin::Pin::new(future).poll(&mut cx) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// A verdict in a story.
pub(super) fn shown_verdict(verdict: &Result<Verdict>) -> String {
    match verdict {
        Ok(Verdict::Granted(grant)) => {
            format!("granted {} for {} ms", grant.fence, grant.ttl.as_millis())
        }
        Ok(Verdict::Busy(busy)) if busy.place.is_some() => "busy, placed".into(),
        Ok(Verdict::Busy(_)) => "busy".into(),
        Err(error) => error.to_string(),
    }
}

/// Renewals in a story.
#[allow(clippy::ptr_arg, reason = "a reply is shown as it is")]
pub(super) fn shown_renewals(renewals: &Vec<Renewal>) -> String {
    let shown = renewals.iter().map(|renewal| match renewal {
        Renewal::Held { ttl, .. } => format!("held for {} ms", ttl.as_millis()),
        Renewal::Queued(_) => "queued".into(),
        Renewal::Gone => "gone".into(),
        Renewal::Unknown(error) => error.to_string(),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Refreshes in a story.
pub(super) fn shown_refresh(tickets: &[Refresh]) -> String {
    let shown = tickets
        .iter()
        .map(|it| format!("{} for {} ms", it.ticket.name.as_str(), it.ttl.as_millis()));
    format!("renews {}", shown.collect::<Vec<_>>().join(", "))
}

/// Any other answer in a story.
pub(super) fn shown<T: std::fmt::Debug>(answer: &Result<T>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}").to_lowercase(),
        Err(error) => error.to_string(),
    }
}
