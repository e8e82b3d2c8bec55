//! Foreign layouts: the engine of locks whose keys belong to other software.
//!
//! What is done with a lock is said by the scripts of its format; all of them
//! take the same arguments and give the same answers (`scripts/common.lua`).

/// A script after what all scripts of foreign layouts share.
macro_rules! script {
    ($($file:literal),+) => {
        $crate::engines::redis::script::Script::new(concat!(
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/engines/redis/compat/scripts/common.lua")),
            $(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/engines/redis/compat/scripts/", $file))),+
        ))
    };
}

mod evictions;
mod metadata;
pub(super) mod redisson;
pub(super) mod string;
mod waiters;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use self::metadata::Stranger;
use self::waiters::ChannelWaiters;
use super::checkup::Checkup;
use super::link::{Push, RedisLink, RedisReply};
use super::renewals;
use super::script::{Script, ScriptCall};
use super::values::{array, number, part, text};
use super::waits::Waits;
use crate::claim::{
    Busy, Claim, Ending, Grant, LeaseId, Mode, Refresh, Released, Renewal, Stance, Ticket, Verdict,
    Wake,
};
use crate::clock::{Clock, Moment};
use crate::engine::{
    BoxFuture, Engine, Event, Events, Evicted, Eviction, Finding, Listing, Page, Profile,
    RecordStore, Selector, Status, Target,
};
use crate::engines::kit::backoff::Backoff;
use crate::engines::kit::by_name;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;
use crate::name::Name;

/// A waiter that was told nothing looks again after this long: messages get lost.
const LOOK: Duration = Duration::from_secs(30);
/// How much later than its next look a waiter is forgotten.
const GRACE: Duration = Duration::from_secs(5);

/// What is done with a lock of one mode.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) acquire: Script,
    pub(super) renew: Script,
    pub(super) release: Script,
}

/// How other software keeps its locks.
pub(super) trait ForeignLayout: Debug + Send + Sync + 'static {
    /// What is done with a lock of this mode.
    fn scripts(&self, mode: Mode) -> &'static Scripts;

    /// Turns a writer into a reader, where there are any.
    fn convert(&self) -> Option<&'static Script>;

    /// Shows a name of any mode, and evicts.
    fn look(&self) -> &'static Script;

    /// The lock, our two keys beside it, its channel, and what else its scripts
    /// need; a look has no ticket.
    fn keys(&self, name: &Name, ticket: Option<&Ticket>) -> Vec<Vec<u8>>;

    /// Where a waiter hears that its turn may have come, if anybody tells it.
    fn channel(&self, ticket: &Ticket) -> Option<Vec<u8>>;

    /// The command that publishes, or nothing; a look has no mode.
    fn say(&self, mode: Option<Mode>) -> &'static str;

    fn options(&self) -> &ForeignOptions;
}

/// How we behave among others.
#[derive(Debug)]
pub(super) struct ForeignOptions {
    /// How long a fair queue keeps the place of one who does not ask.
    pub(super) queue_wait: Duration,
    /// The pauses of those whom nobody tells.
    pub(super) pauses: Backoff,
    /// How holders of other software are called.
    pub(super) stranger: Stranger,
}

#[derive(Debug)]
pub(super) struct Foreign {
    client: Arc<ForeignClient>,
    profile: Profile,
    checkup: Checkup,
    listener: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct ForeignClient {
    link: RedisLink,
    clock: Clock,
    format: Box<dyn ForeignLayout>,
    waits: Waits,
    waiters: Arc<ChannelWaiters>,
    /// No lease is longer, however often it is extended.
    longest: Duration,
}

/// What one call is about.
#[derive(Default)]
struct ForeignCall {
    id: String,
    ttl: Duration,
    mode: Option<Mode>,
    /// How long a waiter stays in line; zero for a try.
    wait: Duration,
    text: String,
    place: String,
}

impl Foreign {
    pub(super) async fn open(
        link: RedisLink,
        clock: Clock,
        mut profile: Profile,
        checkup: Checkup,
        format: impl ForeignLayout,
    ) -> Arc<Self> {
        profile.survives = checkup.survives().await;
        let waiters = ChannelWaiters::new(link.clone());
        let pushes = link.pushes();
        let client = Arc::new(ForeignClient {
            link,
            clock,
            format: Box::new(format),
            waits: Waits::default(),
            waiters,
            longest: profile.limits.ttl_max,
        });
        let listener = pushes.map(|it| Handle::current().spawn(Arc::clone(&client).hear(it)));
        // A client that may not subscribe hears of evictions when it renews.
        let _ = client.link.subscribe(evictions::CHANNEL).await;
        Arc::new(Self { client, profile, checkup, listener })
    }

