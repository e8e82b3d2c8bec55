//! Leasehold and Go's `concurrency` package on the same etcd.
//!
//! `cargo xtask interop` builds the peer and runs this; by itself it fails if it
//! is not there.

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use std::process::ExitCode;
use std::time::Duration;

use leasehold::Locks;
use leasehold_testkit::contest::{BOUND, Checked, until};
use leasehold_testkit::holder::{Hold, Holder, Orders};
use leasehold_testkit::peer::{Granted, Peer, Tongue};
use leasehold_testkit::server::Server;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

const NAME: &str = "shop/orders";
const LONG: Duration = Duration::from_secs(100);
const BRIEF: Duration = Duration::from_secs(2);
const NOW: Duration = Duration::ZERO;

type Check = fn(&mut Stage) -> Checked;

const CHECKS: [(&str, Check); 5] = [
    ("go_waits_for_us", go_waits),
    ("we_wait_for_go", we_wait),
    ("a_killed_peer_lets_us_in_after_its_lease", killed_peer),
    ("a_killed_holder_of_ours_lets_go_in_after_its_lease", killed_holder),
    ("a_peer_that_stood_still_does_not_take_our_lock_away", stood_still),
];

/// Dropped from top to bottom: clients first.
struct Stage {
    runtime: Runtime,
    ours: Locks,
    go: Peer,
    server: Server,
}

fn main() -> ExitCode {
    let trial = |(name, check): (&str, Check)| {
        Trial::test(format!("etcd_go::{name}"), move || {
            let played = Stage::new().and_then(|mut stage| check(&mut stage));
            played.map_err(|why| Failed::from(why.to_string()))
        })
    };
    let trials = CHECKS.into_iter().map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

impl Stage {
    fn new() -> Checked<Self> {
        let (server, runtime) = (Server::etcd()?, Runtime::new()?);
        let ours = runtime.block_on(async { leasehold::open(url(&server)).await })?;
        let go = Peer::start(Tongue::EtcdGo, &[server.addr().to_string()])?;
        Ok(Self { runtime, ours, go, server })
    }

    /// Waits until so many keys stand in line.
    fn queued(&self, count: usize) -> Checked {
        let line = || async {
            let prefix = format!("{NAME}/");
            let keys = self.server.tell(&["get", "--prefix", "--keys-only", &prefix])?;
            Ok(keys.lines().filter(|key| !key.is_empty()).count() == count)
        };
        self.runtime.block_on(until("the line", line))
    }
}

fn url(server: &Server) -> String {
    format!("{}?names=raw", server.url())
}

fn token(granted: Option<Granted>) -> Checked<u64> {
    let granted = granted.ok_or("it was not granted")?;
    Ok(granted.token.ok_or("its key is gone")?)
}

fn go_waits(stage: &mut Stage) -> Checked {
    let guard = stage.runtime.block_on(stage.ours.mutex(NAME).ttl(LONG).lock().into_future())?;
    assert!(stage.go.lock("mutex", NAME, NOW, NOW)?.is_none(), "two holders");
    stage.go.ask("mutex", NAME, BOUND, NOW)?;
    stage.queued(2)?;
    let fence = guard.fence();
    stage.runtime.block_on(guard.release())?;
    assert!(token(stage.go.granted()?)? > fence);
    Ok(())
}

fn we_wait(stage: &mut Stage) -> Checked {
    let theirs = token(stage.go.lock("mutex", NAME, NOW, NOW)?)?;
    let mutex = stage.ours.mutex(NAME).ttl(LONG);
    assert!(stage.runtime.block_on(mutex.try_lock())?.is_none(), "two holders");
    let waiting = stage.runtime.spawn(mutex.lock().within(BOUND).into_future());
    stage.queued(2)?;
    assert!(stage.go.unlock("mutex", NAME)?.is_some(), "it held");
    assert!(stage.runtime.block_on(waiting)??.fence() > theirs);
    Ok(())
}

fn killed_peer(stage: &mut Stage) -> Checked {
    let theirs = token(stage.go.lock("mutex", NAME, NOW, BRIEF)?)?;
    stage.go.kill()?;
    let lock = stage.ours.mutex(NAME).ttl(LONG).lock().within(BOUND);
    assert!(stage.runtime.block_on(lock.into_future())?.fence() > theirs);
    Ok(())
}

fn killed_holder(stage: &mut Stage) -> Checked {
    let orders = Orders::new(&url(&stage.server), NAME).ttl(BRIEF).hold(Hold::UntilTold);
    let mut holder = Holder::spawn(orders)?;
    let fence = holder.granted()?;
    holder.kill()?;
    assert!(token(stage.go.lock("mutex", NAME, BOUND, NOW)?)? > fence);
    Ok(())
}

fn stood_still(stage: &mut Stage) -> Checked {
    token(stage.go.lock("mutex", NAME, NOW, BRIEF)?)?;
    stage.go.stop()?;
    let lock = stage.ours.mutex(NAME).ttl(LONG).lock().within(BOUND);
    let guard = stage.runtime.block_on(lock.into_future())?;
    stage.go.cont()?;
    assert!(stage.go.unlock("mutex", NAME)?.is_none(), "its key outlived its lease");
    guard.check()?;
    stage.queued(1)
}
