//! Owners that take what they already hold.

use leasehold::engine::profile::{Grants, Liveness};
use leasehold::{ErrorKind, Guard, Mode, Owner, Released};
use tokio::time::timeout;

use super::check::{Check, Outcome, check, ensure};
use super::patience::{BRIEF, HOUR, PATIENCE, eventually, free, idle, queued};
use super::store::Store;
use crate::twist::Requests;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(a_second_entry_has_the_same_fence_and_costs_no_request),
        check!(the_lease_ends_with_the_last_guard),
        check!(guards_may_end_in_any_order),
        // A session cannot be made longer.
        check!(the_longest_ttl_counts).when(|p| p.liveness != Liveness::Session),
        check!(a_shorter_ttl_does_not_shorten_the_lease).of_known_leases(),
        check!(two_owners_exclude_each_other).of_a_queue(),
        check!(an_owner_of_another_client_is_another),
        check!(tasks_of_one_owner_share_one_lease).of_a_queue(),
        check!(a_lost_lease_is_not_re_entered),
        check!(without_an_owner_nothing_is_re_entered),
        check!(a_reader_does_not_re_enter_as_a_writer).when(|p| p.grants >= Grants::Shared),
        check!(a_writer_re_enters_as_a_reader).when(|p| p.grants >= Grants::Shared),
        check!(permits_are_not_re_entered).when(|p| p.grants >= Grants::Counted),
    ]
}

async fn a_second_entry_has_the_same_fence_and_costs_no_request(store: Store) -> Outcome {
    let requests = Requests::default();
    let (client, _below) = store.open_twisted(requests.clone()).await?;
    let mutex = client.owned_by(&Owner::new("alice")).mutex("n").ttl(HOUR);
    let outer = mutex.lock().await?;
    let before = requests.count();
    let inner = mutex.lock().await?;
    let tried = mutex.try_lock().await?.ok_or("its own lease is in the way")?;
    inner.release().await?;
    drop(tried);
    ensure!(requests.count() == before, "{} requests to re-enter", requests.count() - before);
    let again = mutex.lock().await?;
    ensure!(again.fence() == outer.fence(), "{} and {}", again.fence(), outer.fence());
    ensure!(before == 1, "{before} requests for one lock");
    Ok(())
}

async fn the_lease_ends_with_the_last_guard(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let mutex = one.owned_by(&Owner::new("alice")).mutex("n").ttl(HOUR);
    let guards = [mutex.lock().await?, mutex.lock().await?, mutex.lock().await?];
    for guard in guards {
        ensure!(two.mutex("n").try_lock().await?.is_none(), "it ended before the last guard");
        ensure!(guard.release().await? == Released::Released, "it was ours");
    }
    drop(free(&two.mutex("n")).await?);
    Ok(())
}

async fn guards_may_end_in_any_order(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let mutex = one.owned_by(&Owner::new("alice")).mutex("n").ttl(HOUR);
    let (outer, inner) = (mutex.lock().await?, mutex.lock().await?);
    drop(outer);
    inner.check()?;
    ensure!(two.mutex("n").try_lock().await?.is_none(), "it ended with the outer guard");
    drop(inner);
    idle(&two.mutex("n")).await
}

async fn the_longest_ttl_counts(store: Store) -> Outcome {
    let client = store.open().await?;
    let (brief, client) = (client.brief(), client.owned_by(&Owner::new("alice")));
    let outer = client.mutex("n").ttl(10 * brief).lock().await?;
    let inner = client.mutex("n").ttl(HOUR).lock().await?;
    eventually("the longer ttl", || async { Ok(outer.remaining() > HOUR / 2) }).await?;
    ensure!(outer.deadline() == inner.deadline(), "one lease has two deadlines");
    Ok(())
}

async fn a_shorter_ttl_does_not_shorten_the_lease(store: Store) -> Outcome {
    let client = store.open().await?;
    let (brief, client) = (client.brief(), client.owned_by(&Owner::new("alice")));
    let outer = client.mutex("n").ttl(HOUR).lock().await?;
    let inner = client.mutex("n").ttl(brief).lock().await?;
    tokio::time::sleep(2 * brief).await;
    ensure!(outer.remaining() > HOUR / 2, "{:?} remain", outer.remaining());
    inner.release().await?;
    ensure!(outer.remaining() > HOUR / 2, "{:?} remain", outer.remaining());
    let seen = client.status("n").await?.holders.pop().ok_or("nobody holds it")?;
    ensure!(seen.time_left.is_none_or(|left| left > HOUR / 2), "{seen:?}");
    Ok(())
}

