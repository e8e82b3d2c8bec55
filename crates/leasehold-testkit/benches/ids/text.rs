//! Hiding and writing ids.

use std::hint::black_box;

use leasehold::ids::{Alphabet, Veil};

use super::measure::{Maker, nanos, table};

const COUNT: u32 = 1_000_000;

pub(crate) fn report() {
    let veil = Veil::new(1, *b"sixteen bytes ok").expect("a version");
    let texts: Vec<_> = (0..1024).map(|id| veil.hide(id, Alphabet::Crockford)).collect();
    let texts62: Vec<_> = (0..1024).map(|id| veil.hide(id, Alphabet::Base62)).collect();
    let all = |work: &dyn Fn(u64), count: u32| (0..u64::from(count)).for_each(work);
    let makers: [Maker<'_>; 6] = [
        ("u64::to_string", Box::new(|n| all(&|id| drop(black_box(id.to_string())), n))),
        (
            "permutation",
            Box::new(|n| {
                all(
                    &|id| {
                        black_box(veil.permute(id));
                    },
                    n,
                )
            }),
        ),
        (
            "permutation and base 32",
            Box::new(|n| {
                all(
                    &|id| {
                        black_box(veil.hide(id, Alphabet::Crockford));
                    },
                    n,
                );
            }),
        ),
        (
            "permutation and base 62",
            Box::new(|n| {
                all(
                    &|id| {
                        black_box(veil.hide(id, Alphabet::Base62));
                    },
                    n,
                );
            }),
        ),
        (
            "back from base 32",
            Box::new(|n| {
                all(
                    &|id| {
                        let _ =
                            black_box(veil.reveal(&texts[id as usize % 1024], Alphabet::Crockford));
                    },
                    n,
                )
            }),
        ),
        (
            "back from base 62",
            Box::new(|n| {
                all(
                    &|id| {
                        let _ =
                            black_box(veil.reveal(&texts62[id as usize % 1024], Alphabet::Base62));
                    },
                    n,
                )
            }),
        ),
    ];
    let found = nanos(1, COUNT, &makers);
    let rows: Vec<_> = makers.iter().map(|(name, _)| *name).zip(found).collect();
    table("ns of work each", &rows);
}
