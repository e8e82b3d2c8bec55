//! `bench`: how fast an engine is, alone and beside others.

mod goal;
mod measure;
mod peer;
mod report;
mod work;

use std::time::Duration;

use leasehold::Locks;
use leasehold::engine::profile::Reach;

use self::goal::Goal;
use self::measure::Measure;
pub(crate) use self::peer::peer;
use self::report::Report;
use self::work::Work;
use crate::args::{Bench, Global};
use crate::engine;
use crate::failure::Failure;
use crate::output;
use crate::scratch::Scratch;
use crate::signals::{self, Signals};

pub(crate) const NAMESPACE: &str = "leasehold.bench";
/// How long it may take to let go of an engine.
const FAREWELL: Duration = Duration::from_secs(2);

pub(crate) async fn bench(global: &Global, args: &Bench) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    let urls = [vec![engine::url(global)?], args.compare.clone()].concat();
    let mut report = Report::new(args.tasks);
    for (at, url) in urls.iter().enumerate() {
        let locks = engine::open_url(url).await.map_err(|failure| of_engine(failure, at))?;
        let measured = tokio::select! {
            biased;
            signal = signals.end_asked() => Err(Failure::silent(signals::exit_code(signal))),
            measured = measure(&locks, url, args) => measured.map_err(|it| of_engine(it, at)),
        };
        // Whatever happened, nothing stays behind.
        let _ = locks.shutdown(FAREWELL).await;
        report.add(locks.profile(), measured?);
    }
    if global.json {
        output::print_json(&report)?
    } else {
        output::print(&report.page())?
    }
    Ok(0)
}

/// Failures name the engine by its place: the URL may hold a password.
fn of_engine(failure: Failure, at: usize) -> Failure {
    if at == 0 { failure } else { failure.at(&format!("--compare, engine {at}")) }
}

/// All kinds of work on one engine.
async fn measure(locks: &Locks, url: &str, args: &Bench) -> Result<Vec<Measure>, Failure> {
    let scratch = Scratch::new(locks, NAMESPACE)?;
    let mut measures = Vec::new();
    for work in Work::ALL.into_iter().filter(|work| fits(*work, locks)) {
        let goal = Goal::new(args, locks.profile().scheme, work);
        measures.push(work.measure(&scratch, url, args.tasks, goal).await?);
    }
    Ok(measures)
}

/// Two processes need an engine that both can reach.
fn fits(work: Work, locks: &Locks) -> bool {
    work != Work::Processes || locks.profile().reach >= Reach::Host
}
