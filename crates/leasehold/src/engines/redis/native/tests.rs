//! The script against the pure core, step by step on a real server.

use std::time::Duration;

use redis::{Commands, Connection};

use super::batcher::{STEP_ALONE, served};
use super::keys::{KeySpace, Shard};
use super::renewing::RENEW_ALONE;
use super::stored_record;
use super::verb::{self, PushedNews, ScriptAnswer, TimedAnswer};
use crate::claim::{
    Claim, Ending, LeaseId, Mode, Owner, Predecessor, RawRecord, Refresh, Stance, Store, Ticket,
    Wants,
};
use crate::clock::Moment;
use crate::engine::state::{Answer, FollowUp, State, Verb, step};
use crate::engine::{Eviction, RecordEvent, Target};
use crate::engines::redis::server::RedisTestServer;
use crate::error::{Effect, ErrorKind, Result};
use crate::name::{Name, Namespace};

/// In place of the server's clock: a time that the test sets. The server's own
/// ends no key meanwhile, however slow the test is: each lasts an hour longer.
const CLOCK: &str = "local server = redis
local function lasting(words)
  for at, word in ipairs(words) do
    if word == 'PX' or (word == 'PEXPIRE' and at == 1) then
      local span = word == 'PX' and at + 1 or at + 2
      words[span] = words[span] + 3600000
    end
  end
  return unpack(words)
end
local redis = setmetatable({
  call = function(...) return server.call(lasting({ ... })) end,
  pcall = function(...) return server.pcall(lasting({ ... })) end,
}, { __index = server })
local micros = tonumber(redis.call('GET', 'clock'))
local now = math.floor(micros / 1000)
";
/// Where the clock starts: later than any counter.
const START: u64 = 1_000_000_000;

/// One name, as the core and as the script see it.
struct Pair {
    core: State,
    record: Option<RawRecord>,
    /// Whether the last write of the record was of one that nobody lists.
    unlisted: bool,
    fence: u64,
    millis: u64,
    name: Name,
    shard: Shard,
    redis: Connection,
    script: redis::Script,
    renewals: redis::Script,
    /// How many the script of renewals has served.
    renewed: u64,
}

impl Pair {
    fn new(server: &RedisTestServer, round: u64) -> Self {
        let name = Name::new(&Namespace::default(), format!("name/{round}")).unwrap();
        let mut redis = server.connection();
        let _: () = redis::cmd("FLUSHALL").query(&mut redis).unwrap();
        Self {
            core: State::default(),
            record: None,
            unlisted: false,
            fence: 0,
            millis: START,
            shard: KeySpace::new("leasehold:", 0, false).shard(&name),
            name,
            redis,
            script: redis::Script::new(&format!("{CLOCK}{STEP_ALONE}")),
            renewals: redis::Script::new(&format!("{CLOCK}{RENEW_ALONE}")),
            renewed: 0,
        }
    }

    fn now(&self) -> Moment {
        Moment::default().after(Duration::from_millis(self.millis))
    }

    /// What the core answers, and whom it tells.
    fn ask_core(&mut self, verb: Verb) -> (Answer, Vec<FollowUp>) {
        if self.core.forget_at().is_some_and(|at| at <= self.now()) {
            // By then the server has let the key expire; its own clock has not
            // come that far.
            self.core = State::default();
            let _: () = self.redis.del(self.shard.summary(self.name.as_str())).unwrap();
        }
        // As the script does: never below the clock.
        self.fence = self.fence.max(self.millis * 1000 - 1);
        let now = self.now();
        let done = step(&mut self.core, verb, now, &mut self.fence);
        (done.answer, done.follow_ups)
    }

    /// What the core has of records: a release stores if it is of a holder.
    /// Tells what the watchers are told.
    fn store_in_core(&mut self, id: LeaseId, ending: &Ending) -> Option<RecordEvent> {
        let store = ending.store.as_ref()?;
        if !self.core.holds(id, self.now()) {
            return None;
        }
        self.fence = self.fence.max(self.millis * 1000 - 1) + 1;
        let new = store.value.clone().map(|value| RawRecord::new(value, self.fence));
        let old = std::mem::replace(&mut self.record, new.clone());
        self.unlisted = verb::filed(ending).is_some();
        match new.filter(|_| !self.unlisted) {
            None if self.unlisted => None,
            Some(record) => Some(RecordEvent::Stored(self.name.clone(), record)),
            None => old.map(|_| RecordEvent::Deleted(self.name.clone(), self.fence)),
        }
    }

    fn record_key(&self) -> Vec<u8> {
        self.shard.record(self.name.as_str()).to_vec()
    }

    /// The keys that a verb has beside those of its name.
    fn more_keys(&self, core: &Verb) -> Vec<Vec<u8>> {
        let record = self.record_key();
        match core {
            Verb::Acquire { claim, .. } if claim.wants.record() => vec![record],
            Verb::Release { ending, .. } if verb::filed(ending).is_some() => vec![record],
            Verb::Release { ending: Ending { store: Some(_), .. }, .. } => {
                vec![record, self.shard.records().to_vec(), self.shard.lapses().to_vec()]
            }
            _ => Vec::new(),
        }
    }

