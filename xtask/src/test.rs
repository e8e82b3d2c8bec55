//! `cargo xtask test`: the tests, with one plain line at the end.

use std::fmt;
use std::process::Command;
use std::sync::Mutex;

use crate::program::{self, Ran};
use crate::{Done, cargo, need, sim};

/// Every engine whose tests can be chosen.
const ENGINES: [&str; 7] = ["memory", "sqlite", "postgres", "mysql", "redis", "etcd", "zookeeper"];
/// How many lines of a failure are told again at the end.
const FEW: usize = 4;
/// How the choice reaches the tests; the testkit reads it.
const VARIABLE: &str = "LEASEHOLD_TEST_ENGINES";
/// What `--quick` runs beside the unit tests: what sees most mistakes soonest.
const QUICK: [&str; 6] =
    ["house", "memory", "blocking", "late_answers", "interleavings", "conformance"];
const QUICK_ENGINES: [&str; 2] = ["memory", "sqlite"];

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Scope {
    /// None means all.
    engines: Vec<String>,
    /// The few minutes after a change, not the proof before it is shared.
    quick: bool,
}

pub(crate) fn run(args: &[String]) -> Done {
    let (tally, verdict) = execute(&Scope::of(args)?)?;
    if let Err(why) = &verdict {
        println!("{why}");
        // Again, because thousands of lines may lie between.
        tally.failures.iter().for_each(|failure| println!("failed: {failure}"));
    }
    // The last line of all output, whatever the verdict.
    println!("{tally}");
    verdict.map_err(|_| String::new())
}

/// Installs, runs and counts.
fn execute(scope: &Scope) -> Result<(Tally, Done), String> {
    // Unit tests of all engines are a part of `--quick`; some start a server.
    need::meet(if scope.quick { &[] } else { &scope.engines })?;
    scope.announce();
    let (mut tally, succeeded) = run_tests(scope)?;
    let verdict = verdict(&mut tally, succeeded).map_err(str::to_owned);
    Ok((tally, verdict))
}

impl Scope {
    /// From `--engines a,b`, `--engines=a,b` or `--quick`.
    fn of(args: &[String]) -> Result<Self, String> {
        let list = match args {
            [] => return Ok(Self::default()),
            [flag] if flag == "--quick" => {
                let engines = QUICK_ENGINES.map(str::to_owned).to_vec();
                return Ok(Self { engines, quick: true });
            }
            [flag, list] if flag == "--engines" => list.as_str(),
            [flag] if flag.starts_with("--engines=") => &flag["--engines=".len()..],
            _ => {
                let usage = "`cargo xtask test` takes [--engines a,b] or [--quick]";
                return Err(format!("{usage}, not {args:?}"));
            }
        };
        Ok(Self { engines: engines(list)?, quick: false })
    }

    fn announce(&self) {
        let engines = self.engines.join(", ");
        if self.quick {
            println!("quick: unit tests, the house, and {engines}; without --quick, everything");
        } else if !engines.is_empty() {
            println!("narrowed on purpose: only the engines {engines} are tested");
        }
    }

    /// The test programs to build: none named means all.
    const fn programs(&self) -> &'static [&'static str] {
        if self.quick { &QUICK } else { &[] }
    }

    fn prepare(&self, command: &mut Command) {
        // A choice that is merely left over in the environment would narrow in silence.
        command.env_remove(VARIABLE);
        if !self.engines.is_empty() {
            command.env(VARIABLE, self.engines.join(","));
        }
    }
}

/// Engines by name, each of which must exist.
fn engines(list: &str) -> Result<Vec<String>, String> {
    let engines: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
    match engines.iter().find(|name| !ENGINES.contains(&name.as_str())) {
        Some(name) => Err(format!("there is no engine `{name}`; valid: {}", ENGINES.join(", "))),
        None => Ok(engines),
    }
}

/// Runs all tests, shows their output as they end, and counts the results.
fn run_tests(scope: &Scope) -> Result<(Tally, bool), String> {
    let counted = Mutex::new((Tally::default(), true));
    let programs = match program::build(scope.programs()) {
        Ok(programs) => programs,
        // No test has failed, but something has.
        Err(why) => {
            println!("{why}");
            return Ok((Tally::default(), false));
        }
    };
    program::run_all(programs, |command| scope.prepare(command), |ran| show(&ran, &counted))?;
    if !scope.quick {
        let mut documented = cargo();
        documented.args(["test", "--workspace", "--all-features", "--no-fail-fast", "--doc"]);
        scope.prepare(&mut documented);
        show(&Ran::of("examples of the documentation", &mut documented)?, &counted);
    }
    if scope.engines.is_empty() {
        sim::test()?.iter().for_each(|ran| show(ran, &counted));
    }
    counted.into_inner().map_err(|_| "a lane died".to_owned())
}

