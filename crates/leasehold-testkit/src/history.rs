//! What happened to the locks: one JSON line per event.
//!
//! Many threads and processes of one machine record into one file, on one
//! clock (CLOCK_BOOTTIME), so that real-time order is exact. An event that was
//! never recorded, because its process died first, is an unknown outcome.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::grant::{self, Grant};
use crate::lines;

/// A time on the machine's one clock, in nanoseconds since it started.
pub type Nanos = u64;

/// The time that stands for "never" and "nobody knows".
pub const NEVER: Nanos = Nanos::MAX;

/// The time now, on a clock that counts suspend and that all processes share.
#[must_use]
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, rest) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds * 1_000_000_000 + rest
}

/// Names an operation: the process id and a number within the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OpId(pub u64);

impl OpId {
    fn next() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(u64::from(std::process::id()) << 32 | u64::from(number))
    }
}

/// How a name is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// By one holder.
    Exclusive,
    /// By many readers.
    Read,
    /// By one writer.
    Write,
    /// By as many holders as `of` permits allow.
    Permits {
        /// How many permits this holder took.
        take: u32,
        /// How many there are.
        of: u32,
    },
}

impl Mode {
    /// Says whether two holders must never hold at once. Permits are counted
    /// instead; mixed kinds on one name always clash.
    #[must_use]
    pub const fn conflicts_with(self, other: Self) -> bool {
        !matches!(
            (self, other),
            (Self::Read, Self::Read) | (Self::Permits { .. }, Self::Permits { .. })
        )
    }
}

/// How an operation ended, as far as its caller knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It took effect.
    Ok,
    /// It certainly took no effect.
    Fail,
    /// Nobody knows.
    Info,
}

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Nanos,
    /// In which process.
    pub pid: u32,
    /// Of which operation.
    pub op: OpId,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What an event says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// The operation asks for a name.
    Acquire {
        /// Which name.
        name: String,
        /// In which mode.
        mode: Mode,
    },
    /// The acquire ended.
    Acquired {
        /// How it ended.
        outcome: Outcome,
        /// The fence, if granted.
        fence: Option<u64>,
        /// Until when the holder claims the name, if there is an end.
        deadline: Option<Nanos>,
        /// The earliest time at which the engine may let the lease lapse.
        expires: Option<Nanos>,
    },
    /// The lease of this acquire was renewed.
    Renewed {
        /// Until when the holder claims the name now.
        deadline: Option<Nanos>,
        /// The earliest time at which the engine may let the lease lapse now.
        expires: Option<Nanos>,
    },
    /// The holder of this acquire was told that the lease is lost.
    Lost,
    /// The operation gives up the lease of an acquire.
    Release {
        /// The acquire whose lease it gives up.
        of: OpId,
    },
    /// The release ended; `fail` means that the lease was gone already.
    Released {
        /// How it ended.
        outcome: Outcome,
    },
    /// A process is about to be killed.
    Kill {
        /// Which process.
        process: u32,
    },
}

/// Until when a lease is good: by the holder's own clock and by the engine's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Term {
    /// Until when the holder claims the name; `None` for no end.
    pub deadline: Option<Nanos>,
    /// The earliest time at which the engine may let the lease lapse; `None`
    /// for a lease that only a release or a death ends.
    pub expires: Option<Nanos>,
}

/// Writes events to a file that other recorders may write too.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    pid: u32,
}