    /// What the script answers to verbs of one name each, in one call.
    fn call(&mut self, verbs: Vec<(Name, Vec<Vec<u8>>, Vec<u8>)>) -> Vec<ScriptAnswer> {
        self.answers(verbs).into_iter().map(Result::unwrap).collect()
    }

    /// The same, where some may fail.
    fn answers(&mut self, verbs: Vec<(Name, Vec<Vec<u8>>, Vec<u8>)>) -> Vec<Result<ScriptAnswer>> {
        let _: () = self.redis.set("clock", self.millis * 1000).unwrap();
        let script = self.script.clone();
        let answers: Vec<redis::Value> =
            self.prepared(&script, verbs).invoke(&mut self.redis).unwrap();
        answers.into_iter().map(served).collect()
    }

    /// The call of these verbs.
    fn prepared<'a>(
        &self,
        script: &'a redis::Script,
        verbs: Vec<(Name, Vec<Vec<u8>>, Vec<u8>)>,
    ) -> redis::ScriptInvocation<'a> {
        let mut call = script.prepare_invoke();
        call.key(self.shard.counter()).key(self.shard.index());
        call.arg("RPUSH").arg(self.shard.prefix()).arg("changes");
        for (name, more, verb) in verbs {
            call.key(self.shard.summary(name.as_str())).key(self.shard.details(name.as_str()));
            more.into_iter().for_each(|key| {
                call.key(key);
            });
            call.arg(verb);
        }
        call
    }

    /// What the script answers. News are pushed to a list instead of published.
    fn ask_script(&mut self, verb: Vec<u8>, more: Vec<Vec<u8>>) -> (ScriptAnswer, Vec<PushedNews>) {
        let said = self.call(vec![(self.name.clone(), more, verb)]).remove(0);
        let told = self.heard("news");
        (said, told.iter().map(|news| verb::news(news).unwrap()).collect())
    }

    fn heard(&mut self, list: &str) -> Vec<Vec<u8>> {
        let told = self.redis.lrange(list, 0, -1).unwrap();
        let _: () = self.redis.del(list).unwrap();
        told
    }

    /// Takes both through one verb and compares.
    fn step(&mut self, core: Verb, script: Vec<u8>) {
        let told = format!("{core:?}");
        let more = self.more_keys(&core);
        let (ttl, loads) = match &core {
            Verb::Acquire { claim, .. } => (claim.ttl, claim.wants.record()),
            _ => (Duration::ZERO, false),
        };
        let change = match &core {
            Verb::Release { id, ending } => self.store_in_core(*id, ending),
            _ => None,
        };
        let (expected, follow_ups) = self.ask_core(core);
        let (said, news) = self.ask_script(script, more);
        match &expected {
            Answer::Evicted(ids) => {
                let taken = verb::taken(said.packed().unwrap()).unwrap();
                assert_eq!(ids.len(), taken.len());
            }
            expected => same_answer(expected, &said.answer(ttl).unwrap(), &told),
        }
        let said = self.same_floor(&expected, said, &told);
        same_news(&follow_ups, &news);
        if matches!(expected, Answer::Granted { .. }) {
            let expected = self.record.clone().filter(|_| loads);
            assert_eq!(loaded(said), expected, "{told}");
        }
        self.same_record(change.as_ref(), &told);
        self.same_status();
    }

    /// Who waits is told of every number that was given out before.
    fn same_floor(&self, expected: &Answer, said: ScriptAnswer, told: &str) -> ScriptAnswer {
        let waits = matches!(expected, Answer::Busy { .. } | Answer::Queued { .. });
        let answered = answered(said);
        assert_eq!(answered.floor().unwrap(), if waits { self.fence } else { 0 }, "{told}");
        answered.said
    }

    /// The record, and what watchers hear of it.
    fn same_record(&mut self, change: Option<&RecordEvent>, told: &str) {
        let key = self.shard.record(self.name.as_str());
        let found: Option<Vec<u8>> = self.redis.get(key).unwrap();
        let found = found.map(|packed| stored_record::stored(&packed).unwrap().record);
        assert_eq!(found, self.record, "{told}");
        let space = self.name.namespace().clone();
        let changes = self.heard("changes");
        let heard: Vec<_> =
            changes.iter().map(|it| stored_record::event(&space, it).unwrap()).collect();
        assert_eq!(heard, Vec::from_iter(change.cloned()), "{told}");
        let listed: Vec<String> = self.redis.zrange(self.shard.records(), 0, -1).unwrap();
        if self.unlisted {
            return;
        }
        assert_eq!(listed.len(), usize::from(self.record.is_some()), "{told}");
    }

    /// Looking is a tick for the script; so it must be for the core.
    fn same_status(&mut self) {
        let (_, follow_ups) = self.ask_core(Verb::Tick);
        let (said, news) = self.ask_script(verb::look(), Vec::new());
        same_news(&follow_ups, &news);
        let expected = self.core.status(self.name.clone(), self.now());
        let found = verb::status(self.name.clone(), said.packed().unwrap()).unwrap();
        assert_eq!(found.holders, expected.holders);
        assert_eq!(format!("{:?}", found.waiters), format!("{:?}", expected.waiters));
        assert_eq!(found.closed_for, expected.closed_for);
        let unclean = expected.last.filter(|last| last.ended != Predecessor::Released);
        if let Some(last) = unclean {
            assert_eq!(format!("{:?}", found.last.unwrap()), format!("{last:?}"));
        }
    }

    /// A random verb of a random client, after a random while.
    fn wander(&mut self, random: &mut fastrand::Rng, modes: &[Mode]) {
        self.millis += *random.choice(&[0, 0, 1, 500, 5_000, 29_999, 30_000, 61_000]).unwrap();
        let id = LeaseId::from_bits(random.u128(1..=7));
        let mode = *random.choice(modes).unwrap();
        match random.u8(0..20) {
            0..=8 => self.acquire(random, Ticket { id, name: self.name.clone(), mode }),
            9..=10 => self.renew(random, Ticket { id, name: self.name.clone(), mode }),
            11..=16 => self.release(random, id),
            17 => self.step(Verb::Convert { id, to: mode }, verb::convert(id, mode)),
            _ => self.evict(random, id),
        }
    }

    fn acquire(&mut self, random: &mut fastrand::Rng, ticket: Ticket) {
        let owner = Owner::new(format!("client {}", ticket.id.to_bits()));
        let ttl = Duration::from_millis(*random.choice(&[1_000, 30_000, 45_000]).unwrap());
        let mut claim = Claim::new(ticket, owner, ttl);
        claim.lock_delay = Duration::from_millis(*random.choice(&[0, 0, 7_000]).unwrap());
        claim.meta = random.bool().then(|| "a remark".into());
        claim.wants =
            [Wants::Lease, Wants::LeaseAndRecord, Wants::RecordOrLease][random.usize(..3)];
        if random.u8(0..3) > 0 {
            claim.stance = Stance::Wait { until: Moment::NEVER };
        }
        let packed = verb::acquire(&claim, b"news", false);
        if claim.wants == Wants::RecordOrLease && self.record.is_some() {
            let (_, follow_ups) = self.ask_core(Verb::Tick);
            if self.core.mode_of(claim.ticket.id).is_none() {
                return self.find(packed, &follow_ups);
            }
            let (_, news) = self.ask_script(verb::look(), Vec::new());
            same_news(&follow_ups, &news);
        }
        self.step(Verb::Acquire { claim: Box::new(claim), session: 0 }, packed);
    }

    fn try_acquire(&mut self, random: &mut fastrand::Rng, ticket: Ticket) {
        let ttl = Duration::from_secs(*random.choice(&[30, 45]).unwrap());
        let mut claim = Claim::new(ticket, Owner::new("me"), ttl);
        claim.lock_delay = Duration::from_millis(*random.choice(&[0, 0, 7_000]).unwrap());
        let packed = verb::acquire(&claim, b"news", false);
        self.step(Verb::Acquire { claim: Box::new(claim), session: 0 }, packed);
    }

    /// The record is as good as a grant, and nothing is left behind.
    fn find(&mut self, claim: Vec<u8>, follow_ups: &[FollowUp]) {
        let more = vec![self.record_key()];
        let (said, news) = self.ask_script(claim, more);
        same_news(follow_ups, &news);
        let found = answered(said).found().unwrap().unwrap();
        assert_eq!(Some(stored_record::stored(&found).unwrap().record), self.record);
        self.same_record(None, "found");
        self.same_status();
    }

    fn renew(&mut self, random: &mut fastrand::Rng, ticket: Ticket) {
        let secs = *random.choice(&[1, 15, 30, 30, 30, 59]).unwrap();
        let (id, ttl) = (ticket.id, Duration::from_secs(secs));
        let refresh = Refresh::new(ticket, ttl);
        if random.bool()
            && let [left @ 1..=u64::MAX] = self.renew_plain(std::slice::from_ref(&refresh))[..]
        {
            self.renewed += 1;
            let (expected, follow_ups) = self.ask_core(Verb::Renew { id, ttl });
            assert_eq!(expected, Answer::Held { ttl: Duration::from_millis(left) });
            same_news(&follow_ups, &[]);
            return self.same_status();
        }
        // Nothing has come of it: as if it had never been asked.
        self.step(Verb::Renew { id, ttl }, verb::renew(&refresh, Duration::MAX));
    }

    /// What the script of renewals answers: 0 for what it cannot tell.
    fn renew_plain(&mut self, refreshes: &[Refresh]) -> Vec<u64> {
        let _: () = self.redis.set("clock", self.millis * 1000).unwrap();
        let script = self.renewals.clone();
        let mut call = script.prepare_invoke();
        call.key(self.shard.index()).arg(self.shard.prefix());
        let mut asked = Vec::new();
        for refresh in refreshes {
            call.key(self.shard.summary(refresh.ticket.name.as_str()));
            asked.extend(verb::plain_renewal(refresh, Duration::MAX));
        }
        call.arg(asked).invoke(&mut self.redis).unwrap()
    }

    fn release(&mut self, random: &mut fastrand::Rng, id: LeaseId) {
        let mut ending = match random.u8(0..6) {
            0 => Ending::closed_for(Duration::from_millis(3_000)),
            1 => Ending::cut_off(),
            _ => Ending::new(),
        };
        ending.unseen = random.u8(0..4) == 0;
        ending.store = random.bool().then(|| self.some_store(random));
        let packed = verb::release(id, &ending);
        self.step(Verb::Release { id, ending }, packed);
    }

    /// The server's clock does not go as fast as ours: nothing lapses.
    fn some_store(&self, random: &mut fastrand::Rng) -> Store {
        let mut store = match random.u8(0..4) {
            0 => Store::delete(self.name.clone()),
            _ => Store::put(self.name.clone(), random.u64(..).to_be_bytes().to_vec()),
        };
        store.ttl = random.bool().then_some(Duration::from_hours(24));
        store.unlisted = random.bool();
        store
    }

    fn evict(&mut self, random: &mut fastrand::Rng, id: LeaseId) {
        let target = match random.u8(0..4) {
            0 => Target::All,
            3 => Target::Fence(0),
            1 => Target::Lease(id),
            _ => Target::Fence(self.fence),
        };
        let eviction = Eviction::new(self.name.clone(), target, "op", "a test").unwrap();
        let core = Verb::Evict { target, remark: eviction.remark() };
        self.step(core, verb::evict(&eviction));
    }
}

