//! The files of the library as a reader of code sees them: without comments, texts
//! and tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every Rust file below a folder.
pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let below = folders.iter().flat_map(|folder| sources(folder));
    files
        .into_iter()
        .chain(below)
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .collect()
}

/// The code of the library by module, as in `engines::redis::link`.
pub(crate) fn library() -> BTreeMap<String, String> {
    let src = root().join("crates/leasehold/src");
    let files = sources(&src).into_iter().filter(|file| !is_test(file));
    files.map(|file| (module(&file, &src), code_of(&file))).collect()
}

/// Tests beside the code, and the servers that they start.
fn is_test(file: &Path) -> bool {
    let parts = file.components().map(|part| part.as_os_str().to_string_lossy());
    parts.rev().take(3).any(|part| ["tests", "tests.rs"].contains(&part.as_ref()))
}

fn module(file: &Path, src: &Path) -> String {
    let path = file.strip_prefix(src).expect("below the folder").with_extension("");
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    let path = parts.join("::");
    path.strip_suffix("::mod").map_or(path.clone(), str::to_owned)
}

fn code_of(file: &Path) -> String {
    let text = plain(&fs::read_to_string(file).expect("text"));
    // Tests stand at the end of a file.
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..end].to_owned()
}

/// Code in which every comment and every text is empty.
fn plain(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let skipped = skipped(rest, code.chars().last());
        let (kept, taken) = if skipped > 0 { (' ', skipped) } else { (next, next.len_utf8()) };
        code.push(kept);
        rest = &rest[taken..];
    }
    code
}

/// How long the comment or text is that begins here; nothing if none does.
fn skipped(rest: &str, before: Option<char>) -> usize {
    let until = |end: &str, from: usize| {
        rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len())
    };
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return until("*/", 2);
    }
    if rest.starts_with('"') {
        return quoted(rest);
    }
    let is_word = before.is_some_and(|it| it.is_alphanumeric() || it == '_');
    if rest.starts_with('r') && !is_word {
        let hashes = rest[1..].bytes().take_while(|it| *it == b'#').count();
        if rest[1 + hashes..].starts_with('"') {
            return until(&format!("\"{}", "#".repeat(hashes)), 2 + hashes);
        }
    }
    character(rest)
}

/// How long a text in double quotes is.
fn quoted(rest: &str) -> usize {
    let mut escaped = false;
    for (at, next) in rest.char_indices().skip(1) {
        match next {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    rest.len()
}

/// How long a character in single quotes is; nothing for a lifetime.
fn character(rest: &str) -> usize {
    let Some(inside) = rest.strip_prefix('\'') else { return 0 };
    if inside.starts_with('\\') {
        return 3 + inside[2..].find('\'').map_or(0, |at| at + 1);
    }
    let first = inside.chars().next().map_or(0, char::len_utf8);
    if first > 0 && inside[first..].starts_with('\'') { first + 2 } else { 0 }
}

/// The word that a text begins with.
pub(crate) fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The paths of a `use`: `a::{b, c::{d, e}}` is `a::b`, `a::c::d` and `a::c::e`.
pub(crate) fn spread(tree: &str) -> Vec<String> {
    let Some((before, inside)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.split_whitespace().collect()];
    };
    let inside = inside.rsplit_once('}').map_or(inside, |(inside, _)| inside);
    let mut depth = 0;
    let parts = inside.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    parts.flat_map(|part| spread(&format!("{before}{part}"))).collect()
}

/// The paths that a file brings in by `use`. What it only shows to others (`pub use`)
/// is not among them: a front door knows its rooms.
pub(crate) fn used(code: &str) -> Vec<String> {
    let lines = code.match_indices("use ").filter(|(at, _)| {
        let before = code[..*at].rsplit('\n').next().unwrap_or_default();
        before.trim().is_empty()
    });
    let trees = lines.filter_map(|(at, start)| code[at + start.len()..].split_once(';'));
    trees.flat_map(|(tree, _)| spread(tree)).collect()
}

#[test]
fn comments_and_texts_are_left_out() {
    let code = plain("a // \"b\n'c' \"d\\\"e\" r#\"f\"g\"# /* h\n */ 'i: j b'\\'' k");
    let words: Vec<_> = code.split_whitespace().collect();
    assert_eq!(words, ["a", "'i:", "j", "b", "k"]);
}

#[test]
fn a_tree_of_uses_is_spread() {
    assert_eq!(spread("a::{b, c::{d as e,\n f}, }"), ["a::b", "a::c::d", "a::c::f"]);
    assert_eq!(spread("a::b"), ["a::b"]);
}
