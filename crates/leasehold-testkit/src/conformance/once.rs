//! Work that is done once for each key, over two clients of one store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use leasehold::claim::{Claim, Ending, Ticket, Verdict, Wants};
use leasehold::engine::{BoxFuture, Eviction, Store as Write, Target};
use leasehold::once::{
    Done, Failure, Fingerprint, Key, OnBusy, OnCrash, Once, OnceError, Refusal, TokenFault,
    TokenKeys, Turn,
};
use leasehold::{Effect, Error, ErrorKind, Locks, Mode, Released};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use super::check::{Check, Outcome, check, ensure};
use super::direct::Direct;
use super::patience::{HOUR, PATIENCE, SHORT, eventually};
use super::store::Store;
use crate::twist::{Inner, Requests, Twist};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(an_engine_without_records_says_so),
        check!(of_all_racers_one_runs_and_all_get_its_outcome),
        check!(another_payload_is_refused),
        check!(one_who_does_not_wait_is_told_that_it_runs),
        check!(those_who_wait_get_the_outcome_when_it_is_there),
        check!(a_wait_has_its_limit),
        check!(a_failure_is_forgotten_or_said_again),
        check!(work_that_was_cut_off_is_taken_over_with_a_larger_fence),
        check!(at_most_once_nobody_takes_over_until_somebody_has_looked),
        check!(at_most_once_work_that_fails_may_be_tried_again),
        check!(a_key_that_is_forgotten_runs_again),
        check!(work_whose_lease_is_taken_away_leaves_no_outcome).of_known_leases(),
        check!(an_outcome_that_is_too_large_is_remembered_as_done),
        check!(an_outcome_goes_after_its_time_and_a_tombstone_says_so),
        check!(scopes_and_odd_keys_do_not_meet),
        check!(a_trace_has_a_window_from_the_first_request_on),
        check!(a_token_is_redeemed_once_by_all_racers),
        check!(a_token_that_is_late_or_elsewhere_is_refused),
        check!(a_fresh_run_is_two_requests),
        check!(an_outcome_whose_reply_is_lost_is_recorded),
        check!(what_is_done_elsewhere_is_told_and_no_lease_is_left),
        check!(a_record_will_do_instead_of_a_grant_and_leaves_nothing),
        check!(who_asks_while_an_outcome_is_stored_does_not_miss_it),
    ]
}

/// Two clients of one store, where one scope is shared.
struct Pair {
    a: Once,
    b: Once,
    locks: Locks,
    runs: Arc<AtomicU32>,
}

impl Pair {
    /// `None` if the engine keeps no records, and there is nothing to check.
    async fn new(store: &Store) -> Outcome<Option<Self>> {
        let (a, b) = (store.open().await?, store.open().await?);
        if a.engine().records().is_none() {
            return Ok(None);
        }
        let (locks, runs) = (a.into_locks(), Arc::default());
        let b = b.into_locks().once("pay").lease(HOUR);
        Ok(Some(Self { a: locks.once("pay").lease(HOUR), b, locks, runs }))
    }

    fn with(mut self, change: impl Fn(Once) -> Once) -> Self {
        (self.a, self.b) = (change(self.a), change(self.b));
        self
    }

    /// Pays, and counts how often that was done.
    async fn pay(&self, once: &Once, amount: &str) -> Result<Done, OnceError<String>> {
        let work = async |_| {
            self.runs.fetch_add(1, Ordering::AcqRel);
            Ok::<_, String>(format!("paid {amount}"))
        };
        once.run("key", Fingerprint::of_bytes(amount.as_bytes()), work).await
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::Acquire)
    }
}

macro_rules! pair {
    ($store:ident) => {
        match Pair::new(&$store).await? {
            Some(pair) => pair,
            None => return Ok(()),
        }
    };
}

fn any() -> Fingerprint {
    Fingerprint::none()
}

fn refused<E: std::fmt::Debug>(done: Result<Done, OnceError<E>>) -> Outcome<Refusal> {
    match done {
        Err(OnceError::Refused(refusal)) => Ok(refusal),
        other => Err(format!("not refused: {other:?}").into()),
    }
}

/// A run that has begun and waits to be told to go on.
struct Begun {
    task: tokio::task::JoinHandle<Result<Done, OnceError<String>>>,
    go: Arc<Notify>,
    turn: Turn,
}

