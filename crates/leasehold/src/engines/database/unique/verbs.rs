//! What is done with a row.

use std::sync::Arc;
use std::time::Duration;

use super::client::UniqueClient;
use super::leases::{RowLease, RowStanding};
use super::sql::{StatementValues, UniqueStatement};
use crate::claim::{
    Busy, Claim, Grant, Holder, LeaseId, Mode, Refresh, Released, Renewal, Stance, Ticket, Verdict,
};
use crate::clock::Moment;
use crate::engine::{Event, Evicted, Eviction, Held, Status, Target};
use crate::engines::database::drivers::{Reply, ReplyRow};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::home::Handle;
use crate::name::{Name, Namespace};

/// How often a row may be deleted between an insert and a look.
const TRIES: u32 = 5;

impl UniqueClient {
    pub(super) async fn acquire(self: Arc<Self>, claim: Claim) -> Result<Verdict> {
        let (id, name) = (claim.ticket.id, &claim.ticket.name);
        let facts = self.facts(name, id, &claim);
        self.fits(&facts)?;
        let lease = self.leases.ask(id, name);
        let verdict = self.ask(&claim, &lease, &facts).await;
        match &verdict {
            Ok(Verdict::Busy(_)) if claim.stance == Stance::Try => self.leases.forget(id),
            Ok(_) => {}
            Err(error) if error.effect() == Effect::Unknown => {
                self.leases.note(id, RowStanding::Unsure);
            }
            Err(_) if lease.standing == RowStanding::Asked && claim.stance == Stance::Try => {
                self.leases.forget(id);
            }
            Err(_) => {}
        }
        verdict
    }

    /// MySQL would cut it off, and two names become one.
    fn fits(&self, facts: &StatementValues) -> Result<()> {
        let most = self.survey.name_max(&self.form);
        if facts.name.len() <= most {
            return Ok(());
        }
        let text = format!("namespace and name are longer than the column: {most} bytes");
        Err(Error::invalid(text))
    }

    async fn ask(
        &self,
        claim: &Claim,
        lease: &RowLease,
        facts: &StatementValues,
    ) -> Result<Verdict> {
        for _ in 0..TRIES {
            if let Some(sent_at) = self.take(lease, facts).await? {
                let fence = self.leases.granted(claim.ticket.id, sent_at.after(claim.ttl));
                return Ok(Verdict::Granted(Grant::new(fence, claim.ttl, sent_at)));
            }
            let found = self.run(&self.texts.look, facts).await?;
            if let Some(row) = found.rows.first() {
                self.is_a_strangers(lease)?;
                return self.busy(claim.ticket.id, row).map(Verdict::Busy);
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            "the row could not be inserted, although there is none: it comes and goes, \
             or the other columns of the table have no defaults",
        ))
    }

    /// Inserts the row, or takes one that is ours or over; when that was asked.
    async fn take(&self, lease: &RowLease, facts: &StatementValues) -> Result<Option<Moment>> {
        // Without a token nobody but us knows whose the row is.
        if self.form.token.is_none() && lease.standing == RowStanding::Held {
            return Ok(Some(self.clock.now()));
        }
        let inserted = self.run(&self.texts.insert, facts).await?;
        if inserted.affected > 0 {
            return Ok(Some(inserted.sent_at));
        }
        let Some(take) = &self.texts.take else { return Ok(None) };
        let taken = self.run(take, facts).await?;
        Ok((taken.affected > 0).then_some(taken.sent_at))
    }

    /// Without a token, a row that is there after a lost answer may be ours.
    fn is_a_strangers(&self, lease: &RowLease) -> Result<()> {
        if self.form.token.is_some() || lease.standing != RowStanding::Unsure {
            return Ok(());
        }
        Err(in_doubt())
    }

    fn busy(&self, id: LeaseId, row: &ReplyRow) -> Result<Busy> {
        let mut busy = Busy::new();
        let mut holder = Holder::new(label(row)?);
        holder.time_left = left(row)?;
        let pause = self.leases.in_vain(id);
        busy.recheck_in = Some(holder.time_left.map_or(pause, |left| pause.min(left)));
        busy.holder = Some(holder);
        Ok(busy)
    }

    pub(super) async fn renew(self: Arc<Self>, tickets: Vec<Refresh>) -> Vec<Renewal> {
        let asked = tickets.into_iter().map(|refresh| {
            let inner = Arc::clone(&self);
            Handle::current().spawn(async move { inner.renew_one(refresh).await })
        });
        let mut answers = Vec::new();
        for answer in asked.collect::<Vec<_>>() {
            answers.push(answer.await.unwrap_or_else(|cause| {
                let text = "the task of a renewal ended";
                Renewal::Unknown(Error::new(ErrorKind::Unexpected, text).caused_by(cause))
            }));
        }
        answers
    }

    async fn renew_one(&self, Refresh { ticket, ttl, .. }: Refresh) -> Renewal {
        let known = self.leases.get(ticket.id);
        if self.form.token.is_none() && known.is_none_or(|it| it.standing != RowStanding::Held) {
            return Renewal::Gone;
        }
        let facts = about(&ticket.name, ticket.id, ttl);
        match self.run(&self.texts.renew, &facts).await {
            Ok(reply) if reply.affected > 0 || !reply.rows.is_empty() => {
                let ttl = self.leases.renewed(ticket.id, reply.sent_at, ttl);
                Renewal::Held { ttl, sent_at: reply.sent_at }
            }
            Ok(_) => Renewal::Gone,
            Err(error) => Renewal::Unknown(error),
        }
    }

