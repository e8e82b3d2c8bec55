//! The executor: where work reaches the store.
//!
//! Whoever finds the store free does its own transaction, on its own thread: it
//! takes some microseconds, and two changes of thread would take longer. When
//! others are before it, in this process or in another, the work goes to the
//! thread of the store, which waits for its turn and does all that has come
//! meanwhile in one transaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use super::command::{AnyCommand, PendingCommand, StoreCommand};
use super::fault::closed;
use super::notify::Inbox;
use super::open::SqliteOptions;
use super::store::{LockStore, OpenedStore};
use crate::clock::Clock;
use crate::engine::BoxFuture;
use crate::error::{Error, ErrorKind, Result};

/// The most verbs of one transaction: the first must not wait for ever.
const BATCH: usize = 1000;
/// From so many verbs at once on they share a transaction.
const CROWD: usize = 4;

#[derive(Clone, Debug, Default)]
pub(super) struct Executor(Arc<ExecutorState>);

#[derive(Debug, Default)]
struct ExecutorState {
    /// Gone once the engine is closed.
    store: Mutex<Option<LockStore>>,
    /// The thread wants the store: nobody may push in before it again and again.
    claimed: AtomicBool,
    /// So much work comes at once that sharing a commit is worth the way to the
    /// thread.
    crowded: AtomicBool,
}

impl Executor {
    /// Does `command` here and now, if nobody is before it; `Ok(true)` if the
    /// thread should be called.
    pub(super) fn serve(&self, command: Box<dyn AnyCommand>) -> Result<bool, Box<dyn AnyCommand>> {
        let ExecutorState { claimed, crowded, .. } = &*self.0;
        let wait = claimed.load(Ordering::Relaxed) || crowded.load(Ordering::Relaxed);
        if wait || !command.is_quick() {
            return Err(command);
        }
        let Ok(mut store) = self.0.store.try_lock() else { return Err(command) };
        let Some(store) = store.as_mut() else { return Err(command) };
        store.run_if_free(command)?;
        Ok(store.needs_care())
    }