async fn begin(once: &Once) -> Outcome<Begun> {
    let (once, go) = (once.clone(), Arc::new(Notify::new()));
    let (tell, told) = oneshot::channel();
    let waits = Arc::clone(&go);
    let work = async move |turn: Turn| {
        let _ = tell.send(turn);
        waits.notified().await;
        Ok::<_, String>("slow")
    };
    let task = tokio::spawn(async move { once.run("key", any(), work).await });
    let turn = tokio::time::timeout(PATIENCE, told).await??;
    Ok(Begun { task, go, turn })
}

impl Begun {
    /// Drops the work in the middle.
    async fn cut_off(self) -> u64 {
        self.task.abort();
        let _ = self.task.await;
        self.turn.fence()
    }
}

async fn an_engine_without_records_says_so(store: Store) -> Outcome {
    let locks = store.open().await?;
    let done = locks.once("pay").run("key", any(), async |_| Ok::<_, String>("done")).await;
    if locks.engine().records().is_some() {
        ensure!(done.is_ok(), "{done:?}");
        return Ok(());
    }
    let Refusal::Engine(error) = refused(done)? else { return Err("another refusal".into()) };
    ensure!(error.kind() == ErrorKind::Unsupported, "{error:?}");
    Ok(())
}

async fn of_all_racers_one_runs_and_all_get_its_outcome(store: Store) -> Outcome {
    let pair = Arc::new(pair!(store));
    let mut racers = JoinSet::new();
    for n in 0..40 {
        let pair = Arc::clone(&pair);
        let once = if n % 2 == 0 { pair.a.clone() } else { pair.b.clone() };
        racers.spawn(async move { pair.pay(&once, "10").await });
    }
    let mut fresh = 0;
    while let Some(done) = racers.join_next().await {
        let done = done??;
        ensure!(done.outcome == b"paid 10", "{done:?}");
        fresh += u32::from(!done.replayed);
    }
    ensure!(pair.runs() == 1 && fresh == 1, "{} runs, {fresh} fresh", pair.runs());
    Ok(())
}

async fn another_payload_is_refused(store: Store) -> Outcome {
    let pair = pair!(store);
    pair.pay(&pair.a, "10").await?;
    for once in [&pair.a, &pair.b] {
        let refusal = refused(pair.pay(once, "11").await)?;
        ensure!(matches!(refusal, Refusal::Mismatch), "{refusal:?}");
        ensure!(pair.pay(once, "10").await?.replayed, "run again");
    }
    ensure!(pair.runs() == 1, "{} runs", pair.runs());
    Ok(())
}

async fn one_who_does_not_wait_is_told_that_it_runs(store: Store) -> Outcome {
    let pair = pair!(store).with(|once| once.on_busy(OnBusy::Refuse));
    let begun = begin(&pair.a).await?;
    for once in [&pair.a, &pair.b] {
        let refusal = refused(pair.pay(once, "10").await)?;
        ensure!(matches!(refusal, Refusal::Running(_)), "{refusal:?}");
    }
    begun.go.notify_one();
    ensure!(begun.task.await??.outcome == b"slow", "another outcome");
    Ok(())
}

async fn those_who_wait_get_the_outcome_when_it_is_there(store: Store) -> Outcome {
    let pair = Arc::new(pair!(store).with(|once| once.on_busy(OnBusy::Wait(PATIENCE))));
    let begun = begin(&pair.a).await?;
    let mut waiters = JoinSet::new();
    for once in [pair.a.clone(), pair.b.clone(), pair.b.clone()] {
        let pair = Arc::clone(&pair);
        waiters.spawn(async move { pair.pay(&once, "10").await });
    }
    tokio::task::yield_now().await;
    begun.go.notify_one();
    begun.task.await??;
    while let Some(done) = waiters.join_next().await {
        let done = done??;
        ensure!(done.outcome == b"slow" && done.replayed, "{done:?}");
    }
    ensure!(pair.runs() == 0, "run again");
    Ok(())
}

