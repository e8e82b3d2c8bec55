//! One store of leases, for as many clients as a check wants.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leasehold::{Clock, Engine, Guard, Locks};
use tempfile::TempDir;

use super::check::Outcome;
use super::recipe::{Client, DRAINER, PERMITS, Recipe};
use super::shared;
use crate::below::Below;
use crate::folder::quick_folder;
use crate::twist::{Plain, Twist, Twisted};

/// A store that nobody else uses, and a folder beside it for scratch files.
#[derive(Debug)]
pub struct Store {
    way: Way,
    recipe: Recipe,
    /// What someone else holds of the name `n`.
    drained: Option<Guard>,
    // Dropped last: clients end before their store does.
    folder: TempDir,
}

/// How a client gets to it.
#[derive(Debug)]
enum Way {
    /// By a URL, from any process.
    Url(String),
    /// By a URL, where all of its names lie below this path.
    Path(String, String),
    /// By sharing this engine, within the process.
    Engine(Arc<dyn Engine>),
}

impl Store {
    /// A store in the memory of this process.
    ///
    /// # Errors
    ///
    /// When there is no room for its scratch folder.
    pub fn memory() -> Outcome<Self> {
        Self::over(Locks::memory().engine())
    }

    /// A store in a file of its own.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder.
    pub fn sqlite() -> Outcome<Self> {
        let folder = quick_folder()?;
        let home = folder.path().join("store");
        std::fs::create_dir(&home)?;
        let way = Way::Url(format!("sqlite:{}", home.join("locks.db").display()));
        Ok(Self { way, recipe: Recipe::Mutex, drained: None, folder })
    }

    /// A database of its own on a Redis that all stores of this process share,
    /// opened with these options.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or the server does not start.
    pub fn redis(options: &str) -> Outcome<Self> {
        let server = shared::url(shared::Kind::Redis)?;
        let url = format!("{server}{}?{options}", shared::number());
        Ok(Self {
            way: Way::Url(url),
            recipe: Recipe::Mutex,
            drained: None,
            folder: TempDir::new()?,
        })
    }

    /// Keys of its own on a Redis with a password behind TLS.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or the server does not start.
    pub fn redis_tls() -> Outcome<Self> {
        Self::prefixed(shared::Kind::Tls)
    }

    /// Keys of its own on a primary that sentinels watch over.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or a server does not start.
    pub fn redis_sentinel() -> Outcome<Self> {
        Self::prefixed(shared::Kind::Sentinels)
    }

    /// Keys of its own in a cluster, which has no databases.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or a server does not start.
    pub fn redis_cluster() -> Outcome<Self> {
        Self::prefixed(shared::Kind::Cluster)
    }

    /// Tables of its own on a PostgreSQL that all stores of this process share.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or the server does not start.
    pub fn postgres() -> Outcome<Self> {
        Self::named(shared::Kind::Postgres, &format!("store{}_", shared::number()))
    }

    /// Tables of its own on the same PostgreSQL, behind a transaction pooler.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or a server does not start.
    pub fn pgbouncer() -> Outcome<Self> {
        Self::named(shared::Kind::Pgbouncer, &format!("store{}_", shared::number()))
    }

    /// Tables of its own on a MariaDB that all stores of this process share.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or the server does not start.
    pub fn mysql() -> Outcome<Self> {
        Self::named(shared::Kind::Mariadb, &format!("store{}_", shared::number()))
    }

    /// Keys of its own on an etcd that all stores of this process share.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or the server does not start.
    pub fn etcd() -> Outcome<Self> {
        Self::rooted(shared::Kind::Etcd, "root=")
    }

    /// The same in a cluster of three.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or a server does not start.
    pub fn etcd_cluster() -> Outcome<Self> {
        Self::rooted(shared::Kind::EtcdCluster, "root=")
    }

    /// A node of its own on a ZooKeeper that all stores of this process share.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or the server does not start.
    pub fn zookeeper() -> Outcome<Self> {
        Self::rooted(shared::Kind::Zookeeper, "session=2h&root=/")
    }

    /// The same in an ensemble of three.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or a server does not start.
    pub fn zookeeper_ensemble() -> Outcome<Self> {
        Self::rooted(shared::Kind::ZookeeperEnsemble, "session=2h&root=/")
    }

    /// Bare keys of its own on the same etcd as records, and a node of its own for locks.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or the server does not start.
    pub fn etcd_raw_records() -> Outcome<Self> {
        Self::raw_records(shared::Kind::Etcd, "root=own", "store")
    }

    /// The same with nodes on a ZooKeeper.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or the server does not start.
    pub fn zookeeper_raw_records() -> Outcome<Self> {
        Self::raw_records(shared::Kind::Zookeeper, "session=2h&root=/own", "/store")
    }

    fn raw_records(kind: shared::Kind, options: &str, path: &str) -> Outcome<Self> {
        let (url, number) = (shared::url(kind)?, shared::number());
        let url = format!("{url}?timeout=20s&records=raw&{options}{number}");
        let way = Way::Path(url, format!("{path}{number}/"));
        Ok(Self { way, recipe: Recipe::Mutex, drained: None, folder: TempDir::new()? })
    }

    fn rooted(kind: shared::Kind, options: &str) -> Outcome<Self> {
        let (url, number) = (shared::url(kind)?, shared::number());
        let way = Way::Url(format!("{url}?timeout=20s&{options}store{number}"));
        Ok(Self { way, recipe: Recipe::Mutex, drained: None, folder: TempDir::new()? })
    }

