//! No circles: of two files, at most one needs the other to be understood.

use std::collections::{BTreeMap, BTreeSet};

use crate::arrows::{Arrows, arrows};
use crate::source::library;

/// All that can be reached from a file.
fn reached(arrows: &Arrows, from: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut next = vec![from.to_owned()];
    while let Some(file) = next.pop() {
        for to in arrows.get(&file).into_iter().flatten() {
            if seen.insert(to.clone()) {
                next.push(to.clone());
            }
        }
    }
    seen
}

/// The files that need each other, one list a circle.
fn circles(arrows: &Arrows) -> BTreeSet<Vec<String>> {
    let reached: BTreeMap<_, _> = arrows.keys().map(|file| (file, reached(arrows, file))).collect();
    let of = |file: &String| -> Vec<String> {
        let back = |to: &&String| reached.get(*to).is_some_and(|it| it.contains(file));
        reached[file].iter().filter(back).cloned().collect()
    };
    reached.keys().map(|file| of(file)).filter(|circle| !circle.is_empty()).collect()
}

#[test]
fn no_files_need_each_other() {
    let circles = circles(&arrows(&library()));
    assert!(circles.is_empty(), "these need a noun of their own between them: {circles:#?}");
}

#[test]
fn a_circle_is_found() {
    let file = |name: &str, code: &str| (name.to_owned(), code.to_owned());
    let files = BTreeMap::from([
        file("a", "use crate::b::{B, c::C};"),
        file("b", "fn b() { crate::a::d() }"),
        file("b::c", "use super::super::e::E;"),
        file("e", ""),
    ]);
    let found = circles(&arrows(&files));
    assert_eq!(found, BTreeSet::from([vec!["a".to_owned(), "b".to_owned()]]));
}
