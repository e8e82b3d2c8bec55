//! Cleaning up, a little at a time, so that nothing remains.

use std::sync::Arc;

use rusqlite::{Row, params};

use super::changes::{KEEP, ROLL_CALL};
use super::fault::{StoreFault, Trial};
use super::session::SessionRow;
use super::transaction::{BROOM, Transaction, at, int, moment, span};
use crate::clock::Moment;
use crate::name::{Name, Namespace};

/// What a sweep leaves to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Swept {
    /// There is more to do at once.
    pub(super) full: bool,
    /// When there will be something to do.
    pub(super) then: Option<Moment>,
}

impl Transaction<'_> {
    /// Removes some of what is over; says when there is more to do.
    pub(super) fn sweep(&mut self) -> Trial<Swept> {
        // First: what the dead have left is then swept with the rest.
        self.end_watchers()?;
        let most = [
            self.forget_names()?,
            self.end_seats()?,
            self.end_records()?,
            self.end_changes()?,
            self.retire_sessions()?,
        ];
        let full = most.into_iter().any(|count| count as u64 >= BROOM);
        Ok(Swept { full, then: self.next_sweep()? })
    }

    /// Names with nothing left to remember.
    fn forget_names(&self) -> Trial<usize> {
        const CUT: &str = "DELETE FROM names WHERE (namespace, name) IN \
             (SELECT namespace, name FROM names WHERE forget_at <= ?1 LIMIT ?2)";
        Ok(self.db.prepare_cached(CUT)?.execute(params![at(self.now), int(BROOM)])?)
    }

    /// Leases and places that nobody asked for since their session ended.
    fn end_seats(&mut self) -> Trial<usize> {
        const FIND: &str = "SELECT names.namespace, names.name FROM sessions \
             JOIN names ON names.watch = sessions.id WHERE sessions.expires <= ?1 LIMIT ?2";
        let mut find = self.db.prepare_cached(FIND)?;
        let rows = find.query_map(params![at(self.now), int(BROOM)], read_name)?;
        let names = rows.collect::<Result<Vec<_>, _>>()?;
        for name in names.iter().flatten() {
            match self.tick(name) {
                Err(StoreFault::Refused(_)) => self.unwatch(name)?,
                other => other?,
            }
        }
        Ok(names.len())
    }

    /// Leaves a damaged row to its finder, instead of failing at it for ever.
    fn unwatch(&self, name: &Name) -> Trial<()> {
        const CUT: &str = "UPDATE names SET watch = NULL WHERE namespace = ?1 AND name = ?2";
        self.db.prepare_cached(CUT)?.execute([name.namespace().as_str(), name.as_str()])?;
        Ok(())
    }

    /// Sessions that have ended, are waited out and keep no name.
    fn retire_sessions(&mut self) -> Trial<usize> {
        const FIND: &str = "SELECT id FROM sessions \
             WHERE expires <= ?1 AND expires + delay <= ?1 \
             AND NOT EXISTS (SELECT 1 FROM names WHERE watch = sessions.id) \
             AND NOT EXISTS (SELECT 1 FROM records WHERE session = sessions.id) LIMIT ?2";
        let mut find = self.db.prepare_cached(FIND)?;
        let rows = find.query_map(params![at(self.now), int(BROOM)], |row| row.get::<_, i64>(0))?;
        let ids = rows.collect::<Result<Vec<_>, _>>()?;
        for id in ids.iter().map(|id| id.unsigned_abs()) {
            SessionRow::delete(self.db, id)?;
            self.sessions.insert(id, None);
        }
        Ok(ids.len())
    }

    fn next_sweep(&self) -> Trial<Option<Moment>> {
        const NEXT: &str = "SELECT min(at) FROM (\
             SELECT min(forget_at) AS at FROM names WHERE forget_at IS NOT NULL UNION ALL \
             SELECT min(expires) FROM records WHERE expires IS NOT NULL UNION ALL \
             SELECT ?2 + (SELECT at FROM changes ORDER BY id LIMIT 1) UNION ALL \
             SELECT ?3 WHERE EXISTS (SELECT 1 FROM watchers WHERE client <> ?4) UNION ALL \
             SELECT min(expires + iif(expires > ?1, 0, delay)) FROM sessions)";
        let mut next = self.db.prepare_cached(NEXT)?;
        let roll_call = at(self.now.after(ROLL_CALL));
        let row = [at(self.now), span(KEEP), roll_call, int(self.mine.client)];
        let at: Option<i64> = next.query_row(row, |row| row.get(0))?;
        Ok(at.map(moment))
    }
}

/// A name from two columns; the inner error is that of a damaged row.
pub(super) fn read_name(row: &Row<'_>) -> rusqlite::Result<Result<Name, crate::error::Error>> {
    let (space, text): (Arc<str>, Arc<str>) = (row.get(0)?, row.get(1)?);
    Ok(Namespace::new(space).and_then(|space| Name::new(&space, text)))
}
