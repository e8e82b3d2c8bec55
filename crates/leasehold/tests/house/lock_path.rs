//! How many files a reader walks through to follow one call.

use crate::source::library;

/// The files with a function that runs for each `lock()` on a free name on Redis,
/// nouns and all: what `valgrind --tool=callgrind` counted as many calls of as there
/// were locks, in a build without optimization.
const LOCK_PATH: &[&str] = &[
    "acquire",
    "acquire::attempt",
    "acquire::releaser",
    "acquire::request",
    "acquire::sought",
    "acquire::wait",
    "claim",
    "claim::id",
    "claim::mode",
    "claim::owner",
    "claim::verdict",
    "claim::wants",
    "client",
    "clock",
    "core",
    "detached",
    "detached::watchdog",
    "engine::profile",
    "engine::state::words",
    "engines::kit::backoff",
    "engines::kit::supervise",
    "engines::redis::link::line",
    "engines::redis::link",
    "engines::redis::link::round",
    "engines::redis::link::routes",
    "engines::redis::link::wire",
    "engines::redis::native::batcher",
    "engines::redis::native::channels",
    "engines::redis::native::client",
    "engines::redis::native::keys",
    "engines::redis::native",
    "engines::redis::native::pack",
    "engines::redis::native::records",
    "engines::redis::native::verb",
    "engines::redis::native::waiters",
    "engines::redis::script",
    "engines::redis::settings",
    "engines::redis::waits",
    "gate",
    "guard",
    "hold",
    "hold::facts",
    "hold::shared_facts",
    "hold::terms",
    "hold::timing",
    "home",
    "layers::guardrail",
    "layers::retry",
    "locks",
    "losses",
    "name",
    "observe",
    "owners",
    "recipes::mutex",
    "recipes::request_builder",
    "schedule",
];

/// The list is made by hand after a count: a longer one has to say why.
const MOST: usize = 56;

#[test]
#[expect(clippy::print_stdout, reason = "the size of the house, for whoever asks")]
fn the_files_of_a_lock_are_there_and_no_more_are_listed() {
    println!("a lock on Redis passes {} files", LOCK_PATH.len());
    assert!(LOCK_PATH.len() <= MOST, "what can be left out?");
    let files = library();
    for file in LOCK_PATH {
        assert!(files.contains_key(*file), "{file} is gone; where does the call go now?");
    }
}