async fn a_wait_has_its_limit(store: Store) -> Outcome {
    let pair = pair!(store);
    let begun = begin(&pair.a).await?;
    // Long enough for an engine that is slow to answer.
    let pair = pair.with(|once| once.on_busy(OnBusy::Wait(Duration::from_secs(2))));
    for once in [&pair.a, &pair.b] {
        let refusal = refused(pair.pay(once, "10").await)?;
        ensure!(matches!(refusal, Refusal::Running(_)), "{refusal:?}");
    }
    begun.cut_off().await;
    Ok(())
}

async fn a_failure_is_forgotten_or_said_again(store: Store) -> Outcome {
    let pair = pair!(store);
    for failure in [Failure::Forget, Failure::Record] {
        let pay = |once: &Once| {
            let once = once.clone().on_failure(failure);
            async move { once.run("key", any(), async |_| Err::<String, _>("no money")).await }
        };
        let Err(OnceError::Failed("no money")) = pay(&pair.a).await else {
            return Err("not failed".into());
        };
        let again = pay(&pair.b).await;
        let same = match (failure, &again) {
            (Failure::Forget, Err(OnceError::Failed("no money"))) => true,
            (Failure::Record, Err(OnceError::Refused(Refusal::FailedBefore { message, .. }))) => {
                message == "no money"
            }
            _ => false,
        };
        ensure!(same, "{failure:?}: {again:?}");
    }
    Ok(())
}

async fn work_that_was_cut_off_is_taken_over_with_a_larger_fence(store: Store) -> Outcome {
    let pair = pair!(store);
    let begun = begin(&pair.a).await?;
    ensure!(!begun.turn.took_over(), "took over from nobody");
    let fence = begun.cut_off().await;
    let work = async |turn: Turn| {
        turn.check().map_err(|error| error.to_string())?;
        let told = turn.took_over() && turn.fence() > fence;
        if told { Ok("done") } else { Err(format!("{turn:?} after {fence}")) }
    };
    let done = pair.b.run("key", any(), work).await?;
    ensure!(!done.replayed, "{done:?}");
    ensure!(pair.pay(&pair.a, "10").await?.outcome == b"done", "another outcome");
    Ok(())
}

async fn at_most_once_nobody_takes_over_until_somebody_has_looked(store: Store) -> Outcome {
    let pair = pair!(store).with(|once| once.on_crash(OnCrash::Unknown));
    begin(&pair.a).await?.cut_off().await;
    for once in [&pair.a, &pair.b, &pair.b] {
        let refusal = refused(pair.pay(once, "10").await)?;
        ensure!(matches!(refusal, Refusal::Unknown { .. }), "{refusal:?}");
    }
    let settled = pair.b.settle("key", any(), "looked").await?;
    ensure!(!settled.replayed, "{settled:?}");
    for once in [&pair.a, &pair.b] {
        ensure!(pair.pay(once, "10").await?.outcome == b"looked", "another outcome");
    }
    ensure!(pair.b.settle("key", any(), "again").await?.outcome == b"looked", "settled twice");
    ensure!(pair.runs() == 0, "run");
    Ok(())
}

async fn at_most_once_work_that_fails_may_be_tried_again(store: Store) -> Outcome {
    let pair = pair!(store).with(|once| once.on_crash(OnCrash::Unknown));
    let failed = pair.a.run("key", any(), async |_| Err::<String, _>("before")).await;
    ensure!(matches!(failed, Err(OnceError::Failed("before"))), "{failed:?}");
    ensure!(!pair.pay(&pair.b, "10").await?.replayed, "not run");
    ensure!(pair.pay(&pair.a, "10").await?.replayed, "run twice");
    Ok(())
}

async fn a_key_that_is_forgotten_runs_again(store: Store) -> Outcome {
    let pair = pair!(store);
    pair.pay(&pair.a, "10").await?;
    pair.b.forget("key").await?;
    ensure!(pair.b.outcome("key", any()).await?.is_none(), "not forgotten");
    pair.pay(&pair.a, "11").await?;
    let found = pair.b.outcome("key", any()).await?.ok_or("no outcome")?;
    ensure!(found.outcome == b"paid 11" && pair.runs() == 2, "{found:?}");
    Ok(())
}

