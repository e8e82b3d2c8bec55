use std::time::Duration;

use Mode::{Exclusive, Read, Write};

use super::super::inspect::{Status, Target};
use super::seat::Seat;
use super::*;
use crate::claim::{Claim, Ending, Owner, Stance, Ticket};
use crate::claim::{LeaseId, Mode, Predecessor};
use crate::name::{Name, Namespace};

const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;
const D: u8 = 4;
const TTL: Duration = secs(30);

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn moment(seconds: u64) -> Moment {
    Moment::default().after(secs(seconds))
}

fn id(who: u8) -> LeaseId {
    LeaseId::from_bits(u128::from(who))
}

const fn permits(take: u32) -> Mode {
    Mode::Permits { take, of: 3 }
}

/// A claim that waits, for 30 seconds at a time.
fn claim(who: u8, mode: Mode) -> Claim {
    let name = Name::new(&Namespace::default(), "job").unwrap();
    let ticket = Ticket { id: id(who), name, mode };
    let mut claim = Claim::new(ticket, Owner::new(format!("client {who}")), TTL);
    claim.stance = Stance::Wait { until: Moment::NEVER };
    claim
}

fn fence(answer: &Answer) -> u64 {
    match answer {
        Answer::Granted { fence, .. } => *fence,
        other => panic!("not granted: {other:?}"),
    }
}

fn predecessor(answer: &Answer) -> Predecessor {
    match answer {
        Answer::Granted { predecessor, .. } => *predecessor,
        other => panic!("not granted: {other:?}"),
    }
}

fn recheck(answer: &Answer) -> Duration {
    match answer {
        Answer::Busy { recheck_in, .. } => *recheck_in,
        other => panic!("not busy: {other:?}"),
    }
}

fn placed(answer: &Answer) -> Option<Duration> {
    match answer {
        Answer::Busy { placed, .. } => *placed,
        other => panic!("not busy: {other:?}"),
    }
}

const fn held(seconds: u64) -> Answer {
    Answer::Held { ttl: secs(seconds) }
}

/// One name, its clock, and what the last step told others. Every client's
/// session has the number of the client.
#[derive(Clone, Default)]
struct Desk {
    state: State,
    fence: u64,
    now: Moment,
    told: Vec<FollowUp>,
}

impl Desk {
    fn at(&mut self, seconds: u64) -> &mut Self {
        self.now = moment(seconds);
        self
    }

    fn step(&mut self, verb: Verb) -> Answer {
        let step = step(&mut self.state, verb, self.now, &mut self.fence);
        self.told = step.follow_ups;
        step.answer
    }

    fn put(&mut self, claim: Claim) -> Answer {
        let session = u64::try_from(claim.ticket.id.to_bits()).unwrap();
        self.step(Verb::Acquire { claim: Box::new(claim), session })
    }

    fn ask(&mut self, who: u8, mode: Mode) -> Answer {
        self.put(claim(who, mode))
    }

    fn ask_for(&mut self, who: u8, mode: Mode, ttl: u64) -> Answer {
        self.put(Claim { ttl: secs(ttl), ..claim(who, mode) })
    }

    fn ask_with_delay(&mut self, who: u8, mode: Mode, delay: u64) -> Answer {
        self.put(Claim { lock_delay: secs(delay), ..claim(who, mode) })
    }

    fn attempt(&mut self, who: u8, mode: Mode) -> Answer {
        self.put(Claim { stance: Stance::Try, ..claim(who, mode) })
    }

    fn renew(&mut self, who: u8, ttl: u64) -> Answer {
        self.step(Verb::Renew { id: id(who), ttl: secs(ttl) })
    }

    fn release(&mut self, who: u8) -> Answer {
        self.step(Verb::Release { id: id(who), ending: Ending::new() })
    }

    fn release_closed_for(&mut self, who: u8, seconds: u64) -> Answer {
        self.step(Verb::Release { id: id(who), ending: Ending::closed_for(secs(seconds)) })
    }

    fn convert(&mut self, who: u8, to: Mode) -> Answer {
        self.step(Verb::Convert { id: id(who), to })
    }

    fn evict(&mut self, target: Target) -> Answer {
        self.step(Verb::Evict { target, remark: "ops: stuck".into() })
    }

    fn tick(&mut self) -> Answer {
        self.step(Verb::Tick)
    }

    fn status(&self) -> Status {
        self.state.status(claim(A, Exclusive).ticket.name, self.now)
    }

    fn holding(&self) -> Vec<u8> {
        self.state.holders.iter().map(|lease| client(lease.seat.id)).collect()
    }

    fn waiting(&self) -> Vec<u8> {
        self.state.queue.iter().map(|seat| client(seat.id)).collect()
    }

    fn handed_over(&self) -> Vec<u8> {
        let to = |follow_up: &FollowUp| match follow_up {
            FollowUp::HandedOver { id, .. } => Some(client(*id)),
            FollowUp::Evicted { .. } | FollowUp::Ended { .. } => None,
        };
        self.told.iter().filter_map(to).collect()
    }
}

fn client(id: LeaseId) -> u8 {
    u8::try_from(id.to_bits()).unwrap()
}

mod grants {
    use super::*;

    #[test]
    fn a_free_name_is_granted_for_the_ttl_with_the_next_fence() {
        let mut desk = Desk { fence: 41, ..Desk::default() };
        let answer = desk.ask(A, Exclusive);
        assert_eq!(answer, Answer::Granted { fence: 42, ttl: TTL, predecessor: Predecessor::None });
        assert_eq!(desk.fence, 42);
        assert!(desk.told.is_empty(), "the one who asks reads the answer");
    }

    #[test]
    fn busy_says_who_holds_it_since_when_and_for_how_long() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        let Answer::Busy { holder: Some(holder), recheck_in, placed } =
            desk.at(10).ask_for(B, Exclusive, 25)
        else {
            panic!("granted twice");
        };
        assert_eq!((&*holder.label, holder.fence), ("client 1", Some(1)));
        assert_eq!((holder.held_for, holder.time_left), (Some(secs(10)), Some(secs(20))));
        assert_eq!((recheck_in, placed), (secs(20), Some(secs(25))));
    }

    #[test]
    fn a_try_that_is_busy_leaves_nothing_behind() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        let before = desk.state.clone();
        assert_eq!(placed(&desk.attempt(B, Exclusive)), None);
        assert_eq!((desk.state.clone(), desk.fence), (before, 1));
        desk.release(A);
        assert!(desk.told.is_empty() && desk.holding().is_empty());
    }

    #[test]
    fn claiming_again_grants_the_same_lease() {
        let mut desk = Desk::default();
        desk.ask(B, Exclusive);
        desk.release(B);
        let first = desk.ask(A, Exclusive);
        let again = desk.at(10).ask(A, Exclusive);
        assert_eq!(again, first, "same fence, same predecessor, the ttl runs anew");
        assert_eq!((desk.fence, desk.holding()), (2, vec![A]));
    }

    #[test]
    fn claiming_again_with_a_shorter_ttl_never_shortens() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        let Answer::Granted { ttl, .. } = desk.at(10).ask_for(A, Exclusive, 5) else {
            panic!("not granted");
        };
        assert_eq!(ttl, secs(20));
        desk.ask(B, Exclusive);
        let Answer::Busy { placed, .. } = desk.at(12).ask_for(B, Exclusive, 5) else {
            panic!("granted twice");
        };
        assert_eq!(placed, Some(secs(28)), "nor does it shorten a place");
    }

    #[test]
    fn claiming_again_keeps_the_place_in_the_queue() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.ask(B, Exclusive);
        desk.ask(C, Exclusive);
        assert_eq!(placed(&desk.at(5).ask(B, Exclusive)), Some(TTL));
        assert_eq!(desk.waiting(), [B, C]);
    }

    #[test]
    fn a_lease_is_not_granted_again_in_another_mode() {
        let mut desk = Desk::default();
        desk.ask(A, Read);
        desk.ask(B, Read);
        assert_eq!(desk.ask(A, Write), Answer::OtherKind(Read), "B reads beside it");
        assert_eq!(desk.ask(A, Exclusive), Answer::OtherKind(Read));
        desk.ask(C, Write);
        assert_eq!(desk.ask(C, Read), Answer::OtherKind(Write), "nor is a place");
        assert_eq!(desk.waiting(), [C]);
    }

    #[test]
    fn a_lease_for_ever_can_end() {
        let mut desk = Desk::default();
        desk.put(Claim { ttl: Duration::MAX, ..claim(A, Exclusive) });
        assert_eq!(desk.at(1_000_000).release(A), Answer::Released);
        assert_eq!(desk.state.forget_at(), Some(Moment::NEVER));
    }
}

