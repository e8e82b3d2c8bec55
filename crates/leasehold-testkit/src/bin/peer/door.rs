//! One lock, whatever its kind.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{ErrorKind, Guard, Lock, Locks, Mutex, Released, RwLock, Semaphore};
use redis::aio::MultiplexedConnection;
use rslock::LockManager;
use tokio::sync::{Mutex as AsyncMutex, OnceCell};

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The ttl of locks that nobody renews.
const FIXED: Duration = Duration::from_secs(30);
/// Deletes only what is ours, as careful users of a bare driver do.
const DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                      return redis.call('DEL', KEYS[1]) end return 0";

/// Opens doors of every kind on the same servers.
pub(crate) struct Doors {
    servers: Vec<String>,
    /// One client per URL, as a service would have.
    clients: AsyncMutex<HashMap<String, Locks>>,
    /// The bare driver, one connection for all as well.
    driver: OnceCell<MultiplexedConnection>,
    rslock: LockManager,
}

#[derive(Clone)]
pub(crate) enum Door {
    Mutex(Mutex),
    Read(RwLock),
    Write(RwLock),
    Permit(Semaphore),
    /// `SET NX PX` and a plain `DEL`: the least a lock can cost.
    Bare(MultiplexedConnection, Arc<str>),
    /// The same, with a delete that compares.
    Careful(MultiplexedConnection, Arc<str>),
    Rslock(LockManager, Arc<str>),
}

pub(crate) enum Held {
    Ours(Guard),
    Bare(MultiplexedConnection, Arc<str>),
    Careful(MultiplexedConnection, Arc<str>, String),
    Rslock(LockManager, rslock::Lock),
}

impl Doors {
    pub(crate) fn new(servers: &str) -> Self {
        let servers: Vec<String> = servers.split(',').map(str::to_owned).collect();
        let urls = servers.iter().map(|server| format!("redis://{server}/")).collect();
        let (clients, driver) = (AsyncMutex::default(), OnceCell::new());
        Self { rslock: LockManager::new(urls), servers, clients, driver }
    }

    pub(crate) async fn open(&self, kind: &str, name: &str) -> Outcome<Door> {
        let (kind, permits) = kind.split_once(':').unwrap_or((kind, ""));
        Ok(match kind {
            "bare" => Door::Bare(self.driver().await?, name.into()),
            "careful" => Door::Careful(self.driver().await?, name.into()),
            "rslock" => Door::Rslock(self.rslock.clone(), name.into()),
            "read" => Door::Read(self.locks("lock").await?.rwlock(name)),
            "write" => Door::Write(self.locks("lock").await?.rwlock(name)),
            "semaphore" => {
                Door::Permit(self.locks("lock").await?.semaphore(name, permits.parse()?))
            }
            _ => Door::Mutex(self.locks(kind).await?.mutex(name)),
        })
    }

    /// The bare driver, on the first server.
    pub(crate) async fn driver(&self) -> Outcome<MultiplexedConnection> {
        let connect = async || {
            let client = redis::Client::open(format!("redis://{}/", self.servers[0]))?;
            client.get_multiplexed_async_connection().await
        };
        Ok(self.driver.get_or_try_init(connect).await?.clone())
    }

    async fn locks(&self, kind: &str) -> Outcome<Locks> {
        let url = self.url(kind);
        let mut clients = self.clients.lock().await;
        if !clients.contains_key(&url) {
            clients.insert(url.clone(), leasehold::open(&url).await?);
        }
        Ok(clients[&url].clone())
    }

    fn url(&self, kind: &str) -> String {
        let servers = self.servers.join(",");
        match kind {
            "native" => format!("redis://{servers}/"),
            "string" if self.servers.len() > 1 => format!("redlock://{servers}/?key={{name}}"),
            "string" => format!("redis://{servers}/?layout=string&key={{name}}"),
            kind => format!("redis://{servers}/?layout=redisson&kind={kind}"),
        }
    }
}