    fn stop_listening(&self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.stop_listening();
    }
}

impl ForeignClient {
    async fn hear(self: Arc<Self>, mut pushes: UnboundedReceiver<Push>) {
        while let Some(push) = pushes.recv().await {
            match push {
                Push::Gap => self.waiters.ring_all(),
                Push::Message { channel, payload } if channel == evictions::CHANNEL => {
                    if let Some(event) = evictions::event(&payload) {
                        self.link.bus().publish(&event);
                    }
                }
                Push::Message { channel, .. } => self.waiters.ring(&channel),
            }
        }
    }

    fn call(&self, script: &'static Script, keys: Vec<Vec<u8>>, words: ForeignCall) -> ScriptCall {
        let options = self.format.options();
        let (take, of) = match words.mode {
            Some(Mode::Permits { take, of }) => (take, of),
            _ => (1, 1),
        };
        let args = [
            words.id,
            millis(words.ttl),
            self.format.say(words.mode).into(),
            take.to_string(),
            of.to_string(),
            millis(options.queue_wait),
            millis(words.wait),
            words.text,
            words.place,
        ];
        ScriptCall::new(script, keys, args.map(String::into_bytes).to_vec())
    }

    fn about(
        &self,
        script: &'static Script,
        ticket: &Ticket,
        mut words: ForeignCall,
    ) -> ScriptCall {
        (words.id, words.mode) = (ticket.id.to_uuid(), Some(ticket.mode));
        self.call(script, self.format.keys(&ticket.name, Some(ticket)), words)
    }

    async fn acquire(self: Arc<Self>, claim: Claim) -> Result<Verdict> {
        let (ticket, waits) = (&claim.ticket, matches!(claim.stance, Stance::Wait { .. }));
        let mut verdict = self.ask(&claim).await?;
        if waits
            && let Verdict::Busy(_) = verdict
            && let Some(channel) = self.format.channel(ticket)
            // What was said before anybody listened is made up for by asking once more.
            && self.waiters.listen(&channel, ticket.id).await.unwrap_or(false)
        {
            verdict = self.ask(&claim).await?;
        }
        if let Verdict::Granted(_) = verdict {
            self.wake_no_more(ticket);
        }
        Ok(verdict)
    }

    async fn ask(&self, claim: &Claim) -> Result<Verdict> {
        let (ticket, text) = (&claim.ticket, metadata::about(claim));
        let (wait, place) = match claim.stance {
            Stance::Try => (Duration::ZERO, String::new()),
            Stance::Wait { .. } => (
                self.stay(ticket),
                self.waits.place(ticket.id, || metadata::place(ticket.id, &text)),
            ),
        };
        let script = &self.format.scripts(ticket.mode).acquire;
        let words = ForeignCall {
            ttl: claim.ttl,
            wait,
            text,
            place: place.clone(),
            ..ForeignCall::default()
        };
        let reply = self.link.call(self.about(script, ticket, words)).await?;
        self.verdict(ticket, &place, reply)
    }

    /// How long a waiter stays in line without asking again.
    fn stay(&self, ticket: &Ticket) -> Duration {
        match self.format.channel(ticket) {
            Some(_) => LOOK + GRACE,
            None => self.format.options().pauses.bounds().1 + GRACE,
        }
    }

