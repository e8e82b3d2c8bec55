//! Random lives of a name whose line lies in rows, compared with the pure core, which
//! sees everybody: no server, but what one would answer.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::super::columns::micros;
use super::super::line_change::LineChange;
use super::super::row::NameRow;
use super::*;
use crate::claim::LeaseId;
use crate::engine::Target;
use crate::engine::state::{Answer, FollowUp, SeatRow, SessionId, State, step};
use crate::engines::database::dialect::table::WINDOW;
use crate::engines::database::drivers::{Reply, ReplyRow};

/// More wait than are read with a name, and each client has several of them.
const LEASES: u8 = 14;
const CLIENTS: u8 = 5;

#[derive(Clone, Debug)]
enum Act {
    Claim {
        who: u8,
        mode: Mode,
        ttl: u64,
        wait: bool,
    },
    Renew {
        who: u8,
        ttl: u64,
    },
    Release {
        who: u8,
    },
    EvictAll,
    Tick,
    /// The client has died.
    Die {
        who: u8,
    },
    /// Somebody removes the rows of a client that is dead.
    Sweep {
        who: u8,
    },
}

fn acts() -> impl Strategy<Value = Vec<(u64, Act)>> {
    let modes = [
        Just(Mode::Exclusive).boxed(),
        prop_oneof![2 => Just(Mode::Read), 1 => Just(Mode::Write)].boxed(),
        (1..=3_u32).prop_map(|take| Mode::Permits { take, of: 4 }).boxed(),
    ];
    let act = |mode: BoxedStrategy<Mode>| {
        let who = || 1..=LEASES;
        prop_oneof![
            20 => (who(), mode, 20..=90_u64, prop::bool::weighted(0.9))
                .prop_map(|(who, mode, ttl, wait)| Act::Claim { who, mode, ttl, wait }),
            5 => (who(), 20..=90_u64).prop_map(|(who, ttl)| Act::Renew { who, ttl }),
            8 => who().prop_map(|who| Act::Release { who }),
            1 => Just(Act::EvictAll),
            2 => Just(Act::Tick),
            3 => who().prop_map(|who| Act::Die { who }),
            2 => who().prop_map(|who| Act::Sweep { who }),
        ]
    };
    let pause = prop_oneof![6 => Just(0), 3 => 1..=6_u64, 1 => 7..=60_u64];
    (0..modes.len()).prop_flat_map(move |kind| {
        prop::collection::vec((pause.clone(), act(modes[kind].clone())), 1..80)
    })
}

fn id(who: u8) -> LeaseId {
    LeaseId::from_bits(u128::from(who))
}

fn asked(who: u8, mode: Mode, ttl: u64, wait: bool) -> Claim {
    let ticket = Ticket { id: id(who), name: name("job"), mode };
    let mut claim = Claim::new(ticket, Owner::new(format!("{who}")), Duration::from_secs(ttl));
    if wait {
        claim.stance = Stance::Wait { until: Moment::NEVER };
    }
    claim
}

/// What a table may get wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TableFault {
    /// It takes the front for the whole line.
    EndsAtTheWindow,
    /// It leaves out the seat of whoever is asked about.
    ForgetsWhoAsks,
    /// It removes only the rows that were read.
    LeavesTheDead,
    /// It removes those that were passed, and not those who left in between.
    LeavesTheGone,
    /// It does not say that the places have begun anew.
    NeverLowersTheFront,
}

/// The rows of one name, and the sessions.
#[derive(Default)]
struct Rows {
    now: Moment,
    version: Option<i64>,
    drawn: i64,
    state: Option<String>,
    holding: Option<String>,
    front: Option<i64>,
    seats: BTreeMap<u64, SeatRow>,
    ends: HashMap<SessionId, Moment>,
    fault: Option<TableFault>,
    /// How many more are read at a time.
    more: usize,
}

impl Rows {
    fn has(&self, fault: TableFault) -> bool {
        self.fault == Some(fault)
    }

    fn is_alive(&self, session: SessionId) -> bool {
        self.ends.get(&session).is_some_and(|end| *end > self.now)
    }

    /// As the statement that reads a name.
    fn load(&self, about: Option<LeaseId>, session: SessionId) -> NameRow {
        let own = self.ends.get(&session).map(|end| micros(*end));
        let row = vec![
            micros(self.now).into(),
            0.into(),
            own.into(),
            self.version.into(),
            self.version.map(|_| self.drawn).into(),
            self.version.map(|_| 0).into(),
            self.state.clone().into(),
            self.keepers().into(),
            self.front.into(),
            self.line(about).into(),
        ];
        NameRow::read(&name("job"), &reply(vec![ReplyRow::new(row)])).unwrap()
    }

