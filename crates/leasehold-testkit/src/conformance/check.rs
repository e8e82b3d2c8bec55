//! One thing that an engine must do, as a sentence and as code.

use std::any::Any;
use std::time::Duration;

use leasehold::Profile;
use leasehold::engine::BoxFuture;
use leasehold::engine::profile::{Lists, Liveness};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::recipe::Recipe;
use super::store::Store;

/// What comes of a check, or of a step of one.
pub type Outcome<T = ()> = Result<T, Failed>;

/// Why a check failed.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// How long a check may take before it counts as stuck.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Fails the check unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+).into());
        }
    };
}

/// Makes a [`Check`] of a function, named after it and its module.
macro_rules! check {
    ($body:ident) => {
        $crate::conformance::check::Check::new(module_path!(), stringify!($body), |store| {
            Box::pin($body(store))
        })
    };
}

pub(super) use {check, ensure};

/// A check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    subject: &'static str,
    sentence: &'static str,
    applies: fn(&Profile) -> bool,
    /// Whether it has to see who waits.
    queue: bool,
    /// Whether it has to see, or to reach, the leases of other clients.
    known: bool,
    recipes: &'static [Recipe],
    body: fn(Store) -> BoxFuture<Outcome>,
}

impl Check {
    pub(super) fn new(
        module: &'static str,
        sentence: &'static str,
        body: fn(Store) -> BoxFuture<Outcome>,
    ) -> Self {
        let subject = module.rsplit("::").next().unwrap_or(module);
        Self {
            subject,
            sentence,
            applies: |_| true,
            queue: false,
            known: false,
            recipes: &[Recipe::Mutex],
            body,
        }
    }

    /// The same check, for engines that promise this.
    pub(super) const fn when(self, applies: fn(&Profile) -> bool) -> Self {
        Self { applies, ..self }
    }

    /// The same check, which has to see who waits. A majority keeps no queue:
    /// its waiters ask again and are nowhere to be seen.
    pub(super) const fn of_a_queue(self) -> Self {
        Self { queue: true, ..self }
    }

    /// The same check, which has to see the label, the fence and the end of
    /// another client's lease, or to take it away. A lock that a session has, or
    /// a row of the user's table, does not tell.
    pub(super) const fn of_known_leases(self) -> Self {
        Self { known: true, ..self }
    }

    /// The same check, over all of these in the role of a mutex.
    pub(super) const fn over(self, recipes: &'static [Recipe]) -> Self {
        Self { recipes, ..self }
    }

    /// What plays the mutex in it, in turn.
    #[must_use]
    pub const fn recipes(&self) -> &'static [Recipe] {
        self.recipes
    }

    /// Whether an engine with this profile must pass it.
    #[must_use]
    pub fn applies_to(&self, profile: &Profile) -> bool {
        (self.applies)(profile)
            && (!self.queue || shows_waiters(profile))
            && (!self.known || shows_leases(profile))
    }

    /// What it is about.
    #[must_use]
    pub const fn subject(&self) -> &'static str {
        self.subject
    }

    /// `subject::sentence`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}::{}", self.subject, self.sentence)
    }

    /// Runs it on a store of its own, for `limit` at most.
    ///
    /// # Errors
    ///
    /// What was wrong; a panic and a check that gets stuck are wrong too.
    pub fn run(&self, store: Store, limit: Duration) -> Result<(), String> {
        let runtime = runtime().map_err(|error| error.to_string())?;
        let task = runtime.spawn((self.body)(store));
        let done = runtime.block_on(async { timeout(limit, task).await });
        runtime.shutdown_background();
        match done {
            Err(_) => Err(format!("stuck: not done within {limit:?}")),
            Ok(Err(died)) => Err(died.try_into_panic().map_or("cancelled".into(), said)),
            Ok(Ok(outcome)) => outcome.map_err(|failed| failed.to_string()),
        }
    }
}

/// Whether one can see who waits.
pub(super) fn shows_waiters(profile: &Profile) -> bool {
    match profile.scheme {
        "quorum" => false,
        // The lease table, and the list of locks that PostgreSQL has.
        "postgres" => shows_leases(profile) || profile.liveness == Liveness::Connection,
        "mysql" => shows_leases(profile),
        _ => true,
    }
}

/// Whether clients know the leases of each other: in a database, those of the
/// lease table.
fn shows_leases(profile: &Profile) -> bool {
    let database = ["mysql", "postgres"].contains(&profile.scheme);
    !database || profile.listing == Lists::Indexed
}

/// Two workers, as a small machine has.
pub(super) fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

/// What a panic said.
fn said(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()))
        .unwrap_or_else(|| "it panicked".into())
}
