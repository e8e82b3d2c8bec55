//! A membership, as a lease to be watched over.

use leasehold::engine::{BoxFuture, Loss};
use leasehold::{Membership, MembershipState, Moment, Result, Standing};

use crate::cmd::run::Lease;

/// A membership while a command runs. It has no deadline: who was away joins again
/// by itself, and is in nobody's way meanwhile.
pub(super) struct Stay {
    pub(super) member: String,
    pub(super) membership: Membership,
}

impl Lease for Stay {
    fn name(&self) -> String {
        self.member.clone()
    }

    fn standing(&self) -> Standing {
        match self.membership.state() {
            MembershipState::Here => Standing::Held,
            MembershipState::Ended(_) => Standing::Lost(Loss::Gone),
            _ => Standing::Jeopardy,
        }
    }

    fn deadline(&self) -> Moment {
        Moment::NEVER
    }

    fn others_end(&self) -> Moment {
        Moment::NEVER
    }

    fn check(&self) -> Result<()> {
        match self.membership.state() {
            MembershipState::Ended(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Never: who watches looks at the standing twice a second.
    fn lost(&self) -> BoxFuture<Standing> {
        Box::pin(std::future::pending())
    }
}
