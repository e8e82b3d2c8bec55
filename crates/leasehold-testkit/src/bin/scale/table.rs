//! Tables in Markdown: a row for each engine, a column for each size, and how it
//! grows from one size to the next.

use std::fmt::Write;

use crate::cell::{Cell, Ending};
use crate::engines::ENGINES;
use crate::number::{exponent, short, thousands};
use crate::origin;
use crate::sheet::Sheet;
use crate::work::{Figure, WORKS, Work};

/// Below this a growth is that of chance.
const FLOOR: [(&str, f64); 5] =
    [("% of a core", 1.0), ("ms", 0.05), ("µs", 0.5), ("bytes", 50.0), ("s", 0.01)];

/// All there is to say.
pub(crate) fn all(sheet: &Sheet) -> String {
    let works = WORKS.into_iter().filter(|work| !sheet.sizes(*work).is_empty());
    let parts = works.map(|work| format!("\n## {}\n\n{}", heading(work), of_work(sheet, work)));
    format!("{}\n{}\n## Limits\n\n{}", servers(sheet), parts.collect::<String>(), limits(sheet))
}

fn heading(work: Work) -> String {
    format!("{}: {}", work.name(), work.title())
}

/// Every figure of a work, what it means, and where it comes from.
pub(crate) fn of_work(sheet: &Sheet, work: Work) -> String {
    let tables = work.figures().iter().map(|figure| of_figure(sheet, work, figure));
    let text = tables.filter(|table| !table.is_empty()).collect::<Vec<_>>().join("\n");
    if text.is_empty() {
        return failures(sheet, work);
    }
    let (note, origin) = (work.note(), origin::of_work(sheet, work));
    format!("{text}{}\n{note}\n\n{origin}", failures(sheet, work))
}

fn failures(sheet: &Sheet, work: Work) -> String {
    let mut text = String::new();
    for cell in sheet.cells.iter().filter(|cell| cell.work == work) {
        if let Ending::Failed(why) = &cell.ending {
            let (engine, size) = (&cell.engine, thousands(cell.size as u64));
            let _ = writeln!(text, "\n{engine} with {size} failed: {why}");
        }
    }
    text
}

/// One figure; nothing if no engine has it.
pub(crate) fn of_figure(sheet: &Sheet, work: Work, figure: &Figure) -> String {
    let rows: String = names(sheet).filter_map(|it| row(sheet, it, work, figure)).collect();
    if rows.is_empty() {
        return rows;
    }
    let sizes = sheet.sizes(work);
    let heads: Vec<String> = sizes.iter().map(|size| thousands(*size as u64)).collect();
    let unit = if figure.unit.is_empty() { "" } else { &format!(", {}", figure.unit) };
    let line = "---|".repeat(sizes.len());
    format!("| {}{unit} | {} | growth |\n|---|{line}---|\n{rows}", figure.title, heads.join(" | "))
}

/// The rows that were measured.
pub(crate) fn names(sheet: &Sheet) -> impl Iterator<Item = &'static str> {
    let measured = |name: &&str| sheet.cells.iter().any(|cell| cell.engine == *name);
    ENGINES.iter().map(|row| row.name).filter(measured)
}

fn row(sheet: &Sheet, engine: &str, work: Work, figure: &Figure) -> Option<String> {
    let line = sheet.line(engine, work, figure.key);
    line.first()?;
    let shown = |size| sheet.cell(engine, work, size).map_or(String::new(), |it| show(it, figure));
    let cells: Vec<String> = sheet.sizes(work).into_iter().map(shown).collect();
    Some(format!("| {engine} | {} | {} |\n", cells.join(" | "), growth(&line, figure)))
}

fn show(cell: &Cell, figure: &Figure) -> String {
    match (cell.figures.get(figure.key), &cell.ending) {
        (Some(value), _) => short(*value),
        (None, Ending::Cut) => format!(">{} s", cell.limit),
        (None, Ending::Failed(_)) => "fails".to_owned(),
        (None, Ending::Untried) => "–".to_owned(),
        (None, Ending::Done) => String::new(),
    }
}

/// The exponents, from each size to the next.
fn growth(line: &[(f64, f64)], figure: &Figure) -> String {
    let floor = FLOOR.iter().find(|(unit, _)| *unit == figure.unit).map_or(0.0, |(_, it)| *it);
    let step = |pair: &[(f64, f64)]| {
        let said = pair[1].1 > floor && pair[0].1 > 0.0;
        let from = (pair[0].0, pair[0].1.max(floor));
        if said { format!("{:.1}", exponent(from, pair[1])) } else { "·".to_owned() }
    };
    line.windows(2).map(step).collect::<Vec<_>>().join(" / ").replace("-0.0", "0.0")
}

/// How far each engine was taken.
pub(crate) fn limits(sheet: &Sheet) -> String {
    let heads = WORKS.map(Work::name).join(" | ");
    let mut text = format!("| engine | {heads} |\n|---|{}\n", "---|".repeat(WORKS.len()));
    for engine in names(sheet) {
        let reached = WORKS.map(|work| reach(sheet, engine, work)).join(" | ");
        let _ = writeln!(text, "| {engine} | {reached} |");
    }
    text
}

/// The largest size that came to its end, and what stopped the next one.
fn reach(sheet: &Sheet, engine: &str, work: Work) -> String {
    let largest = sheet.largest(engine, work);
    let cells = sheet.cells.iter().filter(|cell| cell.engine == engine && cell.work == work);
    let stopped = cells.filter(|cell| Some(cell.size) > largest).min_by_key(|cell| cell.size);
    let reached = largest.map_or("0".to_owned(), |size| thousands(size as u64));
    match stopped.map(|cell| (&cell.ending, cell)) {
        Some((Ending::Cut, cell)) => {
            format!("{reached} ({}: >{} s)", thousands(cell.size as u64), cell.limit)
        }
        Some((_, cell)) => format!("{reached} ({}: fails)", thousands(cell.size as u64)),
        None if largest.is_some() => format!("≥ {reached}"),
        None => String::new(),
    }
}

/// What is behind each row.
pub(crate) fn servers(sheet: &Sheet) -> String {
    let place = "Client and servers are on one machine, loopback. Beneath each table stands \
                 when, where and of which commit it was measured.";
    format!("{place}\n\n{}", origin::servers(sheet))
}