impl Door {
    /// No waiting if `wait` is zero; a renewed lease if `lease` is.
    pub(crate) async fn lock(&self, wait: Duration, lease: Duration) -> Outcome<Option<Held>> {
        match self {
            Self::Mutex(_) | Self::Read(_) | Self::Write(_) | Self::Permit(_) => {
                Ok(self.with(lease).take(wait).await?.map(Held::Ours))
            }
            Self::Bare(driver, name) => {
                let set = set(driver.clone(), name, "me").await?;
                Ok(set.then(|| Held::Bare(driver.clone(), Arc::clone(name))))
            }
            Self::Careful(driver, name) => {
                let token = format!("{:032x}", fastrand::u128(..));
                let set = set(driver.clone(), name, &token).await?;
                Ok(set.then(|| Held::Careful(driver.clone(), Arc::clone(name), token)))
            }
            Self::Rslock(manager, name) => {
                let lock = manager.lock(&**name, FIXED).await.ok();
                Ok(lock.map(|lock| Held::Rslock(manager.clone(), lock)))
            }
        }
    }

    /// The same door with a fixed lease, if one is given.
    fn with(&self, lease: Duration) -> Self {
        match self {
            _ if lease.is_zero() => self.clone(),
            Self::Mutex(it) => Self::Mutex(it.clone().ttl(lease).renew(false)),
            Self::Read(it) => Self::Read(it.clone().ttl(lease).renew(false)),
            Self::Write(it) => Self::Write(it.clone().ttl(lease).renew(false)),
            Self::Permit(it) => Self::Permit(it.clone().ttl(lease).renew(false)),
            _ => self.clone(),
        }
    }

    async fn take(&self, wait: Duration) -> leasehold::Result<Option<Guard>> {
        match self {
            _ if !wait.is_zero() => in_time(self.waiting().within(wait).await),
            Self::Mutex(it) => it.try_lock().await,
            Self::Read(it) => it.try_read().await,
            Self::Write(it) => it.try_write().await,
            Self::Permit(it) => it.try_acquire(1).await,
            _ => unreachable!("only ours are taken like this"),
        }
    }

    fn waiting(&self) -> Lock {
        match self {
            Self::Mutex(it) => it.lock(),
            Self::Read(it) => it.read(),
            Self::Write(it) => it.write(),
            Self::Permit(it) => it.acquire(1),
            _ => unreachable!("only ours are taken like this"),
        }
    }
}

fn in_time(granted: leasehold::Result<Guard>) -> leasehold::Result<Option<Guard>> {
    match granted {
        Ok(guard) => Ok(Some(guard)),
        Err(error) if error.kind() == ErrorKind::TimedOut => Ok(None),
        Err(error) => Err(error),
    }
}

async fn set(mut driver: MultiplexedConnection, name: &str, token: &str) -> Outcome<bool> {
    let mut set = redis::cmd("SET");
    set.arg(name).arg(token).arg("NX").arg("PX").arg(FIXED.as_secs() * 1000);
    Ok(set.query_async::<Option<String>>(&mut driver).await?.is_some())
}

impl Held {
    pub(crate) fn token(&self) -> String {
        match self {
            Self::Ours(guard) => guard.fence().to_string(),
            _ => "-".into(),
        }
    }

    /// Whether it was still ours.
    pub(crate) async fn unlock(self) -> Outcome<bool> {
        match self {
            Self::Ours(guard) => Ok(guard.release().await? == Released::Released),
            Self::Bare(mut driver, name) => {
                Ok(redis::cmd("DEL").arg(&*name).query_async(&mut driver).await?)
            }
            Self::Careful(mut driver, name, token) => {
                let script = redis::Script::new(DELETE);
                Ok(script.key(&*name).arg(token).invoke_async(&mut driver).await?)
            }
            Self::Rslock(manager, lock) => {
                manager.unlock(&lock).await;
                Ok(true)
            }
        }
    }

    /// Whether it was still ours.
    pub(crate) async fn extend(&self, lease: Duration) -> Outcome<bool> {
        let Self::Ours(guard) = self else { return Err("only ours are extended".into()) };
        match guard.extend(lease).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Lost => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
