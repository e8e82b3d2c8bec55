//! Routes, requirements, and what a weaker engine refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::claim::{Claim, Verdict};
use leasehold::engine::profile::{
    Fencing, Grants, Lists, Order, Promise, Purpose, Reach, Survives, WakeUp,
};
use leasehold::engine::{BoxFuture, Page};
use leasehold::{Error, ErrorKind, Locks, Mode, Profile, Result};

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, SHORT, free, idle};
use super::store::Store;
use crate::twist::{Inner, Twist};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(a_prefix_goes_to_its_own_engine),
        check!(the_longest_prefix_wins),
        check!(a_route_serves_every_call),
        check!(a_route_has_the_namespace_of_its_target),
        check!(what_is_promised_may_be_required),
        check!(what_is_not_promised_is_named),
        check!(a_purpose_is_met_or_refused),
        check!(a_weak_engine_refuses_what_it_cannot_grant).when(|p| p.grants >= Grants::Shared),
        check!(a_weak_engine_refuses_an_order),
        check!(a_weak_engine_refuses_to_keep_a_name_closed),
        check!(a_weak_engine_refuses_a_long_name_and_many_permits)
            .when(|p| p.grants >= Grants::Counted),
        check!(a_weak_engine_refuses_to_list),
        check!(a_weak_engine_refuses_to_convert).when(|p| p.grants >= Grants::Shared),
        check!(a_weak_engine_is_not_even_asked),
    ]
}

async fn a_prefix_goes_to_its_own_engine(store: Store) -> Outcome {
    let (safe, fast) = (store.open().await?, Locks::memory());
    let routed = safe.route("cache/", &fast);
    let guard = routed.mutex("cache/1").ttl(HOUR).lock().await?;
    ensure!(fast.mutex("cache/1").try_lock().await?.is_none(), "it is not where it should be");
    drop(free(&safe.mutex("cache/1")).await?);
    let other = routed.mutex("cach").ttl(HOUR).lock().await?;
    ensure!(safe.mutex("cach").try_lock().await?.is_none(), "a part of the prefix went astray");
    guard.release().await?;
    ensure!(fast.mutex("cache/1").try_lock().await?.is_some(), "it was not released there");
    Ok(other.check()?)
}

async fn the_longest_prefix_wins(store: Store) -> Outcome {
    let (base, one, two) = (store.open().await?, Locks::memory(), Locks::memory());
    for routed in
        [base.route("a/", &one).route("a/b/", &two), { base.route("a/b/", &two).route("a/", &one) }]
    {
        let _short = routed.mutex("a/x").lock().await?;
        let _long = routed.mutex("a/b/x").lock().await?;
        ensure!(one.status("a/x").await?.is_busy(), "a/x");
        ensure!(two.status("a/b/x").await?.is_busy(), "a/b/x");
        ensure!(!one.status("a/b/x").await?.is_busy(), "the shorter prefix won");
    }
    Ok(())
}

async fn a_route_serves_every_call(store: Store) -> Outcome {
    let (base, other) = (store.open().await?, Locks::memory());
    let routed = base.route("r/", &other);
    let guards = routed.all(["a", "r/1"]).ttl(HOUR).lock().await?;
    ensure!(base.status("a").await?.is_busy(), "what is not routed stays");
    ensure!(other.status("r/1").await?.is_busy(), "all() ignores the route");
    ensure!(routed.status("r/1").await?.is_busy(), "status() ignores the route");
    let sequencer = guards.iter().last().ok_or("no guard")?.sequencer();
    routed.check_sequencer(&sequencer).await?;
    guards.release().await?;
    let _permit = routed.semaphore("r/2", 3).acquire(2).await?;
    let _reader = routed.rwlock("r/3").read().await?;
    ensure!(other.status("r/2").await?.is_busy() && other.status("r/3").await?.is_busy(), "r/");
    idle(&base.mutex("r/2")).await
}

