//! Many names and records are listed.

use std::time::{Duration, Instant};

use leasehold::Locks;
use leasehold::engine::Page;
use leasehold_testkit::contest::Checked;

use super::{Figure, QUICK, Table, drawn, held};
use crate::crowd;
use crate::inside::Inside;

pub(super) const TABLE: Table = Table {
    name: "list",
    title: "names and records listed by pages of 100",
    figures: FIGURES,
    note: NOTE,
    sizes: &[1_000, 10_000, 100_000],
    quick: QUICK,
    looks: || Duration::ZERO,
};

const FIGURES: &[Figure] = &[
    drawn("names_us", "to list a held name, by pages of 100", "µs"),
    drawn("records_us", "to list a record, by pages of 100", "µs"),
];

const NOTE: &str = "\
One client goes through all of them, a page after the other, while nobody else is there; the \
figure is the whole time by their number.";

pub(super) async fn run(cell: &Inside) -> Checked {
    let locks = cell.client().await?;
    let guards = held::take(cell, &locks, Duration::from_secs(30)).await?;
    let start = Instant::now();
    let seen = names(&locks, &held::prefix(cell)).await?;
    check(seen, cell.size, "names")?;
    cell.say_each("names_us", start.elapsed().as_secs_f64() * 1e6);
    crowd::each(guards, crowd::MANY, |guard| async move { Ok(guard.release().await?) }).await?;
    if locks.engine().records().is_some() { records(cell, &locks).await } else { Ok(()) }
}

async fn names(locks: &Locks, prefix: &str) -> Checked<usize> {
    let (mut seen, mut page) = (0, Page::default());
    loop {
        let found = locks.list(prefix, page).await?;
        seen += found.names.iter().filter(|status| status.is_busy()).count();
        match found.names.into_iter().next_back() {
            Some(last) if found.more => page = Page::after(last.name),
            _ => return Ok(seen),
        }
    }
}

async fn records(cell: &Inside, locks: &Locks) -> Checked {
    let path = &format!("rows-{}", cell.size);
    crowd::each(0..cell.size, crowd::MANY, |n| {
        let record = locks.record::<usize>(format!("{path}/{n:07}"));
        async move { Ok(record.set(&n).await?) }
    })
    .await?;
    let start = Instant::now();
    let seen = locks.records::<usize>(path).list(1).await?.len();
    check(seen, cell.size, "records")?;
    cell.say_each("records_us", start.elapsed().as_secs_f64() * 1e6);
    Ok(())
}

fn check(seen: usize, size: usize, what: &str) -> Checked {
    let short = format!("{seen} of {size} {what} were listed");
    if seen < size { Err(short.into()) } else { Ok(()) }
}