mod the_queue {
    use super::*;

    #[test]
    fn a_release_hands_over_to_the_first_in_line_and_tells_it() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.ask(B, Exclusive);
        desk.ask(C, Exclusive);
        assert_eq!(desk.release(A), Answer::Released);
        let predecessor = Predecessor::Released;
        let session = u64::from(B);
        let told = FollowUp::HandedOver { id: id(B), session, fence: 2, predecessor };
        assert_eq!(desk.told, [told]);
        assert_eq!((desk.holding(), desk.waiting()), (vec![B], vec![C]));
        desk.release(B);
        assert_eq!(desk.handed_over(), [C]);
    }

    #[test]
    fn a_handed_over_lease_ends_when_its_place_would_have() {
        let mut desk = Desk::default();
        desk.ask_for(A, Exclusive, 100);
        desk.at(5).ask(B, Exclusive);
        desk.ask_for(C, Exclusive, 100);
        desk.at(25).release(A);
        assert_eq!(desk.status().holders[0].time_left, Some(secs(10)));
        desk.at(35).tick();
        assert_eq!(desk.handed_over(), [C], "a dead waiter blocks for one ttl, not two");
    }

    #[test]
    fn a_new_holder_renews_what_it_inherited() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.ask(B, Exclusive);
        desk.at(20).release(A);
        assert_eq!(desk.at(21).renew(B, 30), held(30));
    }

    #[test]
    fn a_waiter_that_looks_after_an_expiry_is_granted() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.at(10).ask(B, Exclusive);
        let answer = desk.at(30).ask(B, Exclusive);
        assert_eq!((fence(&answer), predecessor(&answer)), (2, Predecessor::Expired));
        assert_eq!(desk.handed_over(), [B], "its engine may have others to tell");
    }

    #[test]
    fn a_dead_waiter_loses_its_place() {
        let mut desk = Desk::default();
        desk.ask_for(A, Exclusive, 100);
        desk.ask_for(B, Exclusive, 10);
        desk.ask_for(C, Exclusive, 50);
        assert_eq!(desk.at(10).renew(B, 30), Answer::Gone);
        desk.release(A);
        assert_eq!(desk.handed_over(), [C]);
    }

    #[test]
    fn a_newcomer_does_not_pass_whoever_was_waiting_when_the_holder_died() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.at(10).ask(B, Exclusive);
        assert!(matches!(desk.at(30).attempt(C, Exclusive), Answer::Busy { .. }));
        assert_eq!((desk.handed_over(), desk.holding()), (vec![B], vec![B]));
    }

    #[test]
    fn a_reader_behind_a_waiting_writer_waits() {
        let mut desk = Desk::default();
        desk.ask(A, Read);
        desk.ask(B, Write);
        assert!(matches!(desk.ask(C, Read), Answer::Busy { .. }));
        assert!(matches!(desk.attempt(D, Read), Answer::Busy { .. }));
        desk.release(A);
        assert_eq!(desk.handed_over(), [B]);
        desk.release(B);
        assert_eq!(desk.handed_over(), [C]);
    }

    #[test]
    fn a_small_taker_behind_a_large_taker_waits() {
        let mut desk = Desk::default();
        desk.ask(A, permits(1));
        desk.ask(B, permits(3));
        assert!(matches!(desk.ask(C, permits(1)), Answer::Busy { .. }));
        assert!(matches!(desk.attempt(D, permits(1)), Answer::Busy { .. }));
        desk.release(A);
        assert_eq!(desk.handed_over(), [B]);
    }

    #[test]
    fn when_a_waiting_writer_gives_up_the_readers_behind_it_go_on() {
        let mut desk = Desk::default();
        desk.ask(A, Read);
        desk.ask(B, Write);
        desk.ask(C, Read);
        desk.ask(D, Read);
        assert_eq!(desk.release(B), Answer::Released);
        assert_eq!(desk.handed_over(), [C, D]);
    }

    #[test]
    fn when_a_waiting_writer_dies_the_readers_behind_it_go_on() {
        let mut desk = Desk::default();
        desk.ask_for(A, Read, 100);
        desk.ask_for(B, Write, 10);
        desk.ask_for(C, Read, 100);
        desk.at(10).tick();
        assert_eq!((desk.handed_over(), desk.holding()), (vec![C], vec![A, C]));
    }

    #[test]
    fn a_waiter_that_leaves_is_not_served_on_its_way_out() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.at(10).ask(B, Exclusive);
        desk.ask(C, Exclusive);
        assert_eq!(desk.at(30).release(B), Answer::Released);
        assert_eq!((desk.handed_over(), desk.fence), (vec![C], 2));
        assert_eq!(predecessor(&desk.ask(C, Exclusive)), Predecessor::Expired);
    }
}

mod modes {
    use super::*;

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let mut desk = Desk::default();
        fence(&desk.ask(A, Read));
        fence(&desk.ask(B, Read));
        assert!(matches!(desk.attempt(C, Write), Answer::Busy { .. }));
        desk.release(A);
        assert!(matches!(desk.attempt(C, Write), Answer::Busy { .. }));
        desk.release(B);
        fence(&desk.ask(C, Write));
        assert!(matches!(desk.attempt(A, Read), Answer::Busy { .. }));
        assert!(matches!(desk.attempt(A, Write), Answer::Busy { .. }));
    }

    #[test]
    fn permits_are_granted_up_to_the_last_and_not_beyond() {
        let mut desk = Desk::default();
        fence(&desk.ask(A, permits(2)));
        assert!(matches!(desk.attempt(B, permits(2)), Answer::Busy { .. }));
        fence(&desk.ask(B, permits(1)));
        assert!(matches!(desk.attempt(C, permits(1)), Answer::Busy { .. }));
        desk.release(A);
        fence(&desk.ask(C, permits(2)));
    }

    #[test]
    fn huge_permits_do_not_overflow() {
        let all = Mode::Permits { take: u32::MAX, of: u32::MAX };
        let mut desk = Desk::default();
        fence(&desk.ask(A, all));
        assert!(matches!(desk.ask(B, all), Answer::Busy { .. }));
    }

    #[test]
    fn one_release_may_serve_many() {
        let mut desk = Desk::default();
        desk.ask(A, permits(3));
        desk.ask(B, permits(1));
        desk.ask(C, permits(2));
        desk.ask(D, permits(1));
        desk.release(A);
        assert_eq!((desk.handed_over(), desk.waiting()), (vec![B, C], vec![D]));
        assert_eq!(desk.fence, 3);
    }

    #[test]
    fn kinds_do_not_mix_while_the_name_is_held() {
        let others = [Read, permits(1), Mode::Permits { take: 1, of: 4 }, Exclusive];
        for (held, other) in others.into_iter().zip(others.into_iter().cycle().skip(1)) {
            let mut desk = Desk::default();
            desk.ask(A, held);
            let before = desk.state.clone();
            assert_eq!(desk.ask(B, other), Answer::OtherKind(held));
            assert_eq!(desk.state, before, "an error leaves nothing behind");
        }
    }

    #[test]
    fn kinds_do_not_mix_while_the_name_is_waited_for() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.release_closed_for(A, 10);
        desk.ask(B, Write);
        assert_eq!(desk.ask(C, Exclusive), Answer::OtherKind(Write));
    }

    #[test]
    fn a_free_name_may_change_its_kind() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.release(A);
        fence(&desk.ask(B, permits(1)));
        fence(&desk.at(30).ask(C, Read));
    }
}

mod endings {
    use super::*;