    fn verdict(&self, ticket: &Ticket, place: &str, reply: RedisReply) -> Result<Verdict> {
        let parts = in_use(array(reply.value)?)?;
        if number(&parts[0])? == 0 {
            return self.busy(ticket, place, &parts).map(Verdict::Busy);
        }
        self.link.check_grant(reply.acknowledged)?;
        let fence = u64::try_from(number(part(&parts, 1)?)?).unwrap_or_default();
        let ttl = span(number(part(&parts, 2)?)?).unwrap_or_default();
        Ok(Verdict::Granted(Grant::new(fence, ttl, reply.sent_at)))
    }

    /// With a word on when to look again: a listener is told, and looks when
    /// the holder's time is up; the others ask ever more slowly.
    fn busy(&self, ticket: &Ticket, place: &str, parts: &[redis::Value]) -> Result<Busy> {
        let mut busy = Busy::new();
        busy.holder = metadata::holder(&parts[2..], self.format.options().stranger)?;
        let over = span(number(part(parts, 1)?)?).unwrap_or(LOOK).min(LOOK);
        if place.is_empty() {
            return Ok(busy);
        }
        let pause = self.waits.in_vain(ticket.id, &self.format.options().pauses, over);
        busy.recheck_in = Some(if self.waiter(ticket).is_some() { over } else { over.min(pause) });
        Ok(busy)
    }

    fn waiter(&self, ticket: &Ticket) -> Option<Arc<tokio::sync::Notify>> {
        self.waiters.of(&self.format.channel(ticket)?, ticket.id)
    }

    async fn wait(self: Arc<Self>, ticket: Ticket, until: Moment) -> Result<Wake> {
        let sleep = self.clock.sleep_until(until);
        match self.waiter(&ticket) {
            None => sleep.await,
            Some(waiter) => tokio::select! {
                biased;
                () = waiter.notified() => {}
                () = sleep => {}
            },
        }
        Ok(Wake::Look)
    }

    /// Forgets what is known of a waiter; the place it had.
    fn wake_no_more(&self, ticket: &Ticket) -> String {
        if let Some(channel) = self.format.channel(ticket) {
            self.waiters.leave(&channel, ticket.id);
        }
        self.waits.over(ticket.id)
    }

    async fn renew(self: Arc<Self>, tickets: Vec<Refresh>) -> Vec<Renewal> {
        if !self.link.is_cluster() {
            return self.renew_all(tickets).await;
        }
        let home = |refresh: &Refresh| {
            let keys = self.format.keys(&refresh.ticket.name, None);
            keys.first().and_then(|key| self.link.home(key))
        };
        let renew = |part| Arc::clone(&self).renew_all(part);
        renewals::by_server(&self.clock, tickets, home, renew).await
    }

    async fn renew_all(self: Arc<Self>, tickets: Vec<Refresh>) -> Vec<Renewal> {
        let call = |Refresh { ticket, ttl, .. }: &Refresh| {
            let script = &self.format.scripts(ticket.mode).renew;
            let ttl = (*ttl).min(self.longest);
            self.about(script, ticket, ForeignCall { ttl, ..ForeignCall::default() })
        };
        let replies = self.link.calls(tickets.iter().map(call).collect()).await;
        replies
            .into_iter()
            .map(|it| it.and_then(renewal).unwrap_or_else(Renewal::Unknown))
            .collect()
    }

    async fn release(self: Arc<Self>, ticket: Ticket) -> Result<Released> {
        let place = self.wake_no_more(&ticket);
        let script = &self.format.scripts(ticket.mode).release;
        let words = ForeignCall { place: place.clone(), ..ForeignCall::default() };
        let reply = self.link.call(self.about(script, &ticket, words)).await;
        if reply.is_err() && !place.is_empty() {
            // For the next try.
            self.waits.place(ticket.id, || place);
        }
        match number(&reply?.value)? {
            0 => Ok(Released::AlreadyLost),
            _ => Ok(Released::Released),
        }
    }

    async fn convert(self: Arc<Self>, ticket: Ticket, to: Mode) -> Result<Renewal> {
        ticket.mode.check_conversion(to)?;
        let Some(script) = self.format.convert() else {
            return Err(Error::new(ErrorKind::Unsupported, "this layout converts no lease"));
        };
        renewal(self.link.call(self.about(script, &ticket, ForeignCall::default())).await?)
    }