async fn work_whose_lease_is_taken_away_leaves_no_outcome(store: Store) -> Outcome {
    let pair = pair!(store);
    let begun = begin(&pair.a).await?;
    let name = pair.locks.name("once/pay/key")?;
    let evicted = pair.locks.evict(Eviction::new(name, Target::All, "test", "a drill")?).await?;
    ensure!(evicted.leases.len() == 1, "{evicted:?}");
    let done = pair.pay(&pair.b, "10").await?;
    ensure!(!done.replayed, "{done:?}");
    begun.go.notify_one();
    let late = match begun.task.await? {
        // Whichever was first, the end of the work or the news of the loss.
        Err(OnceError::Unrecorded { cause, .. } | OnceError::CutOff(cause)) => cause,
        other => return Err(format!("not late: {other:?}").into()),
    };
    ensure!(late.is_lost(), "{late:?}");
    for once in [&pair.a, &pair.b] {
        ensure!(pair.pay(once, "10").await?.outcome == b"paid 10", "covered up");
    }
    Ok(())
}

async fn an_outcome_that_is_too_large_is_remembered_as_done(store: Store) -> Outcome {
    let pair = pair!(store).with(|once| once.max_outcome(7));
    ensure!(pair.pay(&pair.a, "10").await?.outcome == b"paid 10", "it fits");
    pair.a.forget("key").await?;
    ensure!(pair.pay(&pair.a, "100").await?.outcome == b"paid 100", "not for its first caller");
    for once in [&pair.a, &pair.b] {
        let refusal = refused(pair.pay(once, "100").await)?;
        ensure!(matches!(refusal, Refusal::NotKept { .. }), "{refusal:?}");
    }
    Ok(())
}

async fn an_outcome_goes_after_its_time_and_a_tombstone_says_so(store: Store) -> Outcome {
    let pair = pair!(store).with(|once| once.keep(SHORT).tombstone(HOUR));
    pair.pay(&pair.a, "10").await?;
    let gone = || async {
        match pair.pay(&pair.b, "10").await {
            Ok(done) => Ok(!done.replayed),
            Err(OnceError::Refused(Refusal::Gone { .. })) => Ok(true),
            Err(other) => Err(other.to_string().into()),
        }
    };
    eventually("a tombstone", gone).await?;
    ensure!(pair.runs() == 1, "run again under a tombstone");
    let short = pair.a.clone().keep(SHORT).tombstone(Duration::ZERO);
    let run = async |_| Ok::<_, String>("again");
    short.run("other", any(), run).await?;
    let anew = || async { Ok(!short.run("other", any(), run).await?.replayed) };
    eventually("a key that is forgotten", anew).await
}

async fn scopes_and_odd_keys_do_not_meet(store: Store) -> Outcome {
    let pair = pair!(store);
    let long = "x".repeat(300);
    let keys = ["key", "KEY", " key", "key\n", "a/b", "~a", &long, &long[1..]];
    for scope in ["one", "two"] {
        for key in keys {
            let say = format!("{scope} {key}");
            let run = async |_| Ok::<_, String>(say.clone());
            let done = pair.locks.once(scope).run(key, any(), run).await?;
            ensure!(!done.replayed && done.outcome == say.as_bytes(), "{done:?}");
        }
    }
    let refusal =
        refused(pair.locks.once("a/b").run("c", any(), async |_| Ok::<_, String>("")).await)?;
    ensure!(refusal.to_string().contains("no slash"), "{refusal}");
    Ok(())
}

async fn a_trace_has_a_window_from_the_first_request_on(store: Store) -> Outcome {
    let pair = pair!(store);
    let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_059 + seconds);
    let minute = Duration::from_secs(60);
    let ask = async |once: &Once, device: &str, when| {
        let key = Key::trace("ann", device, when, minute);
        once.run(key, any(), async |_| Ok::<_, String>("done")).await
    };
    ensure!(!ask(&pair.a, "phone", at(0)).await?.replayed, "the first");
    for seconds in [1, 30, 59] {
        ensure!(ask(&pair.b, "phone", at(seconds)).await?.replayed, "after {seconds} s");
    }
    ensure!(!ask(&pair.b, "tablet", at(1)).await?.replayed, "another device");
    ensure!(!ask(&pair.b, "phone", at(60)).await?.replayed, "a new request");
    ensure!(ask(&pair.a, "phone", at(100)).await?.replayed, "the window of the new one");
    let refusal = refused(ask(&pair.a, "phone", at(0)).await)?;
    ensure!(matches!(refusal, Refusal::Gone { .. }), "{refusal:?}");
    Ok(())
}

