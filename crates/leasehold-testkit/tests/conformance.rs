//! Every engine against the one suite.

use std::io::{Write, stderr};
use std::num::NonZero;
use std::process::ExitCode;
use std::thread;

use leasehold_testkit::conformance::{EngineUnderTest, end_servers, trials};
use leasehold_testkit::narrow;
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let code = match gather() {
        Ok(trials) => libtest_mimic::run(&arguments(), trials).exit_code(),
        Err(why) => {
            say(&why);
            ExitCode::FAILURE
        }
    };
    end_servers();
    code
}

/// Most trials wait for an expiry or a wake-up most of the time, so several
/// share a core unless told otherwise.
fn arguments() -> Arguments {
    let mut arguments = Arguments::from_args();
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    arguments.test_threads.get_or_insert(6 * cores);
    arguments
}

fn gather() -> Result<Vec<Trial>, String> {
    let engines = EngineUnderTest::chosen()?;
    if narrow::chosen().is_some() {
        let names: Vec<_> = engines.iter().map(EngineUnderTest::name).collect();
        say(&format!("narrowed on purpose: only {} (of all engines)", names.join(", ")));
    }
    let each: Result<Vec<_>, _> = thread::scope(|scope| {
        let gathering: Vec<_> = engines.iter().map(|it| scope.spawn(|| trials(it))).collect();
        gathering.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let trials = mixed(each.map_err(|_| "the trials of an engine cannot be listed")?);
    if trials.is_empty() { Err("no trial to run, which proves nothing".into()) } else { Ok(trials) }
}

/// All engines from the first trial to the last: twelve trials at a time would
/// be too much for some of the servers, and for each of them at its turn.
fn mixed(engines: Vec<Vec<Trial>>) -> Vec<Trial> {
    let mut placed = Vec::new();
    for trials in engines {
        let all = trials.len();
        placed.extend(trials.into_iter().enumerate().map(|(at, it)| ((at << 32) / all, it)));
    }
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, trial)| trial).collect()
}

fn say(what: &str) {
    let _ = writeln!(stderr(), "{what}");
}