    async fn look(&self, name: &Name, what: &str, which: String) -> Result<redis::Value> {
        let words = ForeignCall { id: what.into(), text: which, ..ForeignCall::default() };
        let keys = self.format.keys(name, None);
        let found = self.link.call(self.call(self.format.look(), keys, words)).await?;
        in_use(array(found.value)?).map(redis::Value::Array)
    }

    async fn status(&self, name: Name) -> Result<Status> {
        let found = self.look(&name, "", String::new()).await?;
        metadata::status(name, found, self.format.options().stranger)
    }

    async fn evict(self: Arc<Self>, eviction: Eviction) -> Result<Evicted> {
        let (what, which) = match eviction.target {
            Target::All => ("all", String::new()),
            Target::Fence(fence) => ("fence", fence.to_string()),
            Target::Lease(id) => ("lease", id.to_uuid()),
        };
        let found = self.look(&eviction.name, what, which).await?;
        let hit = metadata::evicted(found, self.format.options().stranger)?;
        for id in hit.iter().filter_map(|(id, _)| *id) {
            self.tell(id, &eviction).await;
        }
        Ok(Evicted::new(hit.into_iter().map(|(_, held)| held).collect()))
    }

    /// Tells the holder, whichever client it is of.
    async fn tell(&self, id: LeaseId, eviction: &Eviction) {
        self.link.bus().publish(&Event::TicketLost(id, eviction.loss()));
        let publish = if self.link.is_cluster() { "SPUBLISH" } else { "PUBLISH" };
        let mut command = redis::cmd(publish);
        command.arg(evictions::CHANNEL).arg(evictions::message(id, eviction));
        // It is gone all the same, and its holder hears that when it renews.
        let _ = self.link.command(command).await;
    }
}

/// An answer, unless it says that the name is in use as something else.
fn in_use(parts: Vec<redis::Value>) -> Result<Vec<redis::Value>> {
    if number(part(&parts, 0)?)? >= 0 {
        return Ok(parts);
    }
    let what = text(part(&parts, 1)?)?;
    Err(Error::invalid(format!("the key is in use as {what}; use another name")))
}

fn renewal(reply: RedisReply) -> Result<Renewal> {
    let parts = array(reply.value)?;
    if number(part(&parts, 0)?)? == 0 {
        return Ok(Renewal::Gone);
    }
    let ttl = span(number(part(&parts, 1)?)?).unwrap_or_default();
    Ok(Renewal::Held { ttl, sent_at: reply.sent_at })
}

fn millis(span: Duration) -> String {
    span.as_millis().to_string()
}

fn span(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

impl Engine for Foreign {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        Box::pin(Arc::clone(&self.client).acquire(claim))
    }

    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        Box::pin(Arc::clone(&self.client).wait(ticket, until))
    }

    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        Box::pin(Arc::clone(&self.client).renew(tickets))
    }

    /// What the ending asks for beyond the end is refused by the profile.
    fn release(&self, ticket: Ticket, _: Ending) -> BoxFuture<Result<Released>> {
        Box::pin(Arc::clone(&self.client).release(ticket))
    }

    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        Box::pin(Arc::clone(&self.client).convert(ticket, to))
    }

    fn events(&self) -> Events {
        self.client.link.events()
    }

    fn inspect(&self, selector: Selector, _: Page) -> BoxFuture<Result<Listing>> {
        let client = Arc::clone(&self.client);
        by_name::inspect(selector, |name| async move { client.status(name).await })
    }

    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        Box::pin(Arc::clone(&self.client).evict(eviction))
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        let checkup = self.checkup.clone();
        Box::pin(async move { checkup.examine().await })
    }

    fn records(&self) -> Option<&dyn RecordStore> {
        None
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.stop_listening();
        let client = Arc::clone(&self.client);
        Box::pin(async move {
            client.link.close();
            Ok(())
        })
    }
}
