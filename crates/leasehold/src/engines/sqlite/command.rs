//! What is asked of the store, on its way there and back.

use tokio::sync::oneshot;

use super::fault::{StoreFault, Trial, closed};
use super::notify::Tickets;
use super::transaction::StoreTransaction;
use crate::error::{Error, Result};

/// Something to do inside a transaction.
pub(super) trait StoreCommand: Send + 'static {
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
    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Self::Answer>;

    /// Once it stands, or has failed: remember what it means for our tickets.
    fn settle(&mut self, _answer: Result<&Self::Answer, &Error>, _tickets: &Tickets) {}
}

/// A command with its answer, whatever its type.
pub(super) trait AnyCommand: Send {
    fn reads(&self) -> bool;
    fn is_quick(&self) -> bool;
    fn is_lasting(&self) -> bool;
    fn prepare(&self, tickets: &Tickets);
    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> rusqlite::Result<()>;
    fn finish(self: Box<Self>, end: Result<()>, tickets: &Tickets);
}

/// A command on its way, and where its answer goes.
pub(super) struct PendingCommand<C: StoreCommand> {
    command: C,
    answer: Option<Result<C::Answer>>,
    reply: oneshot::Sender<Result<C::Answer>>,
}

impl<C: StoreCommand> PendingCommand<C> {
    /// With the end where its answer arrives.
    pub(super) fn new(command: C) -> (Box<Self>, oneshot::Receiver<Result<C::Answer>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Self { command, answer: None, reply }), answer)
    }
}

impl<C: StoreCommand> AnyCommand for PendingCommand<C> {
    fn reads(&self) -> bool {
        C::READS
    }

    /// The disk would keep the caller's thread.
    fn is_quick(&self) -> bool {
        self.command.is_quick() && !self.command.is_lasting()
    }

    fn is_lasting(&self) -> bool {
        self.command.is_lasting()
    }

    fn prepare(&self, tickets: &Tickets) {
        self.command.prepare(tickets);
    }

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> rusqlite::Result<()> {
        self.answer = Some(match self.command.run(transaction) {
            Ok(answer) => Ok(answer),
            Err(StoreFault::Refused(error)) => Err(error),
            Err(StoreFault::Store(error)) => return Err(error),
        });
        Ok(())
    }

    fn finish(mut self: Box<Self>, end: Result<()>, tickets: &Tickets) {
        let answer = self.answer.take().unwrap_or_else(|| Err(closed()));
        let answer = end.and(answer);
        self.command.settle(answer.as_ref(), tickets);
        let _ = self.reply.send(answer);
    }
}
