//! What is refused before anything is sent.

use std::time::Duration;

use leasehold::claim::META_MAX;
use leasehold::{ErrorKind, Guard};

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, idle};
use super::store::Store;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(a_ttl_out_of_range_is_refused_with_the_range),
        check!(the_ends_of_the_range_are_granted),
        check!(an_extension_out_of_range_is_refused_and_changes_nothing),
        check!(a_lock_delay_that_no_store_can_keep_is_refused).when(|p| p.lock_delay),
        check!(a_closing_time_that_no_store_can_keep_is_refused).when(|p| p.keep_closed),
        check!(a_meta_text_that_is_too_long_is_refused),
        check!(a_hold_of_no_time_is_refused),
        check!(an_unknown_option_is_refused_with_the_list),
        check!(an_option_given_twice_is_refused),
        check!(the_profile_says_what_was_opened),
    ]
}

async fn a_ttl_out_of_range_is_refused_with_the_range(store: Store) -> Outcome {
    let locks = store.open().await?;
    let limits = locks.profile().limits;
    let step = Duration::from_nanos(1);
    for ttl in [Duration::ZERO, limits.ttl_min - step, limits.ttl_max + step] {
        let error = locks.mutex("n").ttl(ttl).lock().await.err().ok_or("granted")?;
        ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
        let text = error.to_string();
        ensure!(text.contains(&format!("{:?}", limits.ttl_max)), "no range: {text}");
    }
    idle(&locks.mutex("n")).await
}

async fn the_ends_of_the_range_are_granted(store: Store) -> Outcome {
    let locks = store.open().await?;
    let limits = locks.profile().limits;
    // So short a lease may be over before it arrives; it is not refused.
    let shortest = locks.mutex("short").ttl(limits.ttl_min).renew(false).try_lock().await;
    let refused = shortest.is_err_and(|error| error.kind() == ErrorKind::Invalid);
    ensure!(!refused, "the shortest ttl is refused");
    let longest = locks.mutex("long").ttl(limits.ttl_max).lock().await?;
    ensure!(longest.remaining() <= limits.ttl_max, "{:?}", longest.remaining());
    Ok(longest.check()?)
}

async fn an_extension_out_of_range_is_refused_and_changes_nothing(store: Store) -> Outcome {
    let locks = store.open().await?;
    let max = locks.profile().limits.ttl_max;
    let guard = locks.mutex("n").ttl(HOUR.min(max)).renew(false).lock().await?;
    let before = guard.deadline();
    for ttl in [Duration::ZERO, max + Duration::from_nanos(1), Duration::MAX] {
        let error = guard.extend(ttl).await.err().ok_or("extended")?;
        ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
        ensure!(guard.deadline() == before, "{:?} and then {:?}", before, guard.deadline());
    }
    Ok(guard.check()?)
}

async fn a_lock_delay_that_no_store_can_keep_is_refused(store: Store) -> Outcome {
    let locks = store.open().await?;
    is_invalid(locks.mutex("n").lock_delay(Duration::MAX).lock().await)?;
    idle(&locks.mutex("n")).await
}

async fn a_closing_time_that_no_store_can_keep_is_refused(store: Store) -> Outcome {
    let locks = store.open().await?;
    is_invalid(locks.mutex("n").hold_at_least(Duration::MAX).lock().await)?;
    idle(&locks.mutex("n")).await
}

fn is_invalid(asked: leasehold::Result<Guard>) -> Outcome {
    let error = asked.err().ok_or("granted")?;
    ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
    Ok(())
}

async fn a_meta_text_that_is_too_long_is_refused(store: Store) -> Outcome {
    let locks = store.open().await?;
    let mutex = locks.mutex("n");
    let error = mutex.clone().meta("x".repeat(META_MAX + 1)).lock().await.err().ok_or("granted")?;
    ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
    drop(mutex.meta("x".repeat(META_MAX)).lock().await?);
    Ok(())
}

async fn a_hold_of_no_time_is_refused(store: Store) -> Outcome {
    let locks = store.open().await?;
    let error = locks.mutex("n").max_hold(Duration::ZERO).lock().await.err().ok_or("granted")?;
    ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
    Ok(())
}

/// The URL of the store with more options.
async fn with_options(store: &Store, options: &str) -> Outcome<String> {
    let url = url(store).await?;
    let joint = if url.contains('?') { '&' } else { '?' };
    Ok(format!("{url}{joint}{options}"))
}

/// The URL of the store, or that of its engine where a store has none.
async fn url(store: &Store) -> Outcome<String> {
    match store.url() {
        Some(url) => Ok(url.to_owned()),
        None => Ok(format!("{}:", store.open().await?.profile().scheme)),
    }
}

async fn an_unknown_option_is_refused_with_the_list(store: Store) -> Outcome {
    let bad = with_options(&store, "namespace=a&namespce=shop").await?;
    let error = leasehold::open(bad).await.err().ok_or("opened")?;
    ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
    let text = error.to_string();
    ensure!(text.contains("namespce") && text.contains("namespace"), "{text}");
    Ok(())
}

async fn an_option_given_twice_is_refused(store: Store) -> Outcome {
    let bad = with_options(&store, "namespace=a&namespace=b").await?;
    let error = leasehold::open(bad).await.err().ok_or("opened")?;
    ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
    Ok(())
}

async fn the_profile_says_what_was_opened(store: Store) -> Outcome {
    let url = url(&store).await?;
    let locks = leasehold::open(&url).await?;
    let profile = locks.profile();
    // Another way to the same engine.
    let way = url.replacen("redlock:", "quorum:", 1);
    ensure!(way.starts_with(&format!("{}:", profile.scheme)), "{profile:?} of {url}");
    ensure!(!profile.endpoint.is_empty(), "{profile:?}");
    ensure!(profile.limits.ttl_min < profile.limits.ttl_max, "{profile:?}");
    Ok(())
}