const fn answered(said: ScriptAnswer) -> TimedAnswer {
    TimedAnswer { said, sent_at: Moment::NEVER, acknowledged: None }
}

fn loaded(said: ScriptAnswer) -> Option<RawRecord> {
    let packed = answered(said).loaded().unwrap();
    packed.map(|packed| stored_record::stored(&packed).unwrap().record)
}

fn same_answer(expected: &Answer, found: &Answer, told: &str) {
    match (expected, found) {
        (
            Answer::Granted { fence, ttl, predecessor },
            Answer::Granted { fence: also, ttl: left, predecessor: heard },
        ) => {
            assert_eq!((fence, ttl), (also, left), "{told}");
            assert!(same_end(*predecessor, *heard), "{told}: {heard:?} for {predecessor:?}");
        }
        (
            Answer::Busy { holder, recheck_in, placed },
            Answer::Busy { holder: who, recheck_in: look, placed: place },
        ) => {
            assert_eq!((holder, placed), (who, place), "{told}");
            // A look may come early, not late.
            assert!(look <= recheck_in, "{told}: {look:?} is after {recheck_in:?}");
        }
        _ => assert_eq!(expected, found, "{told}"),
    }
}

/// The script forgets a clean end at once.
fn same_end(expected: Predecessor, heard: Predecessor) -> bool {
    heard == expected || (expected, heard) == (Predecessor::Released, Predecessor::None)
}

