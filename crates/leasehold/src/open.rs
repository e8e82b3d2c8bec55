//! From a URL to an engine.

use std::sync::Arc;

use crate::clock::Clock;
use crate::engine::{BoxFuture, Engine};
use crate::engines::{self, Row};
use crate::error::Result;
use crate::home::Home;
use crate::locks::Locks;
use crate::parcel::Errand;
use crate::url::Url;

/// Opens the engine that `url` names.
///
/// | URL | engine |
/// |---|---|
/// | `memory:` | tasks and threads of this process |
/// | `sqlite:PATH` | processes of this host (feature `sqlite`) |
///
/// Every URL takes `?namespace=NAME`. Options an engine does not know are
/// refused, with the list of those it knows.
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
    Opening { url: url.into() }
}

/// An engine to be opened by awaiting it.
#[must_use = "does nothing unless awaited"]
pub struct Opening {
    url: String,
}

impl std::fmt::Debug for Opening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A URL may hold a password.
        f.write_str("Opening")
    }
}

impl Opening {
    async fn open(self) -> Result<Locks> {
        let url = Url::parse(&self.url)?;
        let row = engines::find(&url.scheme)?;
        let namespace = url.options.get("namespace")?.map(str::to_owned);
        url.options.check(row.scheme, row.options)?;
        // Held until the client has it too: an engine's tasks end with home.
        let home = Home::find()?;
        let engine = open_at_home(&home, row, url).await?;
        let locks = Locks::on(engine, Clock::System)?;
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

/// Engines keep connections and tasks, and these belong on home.
async fn open_at_home(home: &Home, row: &'static Row, url: Url) -> Result<Arc<dyn Engine>> {
    let opened = Errand::new(home.handle().clone(), |parcel| async move {
        parcel.put((row.open)(url).await);
    });
    opened.await
}
