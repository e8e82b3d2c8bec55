//! Leases that are gone: evicted, deleted, flushed, or run out while nobody
//! could be asked.

use std::time::Duration;

use leasehold::engine::Severity;
use leasehold::{Guard, Locks, Standing};
use leasehold_testkit::Register;
use leasehold_testkit::holder::{Hold, Holder, Orders};
use leasehold_testkit::server::{Plan, Server, ask};
use tempfile::TempDir;
use tokio::time::timeout;

use super::{BOUND, Checked, LONG, info, until};

/// Renewed every second.
const SHORT: Duration = Duration::from_secs(3);
/// Where the mutex `n` is.
const KEY: &str = "leasehold:{default}:name:n";
/// Where readers and permits of `n` are.
const MORE: &str = "leasehold:{default}:more:n";

async fn open(server: &Server) -> Checked<Locks> {
    Ok(leasehold::open(server.url()).await?)
}

async fn is_lost(guard: &Guard) -> Checked {
    let standing = timeout(BOUND, guard.lost()).await?;
    assert!(matches!(standing, Standing::Lost(_)), "{standing:?}");
    Ok(())
}

/// Somebody else gets the name, with a larger fence, and a register that has
/// seen it refuses the old holder.
async fn is_succeeded(old: &Guard, locks: &Locks) -> Checked {
    let folder = TempDir::new()?;
    let register = Register::open(folder.path().join("register"))?;
    assert!(register.write(old.fence(), 0, 1)?);
    let next = locks.mutex("n").lock().within(BOUND).await?;
    assert!(next.fence() > old.fence(), "{} after {}", next.fence(), old.fence());
    assert!(register.write(next.fence(), 1, 2)?);
    assert!(!register.write(old.fence(), 1, 9)?, "a late writer was let in");
    next.release().await?;
    Ok(())
}

/// R1: doctor warns of it; once it happens the holder is told at its next
/// renewal, and the next fence is larger though the counter may be gone too.
#[tokio::test]
async fn an_evicted_lease_is_lost_and_doctor_had_said_so() -> Checked {
    let server = Server::start(Plan::redis().args(["--maxmemory-policy", "allkeys-lru"]))?;
    let (one, two) = (open(&server).await?, open(&server).await?);
    let guard = one.mutex("n").ttl(SHORT).lock().await?;
    let limit = info(&server, "memory", "used_memory")? + 2_000_000;
    ask(&server, &["CONFIG", "SET", "maxmemory", &limit.to_string()])?;
    let findings = one.examine().await?;
    let warned = findings.iter().any(|finding| {
        finding.severity == Severity::Danger && finding.message.contains("allkeys-lru")
    });
    assert!(warned, "{findings:?}");
    let mut filled = 0_u32;
    until("the lease is evicted", || {
        filled += 1;
        let full = fill(&server, filled);
        async move { full }
    })
    .await?;
    is_lost(&guard).await?;
    is_succeeded(&guard, &two).await
}

/// Writes a megabyte; whether the lease had to make room for it.
fn fill(server: &Server, round: u32) -> Checked<bool> {
    let many = "for i = 1, 100 do redis.call('SET', ARGV[1] .. i, ARGV[2]) end";
    ask(server, &["EVAL", many, "0", &format!("{round}-"), &"x".repeat(10_000)])?;
    Ok(ask(server, &["EXISTS", KEY])?.contains("(0)") && info(server, "stats", "evicted_keys")? > 0)
}

/// R3: nothing is left, and it is noticed at the next renewal.
#[tokio::test]
async fn a_flushed_lease_is_lost_and_the_fence_still_grows() -> Checked {
    let server = Server::redis()?;
    let (one, two) = (open(&server).await?, open(&server).await?);
    let guard = one.mutex("n").ttl(SHORT).lock().await?;
    ask(&server, &["FLUSHALL"])?;
    is_lost(&guard).await?;
    is_succeeded(&guard, &two).await
}

/// R3: an operator deletes the key of a lock.
#[tokio::test]
async fn a_deleted_lease_is_lost() -> Checked {
    let server = Server::redis()?;
    let (one, two) = (open(&server).await?, open(&server).await?);
    let guard = one.mutex("n").ttl(SHORT).lock().await?;
    assert_eq!(ask(&server, &["DEL", KEY])?, "int(1)");
    is_succeeded(&guard, &two).await?;
    is_lost(&guard).await
}

/// R3, R1: of a lock that readers share one of two keys goes. They are told,
/// and nobody waits for readers that are not there.
#[tokio::test]
async fn readers_whose_key_is_deleted_are_lost_and_block_nobody() -> Checked {
    let server = Server::redis()?;
    let (one, two) = (open(&server).await?, open(&server).await?);
    let reader = one.rwlock("n").ttl(SHORT).read().await?;
    assert_eq!(ask(&server, &["DEL", MORE])?, "int(1)");
    let writer = two.rwlock("n").ttl(LONG).write().within(BOUND).await?;
    assert!(writer.fence() > reader.fence());
    is_lost(&reader).await?;
    writer.release().await?;
    let permit = one.semaphore("s", 2).ttl(SHORT).acquire(2).await?;
    assert_eq!(ask(&server, &["DEL", &MORE.replace(":n", ":s")])?, "int(1)");
    two.semaphore("s", 2).ttl(LONG).acquire(2).within(BOUND).await?.release().await?;
    is_lost(&permit).await
}

/// R5: a server that keeps nothing starts again. The holder hears of it as
/// soon as it is connected again, long before its next renewal.
#[tokio::test]
async fn a_lease_that_a_restart_forgot_is_lost_at_once() -> Checked {
    let mut server = Server::redis()?;
    let (one, two) = (open(&server).await?, open(&server).await?);
    let guard = one.mutex("n").ttl(LONG).lock().await?;
    server.kill()?;
    server.restart()?;
    is_lost(&guard).await?;
    is_succeeded(&guard, &two).await
}

/// R17: the server stands still for longer than the lease. Its holder knows
/// without being told, and the server knows once it goes on.
#[tokio::test]
async fn a_lease_ends_while_the_server_stands_still() -> Checked {
    let mut server = Server::redis()?;
    let url = format!("{}?timeout=500ms&retry=forever:50ms", server.url());
    let (one, two) = (leasehold::open(&url).await?, leasehold::open(&url).await?);
    let guard = one.mutex("n").ttl(SHORT / 3).lock().await?;
    server.pause()?;
    is_lost(&guard).await?;
    assert!(!server.answers(), "the fault did not bite");
    server.resume()?;
    is_succeeded(&guard, &two).await
}

/// A holder dies that came after the waiter had looked, with a much shorter
/// lease than the one the waiter saw. Its end counts, not the waiter's own ttl.
#[tokio::test]
async fn a_dead_holder_with_a_short_lease_lets_patient_waiters_in() -> Checked {
    let server = Server::redis()?;
    let (one, two) = (open(&server).await?, open(&server).await?);
    let guard = one.mutex("n").ttl(LONG).lock().await?;
    let queued = async |count| {
        let waiters = || async { Ok(one.status("n").await?.waiters.len() == count) };
        until("it queues", waiters).await
    };
    let orders = Orders::new(&server.url(), "n").ttl(SHORT).hold(Hold::UntilTold);
    let mut holder = Holder::spawn(orders)?;
    queued(1).await?;
    let waiting = tokio::spawn(two.mutex("n").ttl(LONG).lock().within(BOUND).into_future());
    queued(2).await?;
    guard.release().await?;
    let fence = holder.granted()?;
    holder.kill()?;
    assert!(waiting.await??.fence() > fence);
    Ok(())
}
