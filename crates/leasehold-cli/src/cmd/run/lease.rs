//! What a command runs under, as far as those need to know who watch over it.

use std::time::Duration;

use leasehold::engine::BoxFuture;
use leasehold::{Clock, Moment, Result, Standing};

/// A lease, or several that are good only together: then the one that is worst
/// off speaks for all.
pub(crate) trait Lease {
    /// For messages.
    fn name(&self) -> String;

    fn standing(&self) -> Standing;

    /// When it stops being certainly ours.
    fn deadline(&self) -> Moment;

    /// When the first of those runs out that are not lost.
    fn others_end(&self) -> Moment;

    /// An error if it is lost, with the reason.
    fn check(&self) -> Result<()>;

    /// Resolves when it is lost.
    fn lost(&self) -> BoxFuture<Standing>;

    fn remaining(&self) -> Duration {
        self.deadline().since(Clock::System.now())
    }
}
