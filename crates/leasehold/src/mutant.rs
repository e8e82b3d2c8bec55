//! Faults from life, put back one at a time: the simulator has to find each.
//!
//! Outside of the simulator (`--cfg leasehold_sim`) none lives, and the compiler
//! leaves nothing of the question.

macro_rules! mutants {
    ($($(#[$doc:meta])* $mutant:ident,)*) => {
        /// A fault that the library once had.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(
            not(leasehold_sim),
            allow(dead_code, reason = "each feature asks for its own faults only")
        )]
        pub enum Mutant { $($(#[$doc])* $mutant,)* }

        #[cfg(leasehold_sim)]
        impl Mutant {
            /// Every fault that can be put back.
            pub const ALL: &'static [Self] = &[$(Self::$mutant,)*];
        }
    };
}

mutants! {
    /// A pushed grant is believed although the ticket has a later place.
    StaleHandOver,
    /// A deadline grows with a confirmation and never shrinks (C3, S2).
    DeadlineNeverShrinks,
    /// A renewal or an extension passes every limit of a claim (C4).
    ExtendPassesLimits,
    /// What is given up for drift is taken of the ttl that was asked for (C5).
    DriftOfAskedTtl,
    /// A conversion whose outcome is unknown leaves a guard that says `write` (C6).
    ConversionForgotten,
    /// The retry of a release that was applied says that the lease was lost (C10).
    RetriedReleaseIsLost,
    /// Work that was cut off in the middle is told as work that was not run (C11).
    CutOffIsRefused,
    /// An extension that was refused moves the end of a fixed lease (C12).
    ExtendMovesFirst,
    /// C1: the clean-up of a failed round removes the grant of the next one,
    /// because the rounds of a ticket have one id on the nodes.
    StaleCleanUp,
    /// C7: verbs of a call in which one failed are sent again.
    VerbsSentTwice,
    /// C9: a span goes to the server however long it is.
    EndlessSpans,
    /// A request that one node has refused is told as refused by all.
    RefusedByOne,
    /// The mark that work has begun is taken for its outcome.
    MarkIsOutcome,
    /// C14: a channel is noted as heard before its server has confirmed it.
    DeafChannels,
    /// C15: renewals are answered when the slowest server of a cluster has.
    SlowestServer,
    /// T19 of C18: what lies beside a borrowed lock has a key that a name can have.
    KeysBeside,
    /// T23 of C18: each namespace has a channel of its own.
    ChannelPerNamespace,
}

/// Whether this fault is put back on this thread.
#[cfg(not(leasehold_sim))]
pub(crate) const fn lives(_: Mutant) -> bool {
    false
}

#[cfg(leasehold_sim)]
pub(crate) use revived::lives;
#[cfg(leasehold_sim)]
pub use revived::revive;

#[cfg(leasehold_sim)]
mod revived {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static ALIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    pub(crate) fn lives(mutant: Mutant) -> bool {
        ALIVE.get() == Some(mutant)
    }

    /// Puts this fault back on this thread, and no other.
    pub fn revive(mutant: Option<Mutant>) {
        ALIVE.set(mutant);
    }
}