    fn keepers(&self) -> Option<String> {
        let ids: Vec<SessionId> = serde_json::from_str(self.holding.as_ref()?).unwrap();
        let end = |id: SessionId| (id.to_string(), (micros(self.ends[&id]), 1));
        let rows: HashMap<String, (i64, i64)> = ids.into_iter().map(end).collect();
        Some(serde_json::to_string(&rows).unwrap())
    }

    fn line(&self, about: Option<LeaseId>) -> Option<String> {
        let front = self.front?.unsigned_abs();
        let own = about.and_then(|id| self.seats.values().find(|row| row.lease == id));
        let living =
            |from, to| self.seats.range(from..to).filter(|(_, row)| self.is_alive(row.session));
        let many = WINDOW - usize::from(self.has(TableFault::EndsAtTheWindow));
        let window = living(front, u64::MAX).take(many).map(|(_, row)| (1, row));
        let before = living(0, own.map_or(u64::MAX, |row| row.place)).next_back();
        let own = own.filter(|_| !self.has(TableFault::ForgetsWhoAsks)).map(|row| (0, row));
        let all = window.chain(own).chain(before.map(|(_, row)| (0, row)));
        let rows: Vec<_> = all
            .map(|(front, row)| {
                let word = columns::key(row.lease);
                (front, row.place, word, row.session, row.text.clone(), self.end(row), 1)
            })
            .collect();
        (!rows.is_empty()).then(|| serde_json::to_string(&rows).unwrap())
    }

    fn end(&self, row: &SeatRow) -> i64 {
        micros(self.ends[&row.session])
    }

    /// As the statement that reads more of a line.
    fn read_on(&self, page: &mut NameRow, from: u64, many: usize) {
        let living =
            self.seats.range(from..).filter(|(_, row)| self.is_alive(row.session)).take(many);
        let row = |(place, row): (&u64, &SeatRow)| {
            let (place, session) = (columns::int(*place), columns::int(row.session));
            let word = columns::key(row.lease);
            let (text, end) = (row.text.clone().into(), self.end(row).into());
            ReplyRow::new(vec![place.into(), word.into(), session.into(), text, end, 1.into()])
        };
        page.load_more(&reply(living.map(row).collect()), many).unwrap();
    }

    fn serve_more(&self, page: &mut NameRow) {
        while let Some(from) = page.state.lacks_from() {
            self.read_on(page, from, self.more);
            page.step(Verb::Tick);
        }
    }

    /// One verb, as every verb of the table goes.
    fn change(
        &mut self,
        about: Option<LeaseId>,
        session: SessionId,
        verb: Verb,
    ) -> (Answer, Vec<FollowUp>) {
        let mut page = self.load(about, session);
        assert!(page.may_be_written(session));
        if !matches!(verb, Verb::Release { .. }) {
            page.step(Verb::Tick);
            self.serve_more(&mut page);
        }
        let answer = page.step(verb);
        self.serve_more(&mut page);
        if page.is_to_be_written() {
            self.write(&page, session);
        }
        (answer, page.follow_ups)
    }

    /// As the swap and what goes with it.
    fn write(&mut self, page: &NameRow, session: SessionId) {
        let line = page.line_change().unwrap();
        for (from, to) in &line.unread {
            let places = from.unsigned_abs()..to.unsigned_abs();
            let living = self.seats.range(places).find(|(_, row)| self.is_alive(row.session));
            assert!(living.is_none(), "passed over unread: {living:?}");
        }
        self.assert_known(page, &line);
        let passed = |place: &u64| (line.from..line.to).contains(&columns::int(*place));
        let read = page.state.seat_changes().unwrap().gone;
        let (careless, forgetful) =
            (self.has(TableFault::LeavesTheDead), self.has(TableFault::LeavesTheGone));
        self.seats.retain(|place, _| !passed(place) || (careless && !read.contains(place)));
        self.seats.retain(|place, _| forgetful || !line.gone.contains(place));
        for row in &line.new {
            assert!(self.seats.values().all(|it| it.lease != row.lease), "two seats of {row:?}");
            assert!(self.seats.insert(row.place, row.clone()).is_none(), "a place of two: {row:?}");
        }
        self.take_in(page.values("job".into(), session).unwrap());
    }

