//! The embedded engine: all processes of one host, no server.
//!
//! The pure core runs in a transaction of a local SQLite file. Three more
//! things make it fast and quick to notice:
//!
//! - `NAME-gate`: writers of all processes queue here, in the kernel.
//! - `NAME-clients/ID.lock`: locked for as long as a client lives.
//! - `NAME-clients/ID.sock`: where a client is told that its turn has come,
//!   and what closes when it dies.

mod acquire;
mod changes;
mod checkup;
mod clients;
mod command;
mod executor;
mod fault;
mod host;
mod lease;
mod name_range;
mod next_call;
mod notify;
mod open;
mod operate;
mod records;
mod roll_call;
pub(in crate::engines) mod schema;
mod seats;
mod sessions;
mod store;
#[cfg(test)]
mod tests;
mod transaction;
mod upkeep;
mod wait;
mod watch;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::net::UnixListener;
use tokio::task::AbortHandle;

use self::acquire::Acquire;
use self::checkup::Examine;
use self::executor::{Executor, ExecutorHandle, ExecutorMessage};
use self::fault::{closed, error};
use self::lease::{Convert, Release, Renew};
use self::notify::Inbox;
pub(crate) use self::open::SqliteOptions;
use self::operate::{Evict, Inspect};
use self::records::{AddRecord, ListRecords, LoadRecord, StoreRecord};
use self::store::OpenedStore;
use self::wait::{DeathWatch, WaitContext};
use self::watch::StoreChanges;
use crate::claim::{
    Claim, Ending, Mode, RawRecord, Refresh, Released, Renewal, Store, Ticket, Verdict, Wake,
};
use crate::clock::{Clock, Moment};
use crate::engine::profile::{
    Fencing, Grants, Lists, Liveness, Order, Reach, Survives, Timekeeper, WakeUp,
};
use crate::engine::{
    BoxFuture, Engine, Events, Evicted, Eviction, Finding, Listing, Page, Profile, RecordEvents,
    RecordListing, RecordStore, Scope, Selector,
};
use crate::error::{ErrorKind, Result};
use crate::home::Handle;
use crate::name::Name;

/// Opens a store. Runs on home, where its tasks will live.
///
/// # Errors
///
/// `Invalid`, `Denied`, `Unsupported` or `Unexpected`, depending on what is at
/// the path; what was there is left as it is.
pub(crate) async fn open(options: SqliteOptions, clock: Clock) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(Sqlite::open(options, clock).await?))
}

