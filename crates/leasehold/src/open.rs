//! From a URL to an engine.

#[cfg(all(leasehold_sim, feature = "quorum"))]
pub mod staged;

use std::sync::Arc;

use crate::clock::Clock;
use crate::detached::Detached;
use crate::engine::profile::{Promise, Purpose, Reach};
use crate::engine::{BoxFuture, Engine, Profile};
use crate::engines::{self, EngineRow};
use crate::error::{Error, ErrorKind, Result};
use crate::home::Home;
use crate::layers::retry::{Retry, Retrying};
use crate::locks::Locks;
use crate::observe;
use crate::url::Url;

/// Opens the engine that `url` names.
///
/// | URL | engine |
/// |---|---|
/// | `memory:` | tasks and threads of this process |
/// | `sqlite:PATH` | processes of this host (feature `sqlite`) |
/// | `redis://HOST` | Redis 7: one server, sentinels or a cluster (feature `redis`) |
/// | `postgres://HOST` | PostgreSQL (feature `postgres`) |
/// | `mysql://HOST` | MySQL and MariaDB (feature `mysql`) |
/// | `zookeeper://HOST` | a ZooKeeper ensemble (feature `zookeeper`) |
/// | `etcd://HOST` | an etcd cluster (feature `etcd`) |
/// | `redlock://HOST,HOST,HOST`, `quorum:URL,URL,URL` | a majority of independent servers or engines (feature `quorum`) |
///
/// The pages of the engines say what each URL takes. Every one takes
/// `?namespace=NAME` and `?retry=POLICY` (see [`Retry`]). Options an engine does
/// not know are refused, with the list of those it knows.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// let locks = leasehold::open("memory:?namespace=shop").await?;
/// let typo = leasehold::open("memory:?namespce=shop").await.unwrap_err();
/// assert!(typo.to_string().contains("namespace"));
/// # Ok(()) }
/// ```
pub fn open(url: impl Into<String>) -> Opening {
    Opening { url: url.into(), promises: Vec::new() }
}

/// An engine to be opened by awaiting it.
///
/// # Cancel safety
///
/// What was opened for a dropped future is closed in the background. A file or
/// tables that the engine makes for itself may be there.
#[must_use = "does nothing unless awaited"]
pub struct Opening {
    url: String,
    promises: Vec<Box<dyn Promise + Send + Sync>>,
}

impl std::fmt::Debug for Opening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A URL may hold a password.
        f.write_str("Opening")
    }
}

impl Opening {
    /// Fails to open an engine that does not promise this much.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use leasehold::engine::profile::{Order, Reach};
    ///
    /// let opening = leasehold::open("memory:").require(Order::Fifo).require(Reach::Host);
    /// let error = opening.await.unwrap_err();
    /// assert!(error.to_string().contains("Host"));
    /// # }
    /// ```
    pub fn require(mut self, promise: impl Promise + Send + Sync + 'static) -> Self {
        self.promises.push(Box::new(promise));
        self
    }

    /// Fails to open an engine that is not good enough for this purpose.
    pub fn purpose(self, purpose: Purpose) -> Self {
        self.require(purpose)
    }

    fn check(&self, profile: &Profile) -> Result<()> {
        let missing = self.promises.iter().filter(|promise| !promise.is_kept_by(profile));
        let missing: Vec<String> = missing.map(|promise| format!("{promise:?}")).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let (scheme, missing) = (profile.scheme, missing.join(", "));
        Err(Error::new(
            ErrorKind::Unsupported,
            format!("the {scheme} engine, as opened, does not promise {missing}; choose another"),
        ))
    }

    async fn open(self) -> Result<Locks> {
        let url = Url::parse(&self.url)?;
        let row = engines::find(&url.scheme)?;
        url.options.check(row.scheme, row.options)?;
        let namespace = url.options.get("namespace")?.map(str::to_owned);
        let retry = url.options.get("retry")?.map_or(Ok(Retry::default()), str::parse)?;
        // Held until the client has it too: an engine's tasks end with home.
        let home = Home::find()?;
        let engine = open_at_home(&home, row, url).await?;
        self.check(engine.profile())?;
        let locks = Locks::on(layered(engine, retry), Clock::System)?;
        namespace.map_or(Ok(locks.clone()), |namespace| locks.namespace(namespace))
    }
}

impl IntoFuture for Opening {
    type Output = Result<Locks>;
    type IntoFuture = BoxFuture<Result<Locks>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

/// What cannot be away needs no retries.
fn layered(engine: Arc<dyn Engine>, retry: Retry) -> Arc<dyn Engine> {
    if engine.profile().reach == Reach::Process {
        return engine;
    }
    Arc::new(Retrying::new(engine, Clock::System, retry).telling(observe::retrying))
}

/// Engines keep connections and tasks, and these belong on home.
async fn open_at_home(home: &Home, row: &'static EngineRow, url: Url) -> Result<Arc<dyn Engine>> {
    Detached::of(home.handle().clone(), async move { (row.open)(url).await }).await
}
