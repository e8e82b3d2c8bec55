//! The lease of a command that runs once.

use leasehold::engine::BoxFuture;
use leasehold::once::Turn;
use leasehold::{Moment, Result, Standing};

use crate::cmd::run::Lease;

/// The turn of a run, as a lease to be watched over.
pub(crate) struct Shift(pub(crate) Turn);

impl Lease for Shift {
    fn name(&self) -> String {
        self.0.sequencer().name.to_string()
    }

    fn standing(&self) -> Standing {
        self.0.standing()
    }

    fn deadline(&self) -> Moment {
        self.0.deadline()
    }

    fn others_end(&self) -> Moment {
        Moment::NEVER
    }

    fn check(&self) -> Result<()> {
        self.0.check()
    }

    /// Never: the library drops the work in that moment.
    fn lost(&self) -> BoxFuture<Standing> {
        Box::pin(std::future::pending())
    }
}
