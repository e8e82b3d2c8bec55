//! What one cell is told before it is measured.

use serde::{Deserialize, Serialize};

use crate::work::Work;

/// The word before an order on the command line of a process that measures.
pub(crate) const WORD: &str = "--cell";

/// What such a process says when it wants the servers killed and started again, and
/// what it is told then.
pub(crate) const RESTART: &str = "restart now";
pub(crate) const DOWN: &str = "down";
pub(crate) const UP: &str = "up";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) engine: String,
    pub(crate) work: Work,
    pub(crate) size: usize,
    pub(crate) url: String,
    /// The first process of each server.
    pub(crate) servers: Vec<u32>,
    pub(crate) quick: bool,
    /// Whether this round is not the first: the long looks were taken.
    pub(crate) again: bool,
    /// When to give up, should nobody be left to end it.
    pub(crate) seconds: u64,
}