fn same_news(follow_ups: &[FollowUp], news: &[PushedNews]) {
    let told = follow_ups.iter().filter(|follow_up| !matches!(follow_up, FollowUp::Ended { .. }));
    assert_eq!(told.clone().count(), news.len(), "{follow_ups:?}, {news:?}");
    for pair in told.zip(news) {
        match pair {
            (
                FollowUp::HandedOver { id, fence, predecessor, .. },
                PushedNews::Granted { id: to, fence: also, predecessor: heard },
            ) => {
                assert_eq!((id, fence), (to, also));
                assert!(same_end(*predecessor, *heard));
            }
            (FollowUp::Evicted { id, .. }, PushedNews::Evicted { id: from, .. }) => {
                assert_eq!(id, from)
            }
            other => panic!("{other:?}"),
        }
    }
}

const PERMITS: [Mode; 3] = [
    Mode::Permits { take: 1, of: 3 },
    Mode::Permits { take: 2, of: 3 },
    Mode::Permits { take: 3, of: 3 },
];

#[test]
fn the_script_takes_the_same_steps_as_the_core() {
    let server = RedisTestServer::start();
    let kinds: [&[Mode]; 4] = [
        &[Mode::Exclusive],
        &[Mode::Read, Mode::Write, Mode::Read],
        &PERMITS,
        &[Mode::Exclusive, Mode::Read, Mode::Write, PERMITS[0]],
    ];
    for round in 0..200 {
        let mut random = fastrand::Rng::with_seed(round);
        let mut pair = Pair::new(&server, round);
        let modes = kinds[usize::try_from(round % 4).unwrap()];
        for _ in 0..60 {
            pair.wander(&mut random, modes);
        }
    }
}

/// Names with a sole holder and nothing else, as most are.
#[test]
fn the_script_of_renewals_takes_the_same_steps_as_the_core() {
    let server = RedisTestServer::start();
    let mut renewed = 0;
    for round in 0..100 {
        let mut random = fastrand::Rng::with_seed(round);
        let mut pair = Pair::new(&server, round);
        for _ in 0..40 {
            let long = random.u8(0..30) == 0;
            pair.millis += if long { 61_000 } else { random.u64(0..3_000) };
            let id = LeaseId::from_bits(random.u128(1..=2));
            let ticket = Ticket { id, name: pair.name.clone(), mode: Mode::Exclusive };
            match random.u8(0..8) {
                0..=1 => pair.try_acquire(&mut random, ticket),
                2 => pair.release(&mut random, id),
                _ => pair.renew(&mut random, ticket),
            }
        }
        renewed += pair.renewed;
    }
    assert!(renewed > 40, "hardly any renewal went the short way: {renewed}");
}