fn keys() -> Outcome<TokenKeys> {
    Ok(TokenKeys::new(1, &[7; 32])?)
}

async fn a_token_is_redeemed_once_by_all_racers(store: Store) -> Outcome {
    let pair = pair!(store);
    let tokens = [pair.a.tokens(keys()?), pair.b.tokens(keys()?)];
    let token: Arc<str> = tokens[0].issue("ann", HOUR).into();
    let mut racers = JoinSet::new();
    for n in 0..20 {
        let (tokens, token) = (tokens[n % 2].clone(), Arc::clone(&token));
        let runs = Arc::clone(&pair.runs);
        racers.spawn(async move {
            let order =
                async |_| Ok::<_, String>(format!("order {}", runs.fetch_add(1, Ordering::AcqRel)));
            tokens.redeem(&token, "ann", any(), order).await
        });
    }
    while let Some(done) = racers.join_next().await {
        ensure!(done??.outcome == b"order 0", "a second order");
    }
    ensure!(pair.runs() == 1, "{} runs", pair.runs());
    Ok(())
}

async fn a_token_that_is_late_or_elsewhere_is_refused(store: Store) -> Outcome {
    let pair = pair!(store);
    let (here, there) = (pair.a.tokens(keys()?), pair.locks.once("ship").tokens(keys()?));
    let redeem = async |token: &str, subject: &str| {
        here.redeem(token, subject, any(), async |_| Ok::<_, String>("done")).await
    };
    let fault = |done| match refused::<String>(done) {
        Ok(Refusal::Token(fault)) => Ok(fault),
        other => Err(format!("not refused: {other:?}")),
    };
    let (late, other) = (here.issue("ann", Duration::ZERO), there.issue("ann", HOUR));
    ensure!(fault(redeem(&late, "ann").await)? == TokenFault::Expired, "late");
    ensure!(fault(redeem(&other, "ann").await)? == TokenFault::OtherScope, "elsewhere");
    ensure!(fault(redeem(&other[1..], "ann").await)? == TokenFault::Forged, "forged");
    ensure!(fault(redeem(&late, "bob").await)? == TokenFault::Forged, "of another");
    // Whoever was in time may ask again later.
    let brief = here.issue("ann", Duration::from_secs(3));
    let over = SystemTime::now() + Duration::from_secs(3);
    redeem(&brief, "ann").await?;
    eventually("the end of its time", || async { Ok(SystemTime::now() > over) }).await?;
    ensure!(redeem(&brief, "ann").await?.replayed, "no outcome for one who was in time");
    Ok(())
}

/// The claim brings what is known, and the end leaves the outcome.
async fn a_fresh_run_is_two_requests(store: Store) -> Outcome {
    let requests = Requests::default();
    let (locks, below) = store.open_twisted(requests.clone()).await?;
    if below.engine().records().is_none() || !below.profile().predecessor {
        return Ok(());
    }
    let once = locks.once("pay").lease(HOUR);
    for n in 1..=5 {
        once.run(format!("key {n}"), any(), async |_| Ok::<_, String>("done")).await?;
        ensure!(requests.turns() == 2 * n, "{} requests for {n} runs", requests.turns());
    }
    // What this client has seen done is looked up without a lease.
    once.run("key 1", any(), async |_| Ok::<_, String>("again")).await?;
    ensure!(requests.turns() == 10, "{} requests after a replay", requests.turns());
    Ok(())
}

async fn an_outcome_whose_reply_is_lost_is_recorded(store: Store) -> Outcome {
    let (locks, below) = store.open_twisted(DeafOnce).await?;
    if below.engine().records().is_none() {
        return Ok(());
    }
    let once = locks.once("pay").lease(HOUR);
    match once.run("key", any(), async |_| Ok::<_, String>("done")).await {
        Err(OnceError::Unrecorded { outcome, cause }) => {
            ensure!(outcome == b"done" && cause.effect() == Effect::Unknown, "{cause:?}");
        }
        other => return Err(format!("the reply was not lost: {other:?}").into()),
    }
    let again = below.once("pay").run("key", any(), async |_| Ok::<_, String>("again")).await?;
    ensure!(again.outcome == b"done" && again.replayed, "{again:?}");
    Ok(())
}

