//! What is left when all is over: nothing.

use leasehold::engine::profile::Lists;
use leasehold::engine::{Page, Selector};
use leasehold::{Locks, Namespace};

use super::check::{Check, Outcome, check, ensure, shows_waiters};
use super::patience::{HOUR, PATIENCE, SHORT, eventually, queued};
use super::recipe::Client;
use super::store::Store;
use crate::holder::{End, Holder, Orders};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(nobody_holds_or_waits_after_a_busy_day),
        check!(nobody_holds_or_waits_after_the_last_client),
        check!(thread_and_sockets_end_with_the_last_client),
        check!(no_file_of_a_client_stays_on_disk),
        check!(only_the_store_itself_stays_on_disk),
    ]
}

/// Everything at once: holders, waiters, tries, limits, drops, expiries.
async fn busy_day(locks: &Client) -> Outcome {
    let held = locks.mutex("held").ttl(HOUR).lock().await?;
    let waiter = tokio::spawn(locks.mutex("held").ttl(HOUR).lock().into_future());
    if shows_waiters(locks.profile()) {
        queued(&locks.mutex("held"), 1).await?;
    }
    let late = locks.mutex("held").lock().within(SHORT / 10).await;
    ensure!(late.is_err(), "two holders");
    locks.mutex("held").try_lock().await?;
    let expiring = locks.mutex("expiring").ttl(locks.short()).renew(false).lock().await?;
    drop(locks.mutex("dropped").lock().await?);
    tokio::time::timeout(PATIENCE, expiring.lost()).await?;
    waiter.abort();
    held.release().await?;
    Ok(())
}

/// Those of the namespace that are not idle; without an index, those of a day.
async fn busy_names(locks: &Locks) -> Outcome<usize> {
    if locks.profile().listing < Lists::Indexed {
        let mut busy = 0;
        for name in ["held", "expiring", "dropped", "left"] {
            busy += usize::from(locks.status(name).await?.is_busy());
        }
        return Ok(busy);
    }
    let all = Selector::Prefix(Namespace::default(), "".into());
    let found = locks.engine().inspect(all, Page::default()).await?;
    Ok(found.names.iter().filter(|status| status.is_busy()).count())
}

async fn nobody_holds_or_waits_after_a_busy_day(store: Store) -> Outcome {
    let locks = store.open().await?;
    busy_day(&locks).await?;
    eventually("no busy name", || async { Ok(busy_names(&locks).await? == 0) }).await
}

async fn nobody_holds_or_waits_after_the_last_client(store: Store) -> Outcome {
    let watcher = store.open().await?;
    let locks = store.open().await?;
    busy_day(&locks).await?;
    let left = locks.mutex("left").ttl(HOUR).lock().await?;
    tokio::task::spawn_blocking(move || drop((left, locks))).await?;
    eventually("no busy name", || async { Ok(busy_names(&watcher).await? == 0) }).await
}

/// In a process of its own, where nobody else has threads.
async fn thread_and_sockets_end_with_the_last_client(store: Store) -> Outcome {
    let url = match store.url() {
        Some(url) => url.to_owned(),
        None => format!("{}:", store.open().await?.profile().scheme),
    };
    let orders = Orders::new(&url, "n").rounds(3).end(End::Report);
    let report = tokio::task::spawn_blocking(|| -> Outcome<String> {
        let mut holder = Holder::spawn(orders)?;
        let report = holder.until("left ")?;
        holder.wait()?;
        Ok(report)
    });
    let report = report.await??;
    ensure!(report == "0 threads 0 sockets", "after the last client: {report}");
    Ok(())
}

async fn no_file_of_a_client_stays_on_disk(store: Store) -> Outcome {
    let Some(folder) = day_on_disk(&store).await? else { return Ok(()) };
    let probe = || async { Ok(files_of_clients(&folder)?.is_empty()) };
    let clean = eventually("no file of a client", probe).await;
    let left = files_of_clients(&folder)?;
    clean.map_err(|_| format!("left by clients: {left:?}").into())
}

/// A busy day of two clients, now gone; where the engine keeps its files.
async fn day_on_disk(store: &Store) -> Outcome<Option<std::path::PathBuf>> {
    let (one, two) = (store.open().await?, store.open().await?);
    busy_day(&one).await?;
    tokio::task::spawn_blocking(move || drop((one, two))).await?;
    Ok(store.files())
}

async fn only_the_store_itself_stays_on_disk(store: Store) -> Outcome {
    let Some(folder) = day_on_disk(&store).await? else { return Ok(()) };
    let probe = || async { Ok(strays(&folder)?.is_empty()) };
    let clean = eventually("a clean folder", probe).await;
    let strays = strays(&folder)?;
    clean.map_err(|_| format!("left beside the store: {strays:?}").into())
}

/// What lies in folders beside the store: locks and sockets of clients.
///
/// # Errors
///
/// When a folder cannot be read.
pub fn files_of_clients(folder: &std::path::Path) -> Outcome<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(std::fs::read_dir(path)?.filter_map(|it| Some(it.ok()?.path())));
        }
    }
    Ok(files)
}

/// What may not stay: all but the database, its gate file (to unlink a lock
/// file is a race) and the empty folder of its clients.
fn strays(folder: &std::path::Path) -> Outcome<Vec<String>> {
    let mut strays = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let may_stay = ["locks.db", "locks.db-gate", "locks.db-clients"].contains(&&*name);
        strays.extend((!may_stay).then_some(name));
    }
    let inside = files_of_clients(folder)?;
    strays.extend(inside.iter().map(|path| path.display().to_string()));
    Ok(strays)
}
