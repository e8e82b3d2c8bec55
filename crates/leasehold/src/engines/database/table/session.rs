//! Sessions: what keeps many leases alive with one row.
//!
//! A client has one session for each ttl and lock delay in use, and a fixed
//! lease has one for itself, because it ends by itself. A session that has
//! expired is never revived: others may have acted on it.

use std::time::Duration;

use super::client::TableClient;
use super::columns::{int, span};
use super::own_sessions::{Extension, TableSession};
use super::row::ClientId;
use crate::claim::id::random_bits;
use crate::claim::{Claim, RENEW_FRACTION};
use crate::clock::Moment;
use crate::engine::state::SessionId;
use crate::error::Result;

/// A random number that a column can store, and not 0.
pub(super) fn fresh_id() -> u64 {
    let bits = random_bits().to_le_bytes();
    let low = u64::from_le_bytes(*bits.first_chunk().unwrap_or(&[1; 8]));
    (low >> 1).max(1)
}

impl TableClient {
    /// The session that a claim will live by, with most of its time before it.
    pub(super) async fn session_for(&self, claim: &Claim) -> Result<TableSession> {
        if !claim.renewed {
            return self.begin(claim).await;
        }
        let mut shared = self.own_sessions.shared.lock().await;
        let known =
            shared.get(&(claim.ttl, claim.lock_delay)).and_then(|id| self.own_sessions.get(*id));
        if let Some(table_session) = known {
            let left = table_session.until.since(self.clock.now());
            if left >= claim.ttl - claim.ttl / RENEW_FRACTION {
                return Ok(table_session);
            }
            if self.extend(table_session.id, claim.ttl, claim.lock_delay).await?.is_some()
                && let Some(table_session) = self.own_sessions.get(table_session.id)
            {
                return Ok(table_session);
            }
        }
        let table_session = self.begin(claim).await?;
        shared.insert((claim.ttl, claim.lock_delay), table_session.id);
        Ok(table_session)
    }

    async fn begin(&self, claim: &Claim) -> Result<TableSession> {
        let (id, fixed) = (fresh_id(), !claim.renewed);
        let values = vec![
            int(id).into(),
            int(self.client).into(),
            span(claim.ttl).into(),
            span(claim.lock_delay).into(),
            i64::from(fixed).into(),
        ];
        let reply = self.run(&self.statements.begin, values).await?;
        let until = reply.sent_at.after(claim.ttl);
        let table_session = TableSession { id, until, fixed, extended: None };
        self.own_sessions.known().insert(id, table_session);
        Ok(table_session)
    }

    /// Extends a session that has not ended: what is left of it, and since
    /// when; `None` if it has ended.
    pub(super) async fn extend(
        &self,
        id: SessionId,
        ttl: Duration,
        delay: Duration,
    ) -> Result<Option<(Duration, Moment)>> {
        let values = vec![int(id).into(), span(ttl).into(), span(delay).into()];
        let reply = self.run(&self.statements.extend, values).await?;
        let mut known = self.own_sessions.known();
        if reply.affected == 0 {
            known.remove(&id);
            return Ok(None);
        }
        let mut until = reply.sent_at.after(ttl);
        if let Some(table_session) = known.get_mut(&id) {
            table_session.until = table_session.until.max(until);
            table_session.extended = Some(Extension { sent_at: reply.sent_at, ttl, delay });
            until = table_session.until;
        }
        Ok(Some((until.since(reply.sent_at), reply.sent_at)))
    }

    /// Takes the session of a fixed lease away, once the lease is gone; if it
    /// fails, the sweeper will.
    pub(super) async fn end_fixed(&self, id: SessionId) {
        if id != 0 {
            self.own_sessions.forget(id);
            let _ = self.run(&self.statements.end_fixed, vec![int(id).into()]).await;
        }
    }

    /// Ends those sessions that keep nothing; they are swept with the rest,
    /// after whatever a lost reply may have left to them.
    pub(super) async fn end_idle(&self) {
        let used = self.tickets.sessions();
        for id in self.own_sessions.all().into_iter().filter(|id| !used.contains(id)) {
            let _ = self.run(&self.statements.end, vec![int(id).into()]).await;
        }
    }
}

/// The channel on which a client is told things.
pub(super) fn channel(client: ClientId) -> String {
    format!("leasehold_{client:016x}")
}