    pub(super) async fn release(self: Arc<Self>, ticket: Ticket) -> Result<Released> {
        let known = self.leases.get(ticket.id).map(|lease| lease.standing);
        if self.form.token.is_none() && known != Some(RowStanding::Held) {
            self.leases.forget(ticket.id);
            return if known == Some(RowStanding::Unsure) {
                Err(in_doubt())
            } else {
                Ok(Released::AlreadyLost)
            };
        }
        let facts = about(&ticket.name, ticket.id, Duration::ZERO);
        let deleted = self.delete(&self.texts.release, &facts, Some(ticket.id)).await?;
        self.leases.forget(ticket.id);
        Ok(if deleted.affected > 0 { Released::Released } else { Released::AlreadyLost })
    }

    /// Deletes a row, which may be that of a lease of ours. Without a token it is
    /// deleted once: what is there after a lost answer may be the next one's.
    async fn delete(
        &self,
        text: &UniqueStatement,
        facts: &StatementValues,
        ours: Option<LeaseId>,
    ) -> Result<Reply> {
        let ours = ours.filter(|_| self.form.token.is_none());
        ours.inspect(|id| self.leases.note(*id, RowStanding::Unsure));
        let deleted = self.run(text, facts).await;
        if deleted.as_ref().is_err_and(|error| error.effect() == Effect::NotApplied) {
            ours.inspect(|id| self.leases.note(*id, RowStanding::Held));
        }
        deleted
    }

    pub(super) async fn status(&self, name: Name) -> Result<Status> {
        let facts = about(&name, LeaseId::from_bits(0), Duration::ZERO);
        let found = self.run(&self.texts.look, &facts).await?;
        let mut status = Status::new(name);
        if let Some(row) = found.rows.first() {
            status.holders.push(self.held(&status.name, row)?);
        }
        Ok(status)
    }

    /// A holder, with its fence if it is one of ours.
    fn held(&self, name: &Name, row: &ReplyRow) -> Result<Held> {
        let ours = self.leases.holding(name, None);
        let ours = ours.filter(|(id, _)| {
            self.form.token.is_none() || row.maybe_text(2).ok().flatten() == Some(&token(*id))
        });
        Ok(Held {
            label: label(row)?.into(),
            mode: Mode::Exclusive,
            fence: ours.map(|(_, fence)| fence),
            held_for: None,
            time_left: left(row)?,
            meta: None,
        })
    }

    pub(super) async fn evict(self: Arc<Self>, eviction: Eviction) -> Result<Evicted> {
        let name = eviction.name.clone();
        let mut facts = about(&name, LeaseId::from_bits(0), Duration::ZERO);
        let found = self.run(&self.texts.look, &facts).await?;
        let Some(row) = found.rows.first() else { return Ok(Evicted::default()) };
        let held = self.held(&name, row)?;
        facts.token = row.maybe_text(2)?.unwrap_or_default().to_owned();
        if !self.is_meant(&eviction.target, &held, &facts.token) {
            return Ok(Evicted::default());
        }
        let ours = self.ours(&name, &facts.token);
        let deleted = self.delete(&self.texts.evict, &facts, ours).await?;
        if let Some(id) = ours {
            // A holder of this client hears it at once, others when they renew.
            self.pool.bus().publish(&Event::TicketLost(id, eviction.loss()));
            self.leases.forget(id);
        }
        Ok(if deleted.affected > 0 { Evicted::new(vec![held]) } else { Evicted::default() })
    }

    fn is_meant(&self, target: &Target, held: &Held, found: &str) -> bool {
        match target {
            Target::All => true,
            Target::Fence(fence) => held.fence == Some(*fence),
            Target::Lease(id) if self.form.token.is_some() => found == token(*id),
            Target::Lease(id) => {
                self.leases.get(*id).is_some_and(|it| it.standing == RowStanding::Held)
            }
        }
    }

    /// The lease of ours that the row with this token is, or may be.
    fn ours(&self, name: &Name, found: &str) -> Option<LeaseId> {
        let (id, _) = self.leases.holding(name, None)?;
        (self.form.token.is_none() || token(id) == found).then_some(id)
    }

    async fn run(&self, text: &UniqueStatement, facts: &StatementValues) -> Result<Reply> {
        self.pool.run(text.sql(), text.values(facts)).await
    }

    fn facts(&self, name: &Name, id: LeaseId, claim: &Claim) -> StatementValues {
        let owner = claim.owner.label().chars().take(self.owner_max).collect();
        StatementValues { owner, ..about(name, id, claim.ttl) }
    }
}

/// Another try would not tell more.
fn in_doubt() -> Error {
    Error::new(
        ErrorKind::Unexpected,
        "an answer was lost, and without a token column nobody can tell whose the row is; \
         look at it, and evict it if it is nobody's",
    )
    .unknown()
}

fn about(name: &Name, id: LeaseId, ttl: Duration) -> StatementValues {
    let ttl = i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX);
    StatementValues { name: key(name), token: token(id), ttl, owner: String::new() }
}

/// The name as others know it: bare in the default namespace.
fn key(name: &Name) -> String {
    if *name.namespace() == Namespace::default() {
        return name.as_str().to_owned();
    }
    format!("{}:{name}", name.namespace())
}

fn token(id: LeaseId) -> String {
    format!("{:032x}", id.to_bits())
}

fn label(row: &ReplyRow) -> Result<String> {
    Ok(row.maybe_text(0)?.unwrap_or("another client").to_owned())
}

fn left(row: &ReplyRow) -> Result<Option<Duration>> {
    let micros = row.maybe_int(1)?;
    Ok(micros.and_then(|it| u64::try_from(it).ok()).map(Duration::from_micros))
}