/// An opened store.
#[derive(Debug)]
struct Sqlite {
    profile: Profile,
    path: PathBuf,
    context: WaitContext,
    inbox: Inbox,
    listener: AbortHandle,
    roll_call: AbortHandle,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Sqlite {
    async fn open(options: SqliteOptions, clock: Clock) -> Result<Self> {
        let inbox = Inbox::new(clock.clone());
        let executor = Executor::default();
        let (handle, messages) = ExecutorHandle::new(executor.clone());
        let (path, poll) = (options.path.clone(), options.poll);
        let (thread, opened) = executor.start(options, clock.clone(), inbox.clone(), messages)?;
        let OpenedStore { clients, client } = opened.await.unwrap_or_else(|_| Err(closed()))?;
        let home = Handle::current();
        let socket = UnixListener::bind(clients.socket(client)).map_err(|cause| {
            let message = "no socket can be made beside the store: look at the permissions there";
            error(ErrorKind::Unavailable, message, &path).caused_by(cause)
        })?;
        let listen = notify::listen(socket, inbox.clone());
        let listener = home.spawn(listen).abort_handle();
        let death_watch = Arc::new(DeathWatch::new(home.clone(), handle.clone(), clients));
        let context = WaitContext {
            home,
            clock,
            handle,
            tickets: Arc::clone(&inbox.tickets),
            death_watch,
            watchers: Arc::clone(&inbox.watchers),
            poll,
            next_call: Arc::default(),
        };
        let roll_call = roll_call::start(&context);
        let thread = Arc::new(Mutex::new(Some(thread)));
        let profile = profile(&path);
        Ok(Self { profile, path, context, inbox, listener, roll_call, thread })
    }

    /// Ends the tasks on home.
    fn quiet(&self) {
        self.listener.abort();
        self.roll_call.abort();
        self.context.death_watch.close();
        self.inbox.bus.close();
        self.inbox.watchers.close();
    }

    fn stop(
        &self,
        message: impl FnOnce(tokio::sync::oneshot::Sender<()>) -> ExecutorMessage,
    ) -> BoxFuture<()> {
        self.quiet();
        let stopped = self.context.handle.post(message);
        let thread = Arc::clone(&self.thread);
        let tickets = Arc::clone(&self.inbox.tickets);
        Box::pin(async move {
            stopped.await;
            tickets.close();
            let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            // Its last act was to tell us, so this does not block.
            drop(thread.map(JoinHandle::join));
        })
    }

    #[cfg(test)]
    fn die(&self) -> BoxFuture<()> {
        self.stop(ExecutorMessage::Die)
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.quiet();
        // Waiters may still have a way to the store; it ends all the same.
        drop(self.context.handle.post(ExecutorMessage::Close));
    }
}

fn profile(path: &std::path::Path) -> Profile {
    let mut profile = Profile::new("sqlite", path.display().to_string());
    profile.grants = Grants::Counted;
    profile.fencing = Fencing::Strict;
    profile.order = Order::Fifo;
    profile.liveness = Liveness::Session;
    profile.clock = Timekeeper::Host;
    profile.wake = WakeUp::Push;
    profile.reach = Reach::Host;
    profile.survives = Survives::Restart;
    profile.listing = Lists::Indexed;
    profile.predecessor = true;
    profile.lock_delay = true;
    profile.keep_closed = true;
    profile.convert = true;
    profile
}

impl Engine for Sqlite {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        self.context.handle.ask(Acquire::new(claim))
    }

    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        let context = self.context.clone();
        Box::pin(async move { Ok(context.wait(ticket, until).await) })
    }

    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        let (count, inbox) = (tickets.len(), self.inbox.clone());
        let renewed = self.context.handle.ask(Renew::new(tickets));
        Box::pin(async move {
            match renewed.await {
                Ok((answers, lost)) => {
                    lost.into_iter().for_each(|(lease, why)| inbox.lost(lease, why.into()));
                    answers
                }
                Err(error) => vec![Renewal::Unknown(error); count],
            }
        })
    }

    fn release(&self, ticket: Ticket, ending: Ending) -> BoxFuture<Result<Released>> {
        self.context.handle.ask(Release { ticket, ending })
    }

    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        self.context.handle.ask(Convert { ticket, to })
    }

    fn events(&self) -> Events {
        self.inbox.bus.subscribe()
    }

    fn inspect(&self, selector: Selector, page: Page) -> BoxFuture<Result<Listing>> {
        self.context.handle.ask(Inspect { selector, page })
    }

    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        self.context.handle.ask(Evict(eviction))
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        self.context.handle.ask(Examine { path: self.path.clone() })
    }

    fn records(&self) -> Option<&dyn RecordStore> {
        Some(self)
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let stopped = self.stop(ExecutorMessage::Close);
        Box::pin(async move {
            stopped.await;
            Ok(())
        })
    }
}

impl RecordStore for Sqlite {
    fn load(&self, name: Name) -> BoxFuture<Result<Option<RawRecord>>> {
        self.context.handle.ask(LoadRecord(name))
    }

    fn store(&self, store: Store) -> BoxFuture<Result<Result<u64, Option<RawRecord>>>> {
        self.context.handle.ask(StoreRecord(store))
    }

    fn add(&self, name: Name, amount: i64) -> BoxFuture<Result<i64>> {
        self.context.handle.ask(AddRecord(name, amount))
    }

    fn list(&self, scope: Scope, page: Page) -> BoxFuture<Result<RecordListing>> {
        self.context.handle.ask(ListRecords { scope, page })
    }

    fn watch(&self, scope: Scope) -> BoxFuture<Result<Box<dyn RecordEvents>>> {
        let context = self.context.clone();
        Box::pin(async move {
            let watching = StoreChanges::watch(context, scope).await?;
            Ok(Box::new(watching) as Box<dyn RecordEvents>)
        })
    }
}
