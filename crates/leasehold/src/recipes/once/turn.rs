//! The turn: what the work knows of its run.

use std::sync::Arc;

use crate::clock::Moment;
use crate::error::Result;
use crate::fence::Sequencer;
use crate::guard::check;
use crate::hold::{Hold, Standing};

/// What the work knows of its run. Others may run the same work later, if this
/// one dies; the fence tells the runs apart.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::once::{Fingerprint, Turn};
///
/// let reports = leasehold::Locks::memory().once("reports");
/// let work = async |turn: Turn| {
///     if turn.took_over() {
///         println!("someone has begun this before: look what is there");
///     }
///     for part in 0..3 {
///         turn.check()?; // still ours?
///         println!("write part {part} with fence {}", turn.fence());
///     }
///     Ok::<_, leasehold::Error>("written")
/// };
/// assert!(!reports.run("2024-07", Fingerprint::none(), work).await?.replayed);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Turn {
    pub(super) hold: Arc<Hold>,
    pub(super) took_over: bool,
}

impl Turn {
    /// The fencing token of this run, larger than that of every run before. A
    /// resource that refuses smaller ones takes the work of one run only.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.hold.fence()
    }

    /// Name and fence as one text, for a server that checks it.
    #[must_use]
    pub fn sequencer(&self) -> Sequencer {
        Sequencer::new(self.hold.mode(), self.fence(), self.hold.name.as_str())
    }

    /// Whether someone has begun this before and was cut off: part of the work
    /// may be done. With [`OnCrash::Rerun`](super::OnCrash::Rerun) an engine may
    /// forget that after a while.
    #[must_use]
    pub const fn took_over(&self) -> bool {
        self.took_over
    }

    /// How the lease of this run stands now.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.hold.standing()
    }

    /// When the lease of this run stops being certainly ours, if nothing more
    /// is heard: what cannot be stopped at once begins to stop before.
    #[must_use]
    pub fn deadline(&self) -> Moment {
        self.hold.deadline()
    }

    /// Still ours? Costs no request.
    ///
    /// # Errors
    ///
    /// `Lost`: another may be at it. What is not done yet must not be done.
    pub fn check(&self) -> Result<()> {
        check(&self.hold)
    }
}