async fn two_owners_exclude_each_other(store: Store) -> Outcome {
    let client = store.open().await?;
    let alice = client.owned_by(&Owner::new("alice")).mutex("n").ttl(HOUR);
    let bob = client.owned_by(&Owner::new("bob")).mutex("n").ttl(HOUR);
    // A label is not an identity.
    let double = client.owned_by(&Owner::new("alice")).mutex("n");
    let guard = alice.lock().await?;
    ensure!(bob.try_lock().await?.is_none(), "two owners hold it");
    ensure!(double.try_lock().await?.is_none(), "owners of one label were taken for one");
    let waiter = tokio::spawn(bob.lock().into_future());
    queued(&client.mutex("n"), 1).await?;
    drop(guard);
    Ok(timeout(PATIENCE, waiter).await???.check()?)
}

/// Counting is local to a client; so is the owner.
async fn an_owner_of_another_client_is_another(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let alice = Owner::new("alice");
    let _guard = one.owned_by(&alice).mutex("n").lock().await?;
    let other = two.owned_by(&alice).mutex("n").try_lock().await?;
    ensure!(other.is_none(), "two leases at once");
    Ok(())
}

async fn tasks_of_one_owner_share_one_lease(store: Store) -> Outcome {
    let (client, other) = (store.open().await?, store.open().await?);
    let blocker = other.mutex("n").ttl(HOUR).lock().await?;
    let mutex = client.owned_by(&Owner::new("alice")).mutex("n").ttl(HOUR);
    let tasks: Vec<_> = (0..20).map(|_| tokio::spawn(mutex.lock().into_future())).collect();
    queued(&other.mutex("n"), 1).await?;
    blocker.release().await?;
    let mut guards: Vec<Guard> = Vec::new();
    for task in tasks {
        guards.push(timeout(PATIENCE, task).await???);
    }
    let fence = guards[0].fence();
    ensure!(guards.iter().all(|guard| guard.fence() == fence), "not one lease");
    let holders = other.status("n").await?.holders.len();
    ensure!(holders == 1, "{holders} holders");
    drop(guards);
    idle(&other.mutex("n")).await
}

async fn a_lost_lease_is_not_re_entered(store: Store) -> Outcome {
    let client = store.open().await?;
    let mutex = client.owned_by(&Owner::new("alice")).mutex("n");
    let lost = mutex.clone().ttl(HOUR).max_hold(BRIEF / 9).lock().await?;
    timeout(PATIENCE, lost.lost()).await?;
    let fresh = mutex.lock().within(PATIENCE).await?;
    ensure!(fresh.fence() > lost.fence(), "it re-entered what was lost");
    ensure!(lost.release().await? == Released::AlreadyLost, "it was lost");
    Ok(fresh.check()?)
}

async fn without_an_owner_nothing_is_re_entered(store: Store) -> Outcome {
    let client = store.open().await?;
    let mutex = client.mutex("n").label("alice");
    let _guard = mutex.lock().await?;
    ensure!(mutex.try_lock().await?.is_none(), "a thread is not an owner");
    Ok(())
}

async fn a_reader_does_not_re_enter_as_a_writer(store: Store) -> Outcome {
    let client = store.open().await?;
    let lock = client.owned_by(&Owner::new("alice")).rwlock("n");
    let guard = lock.read().await?;
    for error in [lock.try_write().await.err(), lock.write().await.err()] {
        let error = error.ok_or("a reader became a writer")?;
        ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
        let text = error.to_string();
        ensure!(text.contains("read") && text.contains("write"), "{text}");
    }
    guard.check()?;
    guard.release().await?;
    idle(&client.mutex("n")).await
}

async fn a_writer_re_enters_as_a_reader(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let lock = one.owned_by(&Owner::new("alice")).rwlock("n").ttl(HOUR);
    let writer = lock.write().await?;
    let reader = lock.try_read().await?.ok_or("a writer may read")?;
    ensure!(reader.fence() == writer.fence(), "not one lease");
    ensure!(reader.mode() == Mode::Write, "{reader:?}");
    writer.release().await?;
    ensure!(two.rwlock("n").try_read().await?.is_none(), "a reader beside a writer");
    Ok(reader.check()?)
}

async fn permits_are_not_re_entered(store: Store) -> Outcome {
    let client = store.open().await?.owned_by(&Owner::new("alice"));
    let semaphore = client.semaphore("n", 2);
    let (one, two) = (semaphore.acquire(1).await?, semaphore.acquire(1).await?);
    ensure!(semaphore.try_acquire(1).await?.is_none(), "three of two");
    ensure!(one.fence() != two.fence(), "one lease for two permits");
    Ok(())
}
