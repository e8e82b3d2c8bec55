//! What has happened, as one number, and as a list if somebody wants to read it.

use crate::net::Micros;
use crate::redis::Reply;

/// One command that a node has carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub at: Micros,
    /// Who asked.
    pub client: usize,
    /// Who answered.
    pub node: usize,
    /// On which connection.
    pub connection: u64,
    /// What was asked.
    pub request: Vec<Vec<u8>>,
    /// What was answered.
    pub answer: Reply,
}

#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    events: Option<Vec<Event>>,
}

impl Trace {
    pub(crate) const fn new(keeps_events: bool) -> Self {
        let events = if keeps_events { Some(Vec::new()) } else { None };
        Self { hash: 0xcbf2_9ce4_8422_2325, events }
    }

    pub(crate) fn command(&mut self, event: Event, answer: &[u8]) {
        self.note(event.at, &event.connection.to_le_bytes());
        event.request.iter().for_each(|word| self.add(word));
        self.add(answer);
        if let Some(events) = &mut self.events {
            events.push(event);
        }
    }

    pub(crate) fn note(&mut self, now: Micros, what: &[u8]) {
        self.add(&now.to_le_bytes());
        self.add(what);
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn events(&self) -> &[Event] {
        self.events.as_deref().unwrap_or_default()
    }
}
