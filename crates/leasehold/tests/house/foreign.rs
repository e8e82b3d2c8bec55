//! Types of others in what users see: each one binds our users to a version of
//! somebody else's library, so there are few, and each has a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::source::{library, root, used, word};

/// What may be seen, and why.
const ALLOWED: &[(&str, &str)] = &[
    ("serde::Serialize", "a record is any type that serde can write"),
    ("serde::de::DeserializeOwned", "and read"),
    ("tokio_postgres::Client", "`transact` begins and commits on the user's own connection"),
    ("tokio_postgres::Transaction", "statements for the user's own transaction"),
    ("mysql_async::Transaction", "the same for MySQL and MariaDB"),
];

/// The libraries that ours is made of, as code names them.
fn dependencies() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("crates/leasehold/Cargo.toml")).expect("text");
    let part = manifest.split("\n[dependencies]\n").nth(1).expect("dependencies");
    let lines = part.split("\n\n").next().expect("lines").lines();
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    names.map(|name| name.replace('-', "_")).collect()
}

/// What a file calls the types of others, and what they are.
fn foreign(code: &str, dependencies: &[String]) -> BTreeMap<String, String> {
    let paths =
        used(code).into_iter().filter(|path| dependencies.iter().any(|it| begins(path, it)));
    paths.map(|path| (path.rsplit("::").next().unwrap_or_default().to_owned(), path)).collect()
}

fn begins(path: &str, dependency: &str) -> bool {
    path.strip_prefix(dependency).is_some_and(|rest| rest.starts_with("::"))
}

/// The signatures that users see. A lint sees to it that what is `pub` can be
/// reached by them; and a trait of ours for a type of others is seen as well.
fn signatures(code: &str) -> Vec<&str> {
    let lines = code.match_indices('\n').map(|(at, _)| code[at..].trim_start());
    let seen = |line: &&str| line.starts_with("pub ") || line.starts_with("impl");
    lines.filter(seen).filter(|it| !it.starts_with("pub use")).map(head).collect()
}

/// What comes before a body; of a struct, before its fields, which are private or
/// begin with a `pub` of their own.
fn head(line: &str) -> &str {
    let is_field = line.split_whitespace().nth(1).is_some_and(|word| word.ends_with(':'));
    let ends: &[char] = match line {
        _ if is_field => &['\n'],
        _ if line.starts_with("pub struct") => &['{', ';', '('],
        _ => &['{', ';'],
    };
    &line[..line.find(ends).unwrap_or(line.len())]
}

/// The types of others in a signature.
fn named(
    signature: &str,
    foreign: &BTreeMap<String, String>,
    dependencies: &[String],
) -> Vec<String> {
    let end = |c: char| !c.is_alphanumeric() && c != '_' && c != ':';
    let is_path = |path: &&str| dependencies.iter().any(|it| begins(path, it));
    let paths = signature.split(end);
    let written = paths.clone().filter(is_path).map(str::to_owned);
    let known = paths.filter_map(|path| foreign.get(word(path)).cloned());
    written.chain(known).collect()
}

/// Everything of others that users see, and the file that shows it.
fn shown() -> BTreeSet<(String, String)> {
    let dependencies = dependencies();
    let mut shown = BTreeSet::new();
    // What only a simulation sees is not for users.
    for (file, code) in library().into_iter().filter(|(file, _)| file != "sim") {
        let foreign = foreign(&code, &dependencies);
        for signature in signatures(&code).into_iter().filter(|it| !is_private(it)) {
            let named = named(signature, &foreign, &dependencies);
            shown.extend(named.into_iter().map(|path| (path, file.clone())));
        }
    }
    shown
}

/// An `impl` is seen if its trait is ours and public: those are few.
fn is_private(signature: &str) -> bool {
    let public = ["Transaction for", "Engine for", "Clock for"];
    signature.starts_with("impl") && !public.iter().any(|it| signature.contains(it))
}

#[test]
fn types_of_others_that_users_see_are_on_the_list() {
    let shown = shown();
    let allowed = |path: &String| ALLOWED.iter().any(|(known, _)| known == path);
    let wrong: Vec<_> = shown.iter().filter(|(path, _)| !allowed(path)).collect();
    assert!(wrong.is_empty(), "take these out of the public API, or say why: {wrong:#?}");
    for (known, _) in ALLOWED {
        assert!(shown.iter().any(|(path, _)| path == known), "{known} is not shown any more");
    }
}

#[test]
fn a_type_of_others_is_found() {
    let code = "use tokio::sync::Notify;\npub(crate) fn a(it: Notify) {}\npub fn b(it: &Notify) {}\n\
                pub struct C(Notify);\n\
                pub at: tokio::time::Instant,\nimpl Drop for Notify {}";
    let dependencies = ["tokio".to_owned()];
    let foreign = foreign(code, &dependencies);
    let signatures = signatures(code).into_iter().filter(|it| !is_private(it));
    let found: Vec<_> = signatures.flat_map(|it| named(it, &foreign, &dependencies)).collect();
    assert_eq!(found, ["tokio::sync::Notify", "tokio::time::Instant"]);
}
