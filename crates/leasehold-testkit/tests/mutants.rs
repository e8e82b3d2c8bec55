//! The suite can fail: it finds out every engine that is wrong on purpose.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold::{Engine, Locks};
use leasehold_testkit::conformance::{LIMIT, Store, check};
use leasehold_testkit::mutants::Mutant;

/// How long a check may be stuck on a mutant before it counts as failed: far
/// above the second that it takes on a good engine.
const STUCK: Duration = Duration::from_secs(10);

/// The checks that must find it out, each by itself.
const fn killers(mutant: Mutant) -> &'static [&'static str] {
    match mutant {
        Mutant::ReleaseWithoutCompare => &[
            "verbs::a_release_by_a_stranger_touches_nobody",
            "verbs::a_release_after_the_expiry_touches_no_successor",
        ],
        Mutant::RenewResurrects => &[
            "verbs::a_renewal_of_an_unknown_ticket_is_gone",
            "verbs::a_renewal_brings_nothing_back_after_a_release",
            "verbs::a_renewal_brings_nothing_back_after_an_expiry",
        ],
        Mutant::RenewWithoutCompare => &["verbs::a_renewal_touches_no_successor"],
        Mutant::DeadlineFromReply => &["expiry::the_engine_keeps_what_its_holder_claims"],
        Mutant::CancelWithoutRelease => &[
            "verbs::a_release_gives_up_a_place_in_the_queue",
            "waiting::a_waiter_that_leaves_does_not_block_those_behind",
            "cancel::lock_within_of_a_busy_name",
        ],
        Mutant::VolatileFence => &["fences::fences_grow_across_an_expiry"],
        Mutant::LostWakeUp => {
            &["waiting::a_waiter_is_woken_by_the_release", "verbs::a_turn_comes_with_a_wake_up"]
        }
        Mutant::TryQueues => &[
            "verbs::a_try_leaves_nothing_behind",
            "waiting::a_try_answers_none_and_leaves_nothing",
        ],
        Mutant::SilentEviction => &["loss::an_evicted_holder_of_another_client_hears_it"],
        Mutant::ForgetsItsClaims => &["verbs::a_repeated_claim_is_granted_with_the_same_fence"],
        Mutant::NeverExpires => &["verbs::a_release_after_the_expiry_touches_no_successor"],
        Mutant::GetThenDel => &["verbs::a_release_under_way_touches_no_successor"],
        Mutant::ThreadAsValue => &[
            "exclusion::a_held_name_is_busy_for_everyone",
            "exclusion::tasks_of_one_client_never_overlap",
        ],
        Mutant::ForeignClock => &[
            "expiry::the_engine_keeps_what_its_holder_claims",
            "expiry::nobody_gets_in_while_the_holder_claims_it",
        ],
        Mutant::PermitsWithoutWeight => {
            &["modes::permits_add_up", "semaphore::every_permit_counts"]
        }
        Mutant::ReaderWaitsForLaterWriters => {
            &["rwlock::a_reader_before_a_writer_is_served_before_it"]
        }
        Mutant::FenceHandedOn => &[
            "waiting::a_waiter_is_woken_by_the_release",
            "waiting::waiters_are_served_in_order_of_arrival",
        ],
        Mutant::HerdWake => &["waiting::a_release_wakes_one_waiter_not_the_herd"],
        Mutant::RenewsOnce => &["renewal::a_lease_outlives_many_ttls"],
        Mutant::ReentryKeepsShortTtl => &["owners::the_longest_ttl_counts"],
        Mutant::ConvertLetsGo => &["modes::a_conversion_lets_no_writer_in"],
        Mutant::RenewalShortens => &["verbs::a_renewal_by_less_takes_nothing_away"],
        Mutant::ConvertsOnce => &[
            "modes::a_repeated_conversion_is_answered_as_the_first",
            "replies::a_conversion_whose_reply_is_lost_is_settled",
        ],
        Mutant::OldTurns => {
            &["verbs::a_turn_of_an_earlier_place_is_not_taken_for_one_of_the_present"]
        }
        Mutant::DeletesAfterwards => &[
            "records::whoever_is_served_next_does_not_see_what_the_release_deletes",
            "records::a_release_that_is_repeated_deletes_nothing_of_the_next_holder",
            "records::a_release_of_a_lost_lease_deletes_nothing",
        ],
    }
}

