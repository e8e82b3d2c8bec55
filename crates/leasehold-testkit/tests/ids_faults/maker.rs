//! A process that makes ids: this program, started again.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold::ids::{SnowflakeIds, TestWall};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// Set, to its orders, in a copy of this program that makes ids.
const ORDERS: &str = "LEASEHOLD_IDS_ORDERS";
/// How many ids it makes between two looks at its orders.
pub(crate) const CHUNK: usize = 100;
/// How long to wait for what must come.
const PATIENCE: Duration = Duration::from_secs(120);

/// What it shall do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) kind: Kind,
    pub(crate) url: String,
    /// Where the ids go.
    pub(crate) file: PathBuf,
    pub(crate) chunks: usize,
    /// The pause after each chunk.
    pub(crate) pause: Duration,
    /// Steps of its clock in milliseconds, before it starts and before chunks.
    pub(crate) steps: Vec<(usize, i64)>,
    pub(crate) ttl: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Segment,
    Snowflake,
    Ferroid,
    Snowflaked,
    RsSnowflake,
}

/// A running one.
pub(crate) struct Maker {
    pub(crate) child: Child,
    pub(crate) orders: Orders,
}

impl Maker {
    pub(crate) fn start(orders: Orders) -> Self {
        Self::start_with(orders, [])
    }

    pub(crate) fn start_with<const N: usize>(orders: Orders, env: [(String, String); N]) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        let text = serde_json::to_string(&orders).expect("JSON");
        command.args(["--exact", "maker::as_a_process", "--nocapture"]).env(ORDERS, text).envs(env);
        let child = command.stdout(Stdio::null()).spawn().expect("a process");
        Self { child, orders }
    }

    /// Waits until it has made some.
    pub(crate) fn has_begun(&self) {
        let end = Instant::now() + PATIENCE;
        while read(&self.orders.file).len() < 2 * CHUNK {
            assert!(Instant::now() < end, "it never got going: {:?}", self.orders);
            sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a signal");
        self.child.wait().expect("its end");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("a signal");
    }

    /// Waits for its end; its ids.
    pub(crate) fn finish(&mut self) -> Vec<u64> {
        let status = self.child.wait().expect("its end");
        assert!(status.success(), "{:?}: {status}", self.orders);
        read(&self.orders.file)
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        // One that has ended is left alone.
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// The ids in a file; the last may be torn.
pub(crate) fn read(file: &Path) -> Vec<u64> {
    let bytes = std::fs::read(file).unwrap_or_default();
    bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
}

/// How often a maker lost its lease and opened anew.
pub(crate) fn losses(orders: &Orders) -> u64 {
    std::fs::metadata(orders.file.with_extension("lost")).map_or(0, |found| found.len())
}

#[test]
fn as_a_process() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let orders: Orders = serde_json::from_str(&orders).expect("orders");
    let mut out = File::options().create(true).append(true).open(&orders.file).expect("a file");
    let mut source = Source::open(&orders);
    for chunk in 0..orders.chunks {
        source.step(&orders, chunk);
        let ids: Vec<u8> = (0..CHUNK).flat_map(|_| source.next(&orders).to_le_bytes()).collect();
        out.write_all(&ids).expect("written");
        sleep(orders.pause);
    }
}

/// Where its ids come from.
enum Source {
    Ours(Box<dyn Fn() -> leasehold::Result<u64>>, TestWall),
    Theirs(Box<dyn FnMut() -> u64>),
}

impl Source {
    fn open(orders: &Orders) -> Self {
        let clock = TestWall::running();
        for (_, by) in orders.steps.iter().filter(|(at, _)| *at == 0) {
            clock.step(*by);
        }
        match orders.kind {
            Kind::Segment | Kind::Snowflake => Self::Ours(ours(orders, &clock), clock),
            Kind::Ferroid => {
                use ferroid::generator::AtomicSnowflakeGenerator;
                use ferroid::id::SnowflakeTwitterId;
                let clock = ferroid::time::MonotonicClock::default();
                let ids = AtomicSnowflakeGenerator::<SnowflakeTwitterId, _>::new(1, clock);
                Self::Theirs(Box::new(move || ids.next_id(|_| {}).to_raw()))
            }
            Kind::Snowflaked => {
                let mut ids = snowflaked::Generator::new(1);
                Self::Theirs(Box::new(move || ids.generate::<u64>()))
            }
            Kind::RsSnowflake => {
                let mut ids = snowflake::SnowflakeIdGenerator::new(1, 1);
                Self::Theirs(Box::new(move || ids.real_time_generate() as u64))
            }
        }
    }

    fn step(&self, orders: &Orders, chunk: usize) {
        let Self::Ours(_, clock) = self else { return };
        let now = orders.steps.iter().filter(|(at, _)| *at == chunk && chunk > 0);
        now.for_each(|(_, by)| clock.step(*by));
    }

    fn next(&mut self, orders: &Orders) -> u64 {
        loop {
            let made = match self {
                Self::Theirs(make) => return make(),
                Self::Ours(make, clock) => make().map_err(|error| (error, clock.clone())),
            };
            match made {
                Ok(id) => return id,
                // As an application would: note it, and open anew.
                Err((error, clock)) if error.is_lost() => {
                    note(&orders.file.with_extension("lost"));
                    *self = Self::Ours(ours(orders, &clock), clock);
                }
                // Nobody can wait for an hour: somebody sets it right.
                Err((error, clock)) if error.to_string().contains("went back") => {
                    note(&orders.file.with_extension("refused"));
                    clock.step(3_600_000);
                }
                Err((error, _)) => panic!("{error:?}"),
            }
        }
    }
}

fn note(file: &Path) {
    let mut file = File::options().create(true).append(true).open(file).expect("a file");
    file.write_all(b"x").expect("written");
}

fn ours(orders: &Orders, clock: &TestWall) -> Box<dyn Fn() -> leasehold::Result<u64>> {
    let locks = leasehold::blocking::open(&orders.url).expect("an engine");
    if orders.kind == Kind::Segment {
        let ids = locks.ids("t").segment().step(50).step_max(200).blocking_open().expect("ids");
        return Box::new(move || ids.blocking_next());
    }
    let ids: SnowflakeIds = retried(|| {
        let open = locks.ids("t").snowflake().ttl(orders.ttl).clock(clock.clone());
        open.blocking_open()
    });
    Box::new(move || ids.blocking_next())
}

/// An engine that is asked by fifty at once may be slow.
fn retried<T>(open: impl Fn() -> leasehold::Result<T>) -> T {
    for _ in 0..10 {
        match open() {
            Ok(opened) => return opened,
            Err(error) if error.is_retryable() => sleep(Duration::from_millis(200)),
            Err(error) => panic!("{error:?}"),
        }
    }
    open().expect("ids")
}
