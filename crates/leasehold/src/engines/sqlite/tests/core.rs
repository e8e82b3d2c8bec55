//! The same verbs on the pure core and on the engine: equal answers.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::*;
use crate::claim::{LeaseId, Predecessor};
use crate::engine::Target;
use crate::engine::state::{Answer, SessionId, State, Verb, step};
use crate::mutant::{Mutant, each_is_found};

#[derive(Clone, Copy, Debug)]
enum Move {
    Acquire(usize, bool),
    Release(usize, Option<u64>),
    Renew(usize),
    Convert(usize),
    Evict(usize),
    Pass(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let who = 0..TICKETS;
    let one = prop_oneof![
        6 => (who.clone(), any::<bool>()).prop_map(|(who, waits)| Move::Acquire(who, waits)),
        3 => (who.clone(), prop::option::weighted(0.2, 1..20u64)).prop_map(|(w, c)| Move::Release(w, c)),
        3 => who.clone().prop_map(Move::Renew),
        1 => who.clone().prop_map(Move::Convert),
        1 => who.prop_map(Move::Evict),
        3 => (1..12u64).prop_map(Move::Pass),
    ];
    prop::collection::vec(one, 1..60)
}

const TICKETS: usize = 9;

/// Nine claims on three names: exclusive, read and write, permits; some fixed,
/// some with a lock delay, of two ttls.
fn cast() -> Vec<Claim> {
    (0..TICKETS).map(|at| claimed(at, at / 3)).collect()
}

/// Nine claims on one name, whose line is longer than what is loaded of it.
fn crowd(kind: usize) -> Vec<Claim> {
    (0..TICKETS).map(|at| claimed(at, kind)).collect()
}

/// Most of them wait, and two only try.
fn with_a_line(script: Vec<Move>) -> Vec<Move> {
    let patient = |one| match one {
        Move::Acquire(who, _) => Move::Acquire(who, who < TICKETS - 2),
        other => other,
    };
    script.into_iter().map(patient).collect()
}

fn claimed(at: usize, kind: usize) -> Claim {
    let permits = |take| Mode::Permits { take, of: 3 };
    let modes = [
        [Mode::Exclusive, Mode::Exclusive, Mode::Exclusive],
        [Mode::Read, Mode::Write, Mode::Write],
        [permits(1), permits(2), permits(3)],
    ];
    let ticket = Ticket::new(name(["a", "b", "c"][kind]), modes[kind][at % 3]);
    let mut claim = Claim::new(ticket, Owner::new(format!("owner {at}")), secs([10, 25][at % 2]));
    claim.renewed = !matches!(at, 1 | 5 | 6);
    claim.lock_delay = if at.is_multiple_of(4) { secs(7) } else { Duration::ZERO };
    claim
}

#[derive(Clone, Copy, Debug)]
struct Liveness {
    expires: Moment,
    delay: Duration,
}

#[derive(Debug, Default)]
struct Model {
    names: HashMap<Name, State>,
    fence: u64,
    sessions: HashMap<SessionId, Liveness>,
    by_ttl: HashMap<Duration, SessionId>,
    known: HashMap<LeaseId, (SessionId, bool)>,
    last_id: SessionId,
    now: Moment,
}

impl Model {
    fn step(&mut self, name: &Name, verb: Verb) -> Answer {
        let state = self.names.entry(name.clone()).or_default();
        let sessions = &self.sessions;
        state.follow(|id| sessions.get(&id).map_or(Moment::default(), |life| life.expires));
        step(state, verb, self.now, &mut self.fence).answer
    }

    fn live(&self, id: SessionId) -> Option<Liveness> {
        self.sessions.get(&id).copied().filter(|life| life.expires > self.now)
    }

    fn extend(&mut self, id: SessionId, ttl: Duration) -> Option<Duration> {
        let mut life = self.live(id)?;
        life.expires = life.expires.max(self.now.after(ttl));
        self.sessions.insert(id, life);
        Some(life.expires.since(self.now))
    }

    fn session_for(&mut self, claim: &Claim) -> SessionId {
        let known = self.by_ttl.get(&claim.ttl).copied().filter(|_| claim.renewed).unwrap_or(0);
        let fresh = self.now.after(claim.ttl);
        let Some(life) = self.live(known) else {
            self.last_id += 1;
            self.sessions
                .insert(self.last_id, Liveness { expires: fresh, delay: claim.lock_delay });
            return self.last_id;
        };
        if life.expires.since(self.now) < claim.ttl / 8 * 7 || life.delay < claim.lock_delay {
            let delay = life.delay.max(claim.lock_delay);
            self.sessions.insert(known, Liveness { expires: life.expires.max(fresh), delay });
        }
        known
    }

