//! The checkers pass good histories and can fail: each bad one is caught.

use leasehold_testkit::check::{self, Violation};
use leasehold_testkit::grant::{Grant, Span};
use leasehold_testkit::history::{Event, History, Mode, NEVER, Nanos, OpId, Outcome, What};
use leasehold_testkit::register::{Access, Kind};
use proptest::prelude::*;

/// An exclusive grant of one name; `begin` and `end` are (invoke, return).
fn grant(fence: u64, begin: (Nanos, Nanos), end: (Nanos, Nanos)) -> Grant {
    Grant {
        op: OpId(fence),
        pid: 1,
        name: "name".into(),
        mode: Mode::Exclusive,
        fence,
        begin: Span { invoke: begin.0, ret: begin.1 },
        end: Span { invoke: end.0, ret: end.1 },
        claimed_until: end.0,
    }
}

fn with_mode(mode: Mode, grant: Grant) -> Grant {
    Grant { mode, ..grant }
}

fn assert_caught(checked: Result<(), Violation>, what: &str, first: &Grant, second: &Grant) {
    let violation = checked.expect_err("the bad history passed");
    assert!(violation.what.contains(what), "{violation}");
    assert!(violation.first.contains(&format!("{first:?}")), "{violation}");
    assert!(violation.second.contains(&format!("{second:?}")), "{violation}");
}

#[test]
fn one_after_the_other_is_good() {
    let grants = [grant(1, (0, 2), (5, 6)), grant(2, (1, 8), (9, 10))];
    assert_eq!(check::order(&grants), Ok(()));
    assert_eq!(check::exclusion(&grants), Ok(()));
    assert_eq!(check::fences(&grants), Ok(()));
}

#[test]
fn order_catches_a_grant_inside_another() {
    let (first, second) = (grant(1, (0, 2), (10, 11)), grant(2, (3, 4), (5, 6)));
    assert_caught(check::order(&[first.clone(), second.clone()]), "no lock", &first, &second);
}

#[test]
fn order_catches_fences_against_real_time() {
    let (late, early) = (grant(1, (10, 11), (12, 13)), grant(2, (0, 1), (2, 3)));
    assert_caught(check::order(&[early.clone(), late.clone()]), "no lock", &late, &early);
}

#[test]
fn order_catches_a_grant_while_a_lease_cannot_have_lapsed() {
    let held = grant(1, (0, 1), (50, NEVER));
    assert_eq!(check::order(&[held.clone(), grant(2, (2, 50), (60, 61))]), Ok(()));
    let thief = grant(2, (2, 49), (60, 61));
    assert_caught(check::order(&[held.clone(), thief.clone()]), "no lock", &held, &thief);
}

#[test]
fn order_catches_a_second_grant_when_nothing_ends_the_first() {
    let (first, second) = (grant(1, (0, 1), (NEVER, NEVER)), grant(2, (5, 6), (7, 8)));
    assert_caught(check::order(&[first.clone(), second.clone()]), "no lock", &first, &second);
}

#[test]
fn order_lets_other_names_and_readers_be() {
    let held = grant(1, (0, 1), (50, 51));
    let elsewhere = Grant { name: "other".into(), ..grant(2, (2, 3), (4, 5)) };
    assert_eq!(check::order(&[held, elsewhere]), Ok(()));
    let readers = [grant(1, (0, 1), (50, 51)), grant(2, (2, 3), (4, 5))];
    let readers = readers.map(|grant| with_mode(Mode::Read, grant));
    assert_eq!(check::order(&readers), Ok(()));
}

#[test]
fn exclusion_catches_two_claims_at_one_time() {
    let (first, second) = (grant(1, (0, 2), (10, 11)), grant(2, (1, 9), (12, 13)));
    assert_caught(
        check::exclusion(&[second.clone(), first.clone()]),
        "two holders",
        &first,
        &second,
    );
}

#[test]
fn exclusion_finds_a_long_claim_behind_short_ones() {
    let long = with_mode(Mode::Read, grant(1, (0, 1), (100, 101)));
    let short = with_mode(Mode::Read, grant(2, (2, 3), (4, 5)));
    let writer = with_mode(Mode::Write, grant(3, (6, 7), (8, 9)));
    let history = [long.clone(), short, writer.clone()];
    assert_caught(check::exclusion(&history), "two holders", &long, &writer);
}

