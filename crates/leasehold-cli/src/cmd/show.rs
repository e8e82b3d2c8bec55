//! `show`: all that is known of one name.

use std::fmt::Write;

use leasehold::Locks;
use leasehold::engine::{Held, Last, Queued, Status};

use crate::failure::Failure;
use crate::output::{self, StatusJson};
use crate::text::{span, visible};

pub(crate) async fn show(locks: &Locks, name: &str, json: bool) -> Result<(), Failure> {
    let status = locks.status(name).await?;
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
    let fence = held.fence.map(|fence| format!(", fence {fence}")).unwrap_or_default();
    let facts = [
        held.held_for.map(|since| format!(", held for {}", span(since))),
        held.time_left.map(|left| format!(", {} left", span(left))),
        held.meta.as_deref().map(|meta| format!(", meta: {}", visible(meta))),
    ];
    let facts: String = facts.into_iter().flatten().collect();
    format!("{} ({}{fence}){facts}", visible(&held.label), held.mode)
}

fn waiter(at: usize, queued: &Queued) -> String {
    let since = queued.waiting_for.map(|since| format!(", for {}", span(since)));
    format!("{at}. {} ({}){}", visible(&queued.label), queued.mode, since.unwrap_or_default())
}

fn last(last: &Last) -> String {
    let (label, fence, ago) = (visible(&last.label), last.fence, span(last.ago));
    let remark = last.remark.as_deref().map(|remark| format!(" {}", visible(remark)));
    let (ended, remark) = (output::ending(last.ended), remark.unwrap_or_default());
    format!("{label} (fence {fence}), {ended} {ago} ago{remark}")
}