    #[test]
    fn a_lease_ends_with_its_ttl_to_the_moment() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        assert!(matches!(desk.at(29).attempt(B, Exclusive), Answer::Busy { .. }));
        assert_eq!(predecessor(&desk.at(30).attempt(B, Exclusive)), Predecessor::Expired);
        assert_eq!(desk.release(A), Answer::Gone);
        assert_eq!(desk.holding(), [B], "a late release never touches a successor");
    }

    #[test]
    fn an_expired_name_stays_closed_for_its_lock_delay() {
        let mut desk = Desk::default();
        desk.ask_with_delay(A, Exclusive, 10);
        assert_eq!(recheck(&desk.attempt(B, Exclusive)), secs(40));
        let Answer::Busy { holder: None, recheck_in, .. } = desk.at(32).ask(B, Exclusive) else {
            panic!("the holder is gone, the name is closed");
        };
        assert_eq!((recheck_in, desk.status().closed_for), (secs(8), Some(secs(8))));
        desk.at(39).tick();
        assert!(desk.told.is_empty());
        desk.at(40).tick();
        assert_eq!(desk.handed_over(), [B]);
    }

    #[test]
    fn a_released_name_is_open_at_once_whatever_its_lock_delay() {
        let mut desk = Desk::default();
        desk.ask_with_delay(A, Exclusive, 10);
        desk.release(A);
        fence(&desk.ask(B, Exclusive));
    }

    #[test]
    fn a_release_may_keep_the_name_closed() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.ask(B, Exclusive);
        assert_eq!(desk.at(10).release_closed_for(A, 15), Answer::Released);
        assert!(desk.told.is_empty());
        assert_eq!(recheck(&desk.ask(B, Exclusive)), secs(15));
        desk.at(25).tick();
        assert_eq!(desk.handed_over(), [B]);
    }

    #[test]
    fn the_longer_closing_time_counts() {
        let mut desk = Desk::default();
        desk.ask(A, Read);
        desk.ask(B, Read);
        desk.release_closed_for(A, 20);
        desk.release_closed_for(B, 5);
        assert_eq!(desk.status().closed_for, Some(secs(20)));
    }

    #[test]
    fn leaving_the_queue_closes_nothing() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.ask(B, Exclusive);
        assert_eq!(desk.release_closed_for(B, 60), Answer::Released);
        assert_eq!((desk.waiting(), desk.status().closed_for), (vec![], None));
        assert_eq!(desk.release(B), Answer::Gone);
    }

    #[test]
    fn releasing_twice_is_harmless() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.ask(B, Exclusive);
        assert_eq!(desk.release(A), Answer::Released);
        assert_eq!(desk.release(A), Answer::Gone);
        assert_eq!(desk.holding(), [B]);
    }

    #[test]
    fn renewing_never_shortens() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        assert_eq!(desk.at(10).renew(A, 5), held(20));
        assert_eq!(desk.renew(A, 40), held(40));
    }

    #[test]
    fn renewing_never_resurrects() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        assert_eq!(desk.at(30).renew(A, 30), Answer::Gone, "although nobody else wants it");
        assert_eq!(desk.renew(B, 30), Answer::Gone, "it never asked");
        assert!(desk.holding().is_empty() && desk.waiting().is_empty());
    }

    #[test]
    fn a_place_is_renewed_like_a_lease() {
        let mut desk = Desk::default();
        desk.ask_for(A, Exclusive, 100);
        desk.ask(B, Exclusive);
        assert_eq!(desk.at(20).renew(B, 5), Answer::Queued { ttl: secs(10) });
        assert_eq!(desk.renew(B, 30), Answer::Queued { ttl: secs(30) });
        desk.at(49).release(A);
        assert_eq!(desk.holding(), [B]);
    }

    #[test]
    fn a_new_holder_hears_how_the_last_one_ended() {
        let mut desk = Desk::default();
        assert_eq!(predecessor(&desk.ask(A, Exclusive)), Predecessor::None);
        desk.release(A);
        assert_eq!(predecessor(&desk.ask(A, Exclusive)), Predecessor::Released);
        assert_eq!(predecessor(&desk.at(30).ask(A, Exclusive)), Predecessor::Expired);
        desk.evict(Target::All);
        assert_eq!(predecessor(&desk.ask(A, Exclusive)), Predecessor::Evicted);
        desk.release(A);
        assert_eq!(predecessor(&desk.ask(A, Exclusive)), Predecessor::Released);
    }

    #[test]
    fn of_several_that_expired_the_last_one_is_remembered() {
        let mut desk = Desk::default();
        desk.ask_for(A, Read, 20);
        desk.ask_for(B, Read, 10);
        desk.at(25).tick();
        let last = desk.status().last.unwrap();
        assert_eq!((&*last.label, last.ago), ("client 1", secs(5)));
        assert_eq!(desk.state.forget_at(), Some(moment(20 + 60)));
    }
}

mod conversion {
    use super::*;

    #[test]
    fn a_writer_that_turns_reader_lets_waiting_readers_in() {
        let mut desk = Desk::default();
        desk.ask(A, Write);
        desk.ask(B, Read);
        desk.ask(C, Read);
        desk.ask(D, Write);
        assert_eq!(desk.at(10).convert(A, Read), held(20));
        assert_eq!((desk.handed_over(), desk.waiting()), (vec![B, C], vec![D]));
        assert_eq!(desk.status().holders[0].fence, Some(1), "it keeps its fence");
    }

    #[test]
    fn a_writer_that_turns_reader_lets_nobody_past_a_waiting_writer() {
        let mut desk = Desk::default();
        desk.ask(A, Write);
        desk.ask(B, Write);
        desk.ask(C, Read);
        desk.convert(A, Read);
        assert_eq!((desk.handed_over(), desk.waiting()), (vec![], vec![B, C]));
    }

    #[test]
    fn converting_twice_is_harmless() {
        let mut desk = Desk::default();
        desk.ask(A, Write);
        desk.convert(A, Read);
        assert_eq!(desk.convert(A, Read), held(30));
    }

    #[test]
    fn nothing_else_converts() {
        for (from, to) in [(Read, Write), (Exclusive, Read), (permits(2), permits(1))] {
            let mut desk = Desk::default();
            desk.ask(A, from);
            assert_eq!(desk.convert(A, to), Answer::OtherKind(from));
            assert_eq!(desk.status().holders[0].mode, from);
        }
    }

    #[test]
    fn only_a_holder_converts() {
        let mut desk = Desk::default();
        desk.ask(A, Write);
        desk.ask(B, Write);
        assert_eq!(desk.convert(B, Read), Answer::Gone);
        assert_eq!(desk.at(30).convert(A, Read), Answer::Gone);
    }
}

mod binding {
    use super::*;

    const ENDED: [FollowUp; 1] = [FollowUp::Ended { id: LeaseId::from_bits(A as u128) }];

    fn bound() -> Desk {
        let mut desk = Desk::default();
        desk.ask_for(A, Exclusive, 30);
        assert_eq!(desk.step(Verb::Bind { id: id(A) }), held(30));
        assert!(desk.told.is_empty());
        desk
    }

    #[test]
    fn is_told_when_the_lease_is_released() {
        let mut desk = bound();
        desk.release(A);
        assert_eq!(desk.told, ENDED);
    }

    #[test]
    fn is_told_to_whoever_notices_that_the_lease_expired() {
        let mut desk = bound();
        desk.at(29).attempt(B, Exclusive);
        assert!(desk.told.is_empty());
        desk.at(30).attempt(B, Exclusive);
        assert_eq!(desk.told, ENDED);
    }

    #[test]
    fn is_told_after_an_eviction() {
        let mut desk = bound();
        desk.evict(Target::All);
        assert!(desk.told.contains(&ENDED[0]));
    }

    #[test]
    fn outlives_a_conversion() {
        let mut desk = Desk::default();
        desk.ask(A, Write);
        desk.step(Verb::Bind { id: id(A) });
        desk.convert(A, Read);
        assert!(desk.told.is_empty());
        desk.release(A);
        assert_eq!(desk.told, ENDED);
    }

    #[test]
    fn takes_a_lease_that_is_held() {
        let mut desk = bound();
        desk.ask(B, Exclusive);
        assert_eq!(desk.step(Verb::Bind { id: id(B) }), Answer::Gone, "it only waits");
        assert_eq!(desk.at(30).step(Verb::Bind { id: id(A) }), Answer::Gone);
    }
}

mod eviction {
    use super::*;

    fn evicted(who: u8) -> FollowUp {
        FollowUp::Evicted { id: id(who), session: u64::from(who) }
    }