/// One at a time and many at once, it is the same name.
async fn a_route_has_the_namespace_of_its_target(store: Store) -> Outcome {
    let (base, other) = (store.open().await?, Locks::memory().namespace("other")?);
    let routed = base.route("r/", &other);
    let guards = routed.all(["r/1"]).ttl(HOUR).lock().await?;
    ensure!(routed.mutex("r/1").try_lock().await?.is_none(), "all() and mutex() do not meet");
    ensure!(other.status("r/1").await?.is_busy(), "it is in the wrong namespace");
    ensure!(guards.fence("r/1").is_some(), "{guards:?}");
    Ok(())
}

/// The URL of the store, or that of its engine where a store has none.
async fn url(store: &Store) -> Outcome<String> {
    match store.url() {
        Some(url) => Ok(url.to_owned()),
        None => Ok(format!("{}:", store.open().await?.profile().scheme)),
    }
}

async fn what_is_promised_may_be_required(store: Store) -> Outcome {
    let url = url(&store).await?;
    let profile = leasehold::open(&url).await?.profile().clone();
    let opening = leasehold::open(&url)
        .require(profile.grants)
        .require(profile.fencing)
        .require(profile.order)
        .require(profile.wake)
        .require(profile.reach)
        .require(profile.survives)
        .require(profile.listing);
    opening.await?;
    Ok(())
}

/// One more than an engine of this host can promise, and one that it may.
async fn what_is_not_promised_is_named(store: Store) -> Outcome {
    let url = url(&store).await?;
    let profile = leasehold::open(&url).await?.profile().clone();
    let opening = leasehold::open(&url).require(Order::Any).require(Survives::Failover);
    let outcome = opening.require(Reach::Network).await;
    let (survives, reaches) =
        (Survives::Failover.is_kept_by(&profile), Reach::Network.is_kept_by(&profile));
    if survives && reaches {
        outcome?;
        return Ok(());
    }
    let error = outcome.err().ok_or("opened without its promises")?;
    ensure!(error.kind() == ErrorKind::Unsupported, "{error:?}");
    let text = error.to_string();
    ensure!(text.contains("Failover") != survives && text.contains("Network") != reaches, "{text}");
    ensure!(text.contains(profile.scheme) && !text.contains("Any"), "{text}");
    Ok(())
}

async fn a_purpose_is_met_or_refused(store: Store) -> Outcome {
    let url = url(&store).await?;
    let locks = leasehold::open(&url).purpose(Purpose::Efficiency).await?;
    let correct = leasehold::open(&url).purpose(Purpose::Correctness).await;
    if Purpose::Correctness.is_kept_by(locks.profile()) {
        correct?;
        return Ok(());
    }
    let error = correct.err().ok_or("good enough for correctness?")?;
    ensure!(error.kind() == ErrorKind::Unsupported, "{error:?}");
    ensure!(error.to_string().contains("Correctness"), "{error}");
    Ok(())
}

/// An engine that promises as little as one may, and counts what reaches it.
#[derive(Clone, Debug)]
struct Weak {
    profile: Profile,
    asked: Arc<AtomicU64>,
}

impl Weak {
    fn new() -> Self {
        let mut profile = Profile::new("weak", "nowhere");
        profile.limits.name_max = 8;
        Self { profile, asked: Arc::default() }
    }

    /// As weak, but for modes.
    fn granting(grants: Grants) -> Self {
        let mut weak = Self::new();
        weak.profile.grants = grants;
        weak.profile.limits.permits_max = 4;
        weak
    }
}

impl Twist for Weak {
    fn profile<'a>(&'a self, _: &'a Inner) -> &'a Profile {
        &self.profile
    }

    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        inner.acquire(claim)
    }
}

/// Refused as `kind`, with all of these words.
fn refused<T>(result: Result<T>, kind: ErrorKind, words: &[&str]) -> Outcome {
    let error: Error = result.err().ok_or("granted")?;
    ensure!(error.kind() == kind, "{error:?}");
    let text = error.to_string();
    for word in words {
        ensure!(text.contains(word), "{word:?} is not in {text:?}");
    }
    Ok(())
}

fn unsupported<T>(result: Result<T>, words: &[&str]) -> Outcome {
    refused(result, ErrorKind::Unsupported, &[words, &["weak engine"]].concat())
}