#[test]
fn exclusion_counts_permits() {
    let permits =
        |take, fence| with_mode(Mode::Permits { take, of: 3 }, grant(fence, (0, fence), (10, 11)));
    let (one, two, three) = (permits(1, 1), permits(2, 2), permits(1, 3));
    assert_eq!(check::exclusion(&[one.clone(), two.clone()]), Ok(()));
    assert_caught(check::exclusion(&[one.clone(), two, three.clone()]), "permits", &one, &three);
}

#[test]
fn exclusion_ignores_a_grant_seen_after_its_deadline() {
    let late = Grant { claimed_until: 4, ..grant(2, (1, 5), (9, 10)) };
    assert_eq!(check::exclusion(&[grant(1, (0, 2), (8, 9)), late]), Ok(()));
}

#[test]
fn exclusion_catches_mixed_kinds_on_one_name() {
    let mutex = grant(1, (0, 1), (10, 11));
    let permit = with_mode(Mode::Permits { take: 1, of: 5 }, grant(2, (2, 3), (4, 5)));
    let history = [mutex.clone(), permit.clone()];
    assert_caught(check::exclusion(&history), "two holders", &mutex, &permit);
}

#[test]
fn fences_catches_one_that_goes_back_and_one_that_stays() {
    let first = grant(7, (0, 1), (2, 3));
    let back = grant(6, (4, 5), (6, 7));
    assert_caught(check::fences(&[first.clone(), back.clone()]), "no larger", &first, &back);
    let same = Grant { op: OpId(99), ..grant(7, (4, 5), (6, 7)) };
    assert_caught(check::fences(&[first.clone(), same.clone()]), "one fence", &first, &same);
}

#[test]
fn fences_catches_a_concurrent_duplicate() {
    let (first, twin) = (grant(7, (0, 9), (10, 11)), grant(7, (1, 8), (10, 11)));
    let twin = Grant { op: OpId(99), ..twin };
    assert_caught(check::fences(&[first.clone(), twin.clone()]), "one fence", &first, &twin);
}

#[test]
fn fences_looks_past_a_smaller_one_in_between() {
    // A reader between two writers must not hide the first writer's fence.
    let writer = with_mode(Mode::Write, grant(9, (0, 1), (2, 3)));
    let reader = with_mode(Mode::Read, grant(10, (4, 5), (6, 7)));
    let back = with_mode(Mode::Write, grant(8, (8, 9), (10, 11)));
    let history = [writer.clone(), reader, back.clone()];
    let violation = check::fences(&history).unwrap_err();
    assert!(violation.second.contains(&format!("{back:?}")), "{violation}");
}

#[test]
fn fences_of_readers_may_be_shared_and_unordered() {
    let reader = |fence, begin, end| with_mode(Mode::Read, grant(fence, begin, end));
    let readers = [reader(5, (0, 1), (2, 3)), reader(5, (1, 2), (3, 4)), reader(4, (5, 6), (7, 8))];
    assert_eq!(check::fences(&readers), Ok(()));
}

fn write(fence: u64, saw: u64, wrote: u64, accepted: bool) -> Access {
    Access { at: 0, pid: 1, fence, kind: Kind::Write { saw, wrote }, accepted }
}

fn read(fence: u64, accepted: bool) -> Access {
    Access { at: 0, pid: 1, fence, kind: Kind::Read, accepted }
}

fn assert_register_caught(accesses: &[Access], what: &str) {
    let violation = check::register(accesses).expect_err("the bad register passed");
    assert!(violation.what.contains(what), "{violation}");
    assert!(
        violation.second.contains(&format!("{:?}", accesses[accesses.len() - 1])),
        "{violation}"
    );
}

#[test]
fn register_passes_equal_and_larger_fences() {
    let good = [read(1, true), write(1, 0, 5, true), write(1, 5, 6, true), write(3, 6, 7, true)];
    assert_eq!(check::register(&good), Ok(()));
    assert_eq!(check::register(&[write(3, 0, 1, true), write(2, 0, 2, false)]), Ok(()));
}

