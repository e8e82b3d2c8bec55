//! A table by name that can be walked in byte order.
//!
//! A name is put in order once in its life, when somebody walks: most names come
//! and go unseen, and to keep them in order would cost more than a lock does.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::ops::Bound;

use crate::name::{Name, NameMap};
use crate::shrink::{shrink, shrink_list};

/// How many names are looked at in one go: others want the mutex, too.
pub(super) const SOME: usize = 1000;
/// The place of a name that is in order.
const IN_ORDER: usize = usize::MAX;

#[derive(Debug)]
pub(super) struct SortedTable<T> {
    rows: NameMap<SortedRow<T>>,
    /// Those that are not in order yet. Each row knows its place here.
    fresh: Vec<Name>,
    order: BTreeSet<Name>,
}

#[derive(Debug)]
struct SortedRow<T> {
    place: usize,
    value: T,
}

impl<T> Default for SortedTable<T> {
    fn default() -> Self {
        Self { rows: NameMap::default(), fresh: Vec::new(), order: BTreeSet::new() }
    }
}

impl<T> SortedTable<T> {
    pub(super) fn get(&self, name: &Name) -> Option<&T> {
        self.rows.get(name).map(|row| &row.value)
    }

    pub(super) fn get_mut(&mut self, name: &Name) -> Option<&mut T> {
        self.rows.get_mut(name).map(|row| &mut row.value)
    }

    /// Puts a value there in place of whatever was.
    pub(super) fn put(&mut self, name: &Name, value: T) -> &mut T {
        match self.rows.entry(name.clone()) {
            Entry::Occupied(row) => {
                let row = row.into_mut();
                row.value = value;
                &mut row.value
            }
            Entry::Vacant(row) => {
                let place = self.fresh.len();
                self.fresh.push(name.clone());
                &mut row.insert(SortedRow { place, value }).value
            }
        }
    }

    pub(super) fn remove(&mut self, name: &Name) -> Option<T> {
        let SortedRow { place, value } = self.rows.remove(name)?;
        shrink(&mut self.rows);
        if place == IN_ORDER {
            self.order.remove(name);
        } else {
            self.fresh.swap_remove(place);
            self.came_to(place);
            shrink_list(&mut self.fresh);
        }
        Some(value)
    }

    /// Another one may be at this place now.
    fn came_to(&mut self, place: usize) {
        if let Some(row) = self.fresh.get(place).and_then(|name| self.rows.get_mut(name)) {
            row.place = place;
        }
    }

    /// Puts some names in order; whether all are.
    pub(super) fn sort_some(&mut self) -> bool {
        let rest = self.fresh.len().saturating_sub(SOME);
        for name in self.fresh.drain(rest..) {
            if let Some(row) = self.rows.get_mut(&name) {
                row.place = IN_ORDER;
            }
            self.order.insert(name);
        }
        shrink_list(&mut self.fresh);
        rest == 0
    }

    /// How many rows there are, and room for how many.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.rows.len(), self.rows.capacity() + self.fresh.capacity())
    }

    /// Those that are in order, from here on.
    pub(super) fn walk(&self, from: Bound<&Name>) -> impl Iterator<Item = (&Name, &T)> {
        let names = self.order.range((from, Bound::Unbounded));
        names.filter_map(|name| self.rows.get(name).map(|row| (name, &row.value)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::name::Namespace;

    fn name(number: u32) -> Name {
        Name::new(&Namespace::default(), format!("n{number:06}")).unwrap()
    }

    fn walked(table: &mut SortedTable<u32>) -> Vec<(Name, u32)> {
        while !table.sort_some() {}
        let all = table.walk(Bound::Unbounded);
        all.map(|(name, value)| (name.clone(), *value)).collect()
    }

    #[test]
    fn a_name_that_comes_and_goes_is_never_sorted_and_a_burst_leaves_no_room() {
        let mut table = SortedTable::default();
        for number in 0..50_000 {
            table.put(&name(number), number);
        }
        assert!(!table.sort_some(), "a part at a time");
        assert_eq!(table.order.len(), SOME);
        for number in 0..50_000 {
            assert_eq!(table.remove(&name(number)), Some(number));
        }
        assert!(table.order.is_empty() && table.fresh.is_empty());
        assert!(table.rows.capacity() + table.fresh.capacity() < 8 * SOME);
    }

    proptest! {
        #[test]
        fn it_is_a_map_in_order(moves in proptest::collection::vec((0..4_u8, 0..30_u32), 1..200)) {
            let (mut table, mut model) = (SortedTable::default(), BTreeMap::new());
            for (at, (what, number)) in (0_u32..).zip(moves) {
                let name = name(number);
                match what {
                    0 => prop_assert_eq!(table.remove(&name), model.remove(&name)),
                    1 => prop_assert!(table.sort_some()),
                    _ => {
                        table.put(&name, at);
                        model.insert(name.clone(), at);
                    }
                }
                prop_assert_eq!(table.get(&name), model.get(&name));
            }
            let wanted: Vec<_> = model.into_iter().collect();
            prop_assert_eq!(walked(&mut table), wanted);
        }
    }
}