#[test]
fn nothing_is_left_of_a_lease_that_was_released() {
    let server = RedisTestServer::start();
    let mut pair = Pair::new(&server, 0);
    let mut random = fastrand::Rng::with_seed(7);
    for mode in [Mode::Exclusive, Mode::Read, PERMITS[1]] {
        let id = LeaseId::from_bits(random.u128(..));
        let claim = Claim::new(
            Ticket { id, name: pair.name.clone(), mode },
            Owner::new("me"),
            Duration::from_secs(30),
        );
        pair.ask_script(verb::acquire(&claim, b"", false), Vec::new());
        pair.ask_script(verb::release(id, &Ending::new()), Vec::new());
        let left: Vec<String> = pair.redis.keys("leasehold:*").unwrap();
        assert_eq!(left, ["leasehold:{default}:fence"], "{mode}");
    }
}

fn exclusive(pair: &Pair, id: u128) -> Vec<u8> {
    let ticket =
        Ticket { id: LeaseId::from_bits(id), name: pair.name.clone(), mode: Mode::Exclusive };
    verb::acquire(&Claim::new(ticket, Owner::new("me"), Duration::from_secs(30)), b"", false)
}

#[test]
fn a_name_may_change_hands_within_one_call() {
    let server = RedisTestServer::start();
    let mut pair = Pair::new(&server, 0);
    let release = |id| verb::release(LeaseId::from_bits(id), &Ending::new());
    let verbs = [exclusive(&pair, 1), release(1), exclusive(&pair, 2), release(2), release(1)];
    let verbs = verbs.map(|verb| (pair.name.clone(), Vec::new(), verb)).into();
    let said = pair.call(verbs);
    let answers: Vec<_> =
        said.iter().map(|said| said.answer(Duration::from_secs(30)).unwrap()).collect();
    let Answer::Granted { fence, .. } = answers[0] else { panic!("{:?}", answers[0]) };
    assert!(matches!(answers[2], Answer::Granted { fence: next, .. } if next > fence));
    assert_eq!(answers[4], Answer::Gone);
    let verbs = vec![(pair.name.clone(), Vec::new(), exclusive(&pair, 3))];
    assert!(matches!(pair.call(verbs)[0].answer(Duration::ZERO), Ok(Answer::Granted { .. })));
}

#[test]
fn a_key_of_someone_else_is_not_overwritten() {
    let server = RedisTestServer::start();
    let mut pair = Pair::new(&server, 0);
    let (key, more) = (pair.shard.summary(pair.name.as_str()), pair.shard.details("x"));
    let _: () = pair.redis.rpush(key, "theirs").unwrap();
    let _: () = pair.redis.set("clock", pair.millis * 1000).unwrap();
    let verb = exclusive(&pair, 1);
    let mut call = pair.script.prepare_invoke();
    call.key(pair.shard.counter()).key(pair.shard.index()).key(key).key(more);
    call.arg("RPUSH").arg(pair.shard.prefix()).arg("changes").arg(verb);
    let said: Vec<redis::Value> = call.invoke(&mut pair.redis).unwrap();
    let error = served(said[0].clone()).unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Invalid, Effect::Unknown), "{error}");
    let found: Vec<String> = pair.redis.lrange(key, 0, -1).unwrap();
    assert_eq!(found, ["theirs"]);
}

#[test]
fn a_verb_that_fails_leaves_the_others_of_its_call_alone() {
    let server = RedisTestServer::start();
    let mut pair = Pair::new(&server, 0);
    let _: () = pair.redis.set(pair.shard.counter(), 2 * START * 1000).unwrap();
    let names = ["a", "odd", "b"].map(|text| Name::new(&Namespace::default(), text).unwrap());
    let _: () = pair.redis.rpush(pair.shard.summary("odd"), "theirs").unwrap();
    let verbs = names.map(|name| (name, Vec::new(), exclusive(&pair, 1)));
    let said = pair.answers(verbs.into());
    let fence = |at: usize| match said[at].as_ref().unwrap() {
        ScriptAnswer::Plain(fence) => *fence,
        other => panic!("{other:?}"),
    };
    assert!(said[1].is_err());
    let kept: u64 = pair.redis.get(pair.shard.counter()).unwrap();
    assert!(fence(0) < fence(2) && fence(2) <= kept, "{said:?}, {kept}");
}