async fn a_weak_engine_refuses_what_it_cannot_grant(store: Store) -> Outcome {
    let (weak, below) = store.open_twisted(Weak::new()).await?;
    unsupported(weak.rwlock("n").read().await, &["does not grant read"])?;
    unsupported(weak.rwlock("n").try_write().await, &["does not grant write"])?;
    unsupported(weak.semaphore("n", 3).acquire(1).await, &["does not grant permits 1/3"])?;
    drop(weak.mutex("n").lock().await?);
    let (shared, _below) = store.open_twisted(Weak::granting(Grants::Shared)).await?;
    drop(shared.rwlock("m").read().await?);
    unsupported(shared.semaphore("m", 3).try_acquire(1).await, &["does not grant permits"])?;
    idle(&below.mutex("n")).await
}

async fn a_weak_engine_refuses_an_order(store: Store) -> Outcome {
    let (weak, _below) = store.open_twisted(Weak::new()).await?;
    unsupported(weak.mutex("n").fair().lock().await, &["order of arrival", "fair"])?;
    unsupported(weak.mutex("n").fair().try_lock().await, &["order of arrival"])?;
    unsupported(weak.all(["n"]).fair().try_lock().await, &["order of arrival"])
}

async fn a_weak_engine_refuses_to_keep_a_name_closed(store: Store) -> Outcome {
    let (weak, _below) = store.open_twisted(Weak::new()).await?;
    let delayed = weak.mutex("n").lock_delay(SHORT);
    unsupported(delayed.lock().await, &["cannot keep an expired name closed", "lock_delay"])?;
    let kept = weak.mutex("n").hold_at_least(SHORT);
    unsupported(kept.try_lock().await, &["cannot keep a released name closed", "hold_at_least"])
}

async fn a_weak_engine_refuses_a_long_name_and_many_permits(store: Store) -> Outcome {
    let (weak, _below) = store.open_twisted(Weak::granting(Grants::Counted)).await?;
    drop(weak.mutex("12345678").lock().await?);
    let long = weak.mutex("123456789").lock().await;
    refused(long, ErrorKind::Invalid, &["weak takes names of at most 8 bytes"])?;
    let many = weak.semaphore("n", 5).acquire(1).await;
    refused(many, ErrorKind::Invalid, &["weak takes at most 4 permits"])?;
    drop(weak.semaphore("n", 4).acquire(4).await?);
    let brief = weak.mutex("n").ttl(Duration::from_nanos(1)).lock().await;
    refused(brief, ErrorKind::Invalid, &["out of range", "weak"])
}

async fn a_weak_engine_refuses_to_list(store: Store) -> Outcome {
    let (weak, _below) = store.open_twisted(Weak::new()).await?;
    unsupported(weak.list("", Page::default()).await, &["no index of its names"])?;
    let _guard = weak.mutex("n").lock().await?;
    ensure!(weak.status("n").await?.is_busy(), "one name can still be asked for");
    Ok(())
}

async fn a_weak_engine_refuses_to_convert(store: Store) -> Outcome {
    let (weak, below) = store.open_twisted(Weak::granting(Grants::Shared)).await?;
    let mut guard = weak.rwlock("n").write().await?;
    let words = ["cannot convert", "release it and lock anew"];
    unsupported(guard.convert(Mode::Read).await, &words)?;
    ensure!(guard.mode() == Mode::Write, "{guard:?}");
    guard.check()?;
    ensure!(below.rwlock("n").try_read().await?.is_none(), "it let go");
    Ok(())
}

/// What is refused costs no request; and the profile is the weak one.
async fn a_weak_engine_is_not_even_asked(store: Store) -> Outcome {
    let twist = Weak::new();
    let (weak, _below) = store.open_twisted(twist.clone()).await?;
    let profile = weak.profile();
    let promises = (profile.grants, profile.fencing, profile.wake, profile.listing);
    let least = (Grants::Exclusive, Fencing::None, WakeUp::Poll, Lists::ByName);
    ensure!(promises == least, "{profile:?}");
    ensure!(weak.rwlock("n").read().await.is_err(), "granted");
    ensure!(weak.mutex("n").fair().lock().await.is_err(), "granted");
    ensure!(weak.mutex("a long name").lock().await.is_err(), "granted");
    let asked = twist.asked.load(Ordering::Relaxed);
    ensure!(asked == 0, "{asked} requests reached the engine");
    Ok(())
}
