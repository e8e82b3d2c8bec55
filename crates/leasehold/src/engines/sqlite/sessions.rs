//! Sessions: what keeps many leases alive with one row.
//!
//! A client has one session for each ttl in use, and a fixed lease has one for
//! itself, because it ends by itself. The seats of a name follow the expiry of
//! their sessions. A session that has expired is never revived: others may
//! have acted on it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::clients::{ClientId, fresh_id};
use super::fault::Trial;
use super::schema::{at, int, moment, span};
use crate::claim::Claim;
use crate::clock::Moment;
use crate::engine::state::SessionId;

/// The expiry of a session nobody remembers.
pub(super) const GONE: Moment = Moment::from_nanos(0);

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

/// Sessions as one transaction has read and changed them.
#[derive(Debug)]
pub(super) struct LoadedSessions<'a> {
    db: &'a Connection,
    own: &'a mut OwnSessions,
    now: Moment,
    rows: HashMap<SessionId, Option<SessionRow>>,
    /// Those that are newer here than in their rows.
    unsaved: HashSet<SessionId>,
}

impl<'a> LoadedSessions<'a> {
    pub(super) fn new(db: &'a Connection, own: &'a mut OwnSessions, now: Moment) -> Self {
        Self { db, own, now, rows: HashMap::new(), unsaved: HashSet::new() }
    }

    /// A session, dead or alive, unless it is forgotten.
    pub(super) fn get(&mut self, id: SessionId) -> Trial<Option<&mut SessionRow>> {
        if !self.rows.contains_key(&id) {
            let row = SessionRow::load(self.db, id)?;
            self.rows.insert(id, row);
        }
        Ok(self.rows.get_mut(&id).and_then(Option::as_mut))
    }

    /// A session that has not ended.
    pub(super) fn live(&mut self, id: SessionId) -> Trial<Option<&mut SessionRow>> {
        let now = self.now;
        Ok(self.get(id)?.filter(|session| session.expires > now))
    }

    /// What is left of a session.
    pub(super) fn left(&mut self, id: SessionId) -> Trial<Duration> {
        let now = self.now;
        Ok(self.get(id)?.map_or(Duration::ZERO, |session| session.expires.since(now)))
    }

    /// When a session ends, as far as it is loaded.
    pub(super) fn expiry(&self, id: SessionId) -> Moment {
        self.rows.get(&id).and_then(Option::as_ref).map_or(GONE, |session| session.expires)
    }

    /// The session that a claim will live by. It is written once a claim has
    /// found a seat: one that is refused leaves nothing behind.
    pub(super) fn of_claim(&mut self, claim: &Claim) -> Trial<SessionId> {
        if !claim.renewed {
            return Ok(self.start(claim));
        }
        let known = self.own.by_ttl.get(&claim.ttl).copied().unwrap_or(0);
        let (now, fresh) = (self.now, self.now.after(claim.ttl));
        let Some(session) = self.live(known)? else {
            let id = self.start(claim);
            self.own.by_ttl.insert(claim.ttl, id);
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

    fn start(&mut self, claim: &Claim) -> SessionId {
        let session = SessionRow {
            id: fresh_id(),
            client: self.own.client,
            ttl: claim.ttl,
            delay: claim.lock_delay,
            expires: self.now.after(claim.ttl),
            fixed: !claim.renewed,
        };
        let id = session.id;
        self.unsaved.insert(id);
        self.rows.insert(id, Some(session));
        id
    }

    /// Writes a session if it has changed in this transaction.
    pub(super) fn save(&mut self, id: SessionId) -> Trial<()> {
        let db = self.db;
        if self.unsaved.remove(&id)
            && let Some(session) = self.get(id)?
        {
            session.save(db)?;
        }
        Ok(())
    }

    /// Extends a session that has not ended; what is left of it, or `None`.
    pub(super) fn extend(&mut self, id: SessionId, ttl: Duration) -> Trial<Option<Duration>> {
        let (now, fresh) = (self.now, self.now.after(ttl));
        let Some(session) = self.live(id)? else { return Ok(None) };
        session.expires = session.expires.max(fresh);
        let left = session.expires.since(now);
        self.unsaved.insert(id);
        self.save(id)?;
        Ok(Some(left))
    }

    /// Ends all sessions of a client, now.
    pub(super) fn end_of(&mut self, client: ClientId) -> Trial<()> {
        const END: &str = "UPDATE sessions SET expires = ?2 WHERE client = ?1 AND expires > ?2";
        let now = self.now;
        self.db.prepare_cached(END)?.execute(params![int(client), at(now)])?;
        let known = self.rows.values_mut().flatten().filter(|s| s.client == client);
        known.for_each(|session| session.expires = session.expires.min(now));
        Ok(())
    }

    /// Removes the session of a fixed lease that has ended.
    pub(super) fn end_fixed(&mut self, id: SessionId) -> Trial<()> {
        if self.get(id)?.is_some_and(|session| session.fixed) {
            self.delete(id)?;
        }
        Ok(())
    }

    /// Removes a session, and what was written down for its owner.
    pub(super) fn delete(&mut self, id: SessionId) -> Trial<()> {
        SessionRow::delete(self.db, id)?;
        self.rows.insert(id, None);
        Ok(())
    }

    /// Forgets what was read: the rows are gone.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }
}
