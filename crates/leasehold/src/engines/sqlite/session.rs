//! Sessions: what keeps many leases alive with one row.
//!
//! A client has one session for each ttl in use, and a fixed lease has one for
//! itself, because it ends by itself. The seats of a name follow the expiry of
//! their sessions. A session that has expired is never revived: others may
//! have acted on it.

use std::collections::HashMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::clients::{ClientId, fresh_id};
use super::fault::Trial;
use super::transaction::{Transaction, at, int, moment, span};
use crate::claim::Claim;
use crate::clock::Moment;
use crate::engine::state::SessionId;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionRow {
    pub(super) id: SessionId,
    /// Whose; 0 if its client has left without releasing.
    pub(super) client: ClientId,
    pub(super) ttl: Duration,
    /// The longest lock delay of its leases.
    pub(super) delay: Duration,
    pub(super) expires: Moment,
    /// Whether it belongs to one fixed lease.
    pub(super) fixed: bool,
}

/// The sessions this client keeps alive, by ttl.
#[derive(Debug, Default)]
pub(super) struct OwnSessions {
    pub(super) client: ClientId,
    by_ttl: HashMap<Duration, SessionId>,
}

impl OwnSessions {
    pub(super) fn new(client: ClientId) -> Self {
        Self { client, by_ttl: HashMap::new() }
    }
}

impl SessionRow {
    pub(super) fn load(db: &Connection, id: SessionId) -> rusqlite::Result<Option<Self>> {
        const GET: &str =
            "SELECT id, client, ttl, delay, expires, fixed FROM sessions WHERE id = ?1";
        db.prepare_cached(GET)?.query_row([int(id)], Self::read).optional()
    }

    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
        Ok(Self {
            id: number(0)?,
            client: number(1)?,
            ttl: Duration::from_nanos(number(2)?),
            delay: Duration::from_nanos(number(3)?),
            expires: moment(row.get(4)?),
            fixed: row.get(5)?,
        })
    }

    pub(super) fn save(&self, db: &Connection) -> rusqlite::Result<()> {
        const PUT: &str = "INSERT INTO sessions (id, client, ttl, delay, expires, fixed) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET \
             delay = excluded.delay, expires = excluded.expires";
        db.prepare_cached(PUT)?.execute(params![
            int(self.id),
            int(self.client),
            span(self.ttl),
            span(self.delay),
            at(self.expires),
            self.fixed
        ])?;
        Ok(())
    }

    pub(super) fn delete(db: &Connection, id: SessionId) -> rusqlite::Result<()> {
        db.prepare_cached("DELETE FROM sessions WHERE id = ?1")?.execute([int(id)])?;
        db.prepare_cached("DELETE FROM losses WHERE session = ?1")?.execute([int(id)])?;
        Ok(())
    }
}

impl Transaction<'_> {
    /// The session that a claim will live by. It is written once a claim has
    /// found a seat: one that is refused leaves nothing behind.
    pub(super) fn session_for(&mut self, claim: &Claim) -> Trial<SessionId> {
        if !claim.renewed {
            return Ok(self.new_session(claim));
        }
        let known = self.mine.by_ttl.get(&claim.ttl).copied().unwrap_or(0);
        let (now, fresh) = (self.now, self.now.after(claim.ttl));
        let Some(session) = self.live_session(known)? else {
            let id = self.new_session(claim);
            self.mine.by_ttl.insert(claim.ttl, id);
            return Ok(id);
        };
        // Most claims find their session young and write nothing for it.
        let young = session.expires.since(now) >= claim.ttl / 8 * 7;
        if !young || session.delay < claim.lock_delay {
            session.expires = session.expires.max(fresh);
            session.delay = session.delay.max(claim.lock_delay);
            self.unsaved.insert(known);
        }
        Ok(known)
    }

    fn new_session(&mut self, claim: &Claim) -> SessionId {
        let session = SessionRow {
            id: fresh_id(),
            client: self.mine.client,
            ttl: claim.ttl,
            delay: claim.lock_delay,
            expires: self.now.after(claim.ttl),
            fixed: !claim.renewed,
        };
        let id = session.id;
        self.unsaved.insert(id);
        self.sessions.insert(id, Some(session));
        id
    }

    /// Writes a session if it has changed in this transaction.
    pub(super) fn save_session(&mut self, id: SessionId) -> Trial<()> {
        let db = self.db;
        if self.unsaved.remove(&id)
            && let Some(session) = self.session(id)?
        {
            session.save(db)?;
        }
        Ok(())
    }

    /// Extends a session that has not ended; what is left of it, or `None`.
    pub(super) fn extend(&mut self, id: SessionId, ttl: Duration) -> Trial<Option<Duration>> {
        let (now, fresh) = (self.now, self.now.after(ttl));
        let Some(session) = self.live_session(id)? else { return Ok(None) };
        session.expires = session.expires.max(fresh);
        let left = session.expires.since(now);
        self.unsaved.insert(id);
        self.save_session(id)?;
        Ok(Some(left))
    }

    /// Removes the session of a fixed lease that has ended.
    pub(super) fn end_fixed(&mut self, id: SessionId) -> Trial<()> {
        let db = self.db;
        if self.session(id)?.is_some_and(|session| session.fixed) {
            SessionRow::delete(db, id)?;
            self.sessions.insert(id, None);
        }
        Ok(())
    }
}
