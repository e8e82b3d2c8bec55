//! What the program is asked for, and what it prints.

#![allow(clippy::print_stdout, reason = "a program talks")]
#![allow(clippy::disallowed_methods, reason = "its budget is real time")]

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use leasehold_sim::campaign::{Budget, Sum, attempt, explore, note_panics};
use leasehold_sim::mutants;
use leasehold_sim::regressions;
use leasehold_sim::schedule::draw::draw;
use leasehold_sim::schedule::{Schedule, Stage};
use leasehold_sim::shrink::shrink;

const USAGE: &str = "leasehold-sim [--stage S] [--seed N [--whole]] [--seconds S | --minutes M] \
                     [--mutants | --mutant NAME] [FILE]";

/// Every stage, and its share of the time.
const STAGES: [(Stage, u32); 4] =
    [(Stage::Contract, 3), (Stage::Members(3), 3), (Stage::Redis, 2), (Stage::Redlock(3), 2)];
/// How many schedules are played twice.
const TWICE: u64 = 20;
/// With fewer schedules a kind of fault may have had no chance to bite.
const ENOUGH: u64 = 2000;
/// Where a campaign begins in the endless row of schedules: a longer one goes
/// further, and the same budget sees the same.
const FIRST: u64 = 207_740_000_000;

#[derive(Debug, Default)]
struct Wish {
    stage: Option<Stage>,
    seed: Option<u64>,
    /// Whether a schedule is told as it was drawn, also one that fails.
    whole: bool,
    seconds: Option<u64>,
    /// Those whose name has this in it.
    mutants: Option<String>,
    file: Option<String>,
}

pub(crate) fn main() -> ExitCode {
    note_panics();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = wish(&args).and_then(fulfil);
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            println!("{why}\nusage: {USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn wish(args: &[String]) -> Result<Wish, String> {
    let mut wish = Wish::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--stage" => wish.stage = Some(value()?.parse()?),
            "--seed" => wish.seed = Some(number(value()?)?),
            "--whole" => wish.whole = true,
            "--seconds" => wish.seconds = Some(number(value()?)?),
            "--minutes" => wish.seconds = Some(number(value()?)? * 60),
            "--mutants" => wish.mutants = Some(String::new()),
            "--mutant" => wish.mutants = Some(value()?.clone()),
            flag if flag.starts_with('-') => return Err(format!("there is no option {flag}")),
            file => wish.file = Some(file.to_owned()),
        }
    }
    Ok(wish)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn fulfil(wish: Wish) -> Result<bool, String> {
    let limit = Duration::from_secs(wish.seconds.unwrap_or(60));
    if let Some(file) = &wish.file {
        let schedule = regressions::read(Path::new(file))?;
        let named = mutants::all().into_iter().find(|it| Some(it.name()) == wish.mutants);
        return Ok(mutants::with(named.as_ref(), || tell(&schedule)));
    }
    if let Some(seed) = wish.seed {
        let schedule = draw(seed, wish.stage.unwrap_or(Stage::Contract));
        return Ok(if wish.whole { tell(&schedule) } else { one(schedule) });
    }
    if let Some(name) = &wish.mutants {
        return Ok(hunt(name, limit));
    }
    campaign(wish.stage, limit)
}

/// Plays one schedule, and tells its story.
fn tell(schedule: &Schedule) -> bool {
    let outcome = attempt(schedule, true);
    println!("{schedule}");
    outcome.story.iter().for_each(|line| println!("{line}"));
    outcome.broken.iter().for_each(|broken| println!("{broken}"));
    println!("trace {:016x}", outcome.trace);
    outcome.broken.is_empty()
}

/// Plays a schedule; if it fails, the shortest that fails alike.
fn one(schedule: Schedule) -> bool {
    match attempt(&schedule, false).broken.first() {
        None => tell(&schedule),
        Some(broken) => tell(&shortest(schedule, broken.rule)),
    }
}

fn shortest(schedule: Schedule, rule: &str) -> Schedule {
    let (steps, faults) = (schedule.steps.len(), schedule.faults.len());
    let mut runs = 0;
    let short = shrink(schedule, |it| {
        runs += 1;
        attempt(it, false).broken.iter().any(|broken| broken.rule == rule)
    });
    let (now, left) = (short.steps.len(), short.faults.len());
    println!("# shrunk from {steps} steps and {faults} faults to {now} and {left} in {runs} runs");
    short
}

