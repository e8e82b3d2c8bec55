//! Which keys this process has seen done: for those a plain look comes first,
//! which is cheaper than a claim. A wrong guess costs a request, no more.

use std::hash::BuildHasher;
#[cfg(not(leasehold_sim))]
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::name::Name;
#[cfg(leasehold_sim)]
use crate::sim::RandomState;

/// A key has the choice of so many places, so that two keys hardly ever push each
/// other out for ever.
const WAYS: usize = 8;
const ROWS: usize = 512;

/// The places that a processor loads together.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket([AtomicU64; WAYS]);

/// Remembers some 4,000 keys.
#[derive(Debug)]
pub(crate) struct SeenKeys {
    rows: Box<[Bucket]>,
    hasher: RandomState,
}

impl Default for SeenKeys {
    fn default() -> Self {
        Self {
            rows: (0..ROWS).map(|_| Bucket::default()).collect(),
            hasher: RandomState::default(),
        }
    }
}

impl SeenKeys {
    pub(crate) fn note(&self, name: &Name) {
        let (row, mark) = self.row(name);
        if !row.has(mark) {
            row.take(mark);
        }
    }

    pub(crate) fn has(&self, name: &Name) -> bool {
        let (row, mark) = self.row(name);
        row.has(mark)
    }

    /// Where a key is remembered, and as what: never 0, which is a free place.
    fn row(&self, name: &Name) -> (&Bucket, u64) {
        let mark = self.hasher.hash_one(name) | 1;
        let at = usize::try_from(mark >> 32).unwrap_or(0) % ROWS;
        (&self.rows[at], mark)
    }
}

impl Bucket {
    fn has(&self, mark: u64) -> bool {
        self.0.iter().any(|place| place.load(Ordering::Relaxed) == mark)
    }

    /// A free place, or that of any other.
    fn take(&self, mark: u64) {
        let free = self.0.iter().find(|place| place.load(Ordering::Relaxed) == 0);
        let place = free.unwrap_or_else(|| &self.0[fastrand::usize(..WAYS)]);
        place.store(mark, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Namespace;

    #[test]
    fn a_thousand_keys_do_not_push_each_other_out() {
        let seen = SeenKeys::default();
        let name = |n: u32| Name::new(&Namespace::default(), format!("order/{n}")).unwrap();
        assert!(!seen.has(&name(0)));
        (0..1000).for_each(|n| seen.note(&name(n)));
        let kept = (0..1000).filter(|n| seen.has(&name(*n))).count();
        // With one place for each key it would be nine of ten.
        assert!(kept >= 990, "{kept}");
        // However many there are, the last one is remembered.
        (1000..100_000).for_each(|n| seen.note(&name(n)));
        assert!(seen.has(&name(99_999)));
    }
}
