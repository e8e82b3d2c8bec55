//! Servers, and the two peers that a check lets play on them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use leasehold_testkit::Server;
use leasehold_testkit::peer::{Peer, Tongue};
use leasehold_testkit::server::Plan;
use libtest_mimic::Failed;
use redis::Commands;

pub(crate) type Checked = Result<(), Failed>;
pub(crate) type Check = fn(&mut Scene<'_>) -> Checked;

/// A lease that no check waits out: what ends sooner was ended by someone.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// A lease that checks wait out.
pub(crate) const SHORT: Duration = Duration::from_millis(1500);
/// No waiting.
pub(crate) const NOW: Duration = Duration::ZERO;
/// A bound for events that will happen; no check passes by waiting it out.
const BOUND: Duration = Duration::from_secs(30);

/// Servers that start with the first check on them, and peers that have nothing
/// to do: starting a JVM for each check would take most of the time.
pub(crate) struct Stage {
    count: usize,
    set: Mutex<Option<Set>>,
}

struct Set {
    /// They end before their servers do.
    idle: Vec<Peer>,
    servers: Vec<Server>,
}

/// One check on the stage: a name of its own, and who plays.
pub(crate) struct Scene<'a> {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) first: Peer,
    pub(crate) second: Peer,
    pub(crate) redis: redis::Connection,
    set: &'a mut Set,
}

impl Stage {
    pub(crate) const fn new(count: usize) -> Self {
        Self { count, set: Mutex::new(None) }
    }

    pub(crate) fn play(&self, kind: &'static str, cast: [Tongue; 2], check: Check) -> Checked {
        // After a panic the peers of that check are gone, and the rest is sound.
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        if set.is_none() {
            *set = Some(Set::new(self.count)?);
        }
        let mut scene = set.as_mut().expect("just set").scene(kind, cast)?;
        check(&mut scene)?;
        let Scene { first, second, set, .. } = scene;
        set.idle.extend([first, second]);
        Ok(())
    }
}

impl Set {
    fn new(count: usize) -> Result<Self, Failed> {
        // A node that may have forgotten leases would not vote for its first minute.
        let plan = Plan::redis().args(["--appendonly", "yes", "--appendfsync", "always"]);
        let servers = (0..count).map(|_| Server::start(plan.clone())).collect::<Result<_, _>>()?;
        Ok(Self { servers, idle: Vec::new() })
    }

    fn scene(&mut self, kind: &'static str, cast: [Tongue; 2]) -> Result<Scene<'_>, Failed> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("name{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let redis = redis::Client::open(self.servers[0].url())?.get_connection()?;
        let (first, second) = (self.peer(cast[0])?, self.peer(cast[1])?);
        Ok(Scene { kind, name, first, second, redis, set: self })
    }

    fn peer(&mut self, tongue: Tongue) -> Result<Peer, Failed> {
        if let Some(at) = self.idle.iter().position(|peer| peer.tongue() == tongue) {
            return Ok(self.idle.swap_remove(at));
        }
        let servers: Vec<_> = self.servers.iter().map(|it| it.addr().to_string()).collect();
        Ok(Peer::start(tongue, &servers)?)
    }
}

impl Scene<'_> {
    /// One more peer of the same tongue as the first.
    pub(crate) fn third(&mut self) -> Result<Peer, Failed> {
        self.set.peer(self.first.tongue())
    }

    /// A peer that is no longer needed, but healthy.
    pub(crate) fn dismiss(&mut self, peer: Peer) {
        self.set.idle.push(peer);
    }

    /// Replaces the first peer, after its death.
    pub(crate) fn recast_first(&mut self) -> Checked {
        self.first = self.set.peer(self.first.tongue())?;
        Ok(())
    }

    /// Whether somebody waits for a message about the name.
    pub(crate) fn is_listened_to(&mut self) -> Result<bool, Failed> {
        let pattern = format!("*{}*", self.name);
        let mut channels = redis::cmd("PUBSUB");
        let channels: Vec<String> = channels.arg("CHANNELS").arg(pattern).query(&mut self.redis)?;
        Ok(!channels.is_empty())
    }

    /// How many clients stand in the queue of a fair lock.
    pub(crate) fn queued(&mut self) -> Result<usize, Failed> {
        Ok(self.redis.llen(format!("redisson_lock_queue:{{{}}}", self.name))?)
    }

    /// How much longer the key of the lock lives.
    pub(crate) fn time_left(&mut self) -> Result<Duration, Failed> {
        let millis: i64 = self.redis.pttl(&self.name)?;
        Ok(Duration::from_millis(millis.try_into()?))
    }

    /// What the critical sections have counted.
    pub(crate) fn counter(&mut self) -> Result<u64, Failed> {
        Ok(self.redis.get::<_, Option<u64>>(format!("{}:counter", self.name))?.unwrap_or_default())
    }
}

/// Waits for what will happen.
pub(crate) fn eventually(
    what: &str,
    mut happened: impl FnMut() -> Result<bool, Failed>,
) -> Checked {
    let end = Instant::now() + BOUND;
    while !happened()? {
        if Instant::now() > end {
            return Err(format!("never: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
