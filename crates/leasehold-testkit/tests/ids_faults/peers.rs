//! Generators without an engine, through the same faults: they repeat ids.
//!
//! Their clocks are shifted by a library that is loaded before the C library;
//! ours is told the same through its own clock.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::maker::{CHUNK, Kind, Maker, Orders};
use super::{repeated, say};

/// How many ids each of the two makes.
const COUNT: usize = 40_000;
const SHIFT: &str = "
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, id, now);
    const char *shift = getenv(\"CLOCK_MILLIS\");
    if (!failed && shift && id == CLOCK_REALTIME) {
        long nanos = now->tv_nsec + atol(shift) % 1000 * 1000000L;
        now->tv_sec += atol(shift) / 1000 - (nanos < 0) + (nanos >= 1000000000L);
        now->tv_nsec = (nanos + 1000000000L) % 1000000000L;
    }
    return failed;
}
";

fn shim(folder: &Path) -> String {
    let (source, library) = (folder.join("shift.c"), folder.join("shift.so"));
    std::fs::write(&source, SHIFT).expect("written");
    // Whoever links Rust has it.
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
    assert!(compile.status().expect("cc").success());
    library.display().to_string()
}

/// Makes ids for a while, ends, and starts again with the clock at the time at
/// which it began.
fn restarted(kind: Kind, folder: &Path, library: &str) -> usize {
    let orders = |number: usize, shift: i64| Orders {
        kind,
        url: format!("sqlite:{}/{kind:?}.db", folder.display()),
        file: folder.join(format!("{kind:?}{number}.ids")),
        chunks: COUNT / CHUNK,
        pause: Duration::from_millis(1),
        steps: vec![(0, shift)],
        ttl: Duration::from_secs(2),
    };
    let run = |number, shift: i64| {
        let env = [
            ("LD_PRELOAD".to_owned(), library.to_owned()),
            ("CLOCK_MILLIS".to_owned(), shift.to_string()),
        ];
        Maker::start_with(orders(number, shift), env).finish()
    };
    let start = Instant::now();
    let first = run(1, 0);
    let behind = i64::try_from(start.elapsed().as_millis()).expect("a short time");
    let ids = [first, run(2, -behind)].concat();
    assert_eq!(ids.len(), 2 * COUNT);
    repeated(&ids)
}

#[test]
fn after_a_restart_with_the_clock_behind_peers_repeat_ids_and_ours_do_not() {
    let folder = TempDir::new().expect("a folder");
    let library = shim(folder.path());
    let count = |kind| (kind, restarted(kind, folder.path(), &library));
    let ours = count(Kind::Snowflake);
    let peers = [Kind::Ferroid, Kind::Snowflaked, Kind::RsSnowflake].map(count);
    let told = format!("of {COUNT}: {ours:?}, {peers:?}");
    assert_eq!(ours.1, 0, "{told}");
    assert!(
        peers.iter().any(|(_, repeated)| *repeated > COUNT / 10),
        "the fault did not bite: {told}"
    );
    say(&format!("repeated {told}"));
}
