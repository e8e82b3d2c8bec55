//! What users do with a lease, and to one.

use std::sync::Arc;
use std::time::Duration;

use leasehold::engine::{Eviction, Target};
use leasehold::{Clock, Effect, Error, ErrorKind, Mode, Moment, Released};
use tokio::time::sleep;

use super::{Hand, One};
use crate::ledger::{Entry, Proof};
use crate::schedule::Millis;

/// So long after an eviction a guard may arrive that it has hit.
const AFTERMATH: Millis = 10_000;

/// The guard behind these entries, which nobody else has any more.
pub(super) fn unwrap(entries: &mut [Entry]) -> Option<Hand> {
    let mut proofs: Vec<Proof> = entries.iter_mut().map(|entry| entry.proof.clone()).collect();
    // The entries are kept for what they say; they prove nothing any more.
    entries.iter_mut().for_each(|entry| entry.proof = Proof::None);
    match proofs.pop()? {
        Proof::One(guard) => Arc::into_inner(guard).map(Hand::One),
        Proof::Of(guards, _) => {
            drop(proofs);
            Arc::into_inner(guards).map(Hand::All)
        }
        Proof::None => None,
    }
}

impl One {
    pub(super) async fn release(&mut self, name: &str) {
        let Some(at) = self.position(name) else { return };
        let lease = self.leases.remove(at);
        let Some((hand, entries)) = self.take(lease) else { return };
        let (deadline, before) = (deadline(&hand), self.released(&entries));
        self.tell(|| format!("releases {name}, {}", standing(&hand)));
        let released = match hand {
            Hand::One(guard) => guard.release().await,
            Hand::All(guards) => guards.release().await,
        };
        self.tell(|| format!("has released {name}: {}", shown(&released)));
        match released {
            Ok(Released::Released) => self.check_release(&entries),
            Ok(Released::AlreadyLost) if Clock::System.now() < deadline => {
                self.check_loss(&entries, &before);
            }
            _ => {}
        }
    }

    /// Told that it is released: then nobody holds it. An owner may have it twice,
    /// and late bids of a quorum's earlier rounds are removed in their own time.
    fn check_release(&self, entries: &[Entry]) {
        if self.around.setting.stage.is_quorum() {
            return;
        }
        for entry in entries.iter().filter(|entry| !entry.owned) {
            if self.around.truth.has(entry) {
                let how = format!("{entry} is released, as its user is told, and is still held");
                self.around.ledger.breaks("I4", how);
            }
        }
    }

    /// How many releases there were; of several leases, nobody can tell.
    fn released(&self, entries: &[Entry]) -> Vec<u32> {
        match entries {
            [entry] => self.around.truth.released(&entry.label),
            _ => Vec::new(),
        }
    }

    /// Told that it was lost before: then it was not this release that ended it.
    fn check_loss(&self, entries: &[Entry], before: &[u32]) {
        // Of several, any may be the one that was lost.
        let [entry] = entries else { return };
        let ledger = &self.around.ledger;
        let ended_otherwise = ledger.is_evicting(&entry.name) || ledger.is_shut(self.user.client);
        if entry.evicted || ended_otherwise {
            return;
        }
        let now = self.released(entries);
        let ended = now.iter().zip(before).filter(|(now, before)| now > before).count();
        if ended > now.len() / 2 {
            let how =
                format!("{entry} was released in time, and its user is told that it was lost");
            self.around.ledger.breaks("I4", how);
        }
    }

    pub(super) fn let_go(&mut self, name: &str) {
        let Some(at) = self.position(name) else { return };
        let lease = self.leases.remove(at);
        self.tell(|| format!("drops {name}"));
        drop(self.take(lease));
    }

    pub(super) async fn extend(&mut self, name: &str, by: Duration) {
        let Some(page) = self.page(name) else { return };
        let ledger = Arc::clone(&self.around.ledger);
        let Some((proof, agreed)) = ledger.entry(page, |it| (it.proof.clone(), it.ends)) else {
            return;
        };
        let Some(guard) = proof.guard() else { return };
        self.tell(|| format!("extends {name} by {} ms", by.as_millis()));
        ledger.entry(page, |it| it.ends = None);
        let extended = guard.extend(by).await;
        self.tell(|| format!("has extended {name}: {}", shown(&extended)));
        let ends = match &extended {
            Err(error) if error.effect() == Effect::NotApplied => agreed,
            _ => agreed.map(|ends| ends.max(Clock::System.now().after(by))),
        };
        ledger.entry(page, |it| it.ends = ends);
    }

