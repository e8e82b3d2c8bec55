//! What is asked of the store, on its way there and back.

use std::sync::mpsc;

use tokio::sync::oneshot;

use super::executor::Executor;
use super::fault::{StoreFault, Trial};
use super::tickets::Tickets;
use super::transaction::Transaction;
use crate::engine::BoxFuture;
use crate::error::{Error, ErrorKind, Result};

/// Something to do inside a transaction.
pub(super) trait Command: Send + 'static {
    type Answer: Send + 'static;

    /// Whether it only reads.
    const READS: bool = false;

    /// Whether it takes no longer than a caller's thread can be kept busy.
    fn is_quick(&self) -> bool {
        true
    }

    /// Whether the disk must have it before it is answered.
    fn is_lasting(&self) -> bool {
        false
    }

    /// Before the transaction: make ready for what others may send.
    fn prepare(&self, _tickets: &Tickets) {}

    /// Inside it. May be followed by others, so what it does must not depend
    /// on being the last.
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<Self::Answer>;

    /// Once it stands, or has failed: remember what it means for our tickets.
    fn settle(&mut self, _answer: Result<&Self::Answer, &Error>, _tickets: &Tickets) {}
}

/// An act with its answer, whatever its type.
pub(super) trait AnyCommand: Send {
    fn reads(&self) -> bool;
    fn is_quick(&self) -> bool;
    fn is_lasting(&self) -> bool;
    fn prepare(&self, tickets: &Tickets);
    fn run(&mut self, transaction: &mut Transaction<'_>) -> rusqlite::Result<()>;
    fn finish(self: Box<Self>, end: Result<()>, tickets: &Tickets);
}

struct PendingCommand<A: Command> {
    act: A,
    answer: Option<Result<A::Answer>>,
    reply: oneshot::Sender<Result<A::Answer>>,
}

impl<A: Command> AnyCommand for PendingCommand<A> {
    fn reads(&self) -> bool {
        A::READS
    }

    /// The disk would keep the caller's thread.
    fn is_quick(&self) -> bool {
        self.act.is_quick() && !self.act.is_lasting()
    }

    fn is_lasting(&self) -> bool {
        self.act.is_lasting()
    }

    fn prepare(&self, tickets: &Tickets) {
        self.act.prepare(tickets);
    }

    fn run(&mut self, transaction: &mut Transaction<'_>) -> rusqlite::Result<()> {
        self.answer = Some(match self.act.run(transaction) {
            Ok(answer) => Ok(answer),
            Err(StoreFault::Refused(error)) => Err(error),
            Err(StoreFault::Store(error)) => return Err(error),
        });
        Ok(())
    }

    fn finish(mut self: Box<Self>, end: Result<()>, tickets: &Tickets) {
        let answer = self.answer.take().unwrap_or_else(|| Err(closed()));
        let answer = end.and(answer);
        self.act.settle(answer.as_ref(), tickets);
        let _ = self.reply.send(answer);
    }
}

/// What reaches the thread of the store.
pub(super) enum ExecutorMessage {
    AnyCommand(Box<dyn AnyCommand>),
    /// Something to look after, although there is no work.
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
    pub(super) fn ask<A: Command>(&self, act: A) -> BoxFuture<Result<A::Answer>> {
        let handle = self.clone();
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            handle.hand_in(Box::new(PendingCommand { act, answer: None, reply }))?;
            // The thread answers every job it takes, unless it is torn down.
            answer.await.unwrap_or_else(|_| Err(closed().unknown()))
        })
    }

    /// Has it done, without anyone waiting for it, and after everything that
    /// was asked before: whoever leaves must not overtake its own coming.
    pub(super) fn tell<A: Command>(&self, act: A) {
        let (reply, _) = oneshot::channel();
        // If the store is closed there is nothing left to do.
        let _ = self.messages.send(ExecutorMessage::AnyCommand(Box::new(PendingCommand {
            act,
            answer: None,
            reply,
        })));
    }

    fn hand_in(&self, work: Box<dyn AnyCommand>) -> Result<()> {
        let post = match self.executor.serve(work) {
            Ok(false) => return Ok(()),
            Ok(true) => ExecutorMessage::Care,
            Err(work) => ExecutorMessage::AnyCommand(work),
        };
        self.messages.send(post).map_err(|_| closed())
    }

    /// Posts a message that is answered when it is done.
    pub(super) fn post(
        &self,
        post: impl FnOnce(oneshot::Sender<()>) -> ExecutorMessage,
    ) -> BoxFuture<()> {
        let (reply, done) = oneshot::channel();
        let sent = self.messages.send(post(reply)).is_ok();
        Box::pin(async move {
            if sent {
                let _ = done.await;
            }
        })
    }
}

pub(super) fn closed() -> Error {
    let message = "this engine is closed: open it again";
    Error::new(ErrorKind::Unavailable, message).with("engine", "sqlite")
}
