//! Processor time of this process and of the servers, over a while.

use std::time::{Duration, Instant};

use leasehold_testkit::contest::Checked;
use leasehold_testkit::worked;

use crate::inside::Inside;
use crate::procfs;

/// From when it was started.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    cell: &'a Inside,
    at: Instant,
    client: Duration,
    server: Duration,
}

impl<'a> Meter<'a> {
    pub(crate) fn start(cell: &'a Inside) -> Checked<Self> {
        let server = procfs::worked(&procfs::families(&cell.servers)?)?;
        Ok(Self { cell, at: Instant::now(), client: worked::by_process(), server })
    }

    /// Both in percent of a core.
    pub(crate) fn say(&self, client: &str, server: &str) -> Checked {
        let span = self.at.elapsed().as_secs_f64();
        let percent = |worked: Duration| 100.0 * worked.as_secs_f64() / span;
        self.cell.say(client, percent(worked::by_process().saturating_sub(self.client)));
        if self.cell.has_servers() {
            let now = procfs::worked(&procfs::families(&self.cell.servers)?)?;
            self.cell.say(server, percent(now.saturating_sub(self.server)));
        }
        Ok(())
    }
}
