//! The version of the layout, which every value that a quorum keeps on its nodes
//! begins with: releases that do not know each other's must not share a name.
//!
//! The lock of a node is no matter of it. Whoever sets the key of a mutex, or has
//! the lease of an engine, has it in every layout; and counters are numbers.

use crate::error::{Error, ErrorKind, Result};

/// The layout of this release. Layout 1 said none, see [`EARLIEST`]; the scripts of
/// Redis nodes know both.
pub(super) const VERSION: &str = "2";
/// What was written before layouts had a mark.
pub(super) const EARLIEST: &str = "1";
/// What a value of ours begins with: a word that no client of another library has
/// for a token, and that an earlier release does not take for a value of its own.
const MARK: &str = "leasehold:";

/// A text as this layout stores it.
pub(super) fn marked(text: &str) -> String {
    format!("{MARK}{VERSION}:{text}")
}

/// A text that was stored like that; `None` if it has no mark. That of another
/// layout is refused.
pub(super) fn unmarked(stored: &str) -> Result<Option<&str>> {
    let Some(rest) = stored.strip_prefix(MARK) else { return Ok(None) };
    match rest.split_once(':') {
        Some((VERSION, text)) => Ok(Some(text)),
        other => Err(other_layout(other.map_or("?", |(version, _)| version))),
    }
}

/// Nobody is granted what is kept in another layout: its holder cannot be read.
pub(super) fn other_layout(found: &str) -> Error {
    let message = format!(
        "what a node keeps of this name has layout {found:?}, this release knows layout {VERSION}: \
         it is of another release of Leasehold; run the same release everywhere (what others \
         hold ends with its ttl once they have stopped), or use another namespace"
    );
    Error::new(ErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_marked_is_read_as_it_was_written() {
        for text in ["", "17 exclusive 3:abc", "1:2:3", "é\n:"] {
            assert_eq!(unmarked(&marked(text)).unwrap(), Some(text));
        }
        for strange in ["", "leasehold", "5f1c:17:3:", "a random token"] {
            assert_eq!(unmarked(strange).unwrap(), None, "{strange}");
        }
    }

    #[test]
    fn another_version_is_refused_with_what_to_do() {
        for (stored, version) in
            [("leasehold:3:x", "3"), ("leasehold:22:", "22"), ("leasehold:", "?")]
        {
            let error = unmarked(stored).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{stored}");
            let text = error.to_string();
            assert!(text.contains(&format!("layout {version:?}, ")), "{text}");
            assert!(text.contains("run the same release everywhere"), "{text}");
        }
    }

    #[test]
    fn the_scripts_of_redis_nodes_write_the_same_mark() {
        let common = include_str!("redis_node/common.lua");
        assert!(common.contains(&format!("local MARK = '{MARK}'")));
        assert!(common.contains(&format!("local VERSION, EARLIEST = '{VERSION}', '{EARLIEST}'")));
    }
}