/// Recording panics when the file cannot be written: a history with holes
/// proves nothing.
impl Recorder {
    /// Opens or makes the file.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self { file: lines::open(path.as_ref())?, pid: std::process::id() })
    }

    /// Records that an acquire starts. Call it just before the real one.
    #[must_use]
    pub fn acquire(&self, name: &str, mode: Mode) -> OpId {
        self.record(OpId::next(), What::Acquire { name: name.to_owned(), mode })
    }

    /// Records that an acquire was granted. Call it just after.
    pub fn granted(&self, acquire: OpId, fence: u64, term: Term) {
        let Term { deadline, expires } = term;
        let what = What::Acquired { outcome: Outcome::Ok, fence: Some(fence), deadline, expires };
        self.record(acquire, what);
    }

    /// Records that an acquire was certainly not granted.
    pub fn denied(&self, acquire: OpId) {
        self.record(acquire, not_granted(Outcome::Fail));
    }

    /// Records that nobody knows whether an acquire was granted.
    pub fn unknown(&self, acquire: OpId) {
        self.record(acquire, not_granted(Outcome::Info));
    }

    /// Records a renewal of a granted lease.
    pub fn renewed(&self, acquire: OpId, Term { deadline, expires }: Term) {
        self.record(acquire, What::Renewed { deadline, expires });
    }

    /// Records that the holder was told of its loss.
    pub fn lost(&self, acquire: OpId) {
        self.record(acquire, What::Lost);
    }

    /// Records that a release of a lease starts, by its holder or by an
    /// operator who evicts it: from here on the holder's claim is void.
    #[must_use]
    pub fn release(&self, acquire: OpId) -> OpId {
        self.record(OpId::next(), What::Release { of: acquire })
    }

    /// Records how a release ended; `Fail` when the lease was gone already.
    pub fn released(&self, release: OpId, outcome: Outcome) {
        self.record(release, What::Released { outcome });
    }

    /// Records that a process is about to be killed. Call it just *before*:
    /// an engine may notice the death sooner than the killer does.
    pub fn kill(&self, process: u32) {
        self.record(OpId::next(), What::Kill { process });
    }

    fn record(&self, op: OpId, what: What) -> OpId {
        let event = Event { at: now(), pid: self.pid, op, what };
        lines::append(&self.file, &event).expect("a history without holes");
        op
    }
}

const fn not_granted(outcome: Outcome) -> What {
    What::Acquired { outcome, fence: None, deadline: None, expires: None }
}

/// All events, ready for the checkers.
#[derive(Debug, Clone, Default)]
pub struct History {
    events: Vec<Event>,
    torn: usize,
}

impl History {
    /// Reads a file that recorders wrote.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or holds a line that no recorder wrote. Half a
    /// line of a killed process is no error.
    pub fn read(path: impl AsRef<Path>) -> io::Result<Self> {
        let (events, torn) = lines::read(path.as_ref())?;
        Ok(Self { events, torn })
    }

    /// A history made by hand.
    #[must_use]
    pub const fn of(events: Vec<Event>) -> Self {
        Self { events, torn: 0 }
    }

    /// The events, in the order of the file.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How many lines were torn by the death of their writer.
    #[must_use]
    pub const fn torn(&self) -> usize {
        self.torn
    }

    /// Every lease that was certainly granted, by name and begin.
    #[must_use]
    pub fn grants(&self) -> Vec<Grant> {
        grant::assemble(&self.events)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::thread;

    use super::{History, Mode, Outcome, Recorder, Term, What};

    #[test]
    fn many_threads_record_whole_lines_into_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        thread::scope(|scope| {
            for _ in 0..4 {
                // A recorder each, as processes would have.
                scope.spawn(|| record_grants(&Recorder::open(&path).unwrap(), 50));
            }
        });
        let history = History::read(&path).unwrap();
        assert_eq!((history.events().len(), history.torn()), (4 * 50 * 4, 0));
        assert_eq!(history.grants().len(), 4 * 50);
    }

    fn record_grants(recorder: &Recorder, count: u64) {
        for fence in 0..count {
            let op = recorder.acquire("name", Mode::Exclusive);
            recorder.granted(op, fence, Term::default());
            let release = recorder.release(op);
            recorder.released(release, Outcome::Ok);
        }
    }

    #[test]
    fn a_torn_line_spoils_neither_the_lines_before_nor_after() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let recorder = Recorder::open(&path).unwrap();
        let _ = recorder.acquire("before", Mode::Read);
        (&recorder.file).write_all(b"\n{\"at\":17,\"pid\":4,\"op").unwrap();
        let _ = recorder.acquire("after", Mode::Permits { take: 1, of: 2 });
        let history = History::read(&path).unwrap();
        assert_eq!((history.events().len(), history.torn()), (2, 1));
        assert!(matches!(&history.events()[1].what, What::Acquire { name, .. } if name == "after"));
    }

    #[test]
    fn a_line_no_recorder_wrote_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        std::fs::write(&path, "{\"at\":\"noon\"}\n").unwrap();
        assert!(History::read(&path).is_err());
    }

    #[test]
    fn a_line_is_plain_json() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let op = Recorder::open(&path).unwrap().acquire("order/42", Mode::Write);
        let text = std::fs::read_to_string(&path).unwrap();
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["event"], "acquire");
        assert_eq!(line["name"], "order/42");
        assert_eq!(line["op"], op.0);
        assert_eq!(line["pid"], std::process::id());
    }
}
