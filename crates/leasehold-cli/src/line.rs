//! A line of the terminal that can be rewritten, and is gone in the end.

use std::io::{IsTerminal, Write, stderr};

use crate::text::cut;

/// The usable width of the terminal behind a file.
pub(crate) fn columns(of: impl std::os::fd::AsFd) -> usize {
    match rustix::termios::tcgetwinsize(of).map(|size| size.ws_col) {
        Ok(columns @ 2..) => usize::from(columns) - 1,
        _ => 79,
    }
}

/// A line on standard error.
pub(crate) struct Line;

impl Line {
    /// The line, if there is a terminal to show it.
    pub(crate) fn on_terminal() -> Option<Self> {
        // Not `then_some`: a line that is made is also wiped away.
        stderr().is_terminal().then(|| Self)
    }

    pub(crate) fn put(&self, text: &str) {
        // A terminal that has gone needs no progress.
        let _ = write!(stderr(), "\r\x1b[K{}", cut(text, columns(stderr())));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = write!(stderr(), "\r\x1b[K");
    }
}
