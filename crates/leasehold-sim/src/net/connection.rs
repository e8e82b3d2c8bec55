//! One connection between a client and a node.

use std::collections::VecDeque;
use std::task::Waker;

use super::{Micros, Way};

/// What is sent.
#[derive(Debug)]
pub enum Parcel {
    /// A client asks for a connection.
    Open,
    /// It has one.
    Accepted,
    /// It gets none.
    Refused,
    /// Bytes of the protocol.
    Bytes(Vec<u8>),
    /// The sender says no more.
    Close,
}

/// One parcel, and when it can arrive.
#[derive(Debug)]
pub struct Letter {
    pub(super) parcel: Parcel,
    pub(super) ready: Micros,
}

/// How a connection has ended, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The node has closed it.
    Closed,
    /// It broke.
    Reset,
    /// Nobody listens there.
    Refused,
}

/// What a client has of a connection, and what is under way on it.
#[derive(Debug)]
pub struct Connection {
    pub(crate) client: usize,
    pub(crate) node: usize,
    there: VecDeque<Letter>,
    back: VecDeque<Letter>,
    /// Whether the node sends pushes here.
    pub(crate) is_for_pushes: bool,
    /// Whether letters vanish here, and nobody is told.
    pub(crate) is_hollow: bool,
    pub(crate) is_open: bool,
    pub(crate) end: Option<End>,
    /// What has arrived and was not read yet.
    pub(crate) inbox: VecDeque<u8>,
    pub(crate) reader: Option<Waker>,
    /// What the node has got of a request.
    pub(crate) heard: Vec<u8>,
}

impl Connection {
    pub(super) fn new(client: usize, node: usize) -> Self {
        Self {
            client,
            node,
            there: VecDeque::new(),
            back: VecDeque::new(),
            is_for_pushes: false,
            is_hollow: false,
            is_open: false,
            end: None,
            inbox: VecDeque::new(),
            reader: None,
            heard: Vec::new(),
        }
    }

    pub(super) fn post(&mut self, way: Way, parcel: Parcel, ready: Micros) {
        let queue = self.queue(way);
        let ready = queue.back().map_or(ready, |last| ready.max(last.ready));
        queue.push_back(Letter { parcel, ready });
    }

    pub(super) fn queue(&mut self, way: Way) -> &mut VecDeque<Letter> {
        match way {
            Way::There => &mut self.there,
            Way::Back => &mut self.back,
        }
    }

    pub(super) fn head(&self, way: Way) -> Option<&Letter> {
        match way {
            Way::There => self.there.front(),
            Way::Back => self.back.front(),
        }
    }

    /// Tells the client something.
    pub(crate) fn arrive(&mut self, parcel: Parcel) {
        match parcel {
            Parcel::Bytes(bytes) => self.inbox.extend(bytes),
            Parcel::Accepted => self.is_open = true,
            Parcel::Refused => self.end = Some(End::Refused),
            Parcel::Close | Parcel::Open => self.end = Some(End::Closed),
        }
        self.wake();
    }

    /// Ends it for the client at once, whatever is under way. One that the client
    /// has closed already is still to be cleared away.
    pub(crate) fn break_off(&mut self) {
        self.end = Some(End::Reset);
        self.there.retain(|letter| matches!(letter.parcel, Parcel::Close));
        self.back.clear();
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}
