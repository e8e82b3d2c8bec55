//! Waiting for a turn, and watching over those we wait for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::task::{AbortHandle, JoinHandle};

use super::acquire::outlook;
use super::clients::{ClientId, ClientLiveness, ClientRegistry};
use super::command::StoreCommand;
use super::executor::ExecutorHandle;
use super::fault::Trial;
use super::next_call::NextCall;
use super::notify::{StoreOutlook, Tickets};
use super::transaction::StoreTransaction;
use crate::claim::{LeaseId, Ticket, Wake};
use crate::clock::{Clock, Moment};
use crate::engine::state::{Answer, Step, Verb, step};
use crate::engines::kit::record_watch::RecordWatchers;
use crate::engines::kit::waiters::TicketStatus;
use crate::error::{Error, Result};
use crate::home::Handle;
use crate::name::Name;

/// How many clients are watched at once; the slow look covers the rest.
const WATCHED: usize = 256;
/// The kernel may close a socket a moment before it lets go of a lock.
const CONFIRM_AFTER: [u64; 7] = [0, 1, 2, 5, 20, 100, 500];

/// All that a wait needs.
#[derive(Clone, Debug)]
pub(super) struct WaitContext {
    pub(super) home: Handle,
    pub(super) clock: Clock,
    pub(super) handle: ExecutorHandle,
    pub(super) tickets: Arc<Tickets>,
    pub(super) death_watch: Arc<DeathWatch>,
    pub(super) watchers: Arc<RecordWatchers>,
    /// How often somebody looks for all who wait, although nobody called.
    pub(super) poll: Duration,
    /// When somebody looks for all who wait.
    pub(super) next_call: Arc<NextCall>,
}

impl WaitContext {
    /// Waits until there is reason to claim again, or the lease has come.
    pub(super) async fn wait(self, ticket: Ticket, until: Moment) -> Wake {
        let mut poll_task = None;
        loop {
            let notify = match self.tickets.look(ticket.id) {
                TicketStatus::Granted { fence, predecessor } => {
                    return Wake::Granted { fence, predecessor };
                }
                TicketStatus::Look => return Wake::Look,
                TicketStatus::Waiting(notify, _) => notify,
            };
            let poll_task = poll_task.get_or_insert_with(|| self.poll_task(&ticket, until));
            tokio::select! {
                biased;
                () = notify.notified() => {}
                _ = &mut poll_task.0 => return self.tickets.last_look(ticket.id),
            }
        }
    }

    /// A task on home that ends when it is time to look; the waiter itself may
    /// be polled anywhere.
    fn poll_task(&self, ticket: &Ticket, until: Moment) -> PollTask {
        PollTask(self.home.spawn(self.clone().keep_watch(ticket.clone(), until)))
    }

    /// The roll call looks for all who wait; it only has to know until when.
    async fn keep_watch(self, ticket: Ticket, until: Moment) {
        let TicketStatus::Waiting(_, outlook) = self.tickets.glance(ticket.id) else { return };
        self.death_watch.watch(&outlook.blockers);
        self.next_call.note(outlook.look_at);
        self.clock.sleep_until(until).await;
    }
}

/// Ends with the wait it works for.
#[derive(Debug)]
struct PollTask(JoinHandle<()>);

impl Drop for PollTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a waiter saw.
#[derive(Debug)]
pub(super) enum Peeked {
    /// There is reason to claim again.
    Look,
    Still(StoreOutlook),
}

impl Peeked {
    pub(super) const fn outlook(&self) -> Option<&StoreOutlook> {
        match self {
            Self::Still(outlook) => Some(outlook),
            Self::Look => None,
        }
    }
}