    fn acquire(&mut self, claim: &Claim) -> Said {
        let id = claim.ticket.id;
        let before = self.sessions.clone();
        let session = self.session_for(claim);
        let verb = Verb::Acquire { claim: Box::new(claim.clone()), session };
        let answer = self.step(&claim.ticket.name, verb);
        let seat = self.names[&claim.ticket.name].find(id);
        let Some((seated, grant)) = seat else {
            self.sessions = before;
            self.known.remove(&id);
            return shown(&answer, None);
        };
        if seated != session {
            self.sessions = before;
            self.extend(seated, claim.ttl);
        } else if claim.renewed {
            self.by_ttl.insert(claim.ttl, session);
        }
        self.known.insert(id, (seated, grant.is_some()));
        shown(&answer, Some(self.sessions[&seated].expires.since(self.now)))
    }

    fn release(&mut self, ticket: &Ticket, keep_closed: Option<Duration>) -> Said {
        self.known.remove(&ticket.id);
        let ending = keep_closed.map_or_else(Ending::new, Ending::closed_for);
        shown(&self.step(&ticket.name, Verb::Release { id: ticket.id, ending }), None)
    }

    fn renew(&mut self, claim: &Claim) -> String {
        let Ticket { id, name, .. } = claim.ticket.clone();
        let known = self.known.get(&id).copied();
        let left = known.and_then(|(session, _)| self.extend(session, claim.ttl));
        if let Some((_, true)) = known {
            return left.map_or_else(|| self.gone(id), |left| format!("held {left:?}"));
        }
        self.step(&name, Verb::Renew { id, ttl: claim.ttl });
        let Some((session, grant)) = self.names[&name].find(id) else { return self.gone(id) };
        let left = self.extend(session, claim.ttl).unwrap();
        self.known.insert(id, (session, grant.is_some()));
        match grant {
            Some(_) => format!("held {left:?}"),
            None => format!("queued {left:?}"),
        }
    }

    fn gone(&mut self, id: LeaseId) -> String {
        self.known.remove(&id);
        "gone".into()
    }

    fn convert(&mut self, ticket: &Ticket) -> Said {
        shown(&self.step(&ticket.name, Verb::Convert { id: ticket.id, to: Mode::Read }), None)
    }

