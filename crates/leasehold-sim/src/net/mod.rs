//! The network: connections, and letters on them.
//!
//! Each write is a letter. Letters of one connection keep their order and none
//! is lost or repeated while it stands; between connections any order is
//! possible, and the delays of the schedule choose it.

mod connection;
mod delays;
mod faults;
mod stream;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

pub use self::connection::{Connection, End, Letter, Parcel};
pub use self::delays::Delays;
pub use self::faults::{Lane, Place, Silence};
pub use self::stream::dial;

/// Virtual time since the world began, in microseconds.
pub type Micros = u64;

const SECOND: Micros = 1_000_000;

/// Which way a letter goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From a client to a node.
    There,
    /// From a node to a client.
    Back,
}

/// All connections.
#[derive(Debug)]
pub struct Net {
    pub(crate) connections: BTreeMap<u64, Connection>,
    opened: u64,
    delays: Delays,
    silences: Vec<Silence>,
    /// Until when nodes read nothing.
    pauses: BTreeMap<usize, Micros>,
    sent: BTreeMap<(usize, usize, Way), u64>,
    /// How often a fault of each kind has had an effect.
    bites: BTreeMap<&'static str, u64>,
    /// Requests of each client, by the second.
    rate: BTreeMap<(usize, Micros), u64>,
    /// Rung for each new letter.
    pub(crate) bell: Arc<Notify>,
}

impl Net {
    pub(crate) fn new(delays: Delays) -> Self {
        Self {
            connections: BTreeMap::new(),
            opened: 0,
            delays,
            silences: Vec::new(),
            pauses: BTreeMap::new(),
            sent: BTreeMap::new(),
            bites: BTreeMap::new(),
            rate: BTreeMap::new(),
            bell: Arc::default(),
        }
    }

    /// A new connection, whose first letter is on its way.
    pub(crate) fn open(&mut self, client: usize, node: usize, now: Micros) -> u64 {
        self.opened += 1;
        self.connections.insert(self.opened, Connection::new(client, node));
        self.send(self.opened, Way::There, Parcel::Open, now);
        self.opened
    }

    /// Puts a letter on its way; behind those before it.
    pub(crate) fn send(&mut self, id: u64, way: Way, parcel: Parcel, now: Micros) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (client, node) = (connection.client, connection.node);
        let number = self.sent.entry((client, node, way)).or_default();
        *number += 1;
        let ready = now + self.delays.of(client, node, way, *number);
        connection.post(way, parcel, ready);
        self.bell.notify_one();
    }

    /// When the next letter can arrive.
    pub(crate) fn next_due(&self) -> Option<Micros> {
        self.heads().map(|head| head.due).min()
    }

    /// The letter that arrives now, if one is due: of several the one that was
    /// ready first.
    pub(crate) fn take_due(&mut self, now: Micros) -> Option<(u64, Way, Parcel)> {
        let due = self.heads().filter(|head| head.due <= now);
        let Head { id, way, why, .. } = due.min_by_key(|head| (head.ready, head.id, head.way))?;
        if let Some(why) = why {
            self.bite(why);
        }
        let letter = self.connections.get_mut(&id)?.queue(way).pop_front()?;
        Some((id, way, letter.parcel))
    }

    /// The first letter of each queue, and what keeps it.
    fn heads(&self) -> impl Iterator<Item = Head> {
        let both = self
            .connections
            .iter()
            .flat_map(|(id, connection)| [Way::There, Way::Back].map(|way| (*id, connection, way)));
        both.filter_map(|(id, connection, way)| {
            let letter = connection.head(way)?;
            let (kept, why) = self.kept(connection, way, letter);
            let (ready, late) = (letter.ready, kept > letter.ready);
            Some(Head { id, way, ready, due: kept.max(ready), why: why.filter(|_| late) })
        })
    }

    /// Until when a letter is kept, and by what.
    fn kept(&self, on: &Connection, way: Way, letter: &Letter) -> (Micros, Option<&'static str>) {
        let silent = self.silences.iter().filter(|it| it.covers(on, way));
        let silent = silent.map(|it| (it.until, Some("silence"))).max().unwrap_or_default();
        // The kernel of a node that stands still takes connections all the same.
        let is_read = way == Way::There && !matches!(letter.parcel, Parcel::Open);
        let pause = self.pauses.get(&on.node).filter(|_| is_read);
        silent.max(pause.map_or((0, None), |until| (*until, Some("pause"))))
    }

    /// A fault has had an effect.
    pub(crate) fn bite(&mut self, kind: &'static str) {
        *self.bites.entry(kind).or_default() += 1;
    }

    /// How often faults have had an effect, by kind.
    #[must_use]
    pub const fn bites(&self) -> &BTreeMap<&'static str, u64> {
        &self.bites
    }

    /// A node has read a request of this client.
    pub(crate) fn asked(&mut self, client: usize, now: Micros) {
        *self.rate.entry((client, now / SECOND)).or_default() += 1;
    }

    /// The most requests of one client in one second.
    #[must_use]
    pub fn busiest(&self) -> u64 {
        self.rate.values().copied().max().unwrap_or(0)
    }

    /// How many connections a client has.
    #[must_use]
    pub fn connections_of(&self, client: usize) -> usize {
        self.connections.values().filter(|it| it.client == client).count()
    }
}

struct Head {
    id: u64,
    way: Way,
    ready: Micros,
    due: Micros,
    why: Option<&'static str>,
}
