//! A place that several processes share: one server of each engine, for tests
//! that run on all of them side by side.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::thread;

use tempfile::TempDir;

use crate::narrow;
use crate::server::{Server, ServerError};

/// What comes of a test.
pub type Tested<T = ()> = Result<T, Box<dyn Error>>;

/// An engine on a server of its own, and a folder for files.
#[derive(Debug)]
pub struct Place {
    engine: &'static str,
    url: String,
    server: Option<Server>,
    // Dropped last: the engine may have its file there.
    folder: TempDir,
}

type Start = fn() -> Result<Server, ServerError>;

/// The engines that have servers.
const SERVED: [(&str, Start); 5] = [
    ("redis", Server::redis),
    ("postgres", Server::postgres),
    ("mysql", Server::mariadb),
    ("etcd", Server::etcd),
    ("zookeeper", Server::zookeeper),
];

impl Place {
    /// Runs a test on each engine that was chosen, side by side: they mostly wait.
    ///
    /// # Errors
    ///
    /// The first failure, with the name of its engine.
    pub fn each(test: fn(&Self) -> Tested) -> Tested {
        let run = |place: Tested<Self>| place.and_then(|it| test(&it)).map_err(|it| it.to_string());
        thread::scope(|scope| {
            let file = narrow::includes("sqlite")
                .then(|| ("sqlite", scope.spawn(move || run(Self::in_a_file()))));
            let served = SERVED.into_iter().filter(|(name, _)| narrow::includes(name));
            let served =
                served.map(|(name, start)| (name, scope.spawn(move || run(Self::on(name, start)))));
            for (name, test) in file.into_iter().chain(served).collect::<Vec<_>>() {
                let ended = test.join().map_err(|_| format!("{name}: see above"))?;
                ended.map_err(|why| format!("{name}: {why}"))?;
            }
            Ok(())
        })
    }

    fn in_a_file() -> Tested<Self> {
        let folder = TempDir::new()?;
        let url = format!("sqlite:{}", folder.path().join("locks.db").display());
        Ok(Self { engine: "sqlite", url, server: None, folder })
    }

    fn on(engine: &'static str, start: Start) -> Tested<Self> {
        let (server, folder) = (start()?, TempDir::new()?);
        Ok(Self { engine, url: server.url(), server: Some(server), folder })
    }

    /// The word of its engine.
    #[must_use]
    pub const fn engine(&self) -> &'static str {
        self.engine
    }

    /// How any process gets there.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The same, with one more option.
    #[must_use]
    pub fn url_with(&self, option: &str) -> String {
        let sign = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{sign}{option}", self.url)
    }

    /// Its server, if it has one.
    #[must_use]
    pub const fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// A file that no engine looks at.
    #[must_use]
    pub fn scratch(&self, file: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(file)
    }
}