    #[test]
    fn by_fence_takes_that_lease_and_no_other() {
        let mut desk = Desk::default();
        desk.ask(A, Read);
        desk.ask(B, Read);
        assert_eq!(desk.evict(Target::Fence(2)), Answer::Evicted(vec![id(B)]));
        assert_eq!((desk.told.clone(), desk.holding()), (vec![evicted(B)], vec![A]));
        assert_eq!(desk.renew(B, 30), Answer::Gone);
        assert_eq!(desk.evict(Target::Fence(2)), Answer::Evicted(vec![]));
    }

    #[test]
    fn by_lease_serves_the_queue_and_tells_both() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.ask(B, Exclusive);
        assert_eq!(desk.evict(Target::Lease(id(A))), Answer::Evicted(vec![id(A)]));
        let (predecessor, session) = (Predecessor::Evicted, u64::from(B));
        let next = FollowUp::HandedOver { id: id(B), session, fence: 2, predecessor };
        assert_eq!(desk.told, [evicted(A), next]);
    }

    #[test]
    fn of_all_takes_every_lease_and_opens_a_closed_name() {
        let mut desk = Desk::default();
        desk.ask(A, Read);
        desk.ask(B, Read);
        desk.ask(C, Read);
        desk.release_closed_for(C, 100);
        desk.ask(D, Read);
        assert_eq!(desk.evict(Target::All), Answer::Evicted(vec![id(A), id(B)]));
        assert_eq!(desk.told[..2], [evicted(A), evicted(B)]);
        assert_eq!((desk.handed_over(), desk.status().closed_for), (vec![D], None));
    }

    #[test]
    fn of_one_lease_leaves_a_closed_name_closed() {
        let mut desk = Desk::default();
        desk.ask(A, Read);
        desk.ask(B, Read);
        desk.release_closed_for(B, 100);
        desk.evict(Target::Lease(id(A)));
        assert_eq!(desk.status().closed_for, Some(secs(100)));
    }

    #[test]
    fn for_being_late_is_told_as_expiry_and_starts_the_lock_delay() {
        let mut desk = Desk::default();
        desk.put(Claim { lock_delay: secs(5), ..claim(A, Exclusive) });
        desk.step(Verb::Release { id: id(A), ending: Ending::cut_off() });
        assert_eq!(desk.status().closed_for, Some(secs(5)));
        assert_eq!(predecessor(&desk.at(5).ask(B, Exclusive)), Predecessor::Expired);
    }

    #[test]
    fn is_still_heard_of_after_readers_came_and_went() {
        let mut desk = Desk::default();
        desk.ask(A, Write);
        desk.evict(Target::All);
        assert_eq!(predecessor(&desk.ask(B, Read)), Predecessor::Evicted);
        desk.release(B);
        assert_eq!(predecessor(&desk.ask(C, Write)), Predecessor::Evicted);
        desk.release(C);
        assert_eq!(predecessor(&desk.ask(D, Write)), Predecessor::Released);
    }

    #[test]
    fn leaves_waiters_in_the_queue() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.ask(B, Exclusive);
        assert_eq!(desk.evict(Target::Lease(id(B))), Answer::Evicted(vec![]));
        assert_eq!((desk.holding(), desk.waiting()), (vec![A], vec![B]));
    }

    #[test]
    fn shows_its_remark_until_the_next_holder_has_ended() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.at(5).evict(Target::All);
        let last = desk.at(7).status().last.unwrap();
        assert_eq!((&*last.label, last.fence, last.ago), ("client 1", 1, secs(2)));
        assert_eq!(
            (last.ended, last.remark.as_deref()),
            (Predecessor::Evicted, Some("ops: stuck"))
        );
        desk.ask(B, Exclusive);
        desk.release(B);
        assert_eq!(desk.status().last.unwrap().remark, None);
    }
}

mod looking_again {
    use super::*;

    #[test]
    fn the_head_looks_when_the_first_holder_ends() {
        let mut desk = Desk::default();
        desk.ask_for(A, Read, 50);
        desk.ask_for(B, Read, 20);
        assert_eq!(recheck(&desk.at(5).ask(C, Write)), secs(15));
    }

    #[test]
    fn others_look_when_everyone_ahead_has_had_its_chance() {
        let mut desk = Desk::default();
        desk.ask_for(A, Exclusive, 10);
        desk.ask_for(B, Exclusive, 40);
        desk.ask_for(C, Exclusive, 20);
        assert_eq!(recheck(&desk.ask(D, Exclusive)), secs(40));
        assert_eq!(recheck(&desk.attempt(9, Exclusive)), secs(40));
        assert_eq!(recheck(&desk.ask(B, Exclusive)), secs(10));
    }

    #[test]
    fn whoever_waits_for_an_opening_alone_does_not_wait_for_a_holder() {
        let mut desk = Desk::default();
        desk.ask_for(A, permits(1), 100);
        desk.ask(B, permits(1));
        desk.release_closed_for(B, 5);
        assert_eq!(recheck(&desk.at(1).ask(C, permits(1))), secs(4));
        desk.at(5).tick();
        assert_eq!(desk.handed_over(), [C]);
    }

    #[test]
    fn whoever_waits_for_a_dead_waiter_alone_does_not_wait_for_a_holder() {
        let mut desk = Desk::default();
        desk.ask_for(A, Read, 100);
        desk.ask_for(B, Write, 10);
        assert_eq!(recheck(&desk.ask(C, Read)), secs(10));
        desk.at(10).tick();
        assert_eq!(desk.handed_over(), [C]);
    }
}

mod memory_of_a_name {
    use super::*;

    #[test]
    fn a_name_nobody_ever_held_is_forgotten_at_once() {
        assert_eq!(State::default().forget_at(), Some(Moment::default()));
    }

    #[test]
    fn a_name_in_use_is_not_forgotten() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        assert_eq!(desk.state.forget_at(), None);
        desk.release_closed_for(A, 20);
        desk.ask(B, Exclusive);
        assert_eq!((desk.state.forget_at(), desk.holding()), (None, vec![]));
    }

    #[test]
    fn a_free_name_lingers_for_a_minute_or_twice_its_ttl() {
        let mut desk = Desk::default();
        desk.ask_for(A, Exclusive, 10);
        desk.at(5).release(A);
        assert_eq!(desk.state.forget_at(), Some(moment(5 + 60)));
        desk.ask_for(A, Exclusive, 50);
        desk.at(7).release(A);
        assert_eq!(desk.state.forget_at(), Some(moment(7 + 100)));
    }

    #[test]
    fn a_closed_name_is_not_forgotten_before_it_opens() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.at(5).release_closed_for(A, 600);
        assert_eq!(desk.state.forget_at(), Some(moment(5 + 600)));
    }

    #[test]
    fn status_shows_holders_waiters_and_meta() {
        let mut desk = Desk::default();
        desk.put(Claim { meta: Some("nightly".into()), ..claim(A, Write) });
        desk.at(3).ask(B, Read);
        let status = desk.at(10).status();
        let [holder] = &status.holders[..] else { panic!("{status:?}") };
        assert_eq!((&*holder.label, holder.meta.as_deref()), ("client 1", Some("nightly")));
        assert_eq!((holder.held_for, holder.time_left), (Some(secs(10)), Some(secs(20))));
        let [waiter] = &status.waiters[..] else { panic!("{status:?}") };
        assert_eq!(
            (&*waiter.label, waiter.mode, waiter.waiting_for),
            ("client 2", Read, Some(secs(7)))
        );
        assert_eq!(desk.state.held(id(A), desk.now).unwrap().fence, holder.fence);
        assert!(desk.state.held(id(B), desk.now).is_none());
    }

    #[test]
    fn status_is_true_before_anyone_has_stepped() {
        let mut desk = Desk::default();
        desk.ask_with_delay(A, Exclusive, 10);
        desk.at(10).ask_for(B, Exclusive, 5);
        let status = desk.at(32).status();
        assert!(status.holders.is_empty() && status.waiters.is_empty());
        assert_eq!((status.closed_for, status.is_busy()), (Some(secs(8)), true));
        assert_eq!(status.last.unwrap().ended, Predecessor::Expired);
    }
}

mod sessions {
    use super::*;

