//! Guards and clients that end in odd ways.

use leasehold::{ErrorKind, Guard, Released};

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, PATIENCE, free, idle, locked, queued};
use super::recipe::Recipe;
use super::store::Store;
use crate::sweep::block_on;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(a_guard_dropped_without_a_runtime_releases).over(&Recipe::ALL),
        check!(a_guard_that_outlives_its_runtime_releases),
        check!(a_guard_moves_between_threads),
        check!(a_panic_in_the_critical_section_releases).over(&Recipe::ALL),
        check!(the_last_handle_waits_for_the_release).over(&Recipe::ALL),
        check!(a_guard_outlives_its_handle).over(&Recipe::ALL),
        check!(shutdown_releases_what_is_held).over(&Recipe::ALL),
        check!(shutdown_ends_what_waits).of_a_queue().over(&Recipe::ALL),
        check!(use_after_shutdown_is_a_clear_error),
        check!(shutdown_leaves_other_clients_alone),
    ]
}

async fn a_guard_dropped_without_a_runtime_releases(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let thread = std::thread::spawn(move || -> Outcome {
        drop(block_on(one.mutex("n").ttl(HOUR).lock().into_future())?);
        Ok(())
    });
    joined(thread).await?;
    drop(locked(&two.mutex("n")).await?);
    Ok(())
}

async fn joined(thread: std::thread::JoinHandle<Outcome>) -> Outcome {
    tokio::task::spawn_blocking(|| thread.join()).await?.map_err(|_| "the thread panicked")?
}

async fn a_guard_that_outlives_its_runtime_releases(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let thread = std::thread::spawn(move || -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let guard = runtime.block_on(one.mutex("n").ttl(HOUR).lock().into_future())?;
        drop(runtime);
        guard.check()?;
        drop(guard);
        Ok(())
    });
    joined(thread).await?;
    drop(locked(&two.mutex("n")).await?);
    Ok(())
}

async fn a_guard_moves_between_threads(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").ttl(HOUR).lock().await?;
    let thread = std::thread::spawn(move || -> Outcome {
        guard.check()?;
        let released = block_on(guard.release())?;
        ensure!(released == Released::Released, "{released:?}");
        Ok(())
    });
    joined(thread).await?;
    drop(free(&two.mutex("n")).await?);
    Ok(())
}

async fn a_panic_in_the_critical_section_releases(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").ttl(HOUR).lock().await?;
    let died = tokio::spawn(async move { panics_with(guard) }).await;
    ensure!(died.is_err_and(|error| error.is_panic()), "it did not panic");
    drop(locked(&two.mutex("n")).await?);
    Ok(())
}

fn panics_with(_guard: Guard) {
    // Not `panic!`, whose message would look like a failure in the log.
    std::panic::resume_unwind(Box::new("on purpose"));
}

async fn the_last_handle_waits_for_the_release(store: Store) -> Outcome {
    let two = store.open().await?;
    for _ in 0..5 {
        let one = store.open().await?;
        let guard = one.mutex("n").ttl(HOUR).lock().await?;
        tokio::task::spawn_blocking(move || drop((guard, one))).await?;
        free(&two.mutex("n")).await?.release().await?;
    }
    Ok(())
}

async fn a_guard_outlives_its_handle(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").ttl(HOUR).lock().await?;
    drop(one);
    guard.check()?;
    ensure!(two.mutex("n").try_lock().await?.is_none(), "two holders");
    ensure!(guard.release().await? == Released::Released, "it was ours");
    drop(free(&two.mutex("n")).await?);
    Ok(())
}

async fn shutdown_releases_what_is_held(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let renewed = one.mutex("n").ttl(HOUR).lock().await?;
    let fixed = one.mutex("m").ttl(HOUR).renew(false).lock().await?;
    one.shutdown(PATIENCE).await?;
    ensure!(renewed.check().is_err() && fixed.check().is_err(), "a guard still says it is held");
    drop(free(&two.mutex("n")).await?);
    drop(free(&two.mutex("m")).await?);
    Ok(())
}

async fn shutdown_ends_what_waits(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = two.mutex("n").ttl(HOUR).lock().await?;
    let waiter = tokio::spawn(one.mutex("n").ttl(HOUR).lock().into_future());
    queued(&two.mutex("n"), 1).await?;
    one.shutdown(PATIENCE).await?;
    let ended = tokio::time::timeout(PATIENCE, waiter).await??;
    ensure!(ended.is_err(), "it was granted after the shutdown");
    queued(&two.mutex("n"), 0).await?;
    drop(guard);
    idle(&two.mutex("n")).await
}

async fn use_after_shutdown_is_a_clear_error(store: Store) -> Outcome {
    let locks = store.open().await?;
    locks.shutdown(PATIENCE).await?;
    let mutex = locks.mutex("n");
    let errors = [
        mutex.lock().await.err(),
        mutex.try_lock().await.err(),
        mutex.status().await.err(),
        locks.examine().await.err(),
    ];
    for error in errors {
        let error = error.ok_or("it works after the shutdown")?;
        ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
        ensure!(error.to_string().contains("shut down"), "{error}");
    }
    Ok(())
}

async fn shutdown_leaves_other_clients_alone(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = two.mutex("n").ttl(HOUR).lock().await?;
    one.shutdown(PATIENCE).await?;
    guard.check()?;
    drop(two.mutex("m").lock().await?);
    ensure!(guard.release().await? == Released::Released, "it was ours");
    Ok(())
}
