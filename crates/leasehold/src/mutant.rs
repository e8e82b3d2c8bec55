//! Faults that are put in one at a time: something has to find each, or it is blind.
//!
//! Those *from life* the library once had. The simulator looks for them where its
//! schedules go. Those *of rules* it never had: each is what a rule might have been by
//! mistake, and the tests beside the rule find it.
//!
//! Outside of the simulator (`--cfg leasehold_sim`) and of the library's own tests none
//! lives, and the compiler leaves nothing of the question.

macro_rules! mutants {
    (
        from life: { $($(#[$past:meta])* $lived:ident,)* }
        of rules: { $($(#[$rule:meta])* $made:ident,)* }
    ) => {
        /// A fault that can be put in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(
            not(leasehold_sim),
            allow(dead_code, reason = "each feature asks for its own faults only")
        )]
        pub enum Mutant { $($(#[$past])* $lived,)* $($(#[$rule])* $made,)* }

        #[cfg(leasehold_sim)]
        impl Mutant {
            /// Every fault from life.
            pub const FROM_LIFE: &'static [Self] = &[$(Self::$lived,)*];
        }
    };
}

mutants! {
    from life: {
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
        /// Old news of a loss end what was asked for since.
        OldNewsEndLater,
        /// Sqlite: a hand-over is told when it is decided, saved or not.
        ToldBeforeSaved,
        /// A database's sweep takes the places of a session that was extended meanwhile.
        SweepsTheLiving,
    }
    of rules: {
        /// Rows: the front that was read is taken for the whole line.
        EndsAtTheWindow,
        /// Rows: the front is read, and not whoever is asked about.
        ForgetsWhoAsks,
        /// Rows: whoever was read is served, and nobody after them.
        StopsAtTheWindow,
        /// Rows: whoever leaves is served first.
        ServesOnTheWayOut,
        /// Rows: those of who has gone stay.
        KeepsRows,
        /// Rows: the name is saved, and not who has come.
        SavesNoRows,
        /// Databases: a name is written whatever its version is.
        VersionGuardsNothing,
        /// Databases: of all tickets for a name the last is looked for, not the first.
        LooksForTheLast,
        /// Databases: who joins with what was read before the last look is not looked for.
        JoinsUnseen,
        /// etcd: whoever comes writes that those before it have gone.
        ArrivalsWriteTheFront,
        /// etcd: whoever leaves early writes what is written on leaving from the front.
        EarlyLeaversWriteTheFront,
        /// etcd: whoever leaves from the front writes no front.
        NobodyWritesTheFront,
        /// etcd: that there is no front means that one's turn has come.
        NoFrontIsMyTurn,
        /// etcd: that nobody knows who was before means that nobody was.
        NoHistoryIsMyTurn,
        /// etcd: whoever comes leaves the tail as it is.
        TailStays,
        /// etcd: those of another kind leave the tail to those who go by it.
        TailLeadsPastOthers,
        /// etcd: whoever leaves early gives the tail back, the last of the line or not.
        TailGivenBackByAll,
        /// Elections: a leader is told although its successor was.
        OlderLeaderIsNews,
        /// Double barriers: a round is forgotten with the next one, whoever is inside.
        EarlierRoundsForgotten,
        /// Double barriers: whoever is inside waits for the next round.
        InsideIsWaiting,
    }
}

/// Whether this fault lives on this thread.
#[cfg(not(any(leasehold_sim, test)))]
pub(crate) const fn lives(_: Mutant) -> bool {
    false
}

#[cfg(test)]
#[allow(
    unused_imports,
    reason = "the interleavings have this file too, and look for no fault"
)]
pub(crate) use revived::each_is_found;
#[cfg(any(leasehold_sim, test))]
pub(crate) use revived::lives;
#[cfg(leasehold_sim)]
pub use revived::revive;

#[cfg(any(leasehold_sim, test))]
mod revived {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static ALIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
        /// Whether anything was otherwise because of it.
        static BITTEN: Cell<bool> = const { Cell::new(false) };
    }

    pub(crate) fn lives(mutant: Mutant) -> bool {
        let lives = ALIVE.get() == Some(mutant);
        BITTEN.set(BITTEN.get() || lives);
        lives
    }

    /// Puts this fault in on this thread, and no other.
    #[cfg_attr(not(leasehold_sim), allow(unreachable_pub, reason = "the simulator's"))]
    pub fn revive(mutant: Option<Mutant>) {
        ALIVE.set(mutant);
    }

    /// Fails unless a test fails with each of these faults.
    #[cfg(test)]
    pub(crate) fn each_is_found(mutants: &[Mutant], test: impl Fn() + Sync) {
        let missed = mutants.iter().copied().filter(|mutant| !is_found(*mutant, &test));
        let missed: Vec<_> = missed.collect();
        assert!(missed.is_empty(), "not found: {missed:?}");
    }

    /// Looks on a thread of its own, with which the fault ends.
    #[cfg(test)]
    fn is_found(mutant: Mutant, test: &(impl Fn() + Sync)) -> bool {
        let look = || {
            revive(Some(mutant));
            let test = std::panic::AssertUnwindSafe(test);
            (std::panic::catch_unwind(test).is_err(), BITTEN.get())
        };
        let looked = std::thread::scope(|scope| scope.spawn(look).join());
        let (found, bitten) = looked.expect("a panic was caught");
        assert!(bitten, "{mutant:?} did not bite");
        found
    }
}