#[test]
fn a_name_can_be_released_beside_a_claim_that_there_is_no_memory_for() {
    let server = RedisTestServer::start();
    let mut pair = Pair::new(&server, 0);
    pair.ask_script(exclusive(&pair, 1), Vec::new());
    let limit = |bytes| redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).to_owned();
    let release = verb::release(LeaseId::from_bits(1), &Ending::new());
    let other = Name::new(&Namespace::default(), "other").unwrap();
    let verbs =
        vec![(other, Vec::new(), exclusive(&pair, 2)), (pair.name.clone(), Vec::new(), release)];
    // The clock of the test is a key, which could not be set any more.
    let _: () = pair.redis.set("clock", pair.millis * 1000).unwrap();
    let script = pair.script.clone();
    let call = pair.prepared(&script, verbs);
    let _: () = limit(1).query(&mut pair.redis).unwrap();
    let said: Vec<redis::Value> = call.invoke(&mut pair.redis).unwrap();
    let _: () = limit(0).query(&mut pair.redis).unwrap();
    // The claim may have its room: once something was deleted the server lets
    // the rest of a script write.
    let released = served(said[1].clone()).unwrap();
    assert_eq!(released.answer(Duration::ZERO).unwrap(), Answer::Released);
}

#[test]
fn a_record_that_is_bound_again_is_noted_once() {
    let server = RedisTestServer::start();
    let mut pair = Pair::new(&server, 0);
    let (id, record) = (LeaseId::from_bits(1), pair.name.clone());
    pair.ask_script(exclusive(&pair, 1), Vec::new());
    let size = |pair: &mut Pair| {
        pair.ask_script(verb::bind(id, &record), Vec::new());
        pair.redis.strlen::<_, usize>(pair.shard.summary(record.as_str())).unwrap()
    };
    assert_eq!(size(&mut pair), size(&mut pair));
}

#[test]
fn a_span_that_no_server_can_count_with_is_a_hundred_years() {
    assert_eq!(verb::millis(Duration::MAX), verb::millis(Duration::from_hours(24 * 36_500)));
    assert_eq!(verb::millis(Duration::from_nanos(1)), 1);
}

/// Verbs have two, three or five keys, and are served in two parts: each has to
/// find its own.
#[test]
fn the_verbs_of_one_call_do_not_get_in_each_others_way() {
    let server = RedisTestServer::start();
    let mut pair = Pair::new(&server, 0);
    let names: Vec<Name> = ["a", "b", "c", "d", "e"]
        .map(|text| Name::new(&Namespace::default(), text).unwrap())
        .into();
    let modes = [Mode::Exclusive, Mode::Read, Mode::Write, PERMITS[0], Mode::Exclusive];
    for round in 1..=3_u8 {
        let mut claims = Vec::new();
        let mut releases = Vec::new();
        for (n, (name, mode)) in names.iter().zip(modes).enumerate() {
            let id = LeaseId::from_bits(u128::from(round) * 100 + n as u128);
            let ticket = Ticket { id, name: name.clone(), mode };
            let mut claim = Claim::new(ticket, Owner::new("me"), Duration::from_secs(30));
            claim.wants = if n == 4 { Wants::Lease } else { Wants::LeaseAndRecord };
            let mut ending = Ending::new();
            let mut store = Store::put(name.clone(), vec![round; n]);
            store.ttl = (n % 2 == 0).then_some(Duration::from_hours(24));
            store.unlisted = n == 2;
            ending.store = Some(store).filter(|_| n != 4);
            let record = pair.shard.record(name.as_str());
            let mut keys =
                vec![record.to_vec(), pair.shard.records().to_vec(), pair.shard.lapses().to_vec()];
            keys.truncate(if n == 2 { 1 } else { 3 });
            let verb = verb::acquire(&claim, b"", false);
            let release =
                (name.clone(), if n == 4 { vec![] } else { keys }, verb::release(id, &ending));
            claims.push((name.clone(), if n == 4 { vec![] } else { vec![record.to_vec()] }, verb));
            // What has ended before goes the long way.
            releases.push(release.clone());
            releases.push(release);
        }
        for (n, said) in pair.call(claims).into_iter().enumerate() {
            assert!(matches!(said.answer(Duration::ZERO), Ok(Answer::Granted { .. })), "{n}");
            let expected = (n != 4 && round > 1).then(|| vec![round - 1; n]);
            assert_eq!(loaded(said).map(|record| record.value), expected, "{n}");
        }
        for (n, said) in pair.call(releases).into_iter().enumerate() {
            let expected = if n % 2 == 0 { Answer::Released } else { Answer::Gone };
            assert_eq!(said.answer(Duration::ZERO).unwrap(), expected, "{n}");
        }
    }
    let listed: Vec<String> = pair.redis.zrange(pair.shard.records(), 0, -1).unwrap();
    assert_eq!(listed, ["a", "b", "d"], "one is unlisted");
    let lapsing: Vec<String> = pair.redis.zrange(pair.shard.lapses(), 0, -1).unwrap();
    assert_eq!(lapsing, ["a"]);
}

/// A claim that the record of its name will do for.
fn record_or_lease(pair: &Pair, id: u128) -> Vec<u8> {
    let ticket = ticket(pair, id);
    let mut claim = Claim::new(ticket, Owner::new("me"), Duration::from_secs(30));
    claim.wants = Wants::RecordOrLease;
    verb::acquire(&claim, b"", false)
}