/// Looks for one waiter, and changes nothing.
pub(super) fn peek(
    transaction: &mut StoreTransaction<'_>,
    name: &Name,
    lease: LeaseId,
) -> Trial<Peeked> {
    let loaded = transaction.load(name, Some(lease))?;
    let Some((session, None)) = loaded.state.find(lease) else { return Ok(Peeked::Look) };
    let mut next = loaded.state.clone();
    let verb = Verb::Renew { id: lease, ttl: transaction.sessions.left(session)? };
    let Step { answer, follow_ups } = step(&mut next, verb, transaction.now, &mut 0);
    let due = next.lacks_from().is_some() || !follow_ups.is_empty();
    if due || !matches!(answer, Answer::Queued { .. }) {
        return Ok(Peeked::Look);
    }
    let ahead: Vec<_> = loaded.state.ahead(lease).take(4).collect();
    for id in ahead {
        let client = transaction.sessions.live(id)?.map_or(0, |session| session.client);
        if client != 0 && transaction.is_dead(client) {
            return Ok(Peeked::Look);
        }
    }
    let look_at = next.mode_of(lease).map_or(transaction.now, |mode| next.recheck_at(lease, mode));
    Ok(Peeked::Still(outlook(transaction, &loaded, lease, look_at)?))
}

/// Everyone whom we wait for: a socket that closes means that a client has died,
/// and its file lock then confirms it.
#[derive(Debug)]
pub(super) struct DeathWatch {
    home: Handle,
    handle: ExecutorHandle,
    clients: Arc<ClientRegistry>,
    watched: Mutex<HashMap<ClientId, AbortHandle>>,
}

impl DeathWatch {
    pub(super) fn new(home: Handle, handle: ExecutorHandle, clients: Arc<ClientRegistry>) -> Self {
        Self { home, handle, clients, watched: Mutex::default() }
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<ClientId, AbortHandle>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches these clients from now on.
    pub(super) fn watch(&self, clients: &[ClientId]) {
        for &client in clients {
            let mut watched = self.watched();
            let runs = watched.get(&client).is_some_and(|task| !task.is_finished());
            if runs {
                continue;
            }
            make_room(&mut watched);
            let task = watch(Arc::clone(&self.clients), client, self.handle.clone());
            watched.insert(client, self.home.spawn(task).abort_handle());
        }
    }

    pub(super) fn close(&self) {
        self.watched().drain().for_each(|(_, task)| task.abort());
    }
}

/// Lets go of those who have ended, or else of anyone.
fn make_room(watched: &mut HashMap<ClientId, AbortHandle>) {
    if watched.len() >= WATCHED {
        watched.retain(|_, task| !task.is_finished());
    }
    if watched.len() >= WATCHED
        && let Some(any) = watched.keys().next().copied()
        && let Some(task) = watched.remove(&any)
    {
        task.abort();
    }
}

async fn watch(clients: Arc<ClientRegistry>, client: ClientId, handle: ExecutorHandle) {
    if let Ok(mut stream) = UnixStream::connect(clients.socket(client)).await {
        // Nobody sends anything on this line; it ends when its owner does.
        let _ = stream.read(&mut [0; 16]).await;
    }
    // The kernel does its work in real time, whatever clock leases run on.
    let clock = Clock::System;
    for delay in CONFIRM_AFTER {
        clock.sleep_until(clock.now().after(Duration::from_millis(delay))).await;
        if !matches!(handle.ask(Reap(client)).await, Ok(false)) {
            return;
        }
    }
}

/// Ends what a dead client left behind.
#[derive(Debug)]
struct Reap(ClientId);

impl StoreCommand for Reap {
    /// Whether it does not run any more, as far as can be told.
    type Answer = bool;

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<bool> {
        match transaction.clients.liveness(self.0) {
            ClientLiveness::Alive => Ok(false),
            ClientLiveness::Dead => transaction.reap(self.0),
            // Someone else has reaped it, or its ttl will tell.
            ClientLiveness::Unclear => Ok(true),
        }
    }

    fn settle(&mut self, answer: Result<&bool, &Error>, tickets: &Tickets) {
        if matches!(answer, Ok(true)) {
            tickets.died(self.0);
        }
    }
}
