//! Whoever may drop a future is told what happens then.

use std::fs;

use crate::source::{root, sources};

/// What a doc comment says about it, in either of these words.
const WORDS: &[&str] = &["# Cancel safety", "future is dropped", "future can be dropped"];

/// Every item of a file that is more than a comment, with the comment before it.
fn items(text: &str) -> Vec<(String, &str)> {
    let mut items = Vec::new();
    let mut comment = String::new();
    for line in text.lines().map(str::trim) {
        match line.strip_prefix("///") {
            Some(words) => comment += words,
            None if line.starts_with("#[") => {}
            None => items.push((std::mem::take(&mut comment), line)),
        }
    }
    items
}

/// The name of a public function whose future a user may drop.
fn asynchronous(line: &str) -> Option<&str> {
    let name = |start| line.strip_prefix(start);
    let named = name("pub async fn ")
        .or_else(|| name("pub fn ").filter(|rest| rest.contains("-> impl Future")))?;
    named.split(['(', '<']).next()
}

/// The types of a file that can be awaited.
fn awaited(text: &str) -> Vec<&str> {
    let after = text.split("impl IntoFuture for ").skip(1);
    after.filter_map(|rest| rest.split([' ', '<']).next()).collect()
}

/// What can be awaited in a file, with what is said about it.
fn futures(text: &str) -> Vec<(String, &str)> {
    let types = awaited(text);
    let is_type = |line: &str| {
        let named = line.strip_prefix("pub struct ")?;
        types.iter().copied().find(|name| named.split([' ', '<', '(']).next() == Some(name))
    };
    let found = items(text).into_iter().filter_map(|(comment, line)| {
        Some((comment, asynchronous(line).or_else(|| is_type(line))?))
    });
    found.collect()
}

#[test]
fn whoever_may_drop_a_future_is_told_what_happens_then() {
    let src = root().join("crates/leasehold/src");
    let (mut told, mut untold) = (0, Vec::new());
    for file in sources(&src) {
        let text = fs::read_to_string(&file).expect("text");
        let place = file.strip_prefix(&src).expect("below src").display().to_string();
        for (comment, name) in futures(&text) {
            match WORDS.iter().any(|words| comment.contains(words)) {
                true => told += 1,
                false => untold.push(format!("{place}: {name}")),
            }
        }
    }
    assert!(untold.is_empty(), "what happens if these are dropped? {untold:#?}");
    assert!(told > 50, "the sources were not understood: only {told} were found");
}
