//! Where a refusal sends a request.

use super::line::ServerLine;

/// What to do after a refusal, which had no effect.
pub(super) enum Redirect {
    /// Nothing: it is the answer.
    Over,
    /// Ask again, by the new map.
    Again,
    /// Ask there, this once.
    Aside(ServerLine),
    /// Ask again after a pause.
    Later,
}
