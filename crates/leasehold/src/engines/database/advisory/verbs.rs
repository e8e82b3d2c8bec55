//! What is done with a lock.

use std::sync::Arc;
use std::time::Duration;

use super::AdvisoryClient;
use super::connection::{LockConnection, gone};
use super::leases::{AdvisoryLease, HeldLock};
use super::wait_task;
use crate::claim::{
    Busy, Claim, Grant, LeaseId, Mode, Place, Refresh, Released, Renewal, Stance, Ticket, Verdict,
    Wake,
};
use crate::clock::Moment;
use crate::engine::{Event, Evicted, Eviction, Held, Loss, Queued, Status, Target};
use crate::engines::database::drivers::{Reply, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;

/// The connections that were asked, and when those were that have answered.
type Asked = Vec<(Arc<LockConnection>, Result<Moment>)>;

impl AdvisoryClient {
    pub(super) async fn acquire(self: Arc<Self>, claim: Claim) -> Result<Verdict> {
        match self.leases.get(claim.ticket.id) {
            Some(AdvisoryLease::Held(hold)) => self.again(&claim, &hold).await,
            Some(AdvisoryLease::Waiting(waiter)) => match waiter.failure() {
                None => Ok(Verdict::Busy(Busy::new())),
                Some(error) => {
                    self.leases.remove(claim.ticket.id);
                    Err(error)
                }
            },
            None => self.ask(claim).await,
        }
    }

    /// A lock that is ours already: has come to a waiter, or was granted to a
    /// claim whose answer got lost.
    async fn again(&self, claim: &Claim, hold: &HeldLock) -> Result<Verdict> {
        let ttl = self.spare(&hold.connection, claim.ttl).await?;
        let reply = hold.connection.run(&self.texts.fence, Vec::new()).await?;
        let drawn = number(&reply)?.unwrap_or_default();
        let fence = hold.fence.unwrap_or(drawn);
        self.leases.fenced(claim.ticket.id, fence);
        Ok(Verdict::Granted(Grant::new(fence, ttl, reply.sent_at)))
    }

    async fn ask(self: Arc<Self>, claim: Claim) -> Result<Verdict> {
        if let Some(grant) = self.take(&claim).await? {
            return Ok(Verdict::Granted(grant));
        }
        if let Stance::Wait { until } = claim.stance {
            let seat = self.seat()?;
            let (ticket, label) = (claim.ticket.clone(), claim.owner.label());
            let waiter = wait_task::start(&self, ticket, label, until, seat);
            self.leases.put(claim.ticket.id, AdvisoryLease::Waiting(waiter));
        }
        Ok(Verdict::Busy(Busy::new()))
    }

    /// Tries once, on the shared connection.
    async fn take(self: &Arc<Self>, claim: &Claim) -> Result<Option<Grant>> {
        let (id, name) = (claim.ticket.id, &claim.ticket.name);
        if !self.leases.reserve(name, id) {
            return Ok(None);
        }
        let taken = self.take_on_front(claim).await;
        if !matches!(taken, Ok(Some(_))) {
            self.leases.unreserve(name, id);
        }
        taken
    }

    async fn take_on_front(self: &Arc<Self>, claim: &Claim) -> Result<Option<Grant>> {
        let (id, name) = (claim.ticket.id, &claim.ticket.name);
        let connection = self.front().await?;
        let ttl = self.spare(&connection, claim.ttl).await?;
        let reply = match connection.run(&self.texts.take, vec![self.key(name)]).await {
            Ok(reply) => reply,
            Err(error) => return Err(self.forgo(&connection, name, error).await),
        };
        let Some(fence) = self.taken(&reply)? else { return Ok(None) };
        let label = claim.owner.label().into();
        let hold = HeldLock { name: name.clone(), label, connection, fence: Some(fence) };
        self.enter(id, hold)?;
        Ok(Some(Grant::new(fence, ttl, reply.sent_at)))
    }

    /// A lock is ours from now on. If its connection has died since, whoever told
    /// of that may have been too early to tell of this one.
    pub(super) fn enter(&self, id: LeaseId, hold: HeldLock) -> Result<()> {
        let connection = Arc::clone(&hold.connection);
        self.leases.put(id, AdvisoryLease::Held(hold));
        if connection.is_over() && self.leases.remove(id).is_some() {
            return Err(gone());
        }
        Ok(())
    }

    /// A try that was stopped on its way back has the lock all the same: it is a
    /// session's, and no transaction takes it back.
    async fn forgo(&self, connection: &LockConnection, name: &Name, error: Error) -> Error {
        if connection.run(&self.texts.release, vec![self.key(name)]).await.is_err() {
            connection.close().await;
        }
        error
    }

    /// Has the server spare a connection that rests for longer than any guard on
    /// it believes.
    async fn spare(&self, connection: &LockConnection, ttl: Duration) -> Result<Duration> {
        connection.spare(&self.texts.spare, ttl).await
    }

    /// What a try answered. Who says no says nothing at all when it could not try.
    fn taken(&self, reply: &Reply) -> Result<Option<u64>> {
        match number(reply)? {
            Some(0) => Ok(None),
            None if self.texts.says_no => Err(Error::new(
                ErrorKind::Unavailable,
                "the server could not try: it is out of memory, or an operator stopped it",
            )),
            fence => Ok(fence),
        }
    }

    pub(super) async fn wait(self: Arc<Self>, ticket: Ticket, until: Moment) -> Result<Wake> {
        let sleep = self.clock.sleep_until(until);
        match self.leases.get(ticket.id) {
            Some(AdvisoryLease::Waiting(waiter)) => tokio::select! {
                biased;
                () = waiter.ended() => {}
                () = sleep => {}
            },
            Some(AdvisoryLease::Held(_)) => {}
            None => sleep.await,
        }
        Ok(Wake::Look)
    }

    /// Asks every connection once.
    pub(super) async fn renew(self: Arc<Self>, tickets: Vec<Refresh>) -> Vec<Renewal> {
        let mut asked = Asked::new();
        let mut answers = Vec::with_capacity(tickets.len());
        for Refresh { ticket, ttl, .. } in tickets {
            answers.push(match self.leases.get(ticket.id) {
                None => Renewal::Gone,
                Some(AdvisoryLease::Waiting(_)) => {
                    Renewal::Queued(Place::new(ttl, self.clock.now()))
                }
                Some(AdvisoryLease::Held(hold)) => {
                    self.answers(&hold.connection, ttl, &mut asked).await
                }
            });
        }
        answers
    }

    /// What a connection says. One that has died or does not answer is given up,
    /// and its locks with it; one that refuses to answer still has them.
    async fn answers(
        &self,
        connection: &Arc<LockConnection>,
        ttl: Duration,
        asked: &mut Asked,
    ) -> Renewal {
        match self.ask_once(connection, ttl, asked).await {
            Ok((ttl, sent_at)) => Renewal::Held { ttl, sent_at },
            Err(_) if connection.is_over() => Renewal::Gone,
            Err(error) => Renewal::Unknown(error),
        }
    }

    /// For how long from when on the locks of a connection are kept.
    async fn ask_once(
        &self,
        connection: &Arc<LockConnection>,
        ttl: Duration,
        asked: &mut Asked,
    ) -> Result<(Duration, Moment)> {
        let ttl = self.spare(connection, ttl).await?;
        if let Some((_, answer)) = asked.iter().find(|(known, _)| known.same(connection)) {
            return answer.clone().map(|sent_at| (ttl, sent_at));
        }
        let answer = connection.run(self.texts.check, Vec::new()).await.map(|reply| reply.sent_at);
        asked.push((Arc::clone(connection), answer.clone()));
        answer.map(|sent_at| (ttl, sent_at))
    }

    pub(super) async fn release(self: Arc<Self>, ticket: Ticket) -> Result<Released> {
        match self.leases.remove(ticket.id) {
            None => Ok(Released::AlreadyLost),
            Some(AdvisoryLease::Waiting(waiter)) => {
                waiter.stop();
                self.within(waiter.ended()).await;
                Ok(Released::Released)
            }
            Some(AdvisoryLease::Held(hold)) => {
                let released = self.unlock(&hold).await;
                self.leases.unreserve(&ticket.name, ticket.id);
                Ok(released)
            }
        }
    }

    /// Unlocks; a connection that fails at it is closed, which does the same.
    async fn unlock(&self, hold: &HeldLock) -> Released {
        let unlocked = hold.connection.run(&self.texts.release, vec![self.key(&hold.name)]).await;
        let released = match unlocked.and_then(|reply| number(&reply)) {
            Ok(Some(1)) => Released::Released,
            Ok(_) => Released::AlreadyLost,
            // Refused by a connection that stands: it was ours until now.
            Err(_) if hold.connection.close().await => Released::Released,
            Err(_) => Released::AlreadyLost,
        };
        if !hold.connection.shared {
            hold.connection.close().await;
        }
        released
    }

    pub(super) async fn status(&self, name: Name) -> Result<Status> {
        let mut status = Status::new(name);
        for (session, holds, called) in self.sessions(&status.name).await? {
            let ours = self.leases.label(&status.name, session);
            let label = ours.unwrap_or_else(|| called.as_str().into());
            if holds {
                let fence = self.leases.lease(&status.name, session).and_then(|(_, it)| it.fence);
                status.holders.push(held(label, fence));
            } else {
                status.waiters.push(Queued { label, mode: Mode::Exclusive, waiting_for: None });
            }
        }
        Ok(status)
    }

    /// Sessions that hold the name or wait for it, and what to call them.
    async fn sessions(&self, name: &Name) -> Result<Vec<(i64, bool, String)>> {
        let found = self.pool.run(&self.texts.look.as_str().into(), vec![self.key(name)]).await?;
        let read = |row: &crate::engines::database::drivers::ReplyRow| {
            let session = row.int(0)?;
            let called = row.maybe_text(2)?.filter(|text| !text.is_empty());
            let called = called.map(|text| format!("{text}, ")).unwrap_or_default();
            Ok((session, row.int(1)? != 0, format!("{called}session {session}")))
        };
        found.rows.iter().map(read).collect()
    }

    /// A session may hold many locks: ending one of another client for the sake
    /// of one lock would take them all.
    pub(super) async fn evict(self: Arc<Self>, eviction: Eviction) -> Result<Evicted> {
        let sessions = self.sessions(&eviction.name).await?;
        let Some((session, ..)) = sessions.into_iter().find(|(_, holds, _)| *holds) else {
            return Ok(Evicted::default());
        };
        let Some((id, hold)) = self.leases.lease(&eviction.name, session) else {
            return self.refuse(&eviction.target, session);
        };
        let meant = match eviction.target {
            Target::All => true,
            Target::Fence(fence) => hold.fence == Some(fence),
            Target::Lease(lease) => lease == id,
        };
        if !meant || self.leases.remove(id).is_none() {
            return Ok(Evicted::default());
        }
        self.unlock(&hold).await;
        self.leases.unreserve(&eviction.name, id);
        self.pool.bus().publish(&Event::TicketLost(id, eviction.loss()));
        Ok(Evicted::new(vec![held(hold.label, hold.fence)]))
    }

    fn refuse(&self, target: &Target, session: i64) -> Result<Evicted> {
        if !matches!(target, Target::All) {
            return Ok(Evicted::default());
        }
        let end = (self.texts.end)(session);
        Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "session {session} of another client holds it, and may hold more; \
                 to end it with all its locks: {end}"
            ),
        ))
    }

    /// A connection has died, and everything it held.
    pub(super) fn lost(&self, connection: &LockConnection) {
        for id in self.leases.lose(connection) {
            self.pool.bus().publish(&Event::TicketLost(id, Loss::Disconnected));
        }
    }

    /// `namespace:name`; a namespace has no colon, so there is one way to read it.
    #[expect(clippy::unused_self, reason = "the key is this engine's")]
    pub(super) fn key(&self, name: &Name) -> Value {
        format!("{}:{name}", name.namespace()).into()
    }
}

fn held(label: Arc<str>, fence: Option<u64>) -> Held {
    let mode = Mode::Exclusive;
    Held { label, mode, fence, held_for: None, time_left: None, meta: None }
}

/// The number in the first column, if it is there.
fn number(reply: &Reply) -> Result<Option<u64>> {
    let said = reply.rows.first().map_or(Ok(None), |row| row.maybe_int(0))?;
    Ok(said.map(i64::unsigned_abs))
}
