//! What a server says of itself.

/// Whether it can be locked on, and how we stand to it.
#[derive(Debug)]
pub(crate) struct ServerFacts {
    pub(crate) read_only: bool,
    /// Grows when a standby is promoted.
    pub(crate) rank: i64,
    /// Somebody stands between the server and us.
    pub(crate) through: bool,
}