    #[test]
    fn keep_leases_and_places_alive() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.ask(B, Exclusive);
        desk.state.follow(|session| moment(if session == 1 { 100 } else { 200 }));
        desk.at(99).tick();
        assert_eq!((desk.holding(), desk.waiting()), (vec![A], vec![B]));
        desk.at(100).tick();
        assert_eq!(desk.holding(), [B]);
    }

    #[test]
    fn that_end_early_end_their_leases() {
        let mut desk = Desk::default();
        desk.ask(A, Exclusive);
        desk.ask(B, Exclusive);
        desk.state.follow(|session| if session == 1 { moment(2) } else { moment(30) });
        desk.at(3).tick();
        assert_eq!(desk.handed_over(), [B]);
        assert_eq!(predecessor(&desk.ask(B, Exclusive)), Predecessor::Expired);
    }

    #[test]
    fn that_vanished_still_leave_their_lock_delay_and_are_remembered() {
        let mut desk = Desk::default();
        desk.at(1000).ask_with_delay(A, Exclusive, 10);
        desk.state.follow(|_| Moment::default());
        desk.at(1005).tick();
        assert_eq!(desk.status().closed_for, Some(secs(10)));
        assert_eq!(desk.state.forget_at(), Some(moment(1005 + 60)));
    }

    #[test]
    fn do_not_touch_a_lease_that_has_none() {
        let mut desk = Desk::default();
        let fixed = Verb::Acquire { claim: Box::new(claim(A, Read)), session: 0 };
        desk.step(fixed);
        desk.ask(B, Read);
        desk.state.follow(|_| moment(100));
        desk.at(30).tick();
        assert_eq!(desk.holding(), [B]);
    }

    #[test]
    fn are_listed_apart_for_holders_and_everyone() {
        let mut desk = Desk::default();
        desk.step(Verb::Acquire { claim: Box::new(claim(9, Read)), session: 0 });
        desk.ask(A, Read);
        desk.ask(B, Write);
        assert_eq!(desk.state.sessions().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(desk.state.holding_sessions().collect::<Vec<_>>(), [1]);
    }
}

/// What two releases make of each other's texts, if they ever get to read them.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod layouts {
    use std::collections::VecDeque;

    use super::super::seat::{Ended, Lease};
    use super::*;

    const HOLDER: &str = r#"{"seat":{"id":"00000000000000000000000000000001","mode":"Exclusive","owner":{"id":7,"label":"client 1"},"ttl":{"secs":30,"nanos":0},"delay":{"secs":0,"nanos":0},"meta":null,"session":1,"since":0,"expires":30000000000},"fence":1,"predecessor":"None"}"#;
    const WAITER: &str = r#"{"id":"00000000000000000000000000000002","mode":"Exclusive","owner":{"id":8,"label":"client 2"},"ttl":{"secs":30,"nanos":0},"delay":{"secs":0,"nanos":0},"meta":null,"session":2,"since":0,"expires":30000000000}"#;

    /// As the release before had it: whoever waits is in the text.
    #[derive(serde::Deserialize)]
    struct StateWithItsLine {
        holders: Vec<Lease>,
        queue: VecDeque<Seat>,
        closed_until: Moment,
        last: Option<Ended>,
    }

    /// Texts of the release before: how many hold, how many wait.
    fn before() -> Vec<(String, [usize; 2])> {
        let text = |holders: &[&str], queue: &[&str]| {
            let (holds, waits) = (holders.join(","), queue.join(","));
            let text = format!(
                r#"{{"holders":[{holds}],"queue":[{waits}],"closed_until":0,"last":null}}"#
            );
            (text, [holders.len(), queue.len()])
        };
        // Two who wait: a line of ours is two numbers.
        vec![
            text(&[], &[]),
            text(&[HOLDER], &[]),
            text(&[HOLDER], &[WAITER]),
            text(&[HOLDER], &[WAITER; 2]),
        ]
    }

    /// Texts of this release: free; held; held and waited for, with the rows from 0 on.
    fn now() -> [String; 3] {
        let end = r#""closed_until":0,"last":null}"#;
        [
            format!(r#"{{"holders":[],{end}"#),
            format!(r#"{{"holders":[{HOLDER}],{end}"#),
            format!(r#"{{"holders":[{HOLDER}],"queue":[0,1],{end}"#),
        ]
    }

    #[test]
    fn a_name_of_the_release_before_is_refused_and_never_taken_for_free() {
        for (text, _) in before() {
            let read = serde_json::from_str::<State>(&text);
            assert!(read.is_err(), "{text}: {read:?}");
        }
    }

    #[test]
    fn the_release_before_can_read_no_name_of_ours() {
        for text in now() {
            let ours: State = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&ours).unwrap(), text, "it is what we write");
            assert!(serde_json::from_str::<StateWithItsLine>(&text).is_err(), "{text}");
        }
        // It reads its own: that is how it was.
        for (text, [holders, waiters]) in before() {
            let theirs: StateWithItsLine = serde_json::from_str(&text).unwrap();
            assert_eq!((theirs.holders.len(), theirs.queue.len()), (holders, waiters));
            assert_eq!((theirs.closed_until, theirs.last), (Moment::default(), None));
        }
    }
}

#[test]
fn a_shifted_name_goes_on_as_if_nothing_had_happened() {
    let mut desk = Desk::default();
    desk.at(1000).ask(A, Read);
    desk.ask(B, Read);
    desk.at(1005).release_closed_for(B, 10);
    desk.ask(C, Read);
    let before = format!("{:?}", desk.status());
    desk.state.shift(|moment| moment.before(secs(900)));
    assert_eq!(format!("{:?}", desk.at(105).status()), before);
    desk.at(115).tick();
    assert_eq!(desk.handed_over(), [C]);
}

/// Random lives of one name, compared with a model and watched by an observer.
mod lives {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    const CLIENTS: u8 = 6;

    #[derive(Clone, Debug)]
    enum Op {
        Claim { who: u8, mode: Mode, ttl: u64, delay: u64, wait: bool },
        Again { who: u8, ttl: u64 },
        Renew { who: u8, ttl: u64 },
        Release { who: u8, closed: Option<u64> },
        Convert { who: u8, to: Mode },
        EvictFence { back: u64 },
        EvictLease { who: u8 },
        EvictAll,
        Tick,
    }

    fn modes(kind: u8) -> BoxedStrategy<Mode> {
        let semaphore = (1..=5_u32).prop_map(|take| Mode::Permits { take, of: 5 });
        match kind {
            0 => Just(Exclusive).boxed(),
            1 => prop_oneof![2 => Just(Read), 1 => Just(Write)].boxed(),
            2 => semaphore.boxed(),
            _ => prop_oneof![Just(Exclusive), Just(Read), Just(permits(2)), semaphore].boxed(),
        }
    }

    fn ops(kind: u8) -> impl Strategy<Value = Vec<(u64, Op)>> {
        let mode = || prop_oneof![12 => modes(kind), 1 => modes(3)];
        let who = || 1..=CLIENTS;
        let some = || prop_oneof![3 => Just(0), 1 => 1..=10_u64];
        let op = prop_oneof![
            16 => (who(), mode(), 3..=40_u64, some(), prop::bool::weighted(0.8))
                .prop_map(|(who, mode, ttl, delay, wait)| Op::Claim { who, mode, ttl, delay, wait }),
            3 => (who(), 1..=40_u64).prop_map(|(who, ttl)| Op::Again { who, ttl }),
            6 => (who(), 1..=40_u64).prop_map(|(who, ttl)| Op::Renew { who, ttl }),
            8 => (who(), prop::option::weighted(0.2, prop_oneof![5 => 1..=10_u64, 1 => 60..=120_u64]))
                .prop_map(|(who, closed)| Op::Release { who, closed }),
            3 => (who(), mode()).prop_map(|(who, to)| Op::Convert { who, to }),
            1 => (0..=2_u64).prop_map(|back| Op::EvictFence { back }),
            1 => who().prop_map(|who| Op::EvictLease { who }),
            1 => Just(Op::EvictAll),
            2 => Just(Op::Tick),
        ];
        let pause = prop_oneof![4 => Just(0), 4 => 1..=6_u64, 1 => 7..=45_u64];
        prop::collection::vec((pause, op), 1..60)
    }

