//! `show`: all that is known of one name.

use std::fmt::Write;

use leasehold::Locks;
use leasehold::engine::{Held, Last, Queued, Status};

use crate::args::Show;
use crate::failure::Failure;
use crate::output::{self, StatusJson};
use crate::text::{span, visible};

pub(crate) async fn show(locks: &Locks, args: &Show, json: bool) -> Result<(), Failure> {
    let status = locks.status(&args.name).await?;
    if json {
        return output::print_json(&StatusJson::from(&status));
    }
    output::print(&page(&status))
}

fn page(status: &Status) -> String {
    let mut page = format!("{} is {}\n", visible(status.name.as_str()), state(status));
    // Writing to a string cannot fail.
    let mut line = |key: &str, text: String| {
        let _ = writeln!(page, "{key:<9} {text}");
    };
    status.holders.iter().for_each(|held| line("holder", holder(held)));
    status.waiters.iter().zip(1..).for_each(|(queued, at)| line("waiting", waiter(at, queued)));
    status.last.iter().for_each(|ended| line("last", last(ended)));
    page
}

fn state(status: &Status) -> String {
    match status.closed_for {
        _ if !status.holders.is_empty() => "held".into(),
        Some(left) => format!("closed for another {}", span(left)),
        None if !status.waiters.is_empty() => "waited for".into(),
        None => "free".into(),
    }
}

/// One holder in a line.
pub(crate) fn holder(held: &Held) -> String {
    let (label, mode, fence) = (visible(&held.label), held.mode, held.fence);
    let (since, left) = (span(held.held_for), span(held.time_left));
    let meta = held.meta.as_deref().map(|meta| format!(", meta: {}", visible(meta)));
    let meta = meta.unwrap_or_default();
    format!("{label} ({mode}, fence {fence}), held for {since}, {left} left{meta}")
}

fn waiter(at: usize, queued: &Queued) -> String {
    let (label, mode, since) = (visible(&queued.label), queued.mode, span(queued.waiting_for));
    format!("{at}. {label} ({mode}), for {since}")
}

fn last(last: &Last) -> String {
    let (label, fence, ago) = (visible(&last.label), last.fence, span(last.ago));
    let remark = last.remark.as_deref().map(|remark| format!(" {}", visible(remark)));
    let (ended, remark) = (output::ending(last.ended), remark.unwrap_or_default());
    format!("{label} (fence {fence}), {ended} {ago} ago{remark}")
}
