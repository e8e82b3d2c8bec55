//! The layer, scenario by scenario, on every engine: the header draft, and what
//! other presets make of it.

#![allow(clippy::disallowed_methods, reason = "tests run tasks of their own")]

mod bank;
mod scenarios;

use std::process::ExitCode;

use leasehold_testkit::conformance::{EngineUnderTest, LIMIT, end_servers};
use libtest_mimic::{Arguments, Trial};

use bank::Stage;
use scenarios::{SCENARIOS, Scenario};

/// One of each kind that keeps records: the layer knows nothing of how many
/// servers there are.
const ENGINES: [&str; 7] = ["etcd", "memory", "mysql", "postgres", "redis", "sqlite", "zookeeper"];

fn main() -> ExitCode {
    let trials = match EngineUnderTest::chosen() {
        Ok(engines) => engines.into_iter().filter(|it| ENGINES.contains(&it.name())),
        Err(why) => panic!("{why}"),
    };
    let each = trials.flat_map(|engine| SCENARIOS.iter().map(move |it| trial(engine, it)));
    let code = libtest_mimic::run(&Arguments::from_args(), each.collect()).exit_code();
    end_servers();
    code
}

/// `engine::sentence`, on a store of its own.
fn trial(engine: EngineUnderTest, (sentence, scenario): &'static (&str, Scenario)) -> Trial {
    let scenario = *scenario;
    Trial::test(format!("{}::{sentence}", engine.name()), move || {
        let store = engine.store().map_err(|why| why.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let played = async { scenario(Stage::on(&store).await?).await };
        runtime.block_on(async { tokio::time::timeout(LIMIT, played).await })??;
        Ok(())
    })
}
