//! What locks of sessions ask of a family.
//!
//! The server makes the key from `namespace:name`, so that anybody at a prompt
//! can take the same lock (docs/guide/database-locks.md).

/// How a family locks.
pub(crate) trait AdvisoryFamily {
    /// Fences come from `sequence`, a quoted name, or else from the server's clock.
    fn advisory(&self, sequence: Option<&str>) -> AdvisorySql;

    /// The sequence that fences can come from, where there are some.
    fn fence_sequence(&self) -> Option<FenceSequence>;
}

/// Everything that is said to the server.
#[derive(Debug)]
pub(crate) struct AdvisorySql {
    /// A number that says who we are.
    pub(crate) session: &'static str,
    /// Prepares a session that will wait.
    pub(crate) prepare: Option<&'static str>,
    /// A fence if it was free, else 0 or nothing.
    pub(crate) take: String,
    /// Waits until it is ours: 1 or nothing; 0 if the time is up.
    pub(crate) block: String,
    /// Whether `block` takes the seconds that it may last as its second value.
    pub(crate) has_limit: bool,
    /// Whether no is a 0, so that nothing at all is neither yes nor no.
    pub(crate) says_no: bool,
    /// A fence, for a lock that is ours.
    pub(crate) fence: String,
    /// 1 if it was ours.
    pub(crate) release: String,
    /// Sessions that hold it (1) or wait for it (0), and what they are called.
    pub(crate) look: String,
    /// Whether a connection answers.
    pub(crate) check: &'static str,
    /// Says for how long a session may rest, or its client be silent.
    pub(crate) spare: IdleLimit,
    /// Ends a session of another.
    pub(crate) end: fn(i64) -> String,
}

/// How long a server waits for a client of which it hears nothing.
#[derive(Debug)]
pub(crate) struct IdleLimit {
    /// Has it wait for so many seconds.
    pub(crate) text: fn(u64) -> String,
    /// The most seconds that it takes.
    pub(crate) longest: u64,
}

/// What is said about a sequence.
#[derive(Debug)]
pub(crate) struct FenceSequence {
    /// 1 quoted name, 2 schema or nothing. 2: it can be used; 1: it can be created;
    /// 0: neither.
    pub(crate) look: &'static str,
    /// Makes it, unless it is there: its quoted name, and where it begins.
    pub(crate) make: fn(&str, u64) -> String,
}
