//! How long to go on with a kind of work, and how far it has come.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{Clock, Moment};
use tokio::time::sleep;

use super::work::Work;
use crate::args::Bench;
use crate::line::Line;

/// How often the progress is shown.
const REWRITE: Duration = Duration::from_millis(200);

/// A goal that all tasks of a measurement share.
#[derive(Clone)]
pub(crate) struct Goal {
    count: Option<u64>,
    time: Duration,
    since: Moment,
    begun: Arc<AtomicU64>,
    title: String,
}

impl Goal {
    pub(crate) fn new(args: &Bench, engine: &str, work: Work) -> Self {
        Self {
            count: args.count,
            time: args.time(),
            since: Clock::System.now(),
            begun: Arc::default(),
            title: format!("{engine}: {}", work.title()),
        }
    }

    /// The same goal, with the clock set to now: what came before was warming up.
    pub(crate) fn start(self) -> Self {
        Self { since: Clock::System.now(), ..self }
    }

    /// Whether to do it once more.
    pub(crate) fn go_on(&self) -> bool {
        let begun = self.begun.fetch_add(1, Ordering::Relaxed);
        match self.count {
            Some(count) => begun < count,
            // At least once, or there would be nothing to show.
            None => begun == 0 || self.elapsed() < self.time,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Clock::System.now().since(self.since)
    }

    /// Shows how far it has come, where somebody can see it.
    pub(crate) async fn show(&self) -> Infallible {
        if let Some(line) = Line::on_terminal() {
            loop {
                line.put(&self.progress());
                sleep(REWRITE).await;
            }
        }
        std::future::pending().await
    }

    fn progress(&self) -> String {
        let begun = self.begun.load(Ordering::Relaxed);
        let done = self.elapsed().as_secs_f64();
        match self.count {
            Some(count) => format!("{}  {} of {count}", self.title, begun.min(count)),
            None => format!("{}  {done:.1} of {} s, {begun}", self.title, self.time.as_secs_f64()),
        }
    }
}
