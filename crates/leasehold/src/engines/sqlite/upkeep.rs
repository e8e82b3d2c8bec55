//! Upkeep of the tables: cleaning up, a little at a time, so that nothing
//! remains; and carrying everything over when the machine was restarted.

use std::collections::HashMap;

use rusqlite::params;

use super::changes::{KEEP, WATCHER_LOOK};
use super::fault::{StoreFault, Trial};
use super::schema::{at, int, known_offset, moment, note_clocks, number, read_name, set, span};
use super::transaction::{BROOM, StoreTransaction};
use crate::clock::{Moment, wall_micros};
use crate::engine::state::Verb;
use crate::name::Name;

/// By how much fences jump when the last commits may have been lost.
pub(super) const FENCE_JUMP: u64 = 1 << 32;

/// What a sweep leaves to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Swept {
    /// There is more to do at once.
    pub(super) full: bool,
    /// When there will be something to do.
    pub(super) then: Option<Moment>,
}

impl StoreTransaction<'_> {
    /// Removes some of what is over; says when there is more to do.
    pub(super) fn sweep(&mut self) -> Trial<Swept> {
        // First: what the dead have left is then swept with the rest.
        self.end_watchers()?;
        let most = [
            self.forget_names()?,
            self.tick_lapsed_names()?,
            self.end_dead_seats()?,
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

    /// Lets time pass for names whose watched session has ended: nobody may have asked
    /// for them since.
    fn tick_lapsed_names(&mut self) -> Trial<usize> {
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
             AND NOT EXISTS (SELECT 1 FROM seats WHERE session = sessions.id) \
             AND NOT EXISTS (SELECT 1 FROM records WHERE session = sessions.id) LIMIT ?2";
        let mut find = self.db.prepare_cached(FIND)?;
        let rows = find.query_map(params![at(self.now), int(BROOM)], |row| row.get::<_, i64>(0))?;
        let ids = rows.collect::<Result<Vec<_>, _>>()?;
        for id in ids.iter().map(|id| id.unsigned_abs()) {
            self.sessions.delete(id)?;
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
        let watcher_look = at(self.now.after(WATCHER_LOOK));
        let row = [at(self.now), span(KEEP), watcher_look, int(self.client)];
        let at: Option<i64> = next.query_row(row, |row| row.get(0))?;
        Ok(at.map(moment))
    }
}

impl StoreTransaction<'_> {
    /// Carries everything over to a new boot: its clock starts again at zero,
    /// all clients are dead, and the last commits may never have reached the
    /// disk.
    pub(super) fn reboot(&mut self, boot: &str) -> Trial<()> {
        set(self.db, "boot", boot)?;
        let Some(then) = self.old_now()? else { return Ok(note_clocks(self.db, self.now)?) };
        let jump = "UPDATE fences SET last = last + ?1";
        self.db.execute(jump, [int(FENCE_JUMP)])?;
        self.carry_records_over(then)?;
        let ended = self.old_sessions(then)?;
        // Nobody who waited is there any more.
        self.db.execute_batch("DELETE FROM seats")?;
        for name in self.all_names()? {
            self.carry_over(&name, then, &ended)?;
        }
        self.db.execute_batch("DELETE FROM sessions; DELETE FROM losses;")?;
        self.sessions.clear();
        self.after_commit.follow_ups.clear();
        Ok(note_clocks(self.db, self.now)?)
    }

    /// What the old clock would show now; not earlier than it was last seen,
    /// because a wall clock that fell back would keep names closed for years.
    fn old_now(&self) -> Trial<Option<Moment>> {
        let (offset, seen) = (known_offset(self.db)?, number(self.db, "clock_seen")?);
        let (Some(offset), Some(seen)) = (offset, seen) else { return Ok(None) };
        let micros = int(wall_micros()).saturating_sub(offset);
        let nanos = micros.saturating_mul(1000).max(seen).max(0);
        Ok(Some(Moment::from_nanos(nanos.unsigned_abs())))
    }

    /// When the sessions of the old boot ended, on the new clock: at the
    /// latest now, since their processes are gone.
    fn old_sessions(&self, then: Moment) -> Trial<HashMap<u64, Moment>> {
        let mut all = self.db.prepare("SELECT id, expires FROM sessions")?;
        let read = |row: &rusqlite::Row<'_>| {
            let (id, expires): (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok((id.unsigned_abs(), moment(expires)))
        };
        let rows = all.query_map([], read)?;
        let on_new = |(id, expires)| (id, carried(expires, then, self.now).min(self.now));
        Ok(rows.collect::<Result<Vec<_>, _>>()?.into_iter().map(on_new).collect())
    }

    fn all_names(&self) -> Trial<Vec<Name>> {
        let mut all = self.db.prepare("SELECT namespace, name FROM names")?;
        let rows = all.query_map([], read_name)?.collect::<Result<Vec<_>, _>>()?;
        Ok(rows.into_iter().filter_map(Result::ok).collect())
    }

    /// Nobody watches any more, and what was bound has lost its lease.
    fn carry_records_over(&self, then: Moment) -> Trial<()> {
        const SHIFT: &str = "UPDATE records SET expires = max(0, expires + ?1) \
             WHERE expires IS NOT NULL";
        self.db.execute_batch(
            "DELETE FROM watchers; DELETE FROM changes; \
             DELETE FROM records WHERE bound IS NOT NULL;",
        )?;
        self.db.execute(SHIFT, [at(self.now).saturating_sub(at(then))])?;
        Ok(())
    }

    fn carry_over(&mut self, name: &Name, then: Moment, ended: &HashMap<u64, Moment>) -> Trial<()> {
        let now = self.now;
        let mut loaded = self.load(name, None)?;
        loaded.state.clear_queue();
        loaded.state.shift(|moment| carried(moment, then, now));
        loaded.state.follow(|session| ended.get(&session).copied().unwrap_or_default());
        self.step(&mut loaded, Verb::Tick)?;
        self.save(loaded)
    }
}

/// A moment of the old boot on the new clock.
fn carried(moment: Moment, then: Moment, now: Moment) -> Moment {
    now.after(moment.since(then)).before(then.since(moment))
}
