//! What the command says: lines for people, columns and JSON for programs.

use std::io::{self, IsTerminal, Write};

use leasehold::Mode;
use leasehold::claim::Predecessor;
use leasehold::engine::{Held, Last, Queued, Status};
use serde::Serialize;

use crate::failure::{Failure, OUTPUT};
use crate::text::{self, seconds, visible_json};

/// One line on standard error: `leasehold: ...`.
pub(crate) fn tell(message: &str) {
    // With standard error closed there is nobody left to tell.
    let _ = writeln!(io::stderr(), "leasehold: {}", text::message(message));
}

pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Writes to standard output. Readers may leave early: `| head` is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(OUTPUT, format!("cannot write the output: {cause}")))
        }
        _ => Ok(()),
    }
}

pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|cause| Failure::internal(format!("cannot write JSON: {cause}")))?;
    print(&(visible_json(&json) + "\n"))
}

/// One JSON object on a line of its own.
pub(crate) fn print_json_line(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(value)
        .map_err(|cause| Failure::internal(format!("cannot write JSON: {cause}")))?;
    print(&(visible_json(&json) + "\n"))
}

/// Whether somebody may still read standard output: not so once the reader of
/// a pipe has gone.
pub(crate) fn has_reader() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let stdout = io::stdout();
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    poll(&mut asked, Some(&now)).is_err() || !asked[0].revents().intersects(gone)
}

/// A name as `--json` shows it. Field names are a promise: add, never change.
#[derive(Serialize)]
pub(crate) struct StatusJson<'a> {
    name: &'a str,
    namespace: &'a str,
    free: bool,
    holders: Vec<HeldJson<'a>>,
    waiters: Vec<QueuedJson<'a>>,
    closed_seconds: Option<f64>,
    last: Option<LastJson<'a>>,
}

#[derive(Serialize)]
pub(crate) struct HeldJson<'a> {
    label: &'a str,
    #[serde(flatten)]
    mode: ModeJson,
    fence: Option<u64>,
    held_seconds: Option<f64>,
    left_seconds: Option<f64>,
    meta: Option<&'a str>,
}

#[derive(Serialize)]
struct QueuedJson<'a> {
    label: &'a str,
    #[serde(flatten)]
    mode: ModeJson,
    waiting_seconds: Option<f64>,
}

#[derive(Serialize)]
struct LastJson<'a> {
    label: &'a str,
    fence: u64,
    ended: &'static str,
    ago_seconds: f64,
    remark: Option<&'a str>,
}

#[derive(Serialize)]
pub(crate) struct ModeJson {
    mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    take: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<u32>,
}

impl<'a> From<&'a Status> for StatusJson<'a> {
    fn from(status: &'a Status) -> Self {
        Self {
            name: status.name.as_str(),
            namespace: status.name.namespace().as_str(),
            free: !status.is_busy(),
            holders: status.holders.iter().map(HeldJson::from).collect(),
            waiters: status.waiters.iter().map(QueuedJson::from).collect(),
            closed_seconds: status.closed_for.map(seconds),
            last: status.last.as_ref().map(LastJson::from),
        }
    }
}

impl<'a> From<&'a Held> for HeldJson<'a> {
    fn from(held: &'a Held) -> Self {
        Self {
            label: &held.label,
            mode: held.mode.into(),
            fence: held.fence,
            held_seconds: held.held_for.map(seconds),
            left_seconds: held.time_left.map(seconds),
            meta: held.meta.as_deref(),
        }
    }
}

impl<'a> From<&'a Queued> for QueuedJson<'a> {
    fn from(queued: &'a Queued) -> Self {
        let waiting_seconds = queued.waiting_for.map(seconds);
        Self { label: &queued.label, mode: queued.mode.into(), waiting_seconds }
    }
}

impl<'a> From<&'a Last> for LastJson<'a> {
    fn from(last: &'a Last) -> Self {
        Self {
            label: &last.label,
            fence: last.fence,
            ended: ending(last.ended),
            ago_seconds: seconds(last.ago),
            remark: last.remark.as_deref(),
        }
    }
}

impl From<Mode> for ModeJson {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Permits { take, of } => {
                Self { mode: "permits".into(), take: Some(take), of: Some(of) }
            }
            other => Self { mode: other.to_string(), take: None, of: None },
        }
    }
}

/// How a holder ended, in one word.
pub(crate) const fn ending(ended: Predecessor) -> &'static str {
    match ended {
        Predecessor::None => "none",
        Predecessor::Released => "released",
        Predecessor::Expired => "expired",
        Predecessor::Evicted => "evicted",
        _ => "unknown",
    }
}
