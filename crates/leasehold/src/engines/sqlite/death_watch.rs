//! Watching over those we wait for: a socket that closes means that a client
//! has died, and its file lock then confirms it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::task::AbortHandle;

use super::clients::{ClientId, ClientRegistry};
use super::command::ExecutorHandle;
use super::verbs::Reap;
use crate::clock::Clock;
use crate::home::Handle;

/// How many clients are watched at once; the slow look covers the rest.
const WATCHED: usize = 256;
/// The kernel may close a socket a moment before it lets go of a lock.
const CONFIRM_AFTER: [u64; 7] = [0, 1, 2, 5, 20, 100, 500];

/// Everyone who is watched.
#[derive(Debug)]
pub(super) struct DeathWatch {
    home: Handle,
    handle: ExecutorHandle,
    clients: Arc<ClientRegistry>,
    watched: Mutex<HashMap<ClientId, AbortHandle>>,
}

impl DeathWatch {
    pub(super) fn new(home: Handle, handle: ExecutorHandle, clients: Arc<ClientRegistry>) -> Self {
        Self { home, handle, clients, watched: Mutex::default() }
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<ClientId, AbortHandle>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches these clients from now on.
    pub(super) fn watch(&self, clients: &[ClientId]) {
        for &client in clients {
            let mut watched = self.watched();
            let runs = watched.get(&client).is_some_and(|task| !task.is_finished());
            if runs {
                continue;
            }
            make_room(&mut watched);
            let task = watch(Arc::clone(&self.clients), client, self.handle.clone());
            watched.insert(client, self.home.spawn(task).abort_handle());
        }
    }

    pub(super) fn close(&self) {
        self.watched().drain().for_each(|(_, task)| task.abort());
    }
}

/// Lets go of those who have ended, or else of anyone.
fn make_room(watched: &mut HashMap<ClientId, AbortHandle>) {
    if watched.len() >= WATCHED {
        watched.retain(|_, task| !task.is_finished());
    }
    if watched.len() >= WATCHED
        && let Some(any) = watched.keys().next().copied()
        && let Some(task) = watched.remove(&any)
    {
        task.abort();
    }
}

async fn watch(clients: Arc<ClientRegistry>, client: ClientId, handle: ExecutorHandle) {
    if let Ok(mut stream) = UnixStream::connect(clients.socket(client)).await {
        // Nobody sends anything on this line; it ends when its owner does.
        let _ = stream.read(&mut [0; 16]).await;
    }
    // The kernel does its work in real time, whatever clock leases run on.
    let clock = Clock::System;
    for delay in CONFIRM_AFTER {
        clock.sleep_until(clock.now().after(Duration::from_millis(delay))).await;
        if !matches!(handle.ask(Reap(client)).await, Ok(false)) {
            return;
        }
    }
}
