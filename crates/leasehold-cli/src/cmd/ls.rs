//! `ls`: the names that are held or waited for.

use std::time::Duration;

use leasehold::Locks;
use leasehold::engine::{Held, Page, Status};

use crate::args::Ls;
use crate::failure::Failure;
use crate::output::{self, StatusJson};
use crate::{table, text};

const COLUMNS: [&str; 7] = ["NAME", "MODE", "HOLDER", "FENCE", "HELD", "LEFT", "WAITING"];

pub(crate) async fn ls(locks: &Locks, args: &Ls, prefix: &str, json: bool) -> Result<(), Failure> {
    let mut names = collect(locks, prefix).await?;
    names.retain(|status| args.all || status.is_busy());
    if json {
        return output::print_json(&names.iter().map(StatusJson::from).collect::<Vec<_>>());
    }
    output::print(&if output::is_terminal() { table(&names) } else { lines(&names) })
}

/// All pages, free names included.
pub(crate) async fn collect(locks: &Locks, prefix: &str) -> Result<Vec<Status>, Failure> {
    let (mut names, mut page) = (Vec::new(), Page::default());
    loop {
        let found = locks.list(prefix, page).await?;
        let last = found.names.last().map(|status| status.name.clone());
        names.extend(found.names);
        match last {
            Some(last) if found.more => page = Page::after(last),
            _ => return Ok(names),
        }
    }
}

struct Row<'a> {
    name: &'a Status,
    held: Option<&'a Held>,
}

/// One row per holder; a name that nobody holds has one too.
fn rows(name: &Status) -> Vec<Row<'_>> {
    if name.holders.is_empty() {
        return vec![Row { name, held: None }];
    }
    name.holders.iter().map(|held| Row { name, held: Some(held) }).collect()
}

impl Row<'_> {
    fn cells(&self, show: impl Fn(&str) -> String, span: impl Fn(Duration) -> String) -> Cells {
        let name = show(self.name.name.as_str());
        let waiting = self.name.waiters.len().to_string();
        let Some(held) = self.held else {
            let dash = || or_dash(None);
            return [name, self.mode(), dash(), dash(), dash(), dash(), waiting];
        };
        let [since, left] = [held.held_for, held.time_left].map(|time| or_dash(time.map(&span)));
        let (label, fence) = (show(&held.label), or_dash(held.fence.map(|n| n.to_string())));
        [name, self.mode(), label, fence, since, left, waiting]
    }

    fn mode(&self) -> String {
        let held = self.held.map(|held| held.mode);
        let mode = held.or_else(|| self.name.waiters.first().map(|waiter| waiter.mode));
        match mode {
            Some(mode) => mode.to_string(),
            None if self.name.closed_for.is_some() => "closed".into(),
            None => "free".into(),
        }
    }
}

/// What the engine cannot tell.
fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

type Cells = [String; COLUMNS.len()];

/// For people.
pub(crate) fn table(names: &[Status]) -> String {
    let rows = names.iter().flat_map(rows);
    let mut rows = rows.map(|row| row.cells(text::visible, text::span)).peekable();
    if rows.peek().is_none() {
        return "nothing is held or waited for\n".into();
    }
    table::table(COLUMNS, rows, &[3, 6])
}

/// For programs.
fn lines(names: &[Status]) -> String {
    let seconds = |span| format!("{:.3}", text::seconds(span));
    let rows = names.iter().flat_map(rows);
    rows.map(|row| row.cells(text::one_line, seconds).join("\t") + "\n").collect()
}
