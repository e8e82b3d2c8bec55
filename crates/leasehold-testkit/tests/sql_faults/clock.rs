//! Clocks that are wrong: a client's, or the server's.
//!
//! A wrong clock is made by a library that is loaded before the C library; what
//! it shifts by is in a file, so that a clock can be set while it runs.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::engine::{Eviction, Target};
use leasehold_testkit::check;
use leasehold_testkit::contest::Contest;
use leasehold_testkit::holder::{Hold, Holder, Orders};
use tempfile::TempDir;

use super::{BOUND, Checked, Database, LONG, is_guarded, is_lost};

const HOUR: i64 = 3600;
/// Less than the jumps of clocks.
const SOME: Duration = Duration::from_secs(30);

/// A clock that can be set.
struct Clock {
    folder: TempDir,
    shift: File,
}

impl Clock {
    fn new() -> Checked<Self> {
        let folder = TempDir::new()?;
        // Servers run as another user.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sql_faults/clock.c");
        // Whoever links Rust has it.
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(folder.path().join("clock.so"));
        assert!(compile.arg(source).status()?.success(), "cc failed");
        let path = folder.path().join("shift");
        fs::write(&path, 0_i64.to_ne_bytes())?;
        Ok(Self { shift: File::options().write(true).open(path)?, folder })
    }

    /// So many seconds before the true time, or behind it.
    fn set(&self, seconds: i64) -> Checked {
        Ok(self.shift.write_all_at(&seconds.to_ne_bytes(), 0)?)
    }

    /// What a process needs to go by it.
    fn env(&self) -> [(String, String); 2] {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        [("LD_PRELOAD".into(), path("clock.so")), ("CLOCK_SHIFT".into(), path("shift"))]
    }

    /// Two servers that go by it.
    fn databases(&self) -> Checked<[Database; 2]> {
        let postgres = Database::postgres(|plan| plan.env(self.env()))?;
        Ok([postgres, Database::mariadb(|plan| plan.env(self.env()))?])
    }
}

fn true_time() -> Checked<i64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs().try_into()?)
}

/// Whether a clock is wrong by about that much.
fn is_off(told: i64, by: i64) -> Checked {
    let off = told - true_time()?;
    assert!((off - by).abs() < 120, "the fault did not bite: {off} for {by}");
    Ok(())
}

impl Database {
    fn is_off(&self, by: i64) -> Checked {
        let now = "SELECT extract(epoch FROM clock_timestamp())::bigint";
        is_off(self.number(self.pick(now, "SELECT UNIX_TIMESTAMP(SYSDATE())"))?, by)
    }
}

/// T3: a process whose clock is an hour off gets what it may get, and nothing
/// else, and gives no longer and no shorter leases than others.
#[tokio::test]
async fn a_clients_wall_clock_is_nobodys_concern() -> Checked {
    let clock = Clock::new()?;
    for db in Database::both()? {
        for off in [HOUR, -HOUR] {
            clock.set(off)?;
            let locks = leasehold::open(db.server.url()).await?;
            let held = locks.mutex("n").ttl(LONG).lock().await?;
            let orders = Orders::new(&db.server.url(), "n").hold(Hold::UntilTold);
            let mut odd = Holder::spawn_with(orders.ttl(Duration::from_secs(3)), clock.env())?;
            is_off(odd.until("clock ")?.parse()?, off)?;
            odd.until("asking")?;
            while locks.status("n").await?.waiters.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            held.check()?;
            let before = held.fence();
            held.release().await?;
            let fence = odd.granted()?;
            assert!(fence > before);
            assert!(locks.mutex("n").try_lock().await?.is_none(), "its lease was over at once");
            odd.kill()?;
            let next = locks.mutex("n").ttl(LONG).lock().within(BOUND).await?;
            assert!(next.fence() > fence);
            next.release().await?;
        }
    }
    Ok(())
}

/// T1: leases end early by a server's clock that jumps forward. The fence of
/// the next is larger, and the first is told.
#[tokio::test]
async fn a_server_that_jumps_forward_ends_leases_and_the_fence_guards() -> Checked {
    let clock = Clock::new()?;
    for db in clock.databases()? {
        clock.set(0)?;
        let url = db.server.url();
        let (one, two) = (leasehold::open(&url).await?, leasehold::open(&url).await?);
        let first = one.mutex("n").ttl(LONG).lock().await?;
        assert!(two.mutex("n").try_lock().await?.is_none());
        clock.set(HOUR)?;
        db.is_off(HOUR)?;
        let second = two.mutex("n").ttl(LONG).lock().within(BOUND).await?;
        is_guarded(&first, &second)?;
        assert!(first.extend(LONG).await.is_err_and(|error| error.is_lost()), "nobody told it");
        is_lost(&first).await?;
        second.check()?;
    }
    Ok(())
}

/// T2: a server's clock jumps back, and the lease of somebody who died lasts an
/// hour longer. An operator ends it; fences grow all the same.
#[tokio::test]
async fn a_server_that_jumps_back_keeps_a_lease_until_an_operator_ends_it() -> Checked {
    let clock = Clock::new()?;
    for db in clock.databases()? {
        clock.set(0)?;
        let locks = leasehold::open(db.server.url()).await?;
        let orders = Orders::new(&db.server.url(), "n").ttl(SOME).hold(Hold::UntilTold);
        let mut dead = Holder::spawn(orders)?;
        let fence = dead.granted()?;
        dead.kill()?;
        clock.set(-HOUR)?;
        db.is_off(-HOUR)?;
        // As if many times its ttl had passed since.
        clock.set(HOUR / 2 - HOUR)?;
        assert!(locks.mutex("n").try_lock().await?.is_none(), "the fault did not bite");
        let eviction = Eviction::new(locks.name("n")?, Target::All, "olga", "its clock is wrong")?;
        assert_eq!(locks.evict(eviction).await?.leases.len(), 1);
        let next = locks.mutex("n").ttl(LONG).lock().within(BOUND).await?;
        assert!(next.fence() > fence, "{} after {fence}", next.fence());
    }
    Ok(())
}

/// T6: the server's clock steps back and forth by minutes, which outdates
/// statements and lets names be forgotten, but ends no lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_clock_steps_amid_a_contest_grants_to_one_at_a_time() -> Checked {
    let clock = Clock::new()?;
    for db in clock.databases()? {
        clock.set(0)?;
        let contest = Contest::start(&db.url("retry=forever:20ms")).await?;
        let mut steps = [90, -90, 0, 200, -200].into_iter().cycle();
        let step = || clock.set(steps.next().unwrap_or(0));
        contest.shake(20, Duration::from_millis(250), step).await?;
        clock.set(300)?;
        db.is_off(300)?;
        contest.proceeds(3).await?;
        check::all(&contest.end().await?)?;
    }
    Ok(())
}
