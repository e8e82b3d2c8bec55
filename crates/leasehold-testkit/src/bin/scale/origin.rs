//! Where cells come from: what is said of it beneath the tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::cell::Cell;
use crate::number::thousands;
use crate::sheet::Sheet;
use crate::table;
use crate::work::Work;

/// When, where and of which tree a table was measured. Cells are told apart where
/// they differ.
pub(crate) fn of_work(sheet: &Sheet, work: Work) -> String {
    let facts = grouped(sheet, |cell| cell.work == work, |cell| &cell.facts);
    if let [(facts, _)] = &facts[..] {
        return format!("Measured {facts}.\n");
    }
    let line = |(facts, cells): &(_, Vec<_>)| format!("- {}: measured {facts}\n", rows(cells));
    facts.iter().map(line).collect()
}

/// What is behind each row.
pub(crate) fn servers(sheet: &Sheet) -> String {
    let mut text = String::new();
    for engine in table::names(sheet) {
        let servers = grouped(sheet, |cell| cell.engine == engine, |cell| &cell.server);
        let alone = servers.len() == 1;
        for (server, cells) in &servers {
            let which = if alone { String::new() } else { format!(" ({})", works(cells)) };
            let _ = writeln!(text, "- {engine}{which}: {server}");
        }
    }
    text
}

/// These cells, by what they have in common.
fn grouped<'a, K: Ord>(
    sheet: &'a Sheet,
    wanted: impl Fn(&Cell) -> bool,
    key: impl Fn(&'a Cell) -> &'a K,
) -> Vec<(&'a K, Vec<&'a Cell>)> {
    let mut groups: BTreeMap<&K, Vec<&Cell>> = BTreeMap::new();
    for cell in sheet.cells.iter().filter(|cell| wanted(cell)) {
        groups.entry(key(cell)).or_default().push(cell);
    }
    groups.into_iter().collect()
}

/// `redis 100, 1,000; etcd 100`.
fn rows(cells: &[&Cell]) -> String {
    by(cells, |cell| cell.engine.clone())
}

/// `waiters 100, 1,000; held 1,000`.
fn works(cells: &[&Cell]) -> String {
    by(cells, |cell| cell.work.name().to_owned())
}

fn by(cells: &[&Cell], name: fn(&Cell) -> String) -> String {
    let mut sizes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    cells.iter().for_each(|cell| sizes.entry(name(cell)).or_default().push(cell.size));
    let one = |(name, mut sizes): (String, Vec<usize>)| {
        sizes.sort_unstable();
        let sizes: Vec<String> = sizes.into_iter().map(|size| thousands(size as u64)).collect();
        format!("{name} {}", sizes.join(", "))
    };
    sizes.into_iter().map(one).collect::<Vec<_>>().join("; ")
}