    fn evict(&mut self, name: &Name) -> String {
        let verb = Verb::Evict { target: Target::All, remark: "me: because".into() };
        let Answer::Evicted(ids) = self.step(name, verb) else { unreachable!() };
        self.known.retain(|id, _| !ids.contains(id));
        format!("evicted {}", ids.len())
    }
}

/// An answer in words, and when to look again, if it says so.
#[derive(Debug)]
struct Said {
    words: String,
    look_in: Option<Duration>,
}

impl From<String> for Said {
    fn from(words: String) -> Self {
        Self { words, look_in: None }
    }
}

impl Said {
    /// Whoever stands behind one who has died is told to look earlier than by the
    /// core, where those before that one are not loaded; and never later.
    fn same(&self, expected: &Self) -> bool {
        let look = match (self.look_in, expected.look_in) {
            (Some(look), Some(latest)) => !look.is_zero() && look <= latest,
            (look, latest) => look == latest,
        };
        look && self.words == expected.words
    }
}

fn shown(answer: &Answer, left: Option<Duration>) -> Said {
    let words = match answer {
        Answer::Granted { fence, ttl, predecessor } => {
            format!("granted {fence} {:?} {predecessor:?}", left.unwrap_or(*ttl))
        }
        Answer::Busy { holder, recheck_in, .. } => {
            let words = format!("busy {holder:?} {left:?}");
            return Said { words, look_in: Some(*recheck_in) };
        }
        Answer::OtherKind(_) => "other kind".into(),
        Answer::Held { ttl } => format!("held {ttl:?}"),
        Answer::Released => "Released".into(),
        Answer::Gone => "gone".into(),
        other => format!("{other:?}"),
    };
    words.into()
}

async fn play(engine: &Sqlite, cast: &[Claim], one: Move) -> Said {
    let words = match one {
        Move::Acquire(at, waits) => return acquire(engine, with_stance(&cast[at], waits)).await,
        Move::Release(at, closed) => {
            let ending = closed.map_or_else(Ending::new, |s| Ending::closed_for(secs(s)));
            match engine.release(cast[at].ticket.clone(), ending).await.unwrap() {
                Released::Released => "Released".into(),
                Released::AlreadyLost => "gone".into(),
            }
        }
        Move::Renew(at) => {
            let mut refresh = Refresh::new(cast[at].ticket.clone(), cast[at].ttl);
            refresh.renewed = cast[at].renewed;
            renewal(engine.renew(vec![refresh]).await.remove(0))
        }
        Move::Convert(at) => match engine.convert(cast[at].ticket.clone(), Mode::Read).await {
            Ok(answer) => renewal(answer),
            Err(_) => "other kind".into(),
        },
        Move::Evict(at) => {
            let name = cast[at].ticket.name.clone();
            let eviction = Eviction::new(name, Target::All, "me", "because").unwrap();
            format!("evicted {}", engine.evict(eviction).await.unwrap().leases.len())
        }
        Move::Pass(_) => String::new(),
    };
    words.into()
}

async fn acquire(engine: &Sqlite, claim: Claim) -> Said {
    let words = match engine.acquire(claim).await {
        Ok(Verdict::Granted(Grant { fence, ttl, predecessor, .. })) => {
            format!("granted {fence} {ttl:?} {predecessor:?}")
        }
        Ok(Verdict::Busy(busy)) => {
            let left = busy.place.map(|place| place.ttl);
            let words = format!("busy {:?} {left:?}", busy.holder);
            return Said { words, look_in: Some(busy.recheck_in.unwrap()) };
        }
        Err(_) => "other kind".into(),
    };
    words.into()
}

fn renewal(answer: Renewal) -> String {
    match answer {
        Renewal::Held { ttl, .. } => format!("held {ttl:?}"),
        Renewal::Queued(place) => format!("queued {:?}", place.ttl),
        Renewal::Gone => "gone".into(),
        Renewal::Unknown(error) => panic!("{error:?}"),
    }
}

fn with_stance(claim: &Claim, waits: bool) -> Claim {
    let stance = if waits { Stance::Wait { until: Moment::NEVER } } else { Stance::Try };
    Claim { stance, ..claim.clone() }
}

fn expect(model: &mut Model, cast: &[Claim], one: Move) -> Said {
    match one {
        Move::Acquire(at, waits) => model.acquire(&with_stance(&cast[at], waits)),
        Move::Release(at, closed) => model.release(&cast[at].ticket, closed.map(secs)),
        Move::Renew(at) => model.renew(&cast[at]).into(),
        Move::Convert(at) => model.convert(&cast[at].ticket),
        Move::Evict(at) => model.evict(&cast[at].ticket.name.clone()).into(),
        Move::Pass(_) => String::new().into(),
    }
}

async fn compare(cast: Vec<Claim>, script: Vec<Move>) {
    let rig = Rig::new();
    let mut options = rig.options();
    options.sweep = Duration::MAX;
    let engine = Sqlite::open(options, rig.clock.clone().into()).await.unwrap();
    let probe = ticket("probe");
    let first = take(&engine, &probe).await;
    assert_eq!(first.predecessor, Predecessor::None);
    let mut model = Model { fence: first.fence, ..Model::default() };
    // The probe's session has a ttl of its own and does not disturb the rest.
    give_back(&engine, &probe).await;
    for (at, one) in script.iter().enumerate() {
        if let Move::Pass(seconds) = one {
            rig.clock.advance(secs(*seconds));
        }
        model.now = rig.clock.now();
        let wanted = expect(&mut model, &cast, *one);
        let got = play(&engine, &cast, *one).await;
        assert!(got.same(&wanted), "{got:?} is not {wanted:?}: move {at} of {script:?}");
    }
    engine.close().await.unwrap();
}

fn play_out(cast: Vec<Claim>, script: Vec<Move>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(compare(cast, script));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_engine_answers_as_the_pure_core_does(script in moves()) {
        play_out(cast(), script);
    }

    #[test]
    fn a_line_that_is_loaded_in_part_answers_as_the_pure_core_does(
        kind in 0..3_usize,
        script in moves(),
    ) {
        play_out(crowd(kind), with_a_line(script));
    }
}

#[test]
fn a_line_that_is_loaded_or_saved_wrong_is_found() {
    let config = ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 0,
        ..ProptestConfig::with_cases(3000)
    };
    let mutants = [
        Mutant::EndsAtTheWindow,
        Mutant::ForgetsWhoAsks,
        Mutant::StopsAtTheWindow,
        Mutant::ServesOnTheWayOut,
        Mutant::KeepsRows,
        Mutant::SavesNoRows,
    ];
    each_is_found(&mutants, || {
        let mut runner = TestRunner::new_with_rng(
            config.clone(),
            TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        );
        let compared = runner.run(&(0..3_usize, moves()), |(kind, script)| {
            play_out(crowd(kind), with_a_line(script));
            Ok(())
        });
        compared.unwrap();
    });
}
