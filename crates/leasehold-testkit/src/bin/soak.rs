//! `leasehold-soak [DEPLOYMENT..] [--minutes M]`: see `soak.rs` of the testkit.

#![allow(clippy::disallowed_methods, reason = "real servers with real time")]
#![allow(clippy::print_stdout, reason = "the report is for people")]

use std::process::ExitCode;
use std::time::Duration;

use leasehold_testkit::contest::Checked;
use leasehold_testkit::soak::{DEPLOYMENTS, soak};
use tokio::task::JoinSet;

/// How many deployments run side by side: they mostly wait.
const ABREAST: usize = 2;

fn main() -> Checked<ExitCode> {
    let (chosen, span) = asked(std::env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(all(chosen, span))
}

/// Which deployments, and for how long each.
fn asked(mut words: impl Iterator<Item = String>) -> Checked<(Vec<&'static str>, Duration)> {
    let (mut chosen, mut minutes) = (Vec::new(), 3.0_f64);
    while let Some(word) = words.next() {
        if word == "--minutes" {
            let number = words.next().and_then(|word| word.parse().ok());
            minutes = number.filter(|it| *it > 0.0).ok_or("--minutes takes a number above 0")?;
            continue;
        }
        let known = DEPLOYMENTS.into_iter().find(|name| *name == word);
        let all = DEPLOYMENTS.join(", ");
        chosen.push(known.ok_or(format!("there is no {word:?} to soak; there are {all}"))?);
    }
    if chosen.is_empty() {
        chosen.extend(DEPLOYMENTS);
    }
    Ok((chosen, Duration::from_secs_f64(60.0 * minutes)))
}

async fn all(chosen: Vec<&'static str>, span: Duration) -> Checked<ExitCode> {
    let (mut waiting, mut running, mut sound) = (chosen.into_iter(), JoinSet::new(), true);
    loop {
        while running.len() < ABREAST
            && let Some(name) = waiting.next()
        {
            running.spawn(async move { (name, soak(name, span).await) });
        }
        let Some(ended) = running.join_next().await else { break };
        let (name, report) = ended?;
        match report {
            Ok(report) => {
                println!("{report}");
                sound &= report.is_sound();
            }
            Err(error) => {
                println!("{name:<10} could not be soaked: {error}");
                sound = false;
            }
        }
    }
    println!("{}", if sound { "sound" } else { "NOT SOUND" });
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
