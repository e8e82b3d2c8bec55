//! Watching records.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::super::client::TableClient;
use super::super::columns::{int, span};
use super::super::session::fresh_id;
use super::super::text::step;
use super::statements::drawn;
use crate::claim::RawRecord;
use crate::clock::Moment;
use crate::engine::{RecordEvent, Scope};
use crate::engines::database::drivers::{Reply, ReplyRow};
use crate::engines::kit::record_watch::{ChangeSource, ReadUpTo, RecordWatcher, RecordWatchers};
use crate::error::{Error, ErrorKind, Result};
use crate::name::{Name, Namespace};

/// How long others write changes down for a watcher that is not heard of.
const PRESENT: Duration = Duration::from_secs(60);
/// How often a watcher shows that it is there.
const SHOW: Duration = Duration::from_secs(20);
/// How many changes are kept of a namespace, however many there are.
const KEPT: i64 = 4096;
/// After how many writes a client looks whether there are more.
const LOOK: u64 = 256;
/// How many changes are read at a time.
const READ: i64 = 32;

impl TableClient {
    /// A record was written: now and then, old changes are forgotten.
    pub(in super::super) async fn wrote(&self, space: &Namespace) {
        if self.changes.count(space).is_multiple_of(LOOK) {
            // If it fails, the next one will do it.
            let _ = self.trim(space).await;
        }
    }

    /// First it is noted up to where changes are forgotten: who has not read
    /// that far has missed something.
    async fn trim(&self, space: &Namespace) -> Result<()> {
        let texts = &self.changes.statements;
        let space = || space.as_str().into();
        let reply = self.run(&texts.oldest, vec![space(), KEPT.into()]).await?;
        let Some(row) = reply.rows.first() else { return Ok(()) };
        let version = row.int(0)?;
        self.run(&texts.cut, vec![space(), version.into()]).await?;
        self.run(&texts.forget, vec![space(), version.into()]).await?;
        Ok(())
    }
}

/// The changes of a table that one watcher reads.
#[derive(Debug)]
pub(in super::super) struct TableChanges {
    id: u64,
    scope: Scope,
    inner: Arc<TableClient>,
    show_at: Moment,
}

impl TableChanges {
    pub(in super::super) async fn watch(
        inner: Arc<TableClient>,
        scope: Scope,
    ) -> Result<RecordWatcher<Self>> {
        let show_at = inner.clock.now();
        RecordWatcher::start(Self { id: fresh_id(), scope, inner, show_at }).await
    }

    /// Takes what was read; `None` if we are not on the list.
    fn take(
        &self,
        cursor: u64,
        reply: &Reply,
        unseen: &mut VecDeque<RecordEvent>,
    ) -> Result<Option<ReadUpTo>> {
        let Some(first) = reply.rows.first() else { return Ok(None) };
        let (last, cut) = (first.int(0)?.unsigned_abs(), first.int(1)?.unsigned_abs());
        if first.int(2)? == 0 {
            return Ok(None);
        }
        if cut > cursor {
            unseen.push_back(RecordEvent::Resync);
            return Ok(Some(ReadUpTo { cursor: last.max(cut), more: false }));
        }
        let mut cursor = cursor;
        for row in &reply.rows {
            let Some(version) = row.maybe_int(3)? else { break };
            cursor = version.unsigned_abs();
            unseen.extend(self.event(row, cursor)?);
        }
        let more = reply.rows.len() as u64 >= READ.unsigned_abs();
        Ok(Some(ReadUpTo { cursor: if more { cursor } else { cursor.max(last) }, more }))
    }

    fn event(&self, row: &ReplyRow, version: u64) -> Result<Option<RecordEvent>> {
        let name = Name::new(self.scope.namespace(), self.inner.name_of(row, 4)?)?;
        if !self.scope.covers(&name) {
            return Ok(None);
        }
        let stored = |value: &[u8]| RawRecord::new(value.to_vec(), version);
        Ok(Some(match row.maybe_bytes(5)? {
            None => RecordEvent::Deleted(name, version),
            Some(value) => RecordEvent::Stored(name, stored(value)),
        }))
    }
}

impl ChangeSource for TableChanges {
    fn watchers(&self) -> &RecordWatchers {
        &self.inner.watchers
    }

    fn id(&self) -> u64 {
        self.id
    }

    async fn begin(&mut self) -> Result<u64> {
        self.inner.stir.notify_one();
        self.inner.enter_space(self.scope.namespace()).await?;
        self.enter().await
    }

    /// Enters the list while the namespace is ours, so that every change is
    /// either before the version that is drawn, or written down for us.
    async fn enter(&mut self) -> Result<u64> {
        let inner = &self.inner;
        let space = self.scope.namespace().as_str();
        let values =
            vec![int(self.id).into(), int(inner.client).into(), space.into(), span(PRESENT).into()];
        let steps = vec![
            step(&inner.records.draw, vec![space.into()], true),
            step(&inner.changes.statements.leave, vec![int(self.id).into()], false),
            step(&inner.changes.statements.enter, values, true),
        ];
        let replies = inner.pool.transact(steps).await?;
        let missing = || Error::new(ErrorKind::Unexpected, "the row of a namespace is gone");
        let cursor = drawn(replies.ok_or_else(missing)?.first())?;
        self.show_at = inner.clock.now().after(SHOW);
        Ok(cursor)
    }

    /// Until it is rung, or has to show that it is there.
    async fn rest(&mut self, rung: &Notify) {
        let clock = self.inner.clock.clone();
        tokio::select! {
            biased;
            () = rung.notified() => {}
            () = clock.sleep_until(self.show_at) => {}
        }
        if clock.now() >= self.show_at {
            self.show_at = clock.now().after(SHOW);
            let values = vec![int(self.id).into(), span(PRESENT).into()];
            // Whoever is off the list finds out when it reads.
            let _ = self.inner.run(&self.inner.changes.statements.show, values).await;
        }
    }

    async fn read(
        &mut self,
        cursor: u64,
        unseen: &mut VecDeque<RecordEvent>,
    ) -> Result<Option<ReadUpTo>> {
        let values = vec![
            self.scope.namespace().as_str().into(),
            int(cursor).into(),
            int(self.id).into(),
            READ.into(),
        ];
        let reply = self.inner.run(&self.inner.changes.statements.read, values).await?;
        self.take(cursor, &reply, unseen)
    }

    fn leave(&self) {
        let (inner, id) = (Arc::clone(&self.inner), self.id);
        if !inner.watchers.is_closed() {
            self.inner.home.spawn(async move {
                let leave = &inner.changes.statements.leave;
                let _ = inner.run(leave, vec![int(id).into()]).await;
            });
        }
    }
}
