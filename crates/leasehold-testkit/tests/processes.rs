//! Many processes record one history and are killed in the middle of it.

// Waits for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use std::env;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_testkit::check;
use leasehold_testkit::history::{History, Mode, Outcome, Recorder, Term};

/// Set, to the history's path, in the copies of this program that record.
const CHILD: &str = "LEASEHOLD_KIT_HISTORY";
const NAME: &str = "killed_recorders_leave_a_whole_history";

#[test]
fn killed_recorders_leave_a_whole_history() {
    if let Ok(path) = env::var(CHILD) {
        return record(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let recorder = Recorder::open(&path).unwrap();
    let mut children: Vec<Child> = (0..3).map(|_| start(&path)).collect();
    wait_for_grants(&path, &children);
    for child in &mut children {
        recorder.kill(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let history = History::read(&path).unwrap();
    assert!(history.torn() <= children.len());
    // Each process used a name of its own, so its part must be faultless.
    assert_eq!(check::all(&history), Ok(()));
}

fn start(path: &Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", NAME]).env(CHILD, path).stdout(Stdio::null());
    command.spawn().unwrap()
}

/// Records until killed; a bound of its own in case nobody does.
fn record(path: &Path) {
    let recorder = Recorder::open(path).unwrap();
    let (name, end) = (std::process::id().to_string(), Instant::now() + Duration::from_secs(60));
    for fence in 1.. {
        let acquire = recorder.acquire(&name, Mode::Exclusive);
        recorder.granted(acquire, fence, Term::default());
        let release = recorder.release(acquire);
        recorder.released(release, Outcome::Ok);
        if Instant::now() >= end {
            return;
        }
    }
}

fn wait_for_grants(path: &Path, children: &[Child]) {
    let end = Instant::now() + Duration::from_secs(30);
    let all_busy = |history: &History| {
        let grants = history.grants();
        children.iter().all(|child| grants.iter().filter(|it| it.pid == child.id()).count() > 20)
    };
    while !History::read(path).is_ok_and(|history| all_busy(&history)) {
        assert!(Instant::now() < end, "the recorders never got going");
        thread::sleep(Duration::from_millis(5));
    }
}
