//! One guard of one user, as the ledger knows it.

use std::fmt;
use std::sync::Arc;

use leasehold::sim::Process;
use leasehold::{Clock, Guard, Guards, Mode, Moment};

use crate::schedule::{Millis, User};

/// What a user has in hand.
#[derive(Clone, Debug)]
pub enum Proof {
    /// A guard.
    One(Arc<Guard>),
    /// One of several.
    Of(Arc<Guards>, usize),
    /// Nothing any more.
    None,
}

impl Proof {
    /// The guard.
    #[must_use]
    pub fn guard(&self) -> Option<&Guard> {
        match self {
            Self::One(guard) => Some(guard),
            Self::Of(guards, at) => guards.iter().nth(*at),
            Self::None => None,
        }
    }
}

/// A guard, and what was agreed about it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Whose it is.
    pub user: User,
    /// What is held.
    pub name: String,
    /// How.
    pub mode: Mode,
    /// Its fence.
    pub fence: u64,
    /// What the servers know it by.
    pub label: String,
    /// Whether its owner may have it twice.
    pub owned: bool,
    /// When the user got it.
    pub since: Millis,
    /// A fixed lease may be believed until then, by its client's clock.
    pub ends: Option<Moment>,
    /// Whether an operator may have taken it away.
    pub evicted: bool,
    /// The process that looks at it.
    pub process: Arc<Process>,
    /// The guard itself.
    pub proof: Proof,
}

/// A guard is dropped by its own process, whoever kept it.
impl Drop for Entry {
    fn drop(&mut self) {
        let proof = std::mem::replace(&mut self.proof, Proof::None);
        self.process.enter(|| drop(proof));
    }
}

impl Entry {
    /// Whether its user believes it, by the clock of its client.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        let check = || self.proof.guard().is_some_and(|guard| guard.check().is_ok());
        self.process.enter(check)
    }

    /// A fixed lease that is believed for longer than was agreed.
    #[must_use]
    pub fn outlives(&self) -> Option<String> {
        let now = self.process.enter(|| Clock::System.now());
        let ends = self.ends.filter(|ends| now > *ends)?;
        Some(format!("{self}, {:?} longer than was agreed", now.since(ends)))
    }

    /// Whether it cannot be held beside these.
    #[must_use]
    pub fn overlaps(&self, others: &[&Self]) -> Option<String> {
        let same = |it: &&&Self| it.name == self.name && !self.is_shared_with(it);
        let beside: Vec<&&Self> = others.iter().filter(same).collect();
        let other = beside.iter().find(|it| excludes(self.mode, it.mode));
        if let Some(other) = other {
            return Some(format!("{self} beside {other}"));
        }
        let Mode::Permits { take, of } = self.mode else { return None };
        let taken = beside.iter().map(|it| taken(it.mode)).sum::<u32>() + take;
        (taken > of).then(|| format!("{self}, with {taken} of {of} permits out"))
    }

    /// Two guards of one owner on one lease.
    fn is_shared_with(&self, other: &Self) -> bool {
        let owned = self.owned && other.owned;
        owned && self.user.client == other.user.client && self.fence == other.fence
    }
}

const fn excludes(one: Mode, other: Mode) -> bool {
    matches!(one, Mode::Exclusive | Mode::Write) || matches!(other, Mode::Exclusive | Mode::Write)
}

const fn taken(mode: Mode) -> u32 {
    match mode {
        Mode::Permits { take, .. } => take,
        _ => 0,
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, mode, fence, label, .. } = self;
        write!(f, "{name} as {label}, {mode}, fence {fence}")
    }
}
