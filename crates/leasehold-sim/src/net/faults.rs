//! What goes wrong on the way.

use super::{Connection, Micros, Net, Way};

/// Which connections of a pair: those for commands, or for pushes. One is for
/// commands until it subscribes to something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Requests and their answers.
    Commands,
    /// What servers tell without being asked.
    Pushes,
}

/// Some connections; what is `None` is any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Of this client.
    pub client: Option<usize>,
    /// To this node.
    pub node: Option<usize>,
    /// Of this kind.
    pub lane: Option<Lane>,
}

impl Place {
    /// Everything between a client and all nodes.
    #[must_use]
    pub const fn of_client(client: usize) -> Self {
        Self { client: Some(client), node: None, lane: None }
    }

    /// Everything between a node and all clients.
    #[must_use]
    pub const fn of_node(node: usize) -> Self {
        Self { client: None, node: Some(node), lane: None }
    }

    /// Those of them for this alone.
    #[must_use]
    pub const fn only(self, lane: Lane) -> Self {
        Self { lane: Some(lane), ..self }
    }

    pub(crate) fn covers(&self, it: &Connection) -> bool {
        let lane = if it.is_for_pushes { Lane::Pushes } else { Lane::Commands };
        self.client.is_none_or(|client| client == it.client)
            && self.node.is_none_or(|node| node == it.node)
            && self.lane.is_none_or(|wanted| wanted == lane)
    }
}

/// Letters wait, and nobody is told: also those of connections that are made
/// meanwhile.
#[derive(Clone, Debug)]
pub struct Silence {
    pub(super) place: Place,
    pub(super) way: Option<Way>,
    pub(super) until: Micros,
}

impl Silence {
    pub(super) fn covers(&self, it: &Connection, way: Way) -> bool {
        self.place.covers(it) && self.way.is_none_or(|wanted| wanted == way)
    }
}

impl Net {
    /// Letters of these connections wait until then; both ways if none is given.
    pub(crate) fn silence(&mut self, place: Place, way: Option<Way>, now: Micros, until: Micros) {
        self.silences.retain(|it| it.until > now);
        self.silences.push(Silence { place, way, until });
        self.bell.notify_one();
    }

    /// The node reads nothing until then.
    pub(crate) fn pause(&mut self, node: usize, until: Micros) {
        let known = self.pauses.entry(node).or_default();
        *known = until.max(*known);
    }

    /// These connections vanish without a word: what is sent is never read.
    pub(crate) fn hollow(&mut self, place: Place) {
        for it in self.connections.values_mut().filter(|it| place.covers(it)) {
            it.is_hollow = true;
        }
    }

    /// The connections there.
    pub(crate) fn at(&self, place: Place) -> Vec<u64> {
        let there = self.connections.iter().filter(|(_, it)| place.covers(it));
        there.map(|(id, _)| *id).collect()
    }
}
