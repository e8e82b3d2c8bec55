//! `idempotent`, measured by whoever starts it: `idempotent-peer REDIS_URL`.
//!
//! Each line of its input is `memory|redis TASKS COUNT PREFIX`: so many tasks do
//! so many keys each, all of which begin with the prefix. Those that were done
//! before are replayed. The answer is `WALL CPU`, nanoseconds for each key.

use std::error::Error;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use idempotent::memory::MemoryStore;
use idempotent::valkey::ValkeyStore;
use idempotent::{CachedResponse, ExecutionOutcome, IdempotencyKey, IdempotencyStore, Metadata};
use rustix::time::{ClockId, clock_gettime};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const LEASE: Duration = Duration::from_secs(30);
const KEEP: Duration = Duration::from_secs(24 * 60 * 60);
const OUTCOME: &[u8] = b"a small outcome, as most are";

fn main() -> Outcome {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build()?;
    let url = std::env::args().nth(1).ok_or("idempotent-peer REDIS_URL")?;
    let (memory, redis) = runtime.block_on(async {
        let memory = MemoryStore::builder().try_build()?;
        Outcome::Ok((memory, ValkeyStore::with_url(url).try_build().await?))
    })?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let [store, tasks, count, prefix] = words[..] else { return Err(line.into()) };
        let (tasks, count) = (tasks.parse()?, count.parse()?);
        let (wall, cpu) = match store {
            "memory" => runtime.block_on(crowd(&memory, tasks, count, prefix))?,
            _ => runtime.block_on(crowd(&redis, tasks, count, prefix))?,
        };
        writeln!(std::io::stdout(), "{} {}", wall.as_nanos(), cpu.as_nanos())?;
    }
    Ok(())
}

async fn crowd<S>(store: &S, tasks: u32, count: u32, prefix: &str) -> Outcome<(Duration, Duration)>
where
    S: IdempotencyStore + Clone + Send + Sync + 'static,
    S::Error: Send + Sync + 'static,
{
    let (start, cpu) = (Instant::now(), cpu());
    let each = |task| {
        let (store, prefix) = (store.clone(), prefix.to_owned());
        tokio::spawn(async move { some(&store, task, count, &prefix).await })
    };
    for task in (0..tasks).map(each).collect::<Vec<_>>() {
        task.await??;
    }
    Ok((start.elapsed() / (tasks * count), (self::cpu() - cpu) / (tasks * count)))
}

async fn some<S>(store: &S, task: u32, count: u32, prefix: &str) -> Outcome
where
    S: IdempotencyStore + Sync,
    S::Error: Send + Sync + 'static,
{
    for n in 0..count {
        let key = IdempotencyKey::new(format!("{prefix}-{task}-{n}"))?;
        let claim = store.claim(&key, LEASE).fingerprint("POST /pay", b"{}");
        let done = claim.execute_or_replay(KEEP, |_| async {
            Ok(CachedResponse::new(200, Metadata::new(), OUTCOME.to_vec().into()))
        });
        match done.await? {
            ExecutionOutcome::Executed(_) | ExecutionOutcome::Replayed(_) => {}
            _ => return Err("neither run nor replayed".into()),
        }
    }
    Ok(())
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