fn storing(pair: &Pair, id: u128, value: &str) -> Vec<u8> {
    let mut store = Store::put(pair.name.clone(), value.into());
    (store.ttl, store.unlisted) = (Some(Duration::from_hours(1)), true);
    verb::release(LeaseId::from_bits(id), &Ending::storing(store))
}

fn ticket(pair: &Pair, id: u128) -> Ticket {
    Ticket { id: LeaseId::from_bits(id), name: pair.name.clone(), mode: Mode::Exclusive }
}

/// Who asks in the call that stores an outcome must not miss it: it would do
/// the work again.
#[test]
fn a_claim_finds_what_a_release_of_the_same_call_has_stored() {
    let server = RedisTestServer::start();
    let mut pair = Pair::new(&server, 0);
    let with_record = |verb| (pair.name.clone(), vec![pair.record_key()], verb);
    let first = vec![with_record(record_or_lease(&pair, 1))];
    let then = vec![with_record(storing(&pair, 1, "done")), with_record(record_or_lease(&pair, 2))];
    assert!(matches!(pair.call(first)[0].answer(Duration::ZERO), Ok(Answer::Granted { .. })));
    let mut said = pair.call(then);
    let found = answered(said.remove(1)).found().unwrap().expect("it is there");
    assert_eq!(stored_record::stored(&found).unwrap().record.value, b"done");
}

#[test]
fn a_claim_that_a_record_would_do_for_is_listed_once_it_is_renewed() {
    let server = RedisTestServer::start();
    let mut pair = Pair::new(&server, 0);
    let ticket = ticket(&pair, 1);
    let renewal = verb::renew(&Refresh::new(ticket, Duration::from_secs(30)), Duration::MAX);
    let listed = |pair: &mut Pair| pair.redis.zcard::<_, u64>(pair.shard.index()).unwrap();
    let claim = (pair.name.clone(), vec![pair.record_key()], record_or_lease(&pair, 1));
    pair.call(vec![claim]);
    assert_eq!(listed(&mut pair), 0);
    pair.call(vec![(pair.name.clone(), Vec::new(), renewal)]);
    assert_eq!(listed(&mut pair), 1);
    pair.call(vec![(pair.name.clone(), vec![pair.record_key()], storing(&pair, 1, "done"))]);
    assert_eq!(listed(&mut pair), 0);
}

/// Those that are not plain, or not there, or somebody else's, are left alone;
/// and the index has all names again that it has lost.
#[test]
fn many_renewals_of_one_call_do_not_get_in_each_others_way() {
    let server = RedisTestServer::start();
    let mut pair = Pair::new(&server, 0);
    let name = |text: &str| Name::new(&Namespace::default(), text).unwrap();
    let ticket =
        |text: &str, id, mode| Ticket { id: LeaseId::from_bits(id), name: name(text), mode };
    let claim = |ticket: Ticket| {
        let claim = Claim::new(ticket.clone(), Owner::new("me"), Duration::from_secs(30));
        (ticket.name, Vec::new(), verb::acquire(&claim, b"", false))
    };
    let (sole, read) = (Mode::Exclusive, Mode::Read);
    let claims = [("a", 1, sole), ("b", 2, sole), ("c", 3, read), ("e", 5, Mode::Write)];
    pair.call(claims.map(|(text, id, mode)| claim(ticket(text, id, mode))).into());
    pair.millis += 10_000;
    let _: () = pair.redis.del(pair.shard.index()).unwrap();
    let asked =
        [("a", 1, 30), ("b", 9, 30), ("c", 3, 30), ("d", 4, 30), ("e", 5, 40), ("a", 1, 25)];
    let refreshes = asked
        .map(|(text, id, secs)| Refresh::new(ticket(text, id, sole), Duration::from_secs(secs)));
    let kept = pair.renew_plain(&refreshes);
    assert_eq!(kept, [30_000, 0, 0, 0, 40_000, 0]);
    let listed: Vec<String> = pair.redis.zrange(pair.shard.index(), 0, -1).unwrap();
    assert_eq!(listed, ["a", "e"]);
    let left = |pair: &mut Pair, text: &str| {
        let said = pair.call(vec![(name(text), Vec::new(), verb::look())]).remove(0);
        let status = verb::status(name(text), said.packed().unwrap()).unwrap();
        status.holders[0].time_left.unwrap().as_secs()
    };
    assert_eq!(["a", "b", "c", "e"].map(|text| left(&mut pair, text)), [30, 20, 20, 40]);
    let ttl = pair.redis.pttl::<_, u64>(pair.shard.index()).unwrap();
    assert!(ttl > 100_000, "the index goes before its names: {ttl}");
}

