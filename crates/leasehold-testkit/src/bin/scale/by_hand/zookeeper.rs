//! Curator's line: whoever joins makes a node, lists all and sorts them; whoever
//! is next lists and sorts them again.

use std::time::Instant;

use leasehold_testkit::Znodes;
use leasehold_testkit::contest::Checked;

use crate::inside::Inside;

const LINE: &str = "/by-hand";

pub(crate) fn line(cell: &Inside) -> Checked {
    let host = cell.hosts().first().ok_or("no server")?.parse()?;
    let mut znodes = Znodes::connect(host)?;
    if znodes.stat(LINE)?.is_none() {
        znodes.create(LINE, b"")?;
    }
    let start = Instant::now();
    for _ in 0..cell.size {
        znodes.queue(&format!("{LINE}/lock-"))?;
        znodes.children(LINE)?;
    }
    cell.say_each("join_us", start.elapsed().as_secs_f64() * 1e6);
    let start = Instant::now();
    for name in znodes.children(LINE)? {
        znodes.remove(&format!("{LINE}/{name}"))?;
        znodes.children(LINE)?;
    }
    cell.say_each("hand_us", start.elapsed().as_secs_f64() * 1e6);
    Ok(())
}