    /// All claims in one list, by arrival; time in whole seconds.
    #[derive(Default)]
    struct Model {
        now: u64,
        fence: u64,
        claims: Vec<Claimed>,
        closed_until: u64,
        last: Option<Past>,
        told: Vec<FollowUp>,
    }

    #[derive(Clone)]
    struct Claimed {
        who: u8,
        mode: Mode,
        ttl: u64,
        delay: u64,
        until: u64,
        granted: Option<(u64, Predecessor)>,
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Past {
        fence: u64,
        how: Predecessor,
        at: u64,
        linger: u64,
    }

    fn crowded(modes: &[Mode]) -> bool {
        let writers = modes.iter().filter(|mode| matches!(mode, Exclusive | Write)).count();
        let taken = |mode: &Mode| match mode {
            Mode::Permits { take, .. } => *take,
            _ => 0,
        };
        let total = modes.iter().map(taken).sum::<u32>();
        let over = |mode: &Mode| matches!(mode, Mode::Permits { of, .. } if total > *of);
        (writers > 0 && modes.len() > 1) || modes.iter().any(over)
    }

    const fn kind(mode: Mode) -> (u8, u32) {
        match mode {
            Exclusive => (0, 0),
            Read | Write => (1, 0),
            Mode::Permits { of, .. } => (2, of),
        }
    }

    impl Model {
        fn find(&mut self, who: u8) -> Option<&mut Claimed> {
            self.claims.iter_mut().find(|claim| claim.who == who)
        }

        fn by_fence(&self) -> Vec<Claimed> {
            let mut held: Vec<_> = self.claims.iter().filter(|c| c.granted.is_some()).collect();
            held.sort_by_key(|claim| claim.granted.unwrap().0);
            held.into_iter().cloned().collect()
        }

        fn queue(&self) -> Vec<Claimed> {
            self.claims.iter().filter(|claim| claim.granted.is_none()).cloned().collect()
        }

        fn end(&mut self, who: u8, how: Predecessor, at: u64) {
            let claim = self.find(who).unwrap().clone();
            self.claims.retain(|other| other.who != who);
            let repairs = claim.mode != Read || how != Predecessor::Released;
            let clean = self.last.is_none_or(|last| last.how == Predecessor::Released);
            if let Some((fence, _)) = claim.granted.filter(|_| repairs || clean) {
                self.last = Some(Past { fence, how, at, linger: (claim.ttl * 2).max(60) });
            }
        }

        fn pass(&mut self, seconds: u64) {
            for now in self.now..=self.now + seconds {
                for claim in self.by_fence() {
                    if claim.until == now {
                        self.closed_until = self.closed_until.max(now + claim.delay);
                        self.end(claim.who, Predecessor::Expired, now);
                    }
                }
            }
            self.now += seconds;
            let now = self.now;
            self.claims.retain(|claim| claim.until > now);
        }

        fn serve(&mut self) {
            while let Some(next) = self.claims.iter().position(|claim| claim.granted.is_none()) {
                if !self.admits(self.claims[next].mode) {
                    return;
                }
                let (fence, predecessor) = self.draw();
                self.claims[next].granted = Some((fence, predecessor));
                let who = self.claims[next].who;
                let session = u64::from(who);
                self.told.push(FollowUp::HandedOver { id: id(who), session, fence, predecessor });
            }
        }

        fn admits(&self, mode: Mode) -> bool {
            let mut modes: Vec<_> = self.by_fence().iter().map(|claim| claim.mode).collect();
            modes.push(mode);
            self.now >= self.closed_until && !crowded(&modes)
        }

        fn draw(&mut self) -> (u64, Predecessor) {
            self.fence += 1;
            (self.fence, self.last.map_or(Predecessor::None, |last| last.how))
        }

        fn step(&mut self, pause: u64, op: &Op) -> Answer {
            self.told.clear();
            self.pass(pause);
            if !matches!(op, Op::Release { .. }) {
                self.serve();
            }
            let answer = self.answer(op);
            self.serve();
            answer
        }

        fn answer(&mut self, op: &Op) -> Answer {
            let now = self.now;
            match *op {
                Op::Claim { who, mode, ttl, delay, wait } => {
                    self.claim(who, mode, ttl, delay, wait)
                }
                Op::Renew { who, ttl } => match self.find(who) {
                    Some(claim) => {
                        claim.until = claim.until.max(now + ttl);
                        let ttl = secs(claim.until - now);
                        match claim.granted {
                            Some(_) => Answer::Held { ttl },
                            None => Answer::Queued { ttl },
                        }
                    }
                    None => Answer::Gone,
                },
                Op::Release { who, closed } => match self.find(who).cloned() {
                    Some(claim) => {
                        if let Some(span) = closed.filter(|_| claim.granted.is_some()) {
                            self.closed_until = self.closed_until.max(now + span);
                        }
                        self.end(who, Predecessor::Released, now);
                        Answer::Released
                    }
                    None => Answer::Gone,
                },
                Op::Convert { who, to } => match self.find(who) {
                    Some(claim) if claim.granted.is_some() => {
                        if (claim.mode, to) != (Write, Read) && claim.mode != to {
                            return Answer::OtherKind(claim.mode);
                        }
                        claim.mode = to;
                        Answer::Held { ttl: secs(claim.until - now) }
                    }
                    _ => Answer::Gone,
                },
                Op::EvictFence { back } => {
                    let fence = self.fence.saturating_sub(back);
                    self.evict(|claim| claim.granted.unwrap().0 == fence)
                }
                Op::EvictLease { who } => self.evict(|claim| claim.who == who),
                Op::EvictAll => {
                    self.closed_until = 0;
                    self.evict(|_| true)
                }
                Op::Tick => Answer::Ticked,
                Op::Again { .. } => unreachable!("spelt out"),
            }
        }

        fn claim(&mut self, who: u8, mode: Mode, ttl: u64, delay: u64, wait: bool) -> Answer {
            let now = self.now;
            if let Some(claim) = self.find(who) {
                if claim.mode != mode {
                    return Answer::OtherKind(claim.mode);
                }
                if claim.granted.is_none() && !wait {
                    self.claims.retain(|other| other.who != who);
                    return busy(None);
                }
                claim.until = claim.until.max(now + ttl);
                let ttl = secs(claim.until - now);
                return match claim.granted {
                    Some((fence, predecessor)) => Answer::Granted { fence, ttl, predecessor },
                    None => busy(Some(ttl)),
                };
            }
            let first = self.by_fence().into_iter().chain(self.queue()).next();
            if let Some(first) = first.filter(|first| kind(first.mode) != kind(mode)) {
                return Answer::OtherKind(first.mode);
            }
            let until = now + ttl;
            let mut claim = Claimed { who, mode, ttl, delay, until, granted: None };
            if self.queue().is_empty() && self.admits(mode) {
                let (fence, predecessor) = self.draw();
                claim.granted = Some((fence, predecessor));
                self.claims.push(claim);
                return Answer::Granted { fence, ttl: secs(ttl), predecessor };
            }
            if wait {
                self.claims.push(claim);
            }
            busy(wait.then_some(secs(ttl)))
        }

        fn evict(&mut self, hit: impl Fn(&Claimed) -> bool) -> Answer {
            let mut taken = Vec::new();
            for claim in self.by_fence().into_iter().filter(hit) {
                self.end(claim.who, Predecessor::Evicted, self.now);
                self.told
                    .push(FollowUp::Evicted { id: id(claim.who), session: u64::from(claim.who) });
                taken.push(id(claim.who));
            }
            Answer::Evicted(taken)
        }

        fn forget_at(&self) -> Option<u64> {
            let past = self.last.map_or(0, |last| last.at + last.linger);
            self.claims.is_empty().then(|| past.max(self.closed_until))
        }
    }

    fn busy(placed: Option<Duration>) -> Answer {
        Answer::Busy { holder: None, recheck_in: Duration::ZERO, placed }
    }

    /// What the model can tell of an answer.
    fn plain(answer: &Answer) -> Answer {
        match answer {
            Answer::Busy { placed, .. } => busy(*placed),
            other => other.clone(),
        }
    }

