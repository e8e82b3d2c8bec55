//! What a hold makes of answers that are late, less than before, or missing.

use super::*;
use crate::clock::TestClock;
use crate::mutant::{Mutant, each_is_found};
use crate::name::Namespace;

const SECOND: Duration = Duration::from_secs(1);
const NO: Duration = Duration::ZERO;

/// A ticket that was asked for, with the clock it runs on.
fn asked(mode: Mode) -> (Hold, TestClock) {
    asked_for(mode, true)
}

fn asked_for(mode: Mode, renewed: bool) -> (Hold, TestClock) {
    let clock = TestClock::new();
    let (ttl, max_hold) = (30 * SECOND, None);
    let terms = Terms { ttl, lock_delay: NO, renewed, max_hold, hold_at_least: NO };
    let name = Name::new(&Namespace::default(), "n").unwrap();
    (Hold::new(Ticket::new(name, mode), None, terms, clock.clone().into()), clock)
}

fn held(mode: Mode) -> (Hold, TestClock) {
    let (hold, clock) = asked(mode);
    assert!(hold.granted(&Grant::new(7, 30 * SECOND, clock.now()), NO));
    (hold, clock)
}

#[test]
fn a_deadline_follows_the_last_confirmation_down_as_well_as_up() {
    let (hold, clock) = held(Mode::Exclusive);
    clock.advance(SECOND);
    hold.renewed(clock.now(), 30 * SECOND, NO);
    assert_eq!(hold.remaining(), 30 * SECOND);
    clock.advance(SECOND);
    hold.renewed(clock.now(), 3 * SECOND, NO);
    assert_eq!(hold.remaining(), 3 * SECOND, "the server grants less now");
    clock.advance(3 * SECOND);
    assert_eq!(hold.standing(), Standing::Lost(Loss::Expired));
}

#[test]
fn an_answer_to_an_older_request_changes_nothing() {
    let (hold, clock) = held(Mode::Exclusive);
    let (before, older) = (clock.now(), clock.now().after(SECOND));
    clock.advance(2 * SECOND);
    hold.renewed(clock.now(), 10 * SECOND, NO);
    hold.renewed(older, 30 * SECOND, NO);
    assert_eq!(hold.remaining(), 10 * SECOND, "it does not lengthen");
    hold.renewed(before, SECOND, NO);
    assert_eq!(hold.remaining(), 10 * SECOND, "nor shorten");
}

#[test]
fn a_grant_on_a_shorter_session_ends_with_it_and_not_with_the_place_before() {
    let (hold, clock) = asked(Mode::Exclusive);
    hold.placed(Place::new(30 * SECOND, clock.now()), NO);
    clock.advance(SECOND);
    assert!(hold.granted(&Grant::new(7, 4 * SECOND, clock.now()), NO));
    assert_eq!(hold.remaining(), 4 * SECOND);
}

#[test]
fn what_was_handed_to_an_earlier_place_is_not_believed() {
    let (hold, clock) = asked(Mode::Exclusive);
    hold.placed(Place::new(30 * SECOND, clock.now()).above(7), NO);
    assert!(!hold.handed_over(6, Predecessor::Released) && !hold.is_held());
    assert!(!hold.handed_over(7, Predecessor::Released), "it was drawn before the place");
    // A place that is kept says no more of what was drawn before it.
    hold.placed(Place::new(30 * SECOND, clock.now()), NO);
    assert!(!hold.handed_over(7, Predecessor::Released));
    assert!(hold.handed_over(8, Predecessor::Released) && hold.is_held());
}

#[test]
fn engines_that_draw_no_fences_from_a_counter_say_nothing_of_earlier_places() {
    let (hold, clock) = asked(Mode::Exclusive);
    hold.placed(Place::new(30 * SECOND, clock.now()), NO);
    assert!(hold.handed_over(1, Predecessor::Unknown));
}

#[test]
fn a_fixed_lease_that_is_handed_over_runs_for_its_ttl_however_long_its_place_was_kept() {
    let (hold, clock) = asked_for(Mode::Exclusive, false);
    hold.placed(Place::new(90 * SECOND, clock.now()), NO);
    clock.advance(10 * SECOND);
    assert!(hold.handed_over(8, Predecessor::Released));
    assert_eq!(hold.remaining(), 30 * SECOND);
}

/// The keeper may come to it when the same ticket has been asked for again.
#[test]
fn a_loss_ends_what_was_asked_for_before_it_was_told_and_nothing_later() {
    let (hold, clock) = asked(Mode::Exclusive);
    let told = clock.now();
    clock.advance(SECOND);
    assert!(hold.granted(&Grant::new(7, 30 * SECOND, clock.now()), NO));
    assert!(!hold.lose(Loss::Disconnected, told) && hold.is_held());
    hold.renewed(clock.now().after(SECOND), 30 * SECOND, NO);
    assert!(hold.lose(Loss::Disconnected, clock.now()), "a renewal does not hide it");

    let (hold, clock) = asked(Mode::Exclusive);
    let before = clock.now();
    clock.advance(SECOND);
    hold.placed(Place::new(30 * SECOND, clock.now()), NO);
    let told = clock.now();
    clock.advance(SECOND);
    assert!(hold.handed_over(8, Predecessor::Released));
    assert!(!hold.lose(Loss::Gone, before), "it was of an earlier place");
    assert!(hold.lose(Loss::Gone, told), "of this one");
}

#[test]
fn a_loss_that_ends_what_was_asked_for_later_is_found() {
    let late = a_loss_ends_what_was_asked_for_before_it_was_told_and_nothing_later;
    each_is_found(&[Mutant::OldNewsEndLater], late);
}

#[test]
fn a_hand_over_without_a_place_is_not_believed() {
    let (hold, _clock) = asked(Mode::Exclusive);
    assert!(!hold.handed_over(8, Predecessor::Released), "for how long would it run?");
}

#[test]
fn a_holder_that_is_told_of_a_place_has_lost_what_it_held() {
    let (hold, clock) = held(Mode::Exclusive);
    let before = Place::new(30 * SECOND, clock.now());
    assert!(!hold.is_undone_by(before), "the answer to a request before the grant");
    clock.advance(SECOND);
    assert!(hold.is_undone_by(Place::new(30 * SECOND, clock.now())));
    let (waiter, clock) = asked(Mode::Exclusive);
    assert!(!waiter.is_undone_by(Place::new(30 * SECOND, clock.now())), "it holds nothing");
}

#[test]
fn a_conversion_that_is_not_settled_is_the_weaker_mode() {
    let (hold, _clock) = held(Mode::Write);
    assert_eq!(hold.begin_conversion(Mode::Read), Mode::Write);
    assert_eq!((hold.mode(), hold.mode_before()), (Mode::Read, Some(Mode::Write)));
    assert_eq!(hold.begin_conversion(Mode::Read), Mode::Write, "it is asked again as at first");
    hold.end_conversion(Mode::Read);
    assert_eq!((hold.mode(), hold.mode_before()), (Mode::Read, None));
    assert_eq!(hold.begin_conversion(Mode::Write), Mode::Read);
    assert_eq!(hold.mode_before(), None, "nothing of the kind is ever carried out");
}

#[test]
fn an_engine_forgets_what_was_extended_no_sooner_than_it_said() {
    let (hold, clock) = held(Mode::Exclusive);
    assert_eq!(hold.forgotten_at(), clock.now().after(30 * SECOND));
    hold.renewed(clock.now(), 600 * SECOND, NO);
    assert_eq!(hold.forgotten_at(), clock.now().after(600 * SECOND));
}