    /// What is passed was read, or is known not to have been.
    fn assert_known(&self, page: &NameRow, line: &LineChange) {
        let read = page.state.seat_changes().unwrap().gone;
        for place in self.seats.keys().filter(|place| !read.contains(place)) {
            let place = columns::int(*place);
            let unread = line.unread.iter().any(|(from, to)| (*from..*to).contains(&place));
            assert_eq!(unread, (line.from..line.to).contains(&place), "{place} in {line:?}");
        }
    }

    fn take_in(&mut self, values: Vec<Value>) {
        let text = |at: usize| match &values[at] {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        };
        let int = |at: usize| match &values[at] {
            Value::Int(number) => Some(*number),
            _ => None,
        };
        self.version = int(2).map(|version| version + 1);
        (self.state, self.drawn, self.holding) = (text(3), int(4).unwrap(), text(7));
        let least = self.front.filter(|_| self.has(TableFault::NeverLowersTheFront));
        self.front = int(13).map(|front| least.map_or(front, |least| front.max(least)));
    }

    fn sweep(&mut self, client: u8) {
        let swept: Vec<_> = self
            .seats
            .iter()
            .filter(|(_, row)| client_of(row.session) == client && !self.is_alive(row.session))
            .map(|(place, _)| *place)
            .collect();
        swept.iter().for_each(|place| drop(self.seats.remove(place)));
    }
}

fn reply(rows: Vec<ReplyRow>) -> Reply {
    Reply { rows, affected: 0, last_id: 0, sent_at: Moment::default() }
}

/// Clients have one session after the other.
fn client_of(session: SessionId) -> u8 {
    u8::try_from(session % 100).unwrap()
}

/// The same name twice.
#[derive(Default)]
struct Pair {
    whole: State,
    fence: u64,
    rows: Rows,
    sessions: [u64; CLIENTS as usize],
}

impl Pair {
    fn new(more: usize, fault: Option<TableFault>) -> Self {
        let now = Moment::default().after(HOUR);
        Self { rows: Rows { now, more, fault, ..Rows::default() }, ..Self::default() }
    }

    fn session(&self, who: u8) -> SessionId {
        let client = usize::from(who % CLIENTS);
        self.sessions[client] * 100 + client as u64
    }

    /// Extends the session of a client that lives.
    fn extend(&mut self, who: u8, ttl: u64) {
        let (session, until) = (self.session(who), self.rows.now.after(Duration::from_secs(ttl)));
        let now = self.rows.now;
        let end = self.rows.ends.get_mut(&session).filter(|end| **end > now);
        if let Some(end) = end {
            *end = until.max(*end);
        }
    }

    fn lodge(&mut self, who: u8, ttl: u64) -> SessionId {
        if !self.rows.is_alive(self.session(who)) {
            self.sessions[usize::from(who % CLIENTS)] += 1;
            self.rows.ends.insert(self.session(who), self.rows.now.after(Duration::from_millis(1)));
        }
        self.extend(who, ttl);
        self.session(who)
    }

    fn run(&mut self, pause: u64, act: Act) {
        self.rows.now = self.rows.now.after(Duration::from_secs(pause));
        match act {
            Act::Claim { who, mode, ttl, wait } => {
                let session = self.lodge(who, ttl);
                let claim = Box::new(asked(who, mode, ttl, wait));
                self.both(Some(who), session, Verb::Acquire { claim, session });
            }
            Act::Renew { who, ttl } => {
                self.extend(who, ttl);
                let ttl = Duration::from_secs(ttl);
                self.both(Some(who), 0, Verb::Renew { id: id(who), ttl });
            }
            Act::Release { who } => {
                self.both(Some(who), 0, Verb::Release { id: id(who), ending: Ending::new() });
            }
            Act::EvictAll => {
                self.both(None, 0, Verb::Evict { target: Target::All, remark: "stuck".into() });
            }
            Act::Tick => self.both(None, 0, Verb::Tick),
            Act::Die { who } => {
                let (session, now) = (self.session(who), self.rows.now);
                self.rows.ends.entry(session).and_modify(|end| *end = now.min(*end));
            }
            Act::Sweep { who } => {
                // First it is seen to that nobody waits for one of them.
                self.both(None, 0, Verb::Tick);
                self.rows.sweep(who % CLIENTS);
            }
        }
        self.assert_same();
    }

    /// No fence before was larger, and none will be smaller than the clock.
    fn floor(&self) -> u64 {
        self.fence.max((self.rows.now.nanos() / 1000).saturating_sub(1))
    }