/// Every verb on a name, beside one that may do what it likes.
fn all_verbs(pair: &Pair) -> Vec<(Name, Vec<Vec<u8>>, Vec<u8>)> {
    let (id, name) = (LeaseId::from_bits(1), pair.name.clone());
    let eviction = Eviction::new(name.clone(), Target::All, "op", "a test").unwrap();
    let permits = Ticket { mode: PERMITS[0], ..ticket(pair, 1) };
    let permits = Claim::new(permits, Owner::new("me"), Duration::from_secs(30));
    let refresh = Refresh::new(ticket(pair, 1), Duration::from_secs(30));
    let verbs = [
        exclusive(pair, 1),
        verb::acquire(&permits, b"", false),
        verb::renew(&refresh, Duration::MAX),
        verb::release(id, &Ending::new()),
        verb::release(id, &Ending::cut_off()),
        verb::convert(id, Mode::Read),
        verb::evict(&eviction),
        verb::bind(id, &name),
        verb::holds(id),
        verb::look(),
    ];
    let mut verbs: Vec<_> = verbs.map(|verb| (name.clone(), Vec::new(), verb)).into();
    verbs.push((name.clone(), vec![pair.record_key()], record_or_lease(pair, 1)));
    verbs.push((name, vec![pair.record_key()], storing(pair, 1, "done")));
    let other = Name::new(&Namespace::default(), "other").unwrap();
    verbs.push((other, Vec::new(), exclusive(pair, 2)));
    verbs
}

/// What a release to come may store: it says so in its first two bytes.
const FOREIGN: &[u8] = b"\xc1\x02whatever it is";

/// Two releases beside each other never grant a name twice: what one has stored
/// in its own way the other leaves alone, and says why.
#[test]
fn a_name_of_another_layout_is_refused_and_left_alone() {
    let server = RedisTestServer::start();
    let mut pair = Pair::new(&server, 0);
    let _: () = pair.redis.set(pair.shard.summary(pair.name.as_str()), FOREIGN).unwrap();
    let verbs = all_verbs(&pair);
    let mut said = pair.answers(verbs);
    assert!(said.pop().unwrap().is_ok(), "another name is nobody else's business");
    for (at, said) in said.into_iter().enumerate() {
        let error = said.expect_err("it is of another layout");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unsupported, Effect::NotApplied));
        assert!(error.to_string().contains("run the same release"), "{at}: {error}");
    }
    let refresh = Refresh::new(ticket(&pair, 1), Duration::from_secs(30));
    assert_eq!(pair.renew_plain(&[refresh]), [0]);
    let kept: Vec<u8> = pair.redis.get(pair.shard.summary(pair.name.as_str())).unwrap();
    assert_eq!(kept, FOREIGN);
}

/// The scripts of a release that knows of no layouts fail on what it finds, and
/// do not touch it: that is why other layouts begin as they do.
#[test]
fn a_release_without_layouts_leaves_another_layout_alone() {
    let server = RedisTestServer::start();
    let mut pair = Pair::new(&server, 0);
    let old = STEP_ALONE.replace("string.byte(packed) == 193", "false");
    assert_ne!(old, STEP_ALONE);
    pair.script = redis::Script::new(&format!("{CLOCK}{old}"));
    let _: () = pair.redis.set(pair.shard.summary(pair.name.as_str()), FOREIGN).unwrap();
    let verbs = all_verbs(&pair);
    let mut said = pair.answers(verbs);
    assert!(said.pop().unwrap().is_ok(), "another name is nobody else's business");
    assert!(said.iter().all(Result::is_err), "{said:?}");
    let kept: Vec<u8> = pair.redis.get(pair.shard.summary(pair.name.as_str())).unwrap();
    assert_eq!(kept, FOREIGN);
}

/// Whichever way the release goes; it has not been carried out.
#[test]
fn a_release_does_not_replace_a_record_of_another_layout() {
    let server = RedisTestServer::start();
    for listed in [false, true] {
        let mut pair = Pair::new(&server, 0);
        pair.ask_script(exclusive(&pair, 1), Vec::new());
        let _: () = pair.redis.set(pair.record_key(), FOREIGN).unwrap();
        let (mut release, mut keys) = (storing(&pair, 1, "done"), vec![pair.record_key()]);
        if listed {
            let store = Store::put(pair.name.clone(), b"done".to_vec());
            release = verb::release(LeaseId::from_bits(1), &Ending::storing(store));
            keys.extend([pair.shard.records().to_vec(), pair.shard.lapses().to_vec()]);
        }
        let verbs = vec![
            (pair.name.clone(), keys, release),
            (pair.name.clone(), Vec::new(), verb::holds(LeaseId::from_bits(1))),
        ];
        let mut said = pair.answers(verbs).into_iter();
        let error = said.next().unwrap().expect_err("it is of another layout");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unsupported, Effect::NotApplied));
        let held = said.next().unwrap().unwrap().answer(Duration::ZERO).unwrap();
        assert!(matches!(held, Answer::Held { .. }), "{held:?}");
        let kept: Vec<u8> = pair.redis.get(pair.record_key()).unwrap();
        assert_eq!(kept, FOREIGN);
    }
}

#[test]
fn a_record_of_another_layout_is_refused() {
    let server = RedisTestServer::start();
    let mut pair = Pair::new(&server, 0);
    let _: () = pair.redis.set(pair.record_key(), FOREIGN).unwrap();
    let asked = vec![(pair.name.clone(), vec![pair.record_key()], record_or_lease(&pair, 1))];
    let found = answered(pair.call(asked).remove(0)).found().unwrap().expect("it is there");
    let error = stored_record::stored(&found).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("run the same release"), "{error}");
}