#[test]
fn register_catches_a_smaller_fence_let_in() {
    assert_register_caught(&[write(2, 0, 1, true), write(1, 1, 2, true)], "smaller");
    assert_register_caught(&[read(2, true), write(1, 0, 2, true)], "smaller");
}

#[test]
fn register_catches_a_good_fence_refused() {
    assert_register_caught(&[write(2, 0, 1, true), write(2, 1, 2, false)], "refused");
    assert_register_caught(&[write(0, 0, 2, false)], "refused");
}

#[test]
fn register_catches_a_lost_update() {
    assert_register_caught(&[write(1, 0, 1, true), write(2, 0, 1, true)], "lost");
}

#[test]
fn a_whole_history_is_checked_from_its_events() {
    let event = |at, op, what| Event { at, pid: 1, op: OpId(op), what };
    let acquire = || What::Acquire { name: "name".into(), mode: Mode::Exclusive };
    let granted = |fence| What::Acquired {
        outcome: Outcome::Ok,
        fence: Some(fence),
        deadline: Some(100),
        expires: Some(110),
    };
    let mut events = vec![event(1, 1, acquire()), event(2, 1, granted(1))];
    let second = [event(3, 2, acquire()), event(120, 2, granted(2))];
    assert!(check::all(&History::of([events.clone(), second.to_vec()].concat())).is_ok());
    events.extend([event(3, 2, acquire()), event(50, 2, granted(2))]);
    assert!(check::all(&History::of(events)).is_err());
}

/// An operation of the brute-force search: a span and which grant it is of.
#[derive(Clone, Copy)]
struct Op {
    span: Span,
    fence: u64,
    begins: bool,
}

/// Tries every order of the operations that real time allows, on a plain model
/// of a lock whose fences grow.
fn linearizable(ops: &[Op], holder: Option<u64>, last: u64) -> bool {
    if ops.is_empty() {
        return true;
    }
    let first_return = ops.iter().map(|op| op.span.ret).min().unwrap_or(NEVER);
    (0..ops.len()).filter(|at| ops[*at].span.invoke <= first_return).any(|at| {
        let mut rest = ops.to_vec();
        let op = rest.swap_remove(at);
        match (op.begins, holder) {
            (true, None) if op.fence > last => linearizable(&rest, Some(op.fence), op.fence),
            (false, Some(fence)) if fence == op.fence => linearizable(&rest, None, last),
            _ => false,
        }
    })
}

fn brute_force(grants: &[Grant]) -> bool {
    let begins = grants.iter().map(|it| Op { span: it.begin, fence: it.fence, begins: true });
    let ends = grants.iter().map(|it| Op { span: it.end, fence: it.fence, begins: false });
    linearizable(&begins.chain(ends).collect::<Vec<_>>(), None, 0)
}

/// A grant with random times: each step starts a little later than the last.
fn any_grant(fence: u64) -> impl Strategy<Value = Grant> {
    let steps = (
        0..14_u64,
        0..5_u64,
        0..4_u64,
        prop_oneof![3 => (0..5_u64).prop_map(Some), 1 => Just(None)],
    );
    steps.prop_map(move |(invoke, waits, holds, leaves)| {
        let (seen, called) = (invoke + waits, invoke + waits + holds);
        grant(fence, (invoke, seen), (called, leaves.map_or(NEVER, |it| called + it)))
    })
}

fn any_history() -> impl Strategy<Value = Vec<Grant>> {
    (1..=4_u64).prop_flat_map(|count| (1..=count).map(any_grant).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_agrees_with_brute_force(grants in any_history()) {
        prop_assert_eq!(check::order(&grants).is_ok(), brute_force(&grants));
    }
}

#[test]
fn brute_force_sees_good_and_bad_histories_alike() {
    // A comparison in which one side never occurs would prove nothing.
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let verdicts: Vec<bool> = (0..500)
        .map(|_| brute_force(&any_history().new_tree(&mut runner).unwrap().current()))
        .collect();
    let good = verdicts.iter().filter(|good| **good).count();
    assert!((50..450).contains(&good), "{good} of 500 random histories are good");
}
