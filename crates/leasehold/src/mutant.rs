//! Faults from life, put back one at a time: the simulator has to find each.
//!
//! Outside of the simulator (`--cfg leasehold_sim`) none lives, and the compiler
//! leaves nothing of the question.

macro_rules! mutants {
    ($($(#[$doc:meta])* $mutant:ident,)*) => {
        /// A fault that the library once had.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