    fn both(&mut self, about: Option<u8>, session: SessionId, verb: Verb) {
        let now = self.rows.now;
        self.whole.follow(|session| self.rows.ends.get(&session).copied().unwrap_or_default());
        self.fence = self.floor();
        let told = step(&mut self.whole, verb.clone(), now, &mut self.fence);
        let ours = self.rows.change(about.map(id), session, verb);
        // Early is allowed; late is what comes after all who stand before have died.
        let (look, latest) = (look_in(&ours.0), look_in(&told.answer));
        let all = self.rows.ends.values().map(|end| end.since(now)).max().unwrap_or_default();
        let in_time = look <= latest.max(all) && look.is_zero() == latest.is_zero();
        assert!(in_time, "{look:?}, {latest:?}");
        assert_eq!(
            (plain(ours.0), followed(ours.1)),
            (plain(told.answer), followed(told.follow_ups))
        );
    }

    fn assert_same(&self) {
        let now = self.rows.now;
        let mut whole = self.whole.clone();
        whole.follow(|session| self.rows.ends.get(&session).copied().unwrap_or_default());
        step(&mut whole, Verb::Tick, now, &mut self.floor());
        let mut page = self.rows.load(None, 0);
        while let Some(from) = page.unread() {
            self.rows.read_on(&mut page, from, self.rows.more);
        }
        page.step(Verb::Tick);
        let shown = |state: &State| {
            let status = state.status(name("job"), now);
            let who = |it: &crate::engine::inspect::Held| {
                (it.label.to_string(), it.mode, it.fence, it.time_left)
            };
            let holders: Vec<_> = status.holders.iter().map(who).collect();
            let waiters: Vec<_> = status
                .waiters
                .iter()
                .map(|it| (it.label.to_string(), it.mode, it.waiting_for))
                .collect();
            (holders, waiters, status.closed_for)
        };
        assert_eq!(shown(&page.state), shown(&whole));
        self.assert_tidy();
    }

    /// What stands before the front is nowhere, nor is a row without a front.
    fn assert_tidy(&self) {
        let front = self.rows.front.map_or(u64::MAX, i64::unsigned_abs);
        let stray = self.rows.seats.range(..front).next();
        assert!(stray.is_none(), "{stray:?} stands before {front}");
    }
}

/// When whoever waits is to look again. Whoever gives its place up is told so by the end
/// of what was read, and nobody relies on it.
fn look_in(answer: &Answer) -> Duration {
    match answer {
        Answer::Busy { placed: Some(_), recheck_in, .. } => *recheck_in,
        _ => Duration::ZERO,
    }
}

/// The row of a name that was left well does not say so: nobody has to know. When to
/// look again is compared apart: of a line that was read in part the end is not known.
fn plain(answer: Answer) -> Answer {
    match answer {
        Answer::Granted { fence, ttl, predecessor } => {
            Answer::Granted { fence, ttl, predecessor: well(predecessor) }
        }
        Answer::Busy { holder, placed, .. } => {
            Answer::Busy { holder, placed, recheck_in: Duration::ZERO }
        }
        other => other,
    }
}

fn followed(told: Vec<FollowUp>) -> Vec<FollowUp> {
    let plain = |it| match it {
        FollowUp::HandedOver { id, session, fence, predecessor } => {
            FollowUp::HandedOver { id, session, fence, predecessor: well(predecessor) }
        }
        other => other,
    };
    told.into_iter().map(plain).collect()
}

fn well(predecessor: Predecessor) -> Predecessor {
    if predecessor == Predecessor::Released { Predecessor::None } else { predecessor }
}

fn live(acts: Vec<(u64, Act)>, more: usize, fault: Option<TableFault>) {
    let mut pair = Pair::new(more, fault);
    for (pause, act) in acts {
        pair.run(pause, act);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_line_in_rows_is_the_line_of_the_core(acts in acts(), more in 1..6_usize) {
        live(acts, more, None);
    }
}

/// Whether the comparison finds a fault.
fn is_found(fault: TableFault) -> bool {
    let config = ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 0,
        ..ProptestConfig::with_cases(3000)
    };
    // The same lives each time: what was found once is found again.
    let chance = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let found =
        TestRunner::new_with_rng(config, chance).run(&(acts(), 1..6_usize), |(acts, more)| {
            live(acts, more, Some(fault));
            Ok(())
        });
    found.is_err()
}

#[test]
fn a_table_that_gets_its_rows_wrong_would_differ() {
    use TableFault::{
        EndsAtTheWindow, ForgetsWhoAsks, LeavesTheDead, LeavesTheGone, NeverLowersTheFront,
    };
    for fault in
        [EndsAtTheWindow, ForgetsWhoAsks, LeavesTheDead, LeavesTheGone, NeverLowersTheFront]
    {
        assert!(is_found(fault), "{fault:?} was not found");
    }
}