    pub(super) async fn convert(&mut self, name: &str) {
        let Some(at) = self.position(name) else { return };
        if self.leases[at].pages.len() > 1 {
            return;
        }
        let lease = self.leases.remove(at);
        let Some((Hand::One(mut guard), mut entries)) = self.take(lease) else { return };
        self.tell(|| format!("converts {name} to read"));
        // From here on it writes no more, whatever comes of it.
        let converted = guard.convert(Mode::Read).await;
        self.tell(|| format!("has converted {name}: {}", shown(&converted)));
        let Some(mut entry) = entries.pop() else { return };
        entry.mode = guard.mode();
        entry.proof = Proof::One(Arc::new(guard));
        let page = self.around.ledger.return_to(entry);
        let pages = [(name.to_owned(), page)].into();
        self.leases.push(super::Lease { pages });
    }

    /// Reads, takes its time, and writes one more.
    pub(super) async fn write(&mut self, name: &str, after: Millis) {
        let Some(page) = self.page(name) else { return };
        let ledger = Arc::clone(&self.around.ledger);
        let look = |it: &mut Entry| it.proof.guard().map(leasehold::Guard::sequencer);
        let Some(Some(by)) = ledger.entry(page, look) else { return };
        let register = ledger.register(name);
        // To read as a writer raises the mark.
        let Ok(read) = register.write(&by, |value| *value) else { return };
        sleep(Duration::from_millis(after)).await;
        let written = register.write(&by, |value| {
            *value = read + 1;
            *value
        });
        self.tell(|| format!("stores {name} with fence {}: {}", by.fence, shown(&written)));
        if let Ok(shows) = written {
            ledger.accepted(name, shows);
        }
    }

    pub(super) async fn evict(&mut self, name: &str, asking: bool) {
        let Ok(full) = self.locks.name(name) else { return };
        let Ok(eviction) = Eviction::new(full, Target::All, "operator", "simulation") else {
            return;
        };
        let eviction = if asking { eviction.asking() } else { eviction };
        if !asking {
            self.around.ledger.evict(name, Millis::MAX);
        }
        let done = self.locks.evict(eviction).await;
        self.tell(|| match &done {
            Ok(_) => format!("has evicted {name}"),
            Err(error) => format!("has not evicted {name}: {error}"),
        });
        let settled = done.map_or_else(|error| error.effect() == Effect::NotApplied, |_| true);
        if settled && !asking {
            self.around.ledger.evict(name, self.now() + AFTERMATH);
        }
    }

    pub(super) async fn look(&mut self, name: &str) {
        // Only that it answers: what it shows is as old as the answer.
        drop(self.locks.status(name).await);
    }

    pub(super) async fn shut_down(&mut self, limit: Millis) {
        self.tell(|| format!("shuts its client down within {limit} ms"));
        self.around.ledger.shut(self.user.client);
        let done = self.locks.shutdown(Duration::from_millis(limit)).await;
        self.tell(|| format!("has shut down: {}", shown(&done)));
    }
}

/// What a guard says of itself.
fn standing(hand: &Hand) -> String {
    let word = |guard: &leasehold::Guard| match guard.check() {
        Ok(()) => format!("held until {:?}", guard.deadline()),
        Err(error) => error.to_string(),
    };
    match hand {
        Hand::One(guard) => word(guard),
        Hand::All(guards) => guards.iter().map(word).collect::<Vec<_>>().join(", "),
    }
}

fn deadline(hand: &Hand) -> Moment {
    match hand {
        Hand::One(guard) => guard.deadline(),
        Hand::All(guards) => {
            guards.iter().map(leasehold::Guard::deadline).min().unwrap_or_default()
        }
    }
}

pub(super) fn shown<T: std::fmt::Debug>(done: &Result<T, Error>) -> String {
    match done {
        Ok(done) => format!("{done:?}"),
        Err(error) if error.kind() == ErrorKind::Lost => format!("lost: {error}"),
        Err(error) => error.to_string(),
    }
}
