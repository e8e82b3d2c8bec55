//! Waiting for a turn.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::command::ExecutorHandle;
use super::death_watch::DeathWatch;
use super::tickets::{Outlook, Seen, Tickets};
use super::verbs::{Peek, Peeked};
use super::watch::Watchers;
use crate::claim::{Ticket, Wake};
use crate::clock::{Clock, Moment};
use crate::home::Handle;

/// All that a wait needs.
#[derive(Clone, Debug)]
pub(super) struct WaitContext {
    pub(super) home: Handle,
    pub(super) clock: Clock,
    pub(super) handle: ExecutorHandle,
    pub(super) tickets: Arc<Tickets>,
    pub(super) death_watch: Arc<DeathWatch>,
    pub(super) watchers: Arc<Watchers>,
    /// How often a waiter looks although nobody called it.
    pub(super) poll: Duration,
}

impl WaitContext {
    /// Waits until there is reason to claim again, or the lease has come.
    pub(super) async fn wait(self, ticket: Ticket, until: Moment) -> Wake {
        let mut lookout = None;
        loop {
            let notify = match self.tickets.look(ticket.id) {
                Seen::Granted { fence, predecessor } => {
                    return Wake::Granted { fence, predecessor };
                }
                Seen::Look => return Wake::Look,
                Seen::Waiting(notify, _) => notify,
            };
            let lookout = lookout.get_or_insert_with(|| self.lookout(&ticket, until));
            tokio::select! {
                biased;
                () = notify.notified() => {}
                _ = &mut lookout.0 => return self.last_look(&ticket),
            }
        }
    }

    /// A hand-over may have come in the same moment.
    fn last_look(&self, ticket: &Ticket) -> Wake {
        match self.tickets.look(ticket.id) {
            Seen::Granted { fence, predecessor } => Wake::Granted { fence, predecessor },
            _ => Wake::Look,
        }
    }

    /// A task on home that ends when it is time to look; the waiter itself may
    /// be polled anywhere.
    fn lookout(&self, ticket: &Ticket, until: Moment) -> PollTask {
        PollTask(self.home.spawn(self.clone().keep_watch(ticket.clone(), until)))
    }

    async fn keep_watch(self, ticket: Ticket, until: Moment) {
        while let Seen::Waiting(_, outlook) = self.tickets.glance(ticket.id) {
            self.death_watch.watch(&outlook.blockers);
            let now = self.clock.now();
            let next = self.next_look(&outlook, now);
            self.clock.sleep_until(next.min(until)).await;
            if next >= until {
                return;
            }
            if !matches!(self.handle.ask(Peek(ticket.clone())).await, Ok(Peeked::Still(_))) {
                return;
            }
        }
    }

    /// When the name may open by itself, or after the poll interval. A moment
    /// that has passed has been looked at already.
    fn next_look(&self, outlook: &Outlook, now: Moment) -> Moment {
        let poll = now.after(self.poll);
        if outlook.look_at > now { poll.min(outlook.look_at) } else { poll }
    }
}

/// Ends with the wait it works for.
#[derive(Debug)]
struct PollTask(JoinHandle<()>);

impl Drop for PollTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
