//! `ls`: the names that are held or waited for.

use std::time::Duration;

use comfy_table::{Cell, CellAlignment, Table, presets};
use leasehold::Locks;
use leasehold::engine::{Held, Page, Status};

use crate::args::Ls;
use crate::failure::Failure;
use crate::output::{self, StatusJson};
use crate::text;

const COLUMNS: [&str; 7] = ["NAME", "MODE", "HOLDER", "FENCE", "HELD", "LEFT", "WAITING"];

pub(crate) async fn ls(locks: &Locks, args: &Ls, json: bool) -> Result<(), Failure> {
    let names = collect(locks, args).await?;
    if json {
        return output::print_json(&names.iter().map(StatusJson::from).collect::<Vec<_>>());
    }
    let rows = names.iter().flat_map(rows);
    if output::is_terminal() { output::print(&table(rows)) } else { output::print(&lines(rows)) }
}

/// All pages, without the free names unless they are wanted.
async fn collect(locks: &Locks, args: &Ls) -> Result<Vec<Status>, Failure> {
    let (mut names, mut page) = (Vec::new(), Page::default());
    loop {
        let found = locks.list(args.prefix.as_str(), page).await?;
        let last = found.names.last().map(|status| status.name.clone());
        names.extend(found.names.into_iter().filter(|status| args.all || status.is_busy()));
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

fn table<'a>(rows: impl Iterator<Item = Row<'a>>) -> String {
    let mut rows = rows.map(|row| row.cells(text::visible, text::span)).peekable();
    if rows.peek().is_none() {
        return "nothing is held or waited for\n".into();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(COLUMNS);
    table.add_rows(rows.map(|cells| cells.map(Cell::new)));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for numeric in [3, 6] {
        if let Some(column) = table.column_mut(numeric) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}

fn lines<'a>(rows: impl Iterator<Item = Row<'a>>) -> String {
    let seconds = |span| format!("{:.3}", text::seconds(span));
    rows.map(|row| row.cells(text::one_line, seconds).join("\t") + "\n").collect()
}