/// A client that has not seen the key asks the engine in one request, or in two
/// if it has to give a lease back.
async fn what_is_done_elsewhere_is_told_and_no_lease_is_left(store: Store) -> Outcome {
    let requests = Requests::default();
    let (locks, below) = store.open_twisted(requests.clone()).await?;
    if below.engine().records().is_none() {
        return Ok(());
    }
    below.once("pay").run("key", any(), async |_| Ok::<_, String>("done")).await?;
    let once = locks.once("pay").lease(HOUR);
    let again = once.run("key", any(), async |_| Ok::<_, String>("again")).await?;
    ensure!(again.outcome == b"done" && again.replayed, "{again:?}");
    let free = || async { Ok(!below.status("once/pay/key").await?.is_busy()) };
    eventually("the name is free", free).await?;
    ensure!(requests.turns() <= 2, "{} requests", requests.turns());
    Ok(())
}

async fn a_record_will_do_instead_of_a_grant_and_leaves_nothing(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let Some(records) = direct.engine.records() else { return Ok(()) };
    let ask = || {
        let mut claim = direct.waiting(Mode::Exclusive);
        claim.wants = Wants::RecordOrLease;
        claim
    };
    let first = ask();
    let grant = direct.granted(first.clone()).await?;
    ensure!(grant.record.is_none(), "{grant:?}");
    let put = Write::put(first.ticket.name.clone(), b"done".to_vec());
    ensure!(records.store(put).await?.is_ok(), "not stored");
    let again = direct.granted(first.clone()).await?;
    ensure!(again.fence == grant.fence, "its own lease is not forgotten: {again:?}");
    direct.engine.release(first.ticket, Ending::new()).await?;
    for _ in 0..2 {
        tell_or_grant(&direct, ask()).await?;
    }
    let last = direct.claim(Mode::Exclusive);
    direct.granted(last.clone()).await?;
    direct.engine.release(last.ticket, Ending::new()).await?;
    Ok(())
}

/// Either way it brings the record; a lease is given back.
async fn tell_or_grant(direct: &Direct, claim: Claim) -> Outcome {
    let ticket = claim.ticket.clone();
    let record = match direct.engine.acquire(claim).await? {
        Verdict::Busy(busy) => {
            ensure!(busy.place.is_none(), "it waits: {busy:?}");
            busy.found
        }
        Verdict::Granted(grant) => {
            direct.engine.release(ticket, Ending::new()).await?;
            grant.record
        }
    };
    ensure!(record.is_some_and(|record| record.value == b"done"), "no record");
    Ok(())
}

/// An engine may take both in one request: the claim is granted with the record
/// or not at all. Otherwise the work would be done again.
async fn who_asks_while_an_outcome_is_stored_does_not_miss_it(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    if direct.engine.records().is_none() {
        return Ok(());
    }
    for round in 0..10 {
        let name = direct.locks.name(&format!("key {round}"))?;
        let ask = || {
            let mut claim = direct.claim(Mode::Exclusive);
            (claim.ticket.name, claim.wants) = (name.clone(), Wants::RecordOrLease);
            claim
        };
        let (first, second) = (ask(), ask());
        direct.granted(first.clone()).await?;
        let mut done = Write::put(name.clone(), b"done".to_vec());
        (done.ttl, done.unlisted) = (Some(HOUR), true);
        let ticket = second.ticket.clone();
        let (released, answer) = tokio::join!(
            direct.engine.release(first.ticket, Ending::storing(done)),
            direct.engine.acquire(second),
        );
        ensure!(released? == Released::Released, "round {round}: not released");
        if let Verdict::Granted(grant) = answer? {
            ensure!(grant.record.is_some(), "round {round}: granted, and no outcome");
            direct.release(&ticket).await?;
        }
    }
    Ok(())
}

/// Does not hear the reply to a release.
#[derive(Clone, Debug, Default)]
struct DeafOnce;

impl Twist for DeafOnce {
    fn release(
        &self,
        inner: &Inner,
        ticket: Ticket,
        ending: Ending,
    ) -> BoxFuture<leasehold::Result<Released>> {
        let reply = inner.release(ticket, ending);
        Box::pin(async move {
            let _ = reply.await;
            Err(Error::new(ErrorKind::Unavailable, "the reply was lost").unknown())
        })
    }
}