/// Shows what one program said in one piece, and counts it.
fn show(ran: &Ran, counted: &Mutex<(Tally, bool)>) {
    let Ok(mut counted) = counted.lock() else { return };
    println!("\n{} ({} s):", ran.name, ran.took.as_secs());
    let mut own = Tally::default();
    // Tests may print what is not text; every line is shown as well as can be.
    let said = String::from_utf8_lossy(&ran.output.stdout);
    for line in said.lines() {
        println!("{line}");
        own.count(line);
    }
    own.failures = failures(&ran.name, &said);
    let succeeded = ran.output.status.success();
    if !succeeded && own.failed == 0 {
        println!("{} died: {}", ran.name, ran.output.status);
        own.failures.push(format!("{} died: {}", ran.name, ran.output.status));
    }
    counted.0.add(own);
    counted.1 &= succeeded;
}

/// Decides; a failure that no test reported still counts as one.
fn verdict(tally: &mut Tally, succeeded: bool) -> Result<(), &'static str> {
    if !succeeded && tally.failed == 0 {
        tally.failed = 1;
        return Err("cargo failed outside of a test (it did not compile, or a test program died)");
    }
    if tally.failed > 0 {
        return Err("some tests failed; what they said is above");
    }
    if tally.passed == 0 {
        return Err("no test ran, which proves nothing");
    }
    Ok(())
}

/// Each test that failed, with the first lines of what it said.
fn failures(program: &str, said: &str) -> Vec<String> {
    let mut lines = said.lines();
    let mut all = Vec::new();
    while let Some(line) = lines.next() {
        let Some(heading) = line.strip_prefix("---- ").and_then(|it| it.strip_suffix(" ----"))
        else {
            continue;
        };
        let test = heading.strip_suffix(" stdout").unwrap_or(heading);
        let text = lines.clone().filter(|line| !line.is_empty()).take(FEW);
        let text: String = text.map(|line| format!("\n    {line}")).collect();
        all.push(format!("{program}: {test}{text}"));
    }
    all
}

/// How many tests ended how.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
    /// What is to be said of those that failed.
    failures: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
    }

    /// Adds a line like `test result: ok. 3 passed; 0 failed; 1 ignored; ...`,
    /// which libtest and libtest-mimic print once per test program.
    fn count(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let counts = result.split_once(". ").map_or("", |(_, counts)| counts);
        for (number, what) in counts.split(';').filter_map(|it| it.trim().split_once(' ')) {
            let number = number.parse().unwrap_or(0);
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, skipped, .. } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::{Scope, Tally, failures, verdict};

    fn tally(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        lines.iter().for_each(|line| tally.count(line));
        tally
    }

    #[test]
    fn result_lines_of_both_harnesses_add_up() {
        let tally = tally(&[
            "test result: ok. 20 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.51s",
            "test some::test ... ok",
            "test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
        ]);
        assert_eq!(tally, Tally { passed: 27, failed: 2, skipped: 1, ..Tally::default() });
        assert_eq!(tally.to_string(), "27 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn failures_of_both_harnesses_are_told_again() {
        let mimic = "failures:\n\n---- redis::once::again ----\ntwo were granted\n\n";
        assert_eq!(failures("a", mimic), ["a: redis::once::again\n    two were granted"]);
        let quiet = "---- tests::again stdout ----\n\nthread 'tests::again' panicked at x.rs:1\n";
        let told = failures("b", quiet);
        assert_eq!(told, ["b: tests::again\n    thread 'tests::again' panicked at x.rs:1"]);
        assert!(failures("c", "test again ... ok").is_empty());
    }

    #[test]
    fn lines_that_only_look_alike_do_not_count() {
        let tally =
            tally(&["  test result: ok. 5 passed; 0 failed", "test result: ok", "5 passed"]);
        assert_eq!(tally, Tally::default());
    }

    #[test]
    fn a_run_is_good_only_if_something_passed_and_nothing_failed() {
        assert!(verdict(&mut Tally { passed: 1, ..Tally::default() }, true).is_ok());
        assert!(verdict(&mut Tally { passed: 1, failed: 1, ..Tally::default() }, false).is_err());
        assert!(verdict(&mut Tally::default(), true).is_err());
        assert!(verdict(&mut Tally { skipped: 9, ..Tally::default() }, true).is_err());
    }

    #[test]
    fn a_crash_outside_of_a_test_shows_as_a_failure() {
        let mut tally = Tally { passed: 5, ..Tally::default() };
        assert!(verdict(&mut tally, false).is_err());
        assert_eq!(tally.to_string(), "5 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn the_scope_is_checked_against_what_there_is() {
        let scope =
            |args: &[&str]| Scope::of(&args.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        let engines = |args: &[&str]| scope(args).map(|it| it.engines);
        assert_eq!(scope(&[]).unwrap(), Scope::default());
        assert_eq!(engines(&["--engines", "memory,sqlite"]).unwrap(), ["memory", "sqlite"]);
        assert_eq!(engines(&["--engines=redis"]).unwrap(), ["redis"]);
        assert!(engines(&["--engines", "oracle"]).unwrap_err().contains("sqlite"));
        assert!(engines(&["--engines", ""]).is_err());
        assert!(scope(&["--quick"]).unwrap().quick);
        assert!(engines(&["--fast"]).unwrap_err().contains("--quick"));
    }
}
