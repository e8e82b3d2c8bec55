//! Fences at the resource.

use std::sync::Arc;

use leasehold::engine::profile::{Fencing, Grants};
use leasehold::{ErrorKind, Fenced, Guard, Sequencer};

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, PATIENCE, locked};
use super::recipe::{Client, Recipe};
use super::store::Store;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(a_late_writer_is_refused)
            .when(|p| p.fencing > Fencing::None)
            .over(&[Recipe::Mutex, Recipe::Write]),
        check!(no_update_is_lost)
            .when(|p| p.fencing > Fencing::None)
            .over(&[Recipe::Mutex, Recipe::Write]),
        check!(a_reader_compares_and_does_not_raise_the_mark)
            .when(|p| p.fencing > Fencing::None && p.grants >= Grants::Shared),
        check!(permits_are_not_fenced).when(|p| p.grants >= Grants::Counted),
        check!(a_sequencer_holds_as_long_as_its_lease).of_known_leases().over(&Recipe::WHOLE),
        check!(a_sequencer_of_another_mode_does_not_hold),
        check!(a_sequencer_crosses_a_header),
    ]
}

async fn a_late_writer_is_refused(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let value = Fenced::new(0);
    let late = one.mutex("n").ttl(one.short()).renew(false).lock().await?;
    value.write(&late.sequencer(), |it| *it = 1)?;
    let next = locked(&two.mutex("n")).await?;
    // The mark stands where it stood until the successor writes.
    value.write(&next.sequencer(), |it| *it = 2)?;
    let error = value.write(&late.sequencer(), |it| *it = 3).err().ok_or("a late write")?;
    ensure!(error.is_lost(), "{error:?}");
    ensure!(value.read(&next.sequencer(), |it| *it)? == 2, "the late write took effect");
    ensure!(value.mark() == next.fence(), "the mark is {}", value.mark());
    Ok(())
}

async fn no_update_is_lost(store: Store) -> Outcome {
    const ROUNDS: u64 = 25;
    let value = Arc::new(Fenced::new(0_u64));
    let clients = store.open_many(4).await?;
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|client| tokio::spawn(add(client, Arc::clone(&value), ROUNDS)))
        .collect();
    for task in tasks {
        tokio::time::timeout(2 * PATIENCE, task).await???;
    }
    let last = locked(&store.open().await?.mutex("n")).await?;
    let sum = value.read(&last.sequencer(), |it| *it)?;
    ensure!(sum == 4 * ROUNDS, "{sum} instead of {}", 4 * ROUNDS);
    Ok(())
}

async fn add(client: Client, value: Arc<Fenced<u64>>, rounds: u64) -> Outcome {
    for _ in 0..rounds {
        let guard = client.mutex("n").ttl(HOUR).lock().await?;
        let seen = value.read(&guard.sequencer(), |it| *it)?;
        tokio::task::yield_now().await;
        value.write(&guard.sequencer(), |it| *it = seen + 1)?;
        guard.release().await?;
    }
    Ok(())
}

async fn a_reader_compares_and_does_not_raise_the_mark(store: Store) -> Outcome {
    let lock = store.open().await?.rwlock("n").ttl(HOUR);
    let value = Fenced::new(0);
    let old = lock.read().await?.sequencer();
    lock.write().await?.run(async |guard| value.write(&guard.sequencer(), |_| ())).await??;
    let (one, two) = (lock.read().await?, lock.read().await?);
    for reader in [&two, &one] {
        value.read(&reader.sequencer(), |_| ())?;
    }
    let error = value.read(&old, |_| ()).err().ok_or("an old reader")?;
    ensure!(error.is_lost(), "{error:?}");
    let error = value.write(&one.sequencer(), |_| ()).err().ok_or("a reader wrote")?;
    ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
    Ok(())
}

async fn permits_are_not_fenced(store: Store) -> Outcome {
    let guard = store.open().await?.semaphore("n", 2).acquire(1).await?;
    let value = Fenced::new(0);
    let refused = [
        value.write(&guard.sequencer(), |_| ()).err(),
        value.read(&guard.sequencer(), |_| ()).err(),
    ];
    let invalid = |it: &Option<leasehold::Error>| {
        it.as_ref().is_some_and(|error| error.kind() == ErrorKind::Invalid)
    };
    ensure!(refused.iter().all(invalid), "{refused:?}");
    Ok(())
}

async fn a_sequencer_holds_as_long_as_its_lease(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").ttl(HOUR).lock().await?;
    let shown = guard.sequencer();
    two.check_sequencer(&shown).await?;
    guard.release().await?;
    is_lost(&two, &shown).await?;
    let next = one.mutex("n").lock().await?;
    is_lost(&two, &shown).await?;
    Ok(two.check_sequencer(&next.sequencer()).await?)
}

async fn is_lost(client: &Client, shown: &Sequencer) -> Outcome {
    let error = client.check_sequencer(shown).await.err().ok_or("it holds no more")?;
    ensure!(error.is_lost() && error.to_string().contains(&shown.to_string()), "{error:?}");
    Ok(())
}

async fn a_sequencer_of_another_mode_does_not_hold(store: Store) -> Outcome {
    let client = store.open().await?;
    let guard = client.mutex("n").lock().await?;
    let forged = Sequencer::new(leasehold::Mode::Write, guard.fence(), "n");
    is_lost(&client, &forged).await?;
    is_lost(&client, &Sequencer::new(guard.mode(), guard.fence() + 1, "n")).await
}

async fn a_sequencer_crosses_a_header(store: Store) -> Outcome {
    let client = store.open().await?;
    for name in ["n", "a/b:c", "50% é", "😀"] {
        let guard: Guard = client.mutex(name).lock().await?;
        let header = guard.sequencer().to_string();
        ensure!(header.bytes().all(|byte| byte.is_ascii_graphic()), "{header}");
        let read: Sequencer = header.parse()?;
        ensure!(read == guard.sequencer(), "{header}");
        client.check_sequencer(&read).await?;
    }
    Ok(())
}
