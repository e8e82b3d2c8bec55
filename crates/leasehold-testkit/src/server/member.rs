//! A place in an ensemble.

/// Which of them a server is, and the ports of all: every member has to know
/// the others before it starts.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) at: usize,
    pub(super) ports: Vec<Vec<u16>>,
}
