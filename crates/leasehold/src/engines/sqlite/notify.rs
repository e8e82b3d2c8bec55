//! What clients tell each other: short lines over unix sockets.
//!
//! A line that gets lost costs time, never safety: whoever waits looks at the
//! store itself every now and then.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::net::{self, SendFlags};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::clients::{ClientId, ClientRegistry};
use crate::claim::{LeaseId, Predecessor};
use crate::clock::{Clock, Moment};
use crate::engine::{Bus, Event, Loss};
use crate::engines::kit::record_watch::RecordWatchers;
use crate::engines::kit::waiters::{self, QueueOutlook};
use crate::home::Handle;
use crate::name::Name;

/// How many connections to other clients are kept for the next message.
const KEPT: usize = 64;
/// The longest line that is read: an eviction with its actor and reason.
const LINE_MAX: u64 = 16 * 1024;

/// One message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// This waiter now holds the name.
    Handed { lease: LeaseId, fence: u64, predecessor: Predecessor },
    /// This lease was taken away.
    Evicted { lease: LeaseId, why: EvictedBy },
    /// A watched record has changed.
    Changed,
}

/// Who took a lease away, and why.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EvictedBy {
    pub(super) actor: Arc<str>,
    pub(super) reason: Arc<str>,
}

impl From<EvictedBy> for Loss {
    fn from(why: EvictedBy) -> Self {
        Self::Evicted { actor: why.actor, reason: why.reason }
    }
}

/// The tickets of one client of a store.
pub(super) type Tickets = waiters::Tickets<StoreOutlook>;

/// What a waiter may expect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StoreOutlook {
    /// When the name may open although nobody says so.
    pub(super) look_at: Moment,
    /// Whose death would matter.
    pub(super) blockers: Vec<ClientId>,
    /// The newest fence then.
    pub(super) floor: u64,
    /// What it waits for; not known of a place that a renewal has found.
    pub(super) name: Option<Name>,
}

impl QueueOutlook for StoreOutlook {
    fn floor(&self) -> u64 {
        self.floor
    }
}

impl Tickets {
    /// Someone died; everyone who waited for it looks again.
    pub(super) fn died(&self, client: ClientId) {
        self.look_again(|outlook| outlook.blockers.contains(&client));
    }
}

/// Where messages to this client arrive.
#[derive(Clone, Debug)]
pub(super) struct Inbox {
    pub(super) tickets: Arc<Tickets>,
    pub(super) bus: Arc<Bus>,
    pub(super) watchers: Arc<RecordWatchers>,
}

impl Inbox {
    pub(super) fn new(clock: Clock) -> Self {
        let (tickets, watchers) = (Arc::default(), Arc::default());
        Self { tickets, bus: Arc::new(Bus::new(clock)), watchers }
    }

    pub(super) fn take(&self, message: Message) {
        match message {
            Message::Handed { lease, fence, predecessor } => {
                self.tickets.hand(lease, fence, predecessor);
            }
            Message::Evicted { lease, why } => self.lost(lease, why.into()),
            Message::Changed => self.watchers.ring(),
        }
    }

    /// Tells the keeper, unless the ticket had ended before.
    pub(super) fn lost(&self, lease: LeaseId, loss: Loss) {
        if self.tickets.remove(lease) {
            self.bus.publish(&Event::TicketLost(lease, loss));
        }
    }
}

/// The sending end; it lives on the thread of the store and never blocks.
#[derive(Debug, Default)]
pub(super) struct Notifier(HashMap<ClientId, OwnedFd>);

impl Notifier {
    /// Sends `message`; `false` if there is nobody at the other end.
    pub(super) fn ring(
        &mut self,
        clients: &ClientRegistry,
        to: ClientId,
        message: &Message,
    ) -> bool {
        let Ok(mut line) = serde_json::to_vec(message) else { return true };
        line.push(b'\n');
        // A kept connection may be that of a client long gone.
        self.send(to, &line) || (self.connect(clients, to) && self.send(to, &line))
    }

    fn send(&mut self, to: ClientId, line: &[u8]) -> bool {
        let Some(socket) = self.0.get(&to) else { return false };
        let whole = net::send(socket, line, SENDING).is_ok_and(|sent| sent == line.len());
        if !whole {
            self.0.remove(&to);
        }
        whole
    }

    fn connect(&mut self, clients: &ClientRegistry, to: ClientId) -> bool {
        if self.0.len() >= KEPT {
            self.0.clear();
        }
        let socket = dial(&clients.socket(to));
        let connected = socket.is_some();
        self.0.extend(socket.map(|socket| (to, socket)));
        connected
    }
}

/// Without waiting, and without a signal if nobody is there.
#[cfg(target_os = "linux")]
const SENDING: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);
/// Elsewhere the standard library has asked for no signal when it connected.
#[cfg(not(target_os = "linux"))]
const SENDING: SendFlags = SendFlags::DONTWAIT;

/// Connects without waiting: a stopped client with a full backlog must not
/// stop the others.
#[cfg(target_os = "linux")]
fn dial(path: &Path) -> Option<OwnedFd> {
    use net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    net::connect(&socket, &SocketAddrUnix::new(path).ok()?).ok()?;
    Some(socket)
}

#[cfg(not(target_os = "linux"))]
fn dial(path: &Path) -> Option<OwnedFd> {
    let stream = std::os::unix::net::UnixStream::connect(path).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream.into())
}

/// The receiving end: serves everyone who connects, for as long as it runs.
pub(super) async fn listen(listener: UnixListener, inbox: Inbox) {
    let mut readers = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                Handle::current().spawn_in(&mut readers, read(stream, inbox.clone()))
            }
            // Out of file descriptors, most likely; others will be closed.
            Err(_) => pause().await,
        }
        while readers.try_join_next().is_some() {}
    }
}

async fn pause() {
    let clock = Clock::System;
    clock.sleep_until(clock.now().after(std::time::Duration::from_millis(50))).await;
}

async fn read(stream: UnixStream, inbox: Inbox) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut stream).take(LINE_MAX).read_until(b'\n', &mut line).await {
            Ok(1..) => {}
            _ => return,
        }
        match serde_json::from_slice(&line) {
            Ok(message) => inbox.take(message),
            Err(_) => return,
        }
    }
}
