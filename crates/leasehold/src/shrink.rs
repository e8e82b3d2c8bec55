//! Tables that give room back: a burst of a million entries must not keep its
//! memory for as long as the process lives.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// Below this a table keeps its room.
const SMALL: usize = 1024;

/// Gives back most of the room of a table that has become four times too large.
/// Called after each removal it costs a comparison, and the rest is shared by the
/// removals that led there.
#[inline]
pub(crate) fn shrink<K: Eq + Hash, V, S: BuildHasher>(table: &mut HashMap<K, V, S>) {
    if table.capacity() > SMALL && table.len() < table.capacity() / 4 {
        table.shrink_to(2 * table.len());
    }
}

/// The same for a list.
#[inline]
pub(crate) fn shrink_list<T>(list: &mut Vec<T>) {
    if list.capacity() > SMALL && list.len() < list.capacity() / 4 {
        list.shrink_to(2 * list.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_was_large_once_is_small_again() {
        let mut table: HashMap<u32, u32> = (0..100_000).map(|n| (n, n)).collect();
        for n in 0..100_000 {
            table.remove(&n);
            shrink(&mut table);
        }
        assert!(table.capacity() <= 2 * SMALL, "{}", table.capacity());
        let mut list: Vec<u32> = (0..100_000).collect();
        while list.pop().is_some() {
            shrink_list(&mut list);
        }
        assert!(list.capacity() <= 2 * SMALL, "{}", list.capacity());
    }
}
