//! What is told as it happens, until somebody has heard enough.

use std::time::{Duration, SystemTime};

use tokio::time::sleep;

use crate::failure::Failure;
use crate::output;
use crate::signals::{self, Signals};

/// How often to look whether somebody still reads.
const GLANCE: Duration = Duration::from_millis(500);

/// Tells until a signal ends it, its reader has gone, or there is no more to tell.
pub(crate) async fn follow(tell: impl Future<Output = Result<(), Failure>>) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        biased;
        signal = signals.end_asked() => Ok(signals::end_code(signal)),
        done = tell => done.map(|()| 0),
        () = reader_gone() => Ok(0),
    }
}

async fn reader_gone() {
    while output::has_reader() {
        sleep(GLANCE).await;
    }
}

/// The time of a line, for programs.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// A line for people: when, what, and to whom it happened.
pub(crate) fn line(event: &str, rest: &str) -> String {
    format!("{} {}\n", now(), format!("{event:<8}  {rest}").trim_end())
}
