//! A child of a line's path: where it stands, and how it takes the name.

use crate::claim::Mode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlacedChild<'a> {
    pub(super) order: i64,
    pub(super) name: &'a str,
    pub(super) mode: Mode,
}

impl<'a> PlacedChild<'a> {
    /// What those in line are sorted by.
    pub(super) const fn rank(&self) -> (i64, &'a str) {
        (self.order, self.name)
    }
}

/// Those of a line that one of them has to know of: the first, whoever of each mode
/// stands nearest before it, and itself.
pub(super) fn around<'a>(line: &[PlacedChild<'a>], mine: &str) -> Vec<PlacedChild<'a>> {
    let Some(mine) = line.iter().find(|child| child.name == mine) else { return Vec::new() };
    let mut around = nearest(line.iter().filter(|child| child.order < mine.order));
    around.extend(line.iter().min_by_key(|child| child.rank()));
    around.push(*mine);
    around.sort_by_key(PlacedChild::rank);
    around.dedup();
    around
}

/// The last of each mode.
fn nearest<'a, 'b>(ahead: impl Iterator<Item = &'b PlacedChild<'a>>) -> Vec<PlacedChild<'a>>
where
    'a: 'b,
{
    let mut nearest: Vec<PlacedChild<'a>> = Vec::new();
    for child in ahead {
        match nearest.iter_mut().find(|near| near.mode == child.mode) {
            Some(near) if near.rank() < child.rank() => *near = *child,
            Some(_) => {}
            None => nearest.push(*child),
        }
    }
    nearest
}

/// Puts those behind the others whose numbers have begun again from below: a server
/// counts in 32 bits, and goes on after the largest with the smallest.
pub(super) fn unwrap(line: &mut [PlacedChild<'_>]) {
    const QUARTER: i64 = 1 << 30;
    let numbers = i64::from(i32::MIN)..=i64::from(i32::MAX);
    let late = |order: i64| numbers.contains(&order) && order > QUARTER;
    if line.iter().any(|child| late(child.order)) {
        let early = |order: i64| numbers.contains(&order) && order < -QUARTER;
        let wrapped = line.iter_mut().filter(|child| early(child.order));
        wrapped.for_each(|child| child.order += 4 * QUARTER);
    }
}
