//! Paths: what a server takes as one, and names as segments of them.

use std::sync::Arc;

use crate::name::{Name, Namespace};
use crate::url::decode;

/// Whether a server takes it as a path.
pub(super) fn is_path(text: &str) -> bool {
    let fine =
        |segment: &str| !["", ".", ".."].contains(&segment) && !segment.chars().any(is_refused);
    text.strip_prefix('/').is_some_and(|rest| rest.split('/').all(fine))
}

/// Whether servers refuse paths with it. They compare halves of wide characters.
fn is_refused(c: char) -> bool {
    c.is_control() || matches!(c, '\u{d7ff}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// A name as one segment of a path.
pub(super) fn escape(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '/' | '%' => percent(&mut out, c),
            c if is_refused(c) => percent(&mut out, c),
            c => out.push(c),
        }
    }
    dotless(&out)
}

/// Dots alone mean another node than this one.
pub(super) fn dotless(segment: &str) -> String {
    match segment {
        "." | ".." => segment.replace('.', "%2E"),
        other => other.to_owned(),
    }
}

fn percent(out: &mut String, c: char) {
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        out.push_str(&format!("%{byte:02X}"));
    }
}

/// The name that a segment stands for, if it is one of ours.
pub(super) fn unescape(namespace: &Namespace, segment: &str) -> Option<Name> {
    Name::new(namespace, text_of(segment)?).ok()
}

/// The text that a segment stands for, if it is as we write it.
pub(super) fn text_of(segment: &str) -> Option<Arc<str>> {
    let text = decode(segment).ok()?;
    (escape(&text) == segment).then(|| text.into())
}

/// What must be there for `path` to be made, the highest first.
pub(super) fn above(path: &str) -> Vec<String> {
    path.match_indices('/').skip(1).map(|(at, _)| path[..at].to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_above_comes_highest_first() {
        assert_eq!(above("/a/b/c"), ["/a", "/a/b"]);
        assert!(above("/a").is_empty());
    }

    proptest! {
        #[test]
        fn escaped_names_come_back(text in "\\PC{1,60}") {
            let escaped = escape(&text);
            prop_assert!(is_path(&format!("/{escaped}")), "{}", escaped);
            if let Ok(name) = Name::new(&Namespace::default(), text.as_str()) {
                prop_assert_eq!(unescape(&Namespace::default(), &escaped), Some(name));
            }
        }
    }
}
