//! The rows of those who wait.

use super::columns::{int, key};
use super::line_change::LineChange;
use super::names::TableNames;
use super::rows_sql::RowsSql;
use super::text::{SqlText, step};
use crate::engine::state::SeatRow;
use crate::engines::database::dialect::Family;
use crate::engines::database::drivers::{SqlStep, Value};

/// How many ranges are looked at with one statement.
const RANGES: usize = 4;

/// Every statement about them that is not a part of another.
#[derive(Debug)]
pub(super) struct SeatSql {
    /// 1 namespace, 2 name, 3 from which place on, 4 how many: who lives.
    pub(super) more: SqlText,
    /// By leases: those that wait, and in which sessions.
    pub(super) of_leases: RowsSql,
    /// 1 namespace, 2 name; then [`RANGES`] times: from which place on, up to where,
    /// which may be the same. A row if nobody there lives.
    all_dead: SqlText,
    /// 1 namespace, 2 name, 3 from which place on, 4 up to where.
    passed: SqlText,
    /// 1 namespace, 2 name.
    emptied: SqlText,
    /// 1 namespace, 2 name, 3 place.
    left: SqlText,
    /// 1 namespace, 2 name, 3 place, 4 lease, 5 session, 6 seat.
    joined: SqlText,
}

impl SeatSql {
    pub(super) fn new(names: &TableNames) -> Self {
        let text = |template: &str| SqlText::new(names, template);
        Self {
            more: text(&format!(
                "SELECT w.place, w.lease, w.session, w.seat, s.expires, s.client FROM {} \
                 ON s.id = w.session AND s.expires > {{then}} \
                 WHERE w.namespace = $1 AND w.name = $2 AND w.place >= $3::bigint \
                 ORDER BY w.place LIMIT $4",
                names.family.seats_by_place()
            )),
            of_leases: RowsSql::new(names, "w.lease, w.session", "{seats}", &["lease"]),
            all_dead: text(&all_dead(names.family)),
            passed: text(
                "DELETE FROM {seats} WHERE namespace = $1 AND name = $2 \
                 AND place >= $3::bigint AND place < $4::bigint",
            ),
            // Without a place: behind the last row of a range MySQL locks another, that
            // of the next name, which may be anybody's.
            emptied: text("DELETE FROM {seats} WHERE namespace = $1 AND name = $2"),
            left: text("DELETE FROM {seats} WHERE namespace = $1 AND name = $2 AND place = $3"),
            joined: text(
                "INSERT INTO {seats} (namespace, name, place, lease, session, seat) \
                 VALUES ($1, $2, $3, $4, $5, $6)",
            ),
        }
    }

    /// What has to happen with the swap, where that does not do it. Seats go before
    /// others come: a lease may be among both. Whoever goes unread must not have come
    /// back to life since: an extension changes no name.
    pub(super) fn steps(&self, name: &[Value; 2], change: &LineChange) -> Vec<SqlStep> {
        let with = |more: Vec<Value>| [name.to_vec(), more].concat();
        let mut steps = Vec::new();
        let unread = |ranges: &[(i64, i64)]| step(&self.all_dead, with(places(ranges)), true);
        steps.extend(change.unread.chunks(RANGES).map(unread));
        if change.empties() {
            steps.push(step(&self.emptied, with(Vec::new()), false));
        } else if change.passes_any() {
            let range = with(vec![change.from.into(), change.to.into()]);
            steps.push(step(&self.passed, range, false));
        }
        let left = |place: &u64| step(&self.left, with(vec![int(*place).into()]), false);
        steps.extend(change.gone.iter().map(left));
        steps.extend(change.new.iter().map(|row| step(&self.joined, with(columns(row)), true)));
        steps
    }
}

fn columns(row: &SeatRow) -> Vec<Value> {
    let (place, session) = (int(row.place).into(), int(row.session).into());
    vec![place, key(row.lease).into(), session, row.text.as_str().into()]
}

/// The last range fills the places that are left.
fn places(ranges: &[(i64, i64)]) -> Vec<Value> {
    let filled = (0..RANGES).filter_map(|at| ranges.get(at).or(ranges.last()));
    filled.flat_map(|(from, to)| [(*from).into(), (*to).into()]).collect()
}

/// Goes with a swap that passes over seats which were not read.
fn all_dead(family: &dyn Family) -> String {
    let range = |at: usize| {
        let (from, to) = (3 + 2 * at, 4 + 2 * at);
        format!("(w.place >= ${from}::bigint AND w.place < ${to}::bigint)")
    };
    format!(
        "SELECT 1 FROM (SELECT 1 AS one) k WHERE NOT EXISTS (SELECT 1 FROM {} \
         ON s.id = w.session AND s.expires > {{then}} \
         WHERE w.namespace = $1 AND w.name = $2 AND ({}))",
        family.seats_by_place(),
        (0..RANGES).map(range).collect::<Vec<_>>().join(" OR ")
    )
}
