//! What many keys cost the server that remembers them: bytes for each, and the
//! work of forgetting them beside the work of writing them.
//!
//! `LEASEHOLD_RECORDS=1000000 cargo test -p leasehold-testkit --test once_records
//! -- --nocapture` shows the numbers for a million; every test run has a few.

// These tests wait for real servers; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use leasehold::once::{Fingerprint, Once};
use leasehold_testkit::Server;
use leasehold_testkit::server::ask;

type Tested<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const TASKS: u32 = 128;
const OUTCOME: &[u8; 100] = &[b'x'; 100];
/// Far more than the goal of 200; what is more is a mistake.
const MOST: f64 = 1_500.0;
/// How long forgetting is watched.
const WATCHED: Duration = Duration::from_secs(35);

fn many() -> u32 {
    let many = std::env::var("LEASEHOLD_RECORDS").ok().and_then(|text| text.parse().ok());
    many.unwrap_or(2_000)
}

/// What is asked of a server: its bytes, its rows, and the CPU it has used.
struct Ledger {
    server: Server,
    bytes: fn(&Server) -> Tested<u64>,
    rows: fn(&Server) -> Tested<u64>,
}

impl Ledger {
    /// Of the whole family of its processes; ended ones are in their parent's.
    fn cpu(&self) -> Tested<Duration> {
        let pids = fs::read_dir("/proc")?.filter_map(|it| it.ok()?.file_name().into_string().ok());
        let stats = pids.filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok());
        let ours = self.server.pid().to_string();
        let ticks = stats.filter_map(|stat| {
            let (head, rest) = stat.rsplit_once(") ")?;
            let fields: Vec<&str> = rest.split(' ').collect();
            let is_ours = head.split(' ').next() == Some(&ours) || fields.get(1) == Some(&&*ours);
            let number = |at: usize| fields.get(at).and_then(|it| it.parse::<u64>().ok());
            // user, system, and both of its children that have ended
            is_ours.then(|| (11..15).filter_map(number).sum::<u64>())
        });
        // A tick is a hundredth of a second wherever tests run.
        Ok(Duration::from_millis(10 * ticks.sum::<u64>()))
    }

    async fn measure(self, name: &str) -> Tested {
        let many = many();
        let locks = leasehold::open(self.server.url()).await?;
        let before = (self.bytes)(&self.server)?;
        let (start, cpu) = (Instant::now(), self.cpu()?);
        write(&locks.once("kept"), many).await?;
        let (wall, writing) = (start.elapsed(), self.cpu()? - cpu);
        let each = ((self.bytes)(&self.server)? - before) as f64 / f64::from(many);
        let beyond = each - (key(0, 0).len() + OUTCOME.len()) as f64;
        say(&format!(
            "{name}: {many} keys in {wall:.1?}; {each:.0} bytes each, {beyond:.0} beyond key and \
             outcome; {:.1?} of the server's CPU each",
            writing / many
        ));
        self.forgetting(name, &locks, writing / many).await?;
        assert!(many < 1_000 || beyond < MOST, "{name}: {beyond:.0} bytes");
        Ok(())
    }

    /// What it takes to forget as many again, whose time is up at once.
    async fn forgetting(&self, name: &str, locks: &leasehold::Locks, written: Duration) -> Tested {
        let kept = (self.rows)(&self.server)?;
        write(&locks.once("brief").keep(Duration::from_millis(1)), many()).await?;
        let (there, cpu) = ((self.rows)(&self.server)?, self.cpu()?);
        let start = Instant::now();
        while start.elapsed() < WATCHED && (self.rows)(&self.server)? > kept {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let (gone, wall) = (there.saturating_sub((self.rows)(&self.server)?), start.elapsed());
        let spent = self.cpu()? - cpu;
        assert!(gone > 0 || there <= kept, "{name}: nothing was forgotten");
        let ratio = spent.as_secs_f64() / gone.max(1) as f64 / written.as_secs_f64();
        say(&format!(
            "{name}: {there} rows, {kept} of them to keep; {gone} were swept in {wall:.1?}, for \
             {spent:.2?} of CPU, {ratio:.2} of what a key cost to write"
        ));
        Ok(())
    }
}

fn key(task: u32, n: u32) -> String {
    format!("{task:08x}-{n:04x}-4b1c-8d2e-5f6a7b8c9d0e")
}

/// So many keys in all, by many tasks.
async fn write(once: &Once, many: u32) -> Tested {
    let mut running = Vec::new();
    for task in 0..TASKS {
        let once = once.clone();
        running.push(tokio::spawn(async move {
            for n in (task..many).step_by(TASKS as usize) {
                let work = async |_| Ok::<_, String>(OUTCOME.to_vec());
                once.run(key(n, task), Fingerprint::of_bytes(b"x"), work).await?;
            }
            Tested::Ok(())
        }));
    }
    for task in running {
        task.await??;
    }
    Ok(())
}

fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_small_on_redis() -> Tested {
    let bytes = |server: &Server| -> Tested<u64> {
        let info = ask(server, &["INFO", "memory"])?;
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        Ok(line.ok_or("no such field")?.trim().parse()?)
    };
    let rows = |server: &Server| {
        let count = "return tostring(redis.call('DBSIZE'))";
        Ok(ask(server, &["EVAL", count, "0"])?.trim().parse()?)
    };
    Ledger { server: Server::redis()?, bytes, rows }.measure("redis").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_small_on_postgres() -> Tested {
    let bytes = |server: &Server| {
        let sum = "SELECT coalesce(sum(pg_total_relation_size(relid)), 0) FROM pg_stat_user_tables";
        Ok(server.sql(sum)?.trim().parse()?)
    };
    let rows = |server: &Server| {
        let count = "SELECT (SELECT count(*) FROM leasehold_records) + \
                     (SELECT count(*) FROM leasehold_names)";
        Ok(server.sql(count)?.trim().parse()?)
    };
    Ledger { server: Server::postgres()?, bytes, rows }.measure("postgres").await
}
