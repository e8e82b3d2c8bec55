//! One word for a thing: names of types are not used again for something else.

use std::collections::BTreeMap;

use crate::source::{library, word};

/// How many of a hundred types may share their name with another one.
const SHARED: usize = 5;
/// How often a name may stand for something.
const TWICE: usize = 2;

/// The types that the library makes, by name, with the files that make them.
fn types() -> BTreeMap<String, Vec<String>> {
    let mut types = BTreeMap::<_, Vec<_>>::new();
    for (file, code) in library() {
        for name in made(&code) {
            types.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    types
}

fn made(code: &str) -> Vec<&str> {
    let words: Vec<_> = code.split_whitespace().collect();
    let kinds = ["struct", "enum", "trait"];
    let pairs = words.windows(2).filter(|pair| kinds.contains(&pair[0]));
    pairs.map(|pair| word(pair[1])).filter(|name| !name.is_empty()).collect()
}

#[test]
fn no_type_name_stands_for_three_things() {
    let types = types();
    let many: BTreeMap<_, _> = types.iter().filter(|(_, files)| files.len() > TWICE).collect();
    assert!(many.is_empty(), "each of these names wants another word: {many:#?}");
}

#[test]
#[expect(clippy::print_stdout, reason = "the size of the house, for whoever asks")]
fn few_types_share_their_name() {
    let types = types();
    let all: usize = types.values().map(Vec::len).sum();
    let shared: Vec<_> = types.iter().filter(|(_, files)| files.len() > 1).collect();
    let sharing: usize = shared.iter().map(|(_, files)| files.len()).sum();
    println!("{sharing} of {all} types share their name with another one");
    assert!(all > 300, "the types were not understood");
    assert!(100 * sharing < SHARED * all, "{sharing} of {all} share a name: {shared:#?}");
}

#[test]
fn types_are_found() {
    assert_eq!(made("pub(crate) struct A<T>(T);\nenum B{} trait C: D {}"), ["A", "B", "C"]);
}
