//! What breaks under ZooKeeper and etcd, and what must hold all the same.
//!
//! | | fault | file |
//! |---|---|---|
//! | Z1 | a session is ended, or cut off for too long | `sessions` |
//! | Z2 | the reply to a create is lost | `replies` |
//! | Z3 | a wait ends without a grant | `lines` |
//! | Z4 | the node of a session that is over is still there | `sessions` |
//! | Z5 | writer, reader, writer | `lines` |
//! | Z6 | waits for permits are dropped | `lines` |
//! | Z7 | the server goes while somebody waits | `waits` |
//! | Z8 | two hundred wait | `waits` |
//! | Z9 | the server stands still | `sessions` |
//! | Z10 | empty parents | `lines` |
//! | Z11 | the servers' limits change | `limits` |
//! | Z12 | the connection breaks when the node is made, and more is to be asked | `ghosts` |
//! | Z13 | the leader has lost its followers, and answers | `sessions` |
//! | Z14 | the connection of a thousand waiters breaks | `crowds` |
//! | E1 | the lease of a waiter runs out | `etcd_leases` |
//! | E2 | the leader stands still, or loses a reply | `etcd_leaders` |
//! | E3 | the leader moves all the time | `etcd_leaders` |
//! | E4 | keep-alives are swallowed | `etcd_leases` |
//! | E5 | a wait is cancelled | `etcd_keys` |
//! | E6 | history is compacted while somebody waits | `etcd_keys` |
//! | E7 | names that begin alike | `etcd_keys` |
//! | E8 | the database is full; tokens are forgotten | `etcd_refusals` |
//! | E9 | two claims share a lease | `etcd_keys` |
//! | E10 | a lease is revoked, and hundreds of entries go with it | `etcd_leases` |
//! | E11 | a join is carried out after a later one, and after its release | `etcd_stragglers` |
//!
//! Both: nodes and keys removed or written over by hand (`by_hand`, `words`), holders
//! that are cut off with a lock delay (`delays`), the whole ensemble stopped (`outage`),
//! the servers killed under many who hold and wait (`restarts`), stores of another
//! release (`layouts`), values bound to leases of other clients (`bonds`), values that go by hand or with a
//! session (`ends`).

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

mod bonds;
mod by_hand;
mod crowds;
mod delays;
mod ends;
mod etcd_keys;
mod etcd_leaders;
mod etcd_leases;
mod etcd_refusals;
mod etcd_stragglers;
mod ghosts;
mod layouts;
mod limits;
mod lines;
mod list_meter;
mod outage;
mod replies;
mod restarts;
mod sessions;
mod store;
mod waits;
mod words;

use std::time::Duration;

use leasehold::{Guard, Locks, Loss, Standing};
use leasehold_testkit::contest::{BOUND, Checked, until};
use leasehold_testkit::proxy::FaultProxy;
use leasehold_testkit::server::Server;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Outlasts every test: what ends sooner was ended by someone.
const LONG: Duration = Duration::from_secs(100);
/// Renewed twice a second, and short enough to be outwaited.
const BRIEF: Duration = Duration::from_secs(2);
/// Waiters keep at it whatever happens.
const PATIENT: &str = "names=raw&timeout=1s&retry=forever:20ms";
/// The lock of most tests, as a path or a prefix.
const NAME: &str = "/n";

async fn open(url: &str) -> Checked<Locks> {
    Ok(leasehold::open(format!("{url}?{PATIENT}")).await?)
}

/// A proxy in front of a server. It has a runtime of its own, which no other
/// may start.
fn proxy(server: &Server) -> Checked<FaultProxy> {
    let addr = server.addr();
    let started = std::thread::spawn(move || FaultProxy::to(addr)).join();
    Ok(started.map_err(|_| "the proxy did not start")??)
}

async fn is_lost(guard: &Guard) -> Checked<Loss> {
    match timeout(BOUND, guard.lost()).await? {
        Standing::Lost(loss) => Ok(loss),
        standing => Err(format!("not lost but {standing:?}").into()),
    }
}

/// Waits until it stands like this; what is lost does not come back.
async fn stands(guard: &Guard, standing: Standing) -> Checked {
    until(&format!("{standing:?}"), || async {
        guard.check()?;
        Ok(guard.standing() == standing)
    })
    .await
}

/// Whoever waits has neither been granted the name nor given up.
async fn still_waits(waiting: &mut JoinHandle<leasehold::Result<Guard>>) -> Checked {
    if waiting.is_finished() {
        let guard = waiting.await??;
        return Err(format!("two holders, one with fence {}", guard.fence()).into());
    }
    Ok(())
}

/// Waits until so many wait for the name.
async fn queued(locks: &Locks, count: usize) -> Checked {
    let probe = || async { Ok(locks.status(NAME).await?.waiters.len() == count) };
    until("they queue", probe).await
}
