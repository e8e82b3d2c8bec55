//! One server.

use std::collections::{BTreeMap, BTreeSet};

use leasehold::sim::{BOOT, EPOCH};

use super::db::{Db, Entry};
use super::slots::{View, slot};
use super::{Bytes, Reply};
use crate::net::Micros;

/// Seconds that a server has run when the world begins.
const AGE: u64 = 1_000_000;

/// A server, its keys and its clock.
#[derive(Debug)]
pub struct Node {
    pub(super) number: usize,
    pub(super) db: Db,
    /// Texts by digest; a restart forgets them.
    pub(super) scripts: BTreeMap<String, Bytes>,
    /// When the rate of its clock was set, and what it showed.
    anchor: (Micros, u64),
    /// How much its clock gains, in parts per million.
    gain: i64,
    /// When its clock was last read.
    read: Micros,
    /// When it was started; `None` before the world began.
    started: Option<Micros>,
    restarts: u64,
    pub(super) commands: u64,
    /// What it knows of its cluster.
    pub(super) view: Option<View>,
    /// Connections that may ask for what is about to come.
    pub(super) asking: BTreeSet<u64>,
    /// Of a sentinel: where the primary is.
    pub(super) sees: Option<usize>,
}

impl Node {
    pub(crate) fn new(number: usize) -> Self {
        let mut node = Self {
            number,
            db: Db::default(),
            scripts: BTreeMap::new(),
            anchor: (0, EPOCH + BOOT / 1_000),
            gain: 0,
            read: 0,
            started: None,
            restarts: 0,
            commands: 0,
            view: None,
            asking: BTreeSet::new(),
            sees: None,
        };
        node.keep_time(0);
        node
    }

    /// Reads its clock.
    pub(crate) fn keep_time(&mut self, now: Micros) {
        self.read = now;
        let (since, shown) = self.anchor;
        let passed = i128::from(now - since) * i128::from(1_000_000 + self.gain) / 1_000_000;
        self.db.now = shown.saturating_add(u64::try_from(passed).unwrap_or(0));
        let age = self.started.map(|at| now.saturating_sub(at) / 1_000_000);
        self.db.uptime = age.unwrap_or(AGE + now / 1_000_000);
        self.db.id = format!("{:020x}{:020x}", self.number, self.restarts);
    }

    pub(crate) fn is_up(&self, now: Micros) -> bool {
        self.started.is_none_or(|at| at <= now)
    }

    /// Starts anew at `back`. Whether it has forgotten anything.
    pub(crate) fn restart(&mut self, now: Micros, back: Micros, keeps: bool) -> bool {
        self.keep_time(now);
        let forgets = !keeps && !self.db.alive().is_empty();
        if !keeps {
            self.db.clear();
        }
        self.db.hearers.clear();
        self.scripts.clear();
        self.started = Some(back);
        self.restarts += 1;
        forgets
    }

    /// Its clock gains so many parts per million from now on.
    pub const fn drift(&mut self, gain: i64) {
        self.anchor = (self.read, self.db.now);
        self.gain = gain;
    }

    /// Sets its clock forward, or back.
    pub fn step_clock(&mut self, micros: i64) {
        self.anchor.1 = self.anchor.1.saturating_add_signed(micros);
        self.db.now = self.db.now.saturating_add_signed(micros);
    }

    pub(crate) fn set_replica(&mut self, is_replica: bool) {
        self.db.is_replica = is_replica;
    }

    pub(crate) fn see_primary(&mut self, primary: usize) {
        self.sees = Some(primary);
    }

    pub(crate) fn see_new_primary(&mut self, from: usize, to: usize) {
        self.sees = self.sees.map(|seen| if seen == from { to } else { seen });
    }

    /// All keys, for the replica that takes over. It follows from now on.
    pub(crate) fn step_down(&mut self) -> BTreeMap<Bytes, Entry> {
        self.db.is_replica = true;
        std::mem::take(&mut self.db.keys)
    }

    pub(crate) fn take_over(&mut self, keys: BTreeMap<Bytes, Entry>) {
        self.receive(keys);
        self.db.is_replica = false;
    }

    /// The keys of a slot, which are here no more.
    pub(crate) fn part_with(&mut self, gone: u16) -> BTreeMap<Bytes, Entry> {
        let (leaving, stays) =
            std::mem::take(&mut self.db.keys).into_iter().partition(|(key, _)| slot(key) == gone);
        self.db.keys = stays;
        leaving
    }

    pub(crate) fn receive(&mut self, keys: BTreeMap<Bytes, Entry>) {
        self.db.keys.extend(keys);
    }

    /// Whether it takes nothing more, for want of memory.
    pub fn set_full(&mut self, is_full: bool) {
        self.db.is_full = is_full;
    }

    /// How often it has refused something for want of memory.
    #[must_use]
    pub const fn refusals(&self) -> u64 {
        self.db.refusals
    }

    /// The keys that are alive.
    #[must_use]
    pub fn keys(&mut self) -> Vec<Bytes> {
        self.db.alive()
    }

    /// How much all keys and values are.
    #[must_use]
    pub fn bytes(&mut self) -> usize {
        self.db.size()
    }

    /// How many subscriptions its clients have.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.db.hearers.values().map(Vec::len).sum()
    }

    /// How many commands it was sent.
    #[must_use]
    pub const fn commands(&self) -> u64 {
        self.commands
    }

    /// The answer to a command that nobody sent. Nobody is told of what it says.
    pub fn ask(&mut self, request: &[&[u8]]) -> Reply {
        let request: Vec<Bytes> = request.iter().map(|word| word.to_vec()).collect();
        let answer = self.serve(0, &request, &mut Vec::new());
        self.commands -= 1;
        self.db.said.clear();
        answer
    }
}