    impl Desk {
        fn run(&mut self, op: &Op) -> Answer {
            match *op {
                Op::Claim { who, mode, ttl, delay, wait } => {
                    let mut claim = claim(who, mode);
                    (claim.ttl, claim.lock_delay) = (secs(ttl), secs(delay));
                    if !wait {
                        claim.stance = Stance::Try;
                    }
                    self.put(claim)
                }
                Op::Renew { who, ttl } => self.renew(who, ttl),
                Op::Release { who, closed } => {
                    let ending =
                        closed.map_or_else(Ending::new, |span| Ending::closed_for(secs(span)));
                    self.step(Verb::Release { id: id(who), ending })
                }
                Op::Convert { who, to } => self.convert(who, to),
                Op::EvictFence { back } => {
                    let mut seen = self.clone();
                    seen.tick();
                    self.evict(Target::Fence(seen.fence.saturating_sub(back)))
                }
                Op::EvictLease { who } => self.evict(Target::Lease(id(who))),
                Op::EvictAll => self.evict(Target::All),
                Op::Tick => self.tick(),
                Op::Again { .. } => unreachable!("spelt out"),
            }
        }

        /// A claim again is one in the mode it was.
        fn spelt_out(&self, op: Op) -> Op {
            let Op::Again { who, ttl } = op else { return op };
            let mode = self.state.mode_of(id(who)).unwrap_or(Exclusive);
            Op::Claim { who, mode, ttl, delay: 0, wait: true }
        }

        fn seats(&self) -> impl Iterator<Item = &Seat> {
            self.state.holders.iter().map(|lease| &lease.seat).chain(self.state.queue.iter())
        }

        fn waiting_at(&self, now: Moment) -> Vec<u8> {
            let alive = self.state.queue.iter().filter(|seat| seat.expires > now);
            alive.map(|seat| client(seat.id)).collect()
        }

        fn ends(&self) -> BTreeMap<u8, Moment> {
            self.seats().map(|seat| (client(seat.id), seat.expires)).collect()
        }

        /// When this client would be served if it were the only one left alive.
        fn served_at(&self, who: u8, mode: Mode) -> Moment {
            let mut alone = self.clone();
            alone.ask_for(who, mode, 1_000_000);
            let start = self.now;
            let later = (0..1000).map(|second| start.after(secs(second)));
            let served = |now: &Moment| {
                alone.now = *now;
                alone.tick();
                alone.holding().contains(&who)
            };
            later.into_iter().find(served).expect("everyone else is dead by now")
        }
    }

    /// Sees answers, follow_ups and states, and knows what must never be.
    #[derive(Default)]
    struct Observer {
        highest: u64,
    }

    impl Observer {
        fn look(&mut self, before: &Desk, after: &Desk, op: &Op, answer: &Answer) {
            assert_room(after);
            assert_ends(before, after, op, answer);
            assert_hand_over(before, after, answer);
            assert_order(before, after, op, answer);
            self.assert_fences(before, after, answer);
            if let (Op::Claim { who, mode, .. }, Answer::Busy { .. }) = (op, answer) {
                assert_busy(after, *who, *mode, answer);
            }
        }

        fn assert_fences(&mut self, before: &Desk, after: &Desk, answer: &Answer) {
            let handed = after.told.iter().filter_map(|follow_up| match follow_up {
                FollowUp::HandedOver { fence, .. } => Some(*fence),
                FollowUp::Evicted { .. } | FollowUp::Ended { .. } => None,
            });
            let mut fences: Vec<u64> = handed.collect();
            if let Answer::Granted { fence, .. } = answer
                && before.state.holders.iter().all(|lease| lease.fence != *fence)
                && !fences.contains(fence)
            {
                assert!(after.waiting().is_empty(), "barged in");
                fences.push(*fence);
            }
            for fence in fences {
                assert!(fence > self.highest, "fence {fence} after {}", self.highest);
                self.highest = fence;
            }
            assert_eq!(after.fence, self.highest, "fences are only drawn for grants");
        }
    }

    fn assert_order(before: &Desk, after: &Desk, op: &Op, answer: &Answer) {
        let (waiting, holding) = (after.waiting(), after.holding());
        let mut arrived = before.waiting_at(after.now);
        if let (Op::Claim { who, wait: true, .. }, Answer::Busy { .. }) = (op, answer)
            && !arrived.contains(who)
        {
            arrived.push(*who);
        }
        let still = |who: &u8| waiting.contains(who);
        let queued: Vec<u8> = arrived.iter().copied().filter(still).collect();
        assert_eq!(queued, waiting, "the queue keeps the order of arrival");
        if let Some(first) = arrived.iter().position(still) {
            let late = arrived[first..].iter().find(|who| holding.contains(who));
            assert_eq!(late, None, "was served before {}", arrived[first]);
        }
    }

    fn assert_room(after: &Desk) {
        let modes: Vec<Mode> = after.state.holders.iter().map(|lease| lease.seat.mode).collect();
        assert!(!crowded(&modes), "conflicting leases: {modes:?}");
        let kinds: BTreeSet<_> = after.seats().map(|seat| kind(seat.mode)).collect();
        assert!(kinds.len() <= 1, "mixed kinds: {kinds:?}");
        assert!(after.seats().all(|seat| seat.expires > after.now), "outlived its expiry");
        if let Some(head) = after.state.queue.head()
            && after.state.closed_until <= after.now
        {
            let beside = [modes, vec![head.mode]].concat();
            assert!(crowded(&beside), "there is room for the head: {beside:?}");
        }
    }

    fn assert_ends(before: &Desk, after: &Desk, op: &Op, answer: &Answer) {
        let (earlier, later) = (before.ends(), after.ends());
        for (who, end) in &later {
            let asked =
                matches!(op, Op::Claim { who: by, .. } | Op::Renew { who: by, .. } if by == who);
            match earlier.get(who) {
                Some(earlier) if asked => {
                    assert!(earlier <= end, "the lease of {who} was shortened")
                }
                Some(earlier) => assert_eq!(earlier, end, "{who} did not ask"),
                None => assert!(
                    matches!(op, Op::Claim { who: claimer, .. } if claimer == who),
                    "{who} is back without a claim"
                ),
            }
        }
        if let Op::Renew { who, .. } | Op::Release { who, .. } | Op::Convert { who, .. } = op {
            let alive = earlier.get(who).is_some_and(|end| *end > after.now);
            let waits = before.waiting().contains(who) && !after.holding().contains(who);
            let gone = !alive || (waits && matches!(op, Op::Convert { .. }));
            assert_eq!(*answer == Answer::Gone, gone, "{who} is alive: {alive}");
        }
    }

    fn assert_hand_over(before: &Desk, after: &Desk, answer: &Answer) {
        let mut now_holding = after.holding();
        if let Answer::Evicted(ids) = answer {
            now_holding.extend(ids.iter().copied().map(client));
        }
        let became =
            before.waiting_at(after.now).into_iter().filter(|who| now_holding.contains(who));
        assert_eq!(after.handed_over(), became.collect::<Vec<_>>());
    }

    fn assert_busy(after: &Desk, who: u8, mode: Mode, answer: &Answer) {
        let Answer::Busy { holder, recheck_in, .. } = answer else { return };
        let eldest = after.state.holders.iter().map(|lease| lease.fence).min();
        assert_eq!(holder.as_ref().and_then(|holder| holder.fence), eldest);
        let ahead = after.state.queue.iter().take_while(|seat| seat.id != id(who));
        let chance = ahead.map(|seat| seat.expires).max().unwrap_or_default();
        let latest = chance.max(after.served_at(who, mode));
        assert!(!recheck_in.is_zero(), "a busy loop");
        assert!(after.now.after(*recheck_in) <= latest, "{who} would look too late");
    }

    fn assert_same(desk: &Desk, model: &Model) {
        let status = desk.status();
        let shown: Vec<_> = status.holders.iter().map(|h| (h.fence, h.mode, h.time_left)).collect();
        let left = |claim: &Claimed| secs(claim.until - model.now);
        let of = |c: Claimed| (Some(c.granted.unwrap().0), c.mode, Some(left(&c)));
        assert_eq!(shown, model.by_fence().into_iter().map(of).collect::<Vec<_>>());
        let queue: Vec<u8> = model.queue().iter().map(|claim| claim.who).collect();
        assert_eq!(desk.waiting(), queue);
        let closed = model.closed_until.saturating_sub(model.now);
        assert_eq!(status.closed_for, (closed > 0).then_some(secs(closed)));
        let last = status.last.map(|last| (last.fence, last.ended, last.ago));
        let past = model.last.map(|past| (past.fence, past.how, secs(model.now - past.at)));
        assert_eq!(last, past);
        assert_eq!(desk.state.forget_at(), model.forget_at().map(moment));
    }

