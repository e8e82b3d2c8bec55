//! Users: programs over the whole public API.

mod ask;
mod deeds;
mod recipes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::sim::Process;
use leasehold::{Guard, Guards, Locks, Owner};
use tokio::time::{Instant, sleep_until};

use crate::ledger::{Ledger, Truth};
use crate::schedule::{Act, Millis, Setting, Step, User};
use crate::story::Story;

/// What a user needs of its run.
#[derive(Clone)]
pub struct Surroundings {
    /// What stays the same.
    pub setting: Setting,
    /// Whether nothing goes wrong, and nobody shuts a client down.
    pub calm: bool,
    /// When the run began.
    pub base: Instant,
    /// The process that the user is a task of.
    pub process: Arc<Process>,
    /// Where everything is entered.
    pub ledger: Arc<Ledger>,
    /// What the servers hold.
    pub truth: Arc<dyn Truth + Send + Sync>,
    /// What is told.
    pub story: Arc<Story>,
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("setting", &self.setting).finish_non_exhaustive()
    }
}

/// Runs the program of a user to its end.
pub async fn live(user: User, locks: Locks, around: Surroundings, steps: Vec<Step>) {
    let owner = Owner::new(format!("owner {user}"));
    let mut one = One { user, locks, owner, around, leases: Vec::new(), asked: 0 };
    for step in steps {
        sleep_until(one.around.base + Duration::from_millis(step.at)).await;
        one.act(step.act).await;
    }
    one.end();
}

/// One user in the middle of its program.
struct One {
    user: User,
    locks: Locks,
    owner: Owner,
    around: Surroundings,
    /// What it has, the latest last.
    leases: Vec<Lease>,
    asked: u32,
}

/// A lease that a user has: its pages in the ledger, by name.
struct Lease {
    pages: BTreeMap<String, u64>,
}

/// What is taken out of the ledger to be given back.
enum Hand {
    One(Guard),
    All(Guards),
}

impl One {
    async fn act(&mut self, act: Act) {
        match act {
            Act::Ask(ask) => self.ask(ask).await,
            Act::Extend(name, by) => self.extend(&name, Duration::from_millis(by)).await,
            Act::Convert(name) => self.convert(&name).await,
            Act::Release(name) => self.release(&name).await,
            Act::Drop(name) => self.let_go(&name),
            Act::Write(name, after) => self.write(&name, after).await,
            Act::Evict(name) => self.evict(&name, false).await,
            Act::Want(name) => self.evict(&name, true).await,
            Act::Count(name) => self.count(&name).await,
            Act::Bind(name) => self.bind(&name).await,
            Act::Once(key, work) => self.once(&key, Duration::from_millis(work)).await,
            Act::Look(name) => self.look(&name).await,
            Act::Shutdown(limit) => self.shut_down(limit).await,
        }
    }

    fn end(mut self) {
        for lease in std::mem::take(&mut self.leases) {
            drop(self.take(lease));
        }
    }

    /// Takes a lease out of the ledger.
    fn take(&self, lease: Lease) -> Option<(Hand, Vec<crate::ledger::Entry>)> {
        let ledger = &self.around.ledger;
        let mut entries: Vec<_> =
            lease.pages.values().filter_map(|page| ledger.leave(*page)).collect();
        let hand = deeds::unwrap(&mut entries)?;
        Some((hand, entries))
    }

    /// The latest lease on a name.
    fn position(&self, name: &str) -> Option<usize> {
        self.leases.iter().rposition(|lease| lease.pages.contains_key(name))
    }

    fn page(&self, name: &str) -> Option<u64> {
        self.position(name).and_then(|at| self.leases[at].pages.get(name).copied())
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        let user = self.user;
        self.around.story.tell(|| format!("user {user} {}", what()));
    }

    fn now(&self) -> Millis {
        u64::try_from(self.around.base.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