fn good() -> Arc<dyn Engine> {
    Locks::memory().engine()
}

fn run(name: &str, engine: Arc<dyn Engine>, limit: Duration) -> Result<(), String> {
    let store = Store::over(engine).map_err(|why| why.to_string())?;
    check(name).run(store, limit)
}

/// The same checks pass on the good engine; once for all mutants.
fn passes_when_good() -> &'static Result<(), String> {
    static PASSES: OnceLock<Result<(), String>> = OnceLock::new();
    PASSES.get_or_init(|| {
        let names = Mutant::ALL.iter().flat_map(|mutant| killers(*mutant));
        names.copied().try_for_each(|name| {
            run(name, good(), LIMIT).map_err(|why| format!("{name} fails without a mutant: {why}"))
        })
    })
}

#[expect(clippy::print_stdout, reason = "shown with --nocapture: who killed whom")]
fn is_killed(mutant: Mutant) {
    assert_eq!(passes_when_good(), &Ok(()));
    assert!(!killers(mutant).is_empty());
    for name in killers(mutant) {
        let Err(why) = run(name, mutant.of(good()), STUCK) else {
            panic!("{mutant:?} survives {name}");
        };
        println!("{mutant:?} is killed by {name}: {why}");
    }
}

macro_rules! mutants {
    ($($sentence:ident: $mutant:ident,)+) => {
        $(#[test]
        fn $sentence() {
            is_killed(Mutant::$mutant);
        })+

        #[test]
        fn every_mutant_has_a_test() {
            assert_eq!([$(Mutant::$mutant),+], Mutant::ALL);
        }
    };
}

mutants! {
    a_release_without_compare_is_found_out: ReleaseWithoutCompare,
    a_renewal_that_resurrects_is_found_out: RenewResurrects,
    a_renewal_without_compare_is_found_out: RenewWithoutCompare,
    a_deadline_from_the_reply_is_found_out: DeadlineFromReply,
    a_cancel_without_release_is_found_out: CancelWithoutRelease,
    a_fence_that_goes_back_is_found_out: VolatileFence,
    a_lost_wake_up_is_found_out: LostWakeUp,
    a_try_that_queues_is_found_out: TryQueues,
    a_silent_eviction_is_found_out: SilentEviction,
    a_claim_that_is_not_idempotent_is_found_out: ForgetsItsClaims,
    a_lease_that_never_expires_is_found_out: NeverExpires,
    a_compare_before_the_delete_is_found_out: GetThenDel,
    a_thread_as_the_value_is_found_out: ThreadAsValue,
    an_expiry_by_another_clock_is_found_out: ForeignClock,
    permits_without_weight_are_found_out: PermitsWithoutWeight,
    a_reader_that_waits_for_later_writers_is_found_out: ReaderWaitsForLaterWriters,
    a_fence_that_is_handed_on_is_found_out: FenceHandedOn,
    a_woken_herd_is_found_out: HerdWake,
    a_watchdog_that_stops_is_found_out: RenewsOnce,
    a_re_entry_with_a_short_ttl_is_found_out: ReentryKeepsShortTtl,
    a_conversion_that_lets_go_is_found_out: ConvertLetsGo,
    a_renewal_that_shortens_is_found_out: RenewalShortens,
    a_conversion_that_cannot_be_repeated_is_found_out: ConvertsOnce,
    a_turn_that_is_told_twice_is_found_out: OldTurns,
    a_deletion_after_the_release_is_found_out: DeletesAfterwards,
}