/// What was checked, as a test program would say it.
#[derive(Default)]
struct Score {
    passed: u32,
    failed: u32,
}

impl Score {
    fn note(&mut self, name: &str, wrong: &[String]) {
        if wrong.is_empty() {
            self.passed += 1;
            println!("test {name} ... ok");
        } else {
            self.failed += 1;
            println!("test {name} ... FAILED");
            wrong.iter().for_each(|line| println!("    {line}"));
        }
    }

    fn end(&self) -> bool {
        let Self { passed, failed } = self;
        let word = if *failed == 0 { "ok" } else { "FAILED" };
        println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored");
        *failed == 0
    }
}

fn campaign(stage: Option<Stage>, limit: Duration) -> Result<bool, String> {
    let mut score = Score::default();
    for (name, wrong) in regressions::play_all()? {
        score.note(&format!("regression {name}"), &wrong);
    }
    let chosen: Vec<(Stage, u32)> =
        STAGES.into_iter().filter(|(it, _)| stage.is_none_or(|stage| stage == *it)).collect();
    let parts: u32 = chosen.iter().map(|(_, part)| part).sum();
    for (stage, part) in chosen {
        let wrong: Vec<String> = (0..TWICE).filter_map(|seed| differs(seed, stage)).collect();
        score.note(&format!("{stage}: the same seed gives the same trace"), &wrong);
        let wrong = look_at(stage, limit * part / parts);
        score.note(&format!("{stage}: promises are kept, and faults bite"), &wrong);
    }
    Ok(score.end())
}

fn differs(seed: u64, stage: Stage) -> Option<String> {
    let schedule = draw(seed, stage);
    let (one, two) = (attempt(&schedule, false).trace, attempt(&schedule, false).trace);
    (one != two).then(|| format!("seed {seed}: {one:016x} and {two:016x}"))
}

/// Explores a stage; what is wrong, each with its story.
fn look_at(stage: Stage, span: Duration) -> Vec<String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let begun = Instant::now();
    let budget = Budget { until: begun + span, schedules: u64::MAX / 2, stops: false };
    let sum = explore(stage, FIRST, budget, threads);
    report(stage, &sum, begun.elapsed());
    let mut wrong = Vec::new();
    for (rule, (seed, broken)) in &sum.broken {
        let replay = format!("replay it: cargo xtask sim --stage {stage} --seed {seed}");
        // To find the shortest takes a while.
        println!("{broken}\n{replay}");
        wrong.extend([broken.to_string(), replay]);
        let _ = tell(&shortest(draw(*seed, stage), rule));
    }
    if sum.schedules >= ENOUGH {
        wrong.extend(sum.toothless(stage).iter().map(|word| format!("I10: no {word} has bitten")));
    }
    wrong
}

fn report(stage: Stage, sum: &Sum, took: Duration) {
    let Sum { schedules, grants, requests, failures, .. } = sum;
    let rate = *schedules as f64 / took.as_secs_f64() * 60.0;
    println!(
        "{stage}: {schedules} schedules in {:.0} s ({rate:.0} a minute), {grants} grants, \
         {requests} requests, {failures} broken",
        took.as_secs_f64()
    );
    let bites: Vec<String> =
        sum.bites.iter().map(|(word, count)| format!("{word} {count}")).collect();
    println!("    faults that bit: {}", bites.join(", "));
}

fn hunt(name: &str, limit: Duration) -> bool {
    let mut score = Score::default();
    for revived in mutants::all().into_iter().filter(|it| it.name().contains(name)) {
        let found = mutants::hunt(&revived, u64::MAX, limit);
        let wrong: Vec<String> = match &found {
            Some(_) => Vec::new(),
            None => vec![format!("not found within {limit:?}")],
        };
        if let Some(it) = found {
            println!(
                "{}: found by schedule {} ({}, seed {}): {}",
                revived.name(),
                it.schedules,
                it.stage,
                it.seed,
                it.broken
            );
        }
        score.note(&format!("mutant {}", revived.name()), &wrong);
    }
    score.end()
}