    fn prefixed(kind: shared::Kind) -> Outcome<Self> {
        Self::named(kind, &format!("store{}:", shared::number()))
    }

    fn named(kind: shared::Kind, prefix: &str) -> Outcome<Self> {
        let url = shared::url(kind)?;
        let sign = if url.contains('?') { '&' } else { '?' };
        let way = Way::Url(format!("{url}{sign}timeout=20s&prefix={prefix}"));
        Ok(Self { way, recipe: Recipe::Mutex, drained: None, folder: TempDir::new()? })
    }

    /// A database of its own on a PostgreSQL, opened with these options after
    /// these statements.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or the server does not start.
    pub fn postgres_with(options: &str, statements: &str) -> Outcome<Self> {
        Self::database(shared::Kind::Postgres, options, statements)
    }

    /// The same on a MariaDB.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or the server does not start.
    pub fn mysql_with(options: &str, statements: &str) -> Outcome<Self> {
        Self::database(shared::Kind::Mariadb, options, statements)
    }

    fn database(kind: shared::Kind, options: &str, statements: &str) -> Outcome<Self> {
        let url = shared::database(kind)?;
        if !statements.is_empty() {
            crate::server::tell(&url, statements)?;
        }
        let way = Way::Url(format!("{url}?{options}"));
        Ok(Self { way, recipe: Recipe::Mutex, drained: None, folder: TempDir::new()? })
    }

    /// A quorum of three files of its own.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder.
    pub fn quorum() -> Outcome<Self> {
        let folder = quick_folder()?;
        let files =
            ["a", "b", "c"].map(|it| format!("sqlite:{}", folder.path().join(it).display()));
        let way = Way::Url(format!("quorum:{}?node_timeout=20s", files.join(",")));
        Ok(Self { way, recipe: Recipe::Mutex, drained: None, folder })
    }

    /// A database of its own on so many Redis servers that know nothing of
    /// each other; all stores of this process share them.
    ///
    /// # Errors
    ///
    /// When there is no room for its folder, or a server does not start.
    pub fn redlock(nodes: usize) -> Outcome<Self> {
        let urls = (0..nodes).map(|node| shared::url(shared::Kind::Node(node)));
        let urls = urls.collect::<Result<Vec<_>, _>>()?;
        let hosts = urls.iter().map(|url| url.trim_start_matches("redis://").trim_end_matches('/'));
        let hosts = hosts.collect::<Vec<_>>().join(",");
        // They have just been started and have nothing to forget.
        let options = "quarantine=0s&node_timeout=20s";
        let way = Way::Url(format!("redlock://{hosts}/{}?{options}", shared::number()));
        Ok(Self { way, recipe: Recipe::Mutex, drained: None, folder: TempDir::new()? })
    }

    /// A store behind this engine; every client shares it.
    ///
    /// # Errors
    ///
    /// When there is no room for its scratch folder.
    pub fn over(engine: Arc<dyn Engine>) -> Outcome<Self> {
        let (way, folder) = (Way::Engine(engine), TempDir::new()?);
        Ok(Self { way, recipe: Recipe::Mutex, drained: None, folder })
    }

    /// The same store, where `recipe` plays the mutex.
    ///
    /// # Errors
    ///
    /// When a semaphore cannot be drained.
    pub async fn playing(mut self, recipe: Recipe) -> Outcome<Self> {
        self.recipe = recipe;
        if recipe == Recipe::LastPermit {
            let semaphore = self.open().await?.semaphore("n", PERMITS).label(DRAINER);
            let rest = semaphore.ttl(Duration::from_secs(3600)).acquire(PERMITS - 1).await?;
            self.drained = Some(rest);
        }
        Ok(self)
    }

    /// A new client of the store.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    pub async fn open(&self) -> leasehold::Result<Client> {
        match &self.way {
            Way::Url(url) => Ok(Client::new(leasehold::open(url).await?, self.recipe)),
            Way::Path(url, path) => {
                let below = leasehold::open(url).await?;
                let locks = Locks::on(Below::around(below.engine(), path), Clock::System)?;
                Ok(Client::new(locks, self.recipe).over(below))
            }
            Way::Engine(engine) => {
                let engine = Twisted::around(Arc::clone(engine), Plain);
                Ok(Client::new(Locks::on(engine, Clock::System)?, self.recipe))
            }
        }
    }

    /// So many new clients.
    ///
    /// # Errors
    ///
    /// When one cannot be opened.
    pub async fn open_many(&self, count: usize) -> leasehold::Result<Vec<Client>> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            clients.push(self.open().await?);
        }
        Ok(clients)
    }

    /// A new client whose engine has a twist.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    pub async fn open_twisted(&self, twist: impl Twist) -> leasehold::Result<(Client, Client)> {
        let below = self.open().await?;
        let above = Locks::on(Twisted::around(below.engine(), twist), Clock::System)?;
        let above = above.namespace(below.name("n")?.namespace().as_str())?;
        Ok((Client::new(above, self.recipe), below))
    }

    /// How another process gets to it, where one can.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        match &self.way {
            Way::Url(url) => Some(url),
            // Another process does not know what is below the path.
            Way::Path(..) | Way::Engine(_) => None,
        }
    }

    /// A file that no engine looks at.
    #[must_use]
    pub fn scratch(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Where the engine keeps its files, if it has any.
    #[must_use]
    pub fn files(&self) -> Option<PathBuf> {
        let files: &Path = &self.folder.path().join("store");
        files.exists().then(|| files.to_owned())
    }
}
