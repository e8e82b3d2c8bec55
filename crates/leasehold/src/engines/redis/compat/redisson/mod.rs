//! The layout `redisson`: the keys, fields, channels and messages of Redisson,
//! so that its clients and ours share locks.
//!
//! Every lease is an owner of its own, `<lease id>:1`, that holds once: the field
//! is set, never counted up, so a repeated claim changes nothing. `Read` and
//! `Write` are those of an `RReadWriteLock`, permits those of an
//! `RPermitExpirableSemaphore`; what `Exclusive` is, the option `kind` says.

mod keys;

use std::sync::Arc;

use self::keys::RedissonKeys;
use crate::claim::{Mode, Ticket};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::engine::profile::{Grants, Order, Profile, Reach, WakeUp};
use crate::engines::redis::checkup::Checkup;
use crate::engines::redis::compat::{Foreign, ForeignLayout, ForeignOptions, Scripts};
use crate::engines::redis::layout::{LockKind, PubSub, RedissonOptions, plain};
use crate::engines::redis::link::RedisLink;
use crate::engines::redis::script::Script;
use crate::engines::redis::settings::WakeBy;
use crate::engines::redis::waits::SPIN;
use crate::error::{Error, Result};
use crate::name::Name;

/// Each is an entry on the server, and one more step of a script.
const PERMITS_MAX: u32 = 10_000;

static LOCK: Scripts = Scripts {
    acquire: script!("hash.lua", "lock_acquire.lua"),
    renew: script!("hash.lua", "lock_renew.lua"),
    release: script!("hash.lua", "lock_release.lua"),
};
static FAIR: Scripts = Scripts {
    acquire: script!("hash.lua", "fair.lua", "fair_acquire.lua"),
    renew: script!("hash.lua", "lock_renew.lua"),
    release: script!("hash.lua", "fair.lua", "fair_release.lua"),
};
static READ: Scripts = Scripts {
    acquire: script!("hash.lua", "readers.lua", "rw.lua", "read_acquire.lua"),
    renew: script!("hash.lua", "readers.lua", "rw.lua", "rw_renew.lua"),
    release: script!("hash.lua", "readers.lua", "rw.lua", "rw_release.lua"),
};
static WRITE: Scripts = Scripts {
    acquire: script!("hash.lua", "readers.lua", "rw.lua", "write_acquire.lua"),
    renew: script!("hash.lua", "readers.lua", "rw.lua", "rw_renew.lua"),
    release: script!("hash.lua", "readers.lua", "rw.lua", "rw_release.lua"),
};
static PERMITS: Scripts = Scripts {
    acquire: script!("permits.lua", "permits_acquire.lua"),
    renew: script!("permits.lua", "permits_renew.lua"),
    release: script!("permits.lua", "permits_release.lua"),
};
static CONVERT: Script = script!("hash.lua", "readers.lua", "rw.lua", "rw_convert.lua");
static LOOK: Script = script!("hash.lua", "permits.lua", "readers.lua", "redisson_look.lua");

#[derive(Debug)]
struct Redisson {
    options: RedissonOptions,
    /// The command that publishes.
    say: &'static str,
    conduct: ForeignOptions,
}

pub(in crate::engines::redis) async fn open(
    link: RedisLink,
    options: RedissonOptions,
    checkup: Checkup,
    clock: Clock,
) -> Result<Arc<dyn Engine>> {
    if let Err(error) = check(&options, link.is_cluster()) {
        link.close();
        return Err(error);
    }
    let profile = profile(&link, &options);
    let conduct = ForeignOptions { queue_wait: options.fair_wait, pauses: SPIN, stranger };
    let say = options.pubsub.command(link.is_cluster());
    Ok(Foreign::open(link, clock, profile, checkup, Redisson { options, say, conduct }).await)
}

/// We listen to sharded messages in a cluster and to plain ones elsewhere.
fn check(options: &RedissonOptions, cluster: bool) -> Result<()> {
    let deaf = match options.pubsub {
        PubSub::Plain => cluster,
        PubSub::Sharded => !cluster,
        PubSub::Auto | PubSub::Both => false,
    };
    if !deaf || options.wake == WakeBy::Spin {
        return Ok(());
    }
    Err(Error::invalid(
        "pubsub=plain in a cluster and pubsub=sharded outside of one are not heard by our own \
         waiters; use pubsub=both or wake=spin",
    ))
}

/// A fair lock is in order, but a read-write lock and a semaphore are not: where
/// an order is promised they are not granted. Tokens of a fenced lock go back
/// with the writes that a failover loses, and other kinds give none to Java, so
/// fences are not promised.
fn profile(link: &RedisLink, options: &RedissonOptions) -> Profile {
    let mut profile = Profile::new("redis", link.endpoint());
    profile.reach = Reach::Network;
    profile.limits.permits_max = PERMITS_MAX;
    if options.kind == LockKind::Fair {
        profile.order = Order::Fifo;
    } else {
        profile.grants = Grants::Counted;
        profile.convert = true;
    }
    if options.wake == WakeBy::Push {
        profile.wake = WakeUp::Push;
    }
    profile
}

/// The beginning of a client's id and its thread: enough to find it, not enough
/// to unlock in its name.
fn stranger(owner: &str) -> String {
    let (client, thread) = owner.split_once(':').unwrap_or((owner, "1"));
    format!("Redisson {}../{thread}", client.get(..8).unwrap_or_default())
}

impl ForeignLayout for Redisson {
    fn scripts(&self, mode: Mode) -> &'static Scripts {
        match mode {
            Mode::Exclusive if self.options.kind == LockKind::Fair => &FAIR,
            Mode::Exclusive => &LOCK,
            Mode::Read => &READ,
            Mode::Write => &WRITE,
            Mode::Permits { .. } => &PERMITS,
        }
    }

    fn convert(&self) -> Option<&'static Script> {
        Some(&CONVERT)
    }

    fn look(&self) -> &'static Script {
        &LOOK
    }

    fn keys(&self, name: &Name, ticket: Option<&Ticket>) -> Vec<Vec<u8>> {
        let keys = RedissonKeys::of(plain(name));
        match ticket {
            Some(ticket) => keys.of_ticket(ticket, self.options.kind),
            None => keys.of_any_kind(),
        }
    }

    fn channel(&self, ticket: &Ticket) -> Option<Vec<u8>> {
        let told = self.options.wake == WakeBy::Push;
        told.then(|| RedissonKeys::of(plain(&ticket.name)).woken_by(ticket, self.options.kind))
    }

    /// A spin lock tells nobody; the other kinds do, whoever listens.
    fn say(&self, mode: Option<Mode>) -> &'static str {
        let spins = self.options.kind == LockKind::Spin;
        if spins && mode == Some(Mode::Exclusive) { "" } else { self.say }
    }

    fn options(&self) -> &ForeignOptions {
        &self.conduct
    }
}
