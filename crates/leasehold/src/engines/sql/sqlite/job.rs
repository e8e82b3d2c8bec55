//! What is asked of the store, on its way there and back.

use std::sync::mpsc;

use tokio::sync::oneshot;

use super::counter::Counter;
use super::fault::{Fault, Trial};
use super::ledger::Ledger;
use super::tickets::Tickets;
use crate::engine::BoxFuture;
use crate::error::{Error, ErrorKind, Result};

/// Something to do inside a transaction.
pub(super) trait Act: Send + 'static {
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
    fn run(&mut self, ledger: &mut Ledger<'_>) -> Trial<Self::Answer>;

    /// Once it stands, or has failed: remember what it means for our tickets.
    fn settle(&mut self, _answer: Result<&Self::Answer, &Error>, _tickets: &Tickets) {}
}

/// An act with its answer, whatever its type.
pub(super) trait Work: Send {
    fn reads(&self) -> bool;
    fn is_quick(&self) -> bool;
    fn is_lasting(&self) -> bool;
    fn prepare(&self, tickets: &Tickets);
    fn run(&mut self, ledger: &mut Ledger<'_>) -> rusqlite::Result<()>;
    fn finish(self: Box<Self>, end: Result<()>, tickets: &Tickets);
}

struct Asked<A: Act> {
    act: A,
    answer: Option<Result<A::Answer>>,
    reply: oneshot::Sender<Result<A::Answer>>,
}

impl<A: Act> Work for Asked<A> {
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

    fn run(&mut self, ledger: &mut Ledger<'_>) -> rusqlite::Result<()> {
        self.answer = Some(match self.act.run(ledger) {
            Ok(answer) => Ok(answer),
            Err(Fault::Refused(error)) => Err(error),
            Err(Fault::Store(error)) => return Err(error),
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
pub(super) enum Post {
    Work(Box<dyn Work>),
    /// Something to look after, although there is no work.
    Care,
    Close(oneshot::Sender<()>),
    /// Ends at once and leaves everything as a killed process would.
    #[cfg(test)]
    Die(oneshot::Sender<()>),
}

/// The way to the store.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    posts: mpsc::Sender<Post>,
    counter: Counter,
}

impl Desk {
    pub(super) fn new(counter: Counter) -> (Self, mpsc::Receiver<Post>) {
        let (posts, received) = mpsc::channel();
        (Self { posts, counter }, received)
    }

    /// Does it, once the future is polled.
    pub(super) fn ask<A: Act>(&self, act: A) -> BoxFuture<Result<A::Answer>> {
        let desk = self.clone();
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            desk.hand_in(Box::new(Asked { act, answer: None, reply }))?;
            // The thread answers every job it takes, unless it is torn down.
            answer.await.unwrap_or_else(|_| Err(closed().unknown()))
        })
    }

    /// Has it done, without anyone waiting for it, and after everything that
    /// was asked before: whoever leaves must not overtake its own coming.
    pub(super) fn tell<A: Act>(&self, act: A) {
        let (reply, _) = oneshot::channel();
        // If the store is closed there is nothing left to do.
        let _ = self.posts.send(Post::Work(Box::new(Asked { act, answer: None, reply })));
    }

    fn hand_in(&self, work: Box<dyn Work>) -> Result<()> {
        let post = match self.counter.serve(work) {
            Ok(false) => return Ok(()),
            Ok(true) => Post::Care,
            Err(work) => Post::Work(work),
        };
        self.posts.send(post).map_err(|_| closed())
    }

    /// Posts a message that is answered when it is done.
    pub(super) fn post(&self, post: impl FnOnce(oneshot::Sender<()>) -> Post) -> BoxFuture<()> {
        let (reply, done) = oneshot::channel();
        let sent = self.posts.send(post(reply)).is_ok();
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