    /// The same step on a clock whose zero is elsewhere.
    fn assert_shiftable(before: &Desk, after: &Desk, op: &Op, answer: &Answer) {
        let mut moved = before.clone();
        moved.state.shift(|moment| moment.after(secs(5000)));
        moved.now = after.now.after(secs(5000));
        assert_eq!((&moved.run(op), &moved.told), (answer, &after.told));
    }

    /// Lives through the operations and shows each step: the desk before and
    /// after it, the pause ahead of it, what was asked and what was answered.
    fn live(ops: Vec<(u64, Op)>, mut show: impl FnMut(&Desk, &Desk, u64, &Op, &Answer)) -> Desk {
        let mut desk = Desk::default();
        for (pause, op) in ops {
            let before = desk.clone();
            desk.now = desk.now.after(secs(pause));
            let op = desk.spelt_out(op);
            let answer = desk.run(&op);
            show(&before, &desk, pause, &op, &answer);
        }
        desk
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn follow_the_model(ops in (0..4_u8).prop_flat_map(ops)) {
            let mut model = Model::default();
            live(ops, |_, desk, pause, op, answer| {
                assert_eq!(plain(answer), model.step(pause, op));
                assert_eq!(desk.told, model.told);
                assert_same(desk, &model);
            });
        }

        #[test]
        fn keep_the_rules(ops in (0..4_u8).prop_flat_map(ops)) {
            let mut observer = Observer::default();
            let mut desk = live(ops, |before, after, _, op, answer| {
                observer.look(before, after, op, answer);
            });
            for _ in 0..=CLIENTS {
                desk.now = desk.now.after(secs(200));
                desk.tick();
            }
            assert!(desk.state.forget_at().is_some_and(|at| at <= desk.now), "never forgotten");
        }

        #[test]
        fn survive_a_new_clock(ops in (0..4_u8).prop_flat_map(ops)) {
            live(ops, |before, after, _, op, answer| assert_shiftable(before, after, op, answer));
        }

        #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
        #[test]
        fn are_the_same_for_who_loads_the_front_of_the_line(
            ops in (0..4_u8).prop_flat_map(ops),
            window in 1..4_usize,
        ) {
            let mut shelf = Shelf::new(window);
            live(ops, |_, desk, _, op, answer| shelf.assert_same(desk, op, answer));
        }
    }

    /// What an engine with rows may get wrong.
    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum ShelfFault {
        /// It takes the front for the whole line.
        EndsAtTheWindow,
        /// It loads the front alone, and not whoever is asked about.
        ForgetsWhoAsks,
        /// It serves whoever is loaded, and then stops.
        StopsAtTheWindow,
        /// It lets the one who leaves be served first.
        ServesOnTheWayOut,
        /// It leaves the rows of those who have gone.
        KeepsRows,
    }

    /// A name as an engine with rows keeps it: it loads the front of the line,
    /// the one that is asked about and the one before that.
    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    struct Shelf {
        window: usize,
        fault: Option<ShelfFault>,
        text: String,
        rows: BTreeMap<u64, (u8, String)>,
        part: Desk,
    }

    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    impl Shelf {
        fn new(window: usize) -> Self {
            let (text, part) =
                ("{\"holders\":[],\"closed_until\":0,\"last\":null}".into(), Desk::default());
            Self { window, fault: None, text, rows: BTreeMap::new(), part }
        }

        fn has(&self, fault: ShelfFault) -> bool {
            self.fault == Some(fault)
        }

        fn assert_same(&mut self, desk: &Desk, op: &Op, answer: &Answer) {
            self.part.now = desk.now;
            self.load(op);
            let mut told = Vec::new();
            if !matches!(op, Op::Release { .. }) || self.has(ShelfFault::ServesOnTheWayOut) {
                self.pass(&mut told);
            }
            let ours = self.part.run(op);
            told.append(&mut self.part.told);
            self.pass(&mut told);
            self.store();
            assert_eq!((plain(&ours), &told), (plain(answer), &desk.told));
            self.part.state = serde_json::from_str(&self.text).unwrap();
            let all = self.rows.iter().map(|(place, (_, text))| (*place, &**text));
            self.part.state.load_seats(all.collect::<Vec<_>>(), None).unwrap();
            assert_eq!(format!("{:?}", self.part.status()), format!("{:?}", desk.status()));
            assert_eq!(self.part.state.forget_at(), desk.state.forget_at());
        }

        fn load(&mut self, op: &Op) {
            self.part.state = serde_json::from_str(&self.text).unwrap();
            if let Some(from) = self.part.state.lacks_from() {
                self.load_front(from);
            }
            if self.has(ShelfFault::ForgetsWhoAsks) {
                return;
            }
            let (Op::Claim { who, .. } | Op::Renew { who, .. } | Op::Release { who, .. }) = op
            else {
                return;
            };
            let own = self.rows.iter().find(|(_, (by, _))| by == who).map(|(place, _)| *place);
            let before = self.rows.range(..own.unwrap_or(u64::MAX)).next_back();
            let beside = before.map(|(place, _)| *place).into_iter().chain(own);
            let beside: Vec<_> = beside.map(|place| (place, &*self.rows[&place].1)).collect();
            self.part.state.load_seats(beside, Some(0)).unwrap();
        }

        fn load_front(&mut self, from: u64) {
            let front = self.rows.range(from..).map(|(place, (_, text))| (*place, &**text));
            let front: Vec<_> = front.take(self.window).collect();
            let full = front.len() == self.window && !self.has(ShelfFault::EndsAtTheWindow);
            let below = front.last().filter(|_| full).map(|(place, _)| place + 1);
            self.part.state.load_seats(front, below).unwrap();
        }

        /// Lets time pass until nobody can be served any more.
        fn pass(&mut self, told: &mut Vec<FollowUp>) {
            self.part.tick();
            told.append(&mut self.part.told);
            while let Some(from) = self.part.state.lacks_from() {
                if self.has(ShelfFault::StopsAtTheWindow) {
                    return;
                }
                self.load_front(from);
                self.part.tick();
                told.append(&mut self.part.told);
            }
        }

        fn store(&mut self) {
            self.text = serde_json::to_string(&self.part.state).unwrap();
            let changes = self.part.state.seat_changes().unwrap();
            let gone = if self.has(ShelfFault::KeepsRows) { Vec::new() } else { changes.gone };
            gone.iter().for_each(|place| drop(self.rows.remove(place)));
            let row = |row: SeatRow| (row.place, (client(row.lease), row.text));
            self.rows.extend(changes.new.into_iter().map(row));
            // Here no session keeps the expiry.
            for seat in self.part.state.queue.iter() {
                let row = self.rows.values_mut().find(|(who, _)| *who == client(seat.id));
                row.unwrap().1 = serde_json::to_string(seat).unwrap();
            }
        }
    }

    /// Whether the comparison finds a fault.
    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    fn is_found(fault: ShelfFault) -> bool {
        let config =
            ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) };
        let lives = ((0..4_u8).prop_flat_map(ops), 1..4_usize);
        let found = proptest::test_runner::TestRunner::new(config).run(&lives, |(ops, window)| {
            let mut shelf = Shelf { fault: Some(fault), ..Shelf::new(window) };
            live(ops, |_, desk, _, op, answer| shelf.assert_same(desk, op, answer));
            Ok(())
        });
        found.is_err()
    }

    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    #[test]
    fn would_differ_for_an_engine_that_got_the_rows_wrong() {
        use ShelfFault::{
            EndsAtTheWindow, ForgetsWhoAsks, KeepsRows, ServesOnTheWayOut, StopsAtTheWindow,
        };
        for fault in
            [EndsAtTheWindow, ForgetsWhoAsks, StopsAtTheWindow, ServesOnTheWayOut, KeepsRows]
        {
            assert!(is_found(fault), "{fault:?} was not found");
        }
    }
}