    /// Starts the thread; it answers when the store is open.
    pub(super) fn start(
        &self,
        options: SqliteOptions,
        clock: Clock,
        inbox: Inbox,
        messages: Receiver<ExecutorMessage>,
    ) -> Result<(JoinHandle<()>, oneshot::Receiver<Result<OpenedStore>>)> {
        let (ready, opened) = oneshot::channel();
        let executor = self.clone();
        let live = move || match LockStore::open(options, clock, inbox) {
            Ok(store) => {
                let opened = store.opened();
                *executor.store() = Some(store);
                // Nobody may be listening any more; then the messages end at once.
                let _ = ready.send(Ok(opened));
                executor.live(&messages);
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        let thread = std::thread::Builder::new().name("leasehold-sqlite".into()).spawn(live);
        let thread = thread.map_err(|cause| {
            let message = "no thread can be started: raise the limit of this user";
            Error::new(ErrorKind::Unavailable, message).with("engine", "sqlite").caused_by(cause)
        })?;
        Ok((thread, opened))
    }

    /// The life of the thread: wait, take all there is, do it.
    fn live(&self, messages: &Receiver<ExecutorMessage>) {
        while let Some(nap) = self.nap() {
            match messages.recv_timeout(nap) {
                Ok(ExecutorMessage::AnyCommand(command)) => self.work(messages, command),
                Ok(ExecutorMessage::Care) | Err(RecvTimeoutError::Timeout) => {
                    self.with(LockStore::care)
                }
                Ok(ExecutorMessage::Close(done)) => self.end(Some(done), true),
                #[cfg(test)]
                Ok(ExecutorMessage::Die(done)) => self.end(Some(done), false),
                Err(RecvTimeoutError::Disconnected) => self.end(None, true),
            }
        }
    }

    /// How long to sleep; `None` once the store is closed.
    fn nap(&self) -> Option<Duration> {
        self.store().as_mut().map(LockStore::doze)
    }

    fn work(&self, messages: &Receiver<ExecutorMessage>, first: Box<dyn AnyCommand>) {
        let mut batch = vec![first];
        let mut other = None;
        while batch.len() < BATCH
            && other.is_none()
            && let Ok(message) = messages.try_recv()
        {
            match message {
                ExecutorMessage::AnyCommand(command) => batch.push(command),
                message => other = Some(message),
            }
        }
        self.0.crowded.store(batch.len() >= CROWD, Ordering::Relaxed);
        self.with(|store| {
            store.run(batch);
            store.tidy_if_late();
        });
        match other {
            Some(ExecutorMessage::Close(done)) => self.end(Some(done), true),
            #[cfg(test)]
            Some(ExecutorMessage::Die(done)) => self.end(Some(done), false),
            Some(ExecutorMessage::Care | ExecutorMessage::AnyCommand(_)) => {
                self.with(LockStore::care)
            }
            None => {}
        }
    }

    fn end(&self, done: Option<oneshot::Sender<()>>, clean: bool) {
        let store = self.store().take();
        if let Some(store) = store {
            store.end(clean);
        }
        if let Some(done) = done {
            // Nobody may be listening any more.
            let _ = done.send(());
        }
    }

    fn with(&self, work: impl FnOnce(&mut LockStore)) {
        self.0.claimed.store(true, Ordering::Relaxed);
        let mut store = self.store();
        self.0.claimed.store(false, Ordering::Relaxed);
        if let Some(store) = store.as_mut() {
            work(store);
        }
    }

    fn store(&self) -> MutexGuard<'_, Option<LockStore>> {
        self.0.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What reaches the thread of the store.
pub(super) enum ExecutorMessage {
    AnyCommand(Box<dyn AnyCommand>),
    /// Something to look after, although there is no command.
    Care,
    Close(oneshot::Sender<()>),
    /// Ends at once and leaves everything as a killed process would.
    #[cfg(test)]
    Die(oneshot::Sender<()>),
}

/// The way to the store.
#[derive(Clone, Debug)]
pub(super) struct ExecutorHandle {
    messages: mpsc::Sender<ExecutorMessage>,
    executor: Executor,
}

impl ExecutorHandle {
    pub(super) fn new(executor: Executor) -> (Self, mpsc::Receiver<ExecutorMessage>) {
        let (messages, received) = mpsc::channel();
        (Self { messages, executor }, received)
    }

    /// Does it, once the future is polled.
    pub(super) fn ask<C: StoreCommand>(&self, command: C) -> BoxFuture<Result<C::Answer>> {
        let handle = self.clone();
        Box::pin(async move {
            let (command, answer) = PendingCommand::new(command);
            handle.hand_in(command)?;
            // The thread answers every job it takes, unless it is torn down.
            answer.await.unwrap_or_else(|_| Err(closed().unknown()))
        })
    }

    /// Has it done, without anyone waiting for it, and after everything that
    /// was asked before: whoever leaves must not overtake its own coming.
    pub(super) fn tell<C: StoreCommand>(&self, command: C) {
        let (command, _) = PendingCommand::new(command);
        // If the store is closed there is nothing left to do.
        let _ = self.messages.send(ExecutorMessage::AnyCommand(command));
    }

    fn hand_in(&self, command: Box<dyn AnyCommand>) -> Result<()> {
        let message = match self.executor.serve(command) {
            Ok(false) => return Ok(()),
            Ok(true) => ExecutorMessage::Care,
            Err(command) => ExecutorMessage::AnyCommand(command),
        };
        self.messages.send(message).map_err(|_| closed())
    }

    /// Posts a message that is answered when it is done.
    pub(super) fn post(
        &self,
        message: impl FnOnce(oneshot::Sender<()>) -> ExecutorMessage,
    ) -> BoxFuture<()> {
        let (reply, done) = oneshot::channel();
        let sent = self.messages.send(message(reply)).is_ok();
        Box::pin(async move {
            if sent {
                let _ = done.await;
            }
        })
    }
}
