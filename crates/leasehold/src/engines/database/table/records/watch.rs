//! Watching records.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::super::Inner;
use super::super::names::TableNames;
use super::super::row::{int, span};
use super::super::session::fresh_id;
use super::super::swap::step;
use super::super::text::SqlText;
use super::statements::drawn;
use crate::claim::RawRecord;
use crate::clock::Moment;
use crate::engine::{RecordEvent, RecordEvents, Scope};
use crate::engines::database::drivers::{Reply, ReplyRow as Row};
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

/// Every statement about watching.
#[derive(Debug)]
pub(in super::super) struct WatchSql {
    /// 1 id, 2 client, 3 namespace, 4 for how long.
    enter: SqlText,
    /// 1 id, 2 for how long.
    show: SqlText,
    /// 1 id.
    leave: SqlText,
    /// 1 namespace, 2 the last version read, 3 id, 4 how many.
    read: SqlText,
    /// 1 namespace, 2 how many are kept.
    oldest: SqlText,
    /// 1 namespace, 2 version.
    cut: SqlText,
    forget: SqlText,
}

impl WatchSql {
    fn new(names: &TableNames) -> Self {
        let text = |template: &str| SqlText::new(names, template);
        Self {
            enter: text(
                "INSERT INTO {watchers} (id, client, namespace, expires) \
                 VALUES ($1::bigint, $2::bigint, $3::text, {now} + $4::bigint)",
            ),
            show: text(
                "UPDATE {watchers} SET expires = {now} + $2::bigint \
                 WHERE id = $1 AND expires > {now}",
            ),
            leave: text("DELETE FROM {watchers} WHERE id = $1"),
            read: text(
                "SELECT d.version, d.cut, \
                 (SELECT count(*) FROM {watchers} w WHERE w.id = $3 AND w.expires > {now}), \
                 c.version, c.name, c.value FROM {namespaces} d \
                 LEFT JOIN {changes} c ON c.namespace = d.namespace AND c.version > $2 \
                 WHERE d.namespace = $1 ORDER BY c.version LIMIT $4",
            ),
            oldest: text(
                "SELECT version FROM {changes} WHERE namespace = $1 \
                 ORDER BY version DESC LIMIT 1 OFFSET $2",
            ),
            cut: text(
                "UPDATE {namespaces} SET cut = greatest(cut, $2::bigint) WHERE namespace = $1",
            ),
            forget: text("DELETE FROM {changes} WHERE namespace = $1 AND version <= $2"),
        }
    }
}

/// The watchers of this client, to be rung.
#[derive(Debug)]
pub(in super::super) struct Watchers {
    statements: WatchSql,
    notifiers: Mutex<WatchNotifiers>,
}

#[derive(Debug, Default)]
struct WatchNotifiers {
    notifiers: HashMap<u64, Arc<Notify>>,
    closed: bool,
    /// How often this client has written to a namespace.
    writes: HashMap<Namespace, u64>,
}

impl Watchers {
    pub(in super::super) fn new(names: &TableNames) -> Self {
        Self { statements: WatchSql::new(names), notifiers: Mutex::default() }
    }

    fn notifiers(&self) -> MutexGuard<'_, WatchNotifiers> {
        self.notifiers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something may have changed that one of them watches.
    pub(in super::super) fn ring(&self) {
        self.notifiers().notifiers.values().for_each(|notify| notify.notify_one());
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.notifiers().notifiers.is_empty()
    }

    pub(in super::super) fn close(&self) {
        self.notifiers().closed = true;
        self.ring();
    }

    fn is_closed(&self) -> bool {
        self.notifiers().closed
    }

    fn count(&self, space: &Namespace) -> u64 {
        let mut notifiers = self.notifiers();
        let writes = notifiers.writes.entry(space.clone()).or_default();
        *writes += 1;
        *writes
    }
}

impl Inner {
    /// A record was written: now and then, old changes are forgotten.
    pub(in super::super) async fn wrote(&self, space: &Namespace) {
        if self.watchers.count(space).is_multiple_of(LOOK) {
            // If it fails, the next one will do it.
            let _ = self.trim(space).await;
        }
    }

    /// First it is noted up to where changes are forgotten: who has not read
    /// that far has missed something.
    async fn trim(&self, space: &Namespace) -> Result<()> {
        let texts = &self.watchers.statements;
        let space = || space.as_str().into();
        let reply = self.run(&texts.oldest, vec![space(), KEPT.into()]).await?;
        let Some(row) = reply.rows.first() else { return Ok(()) };
        let version = row.int(0)?;
        self.run(&texts.cut, vec![space(), version.into()]).await?;
        self.run(&texts.forget, vec![space(), version.into()]).await?;
        Ok(())
    }
}

/// One watcher.
#[derive(Debug)]
pub(in super::super) struct Watching {
    id: u64,
    scope: Scope,
    inner: Arc<Inner>,
    notify: Arc<Notify>,
    cursor: u64,
    show_at: Moment,
    unseen: VecDeque<RecordEvent>,
    /// Whether there may be more to read at once.
    behind: bool,
}

impl Watching {
    pub(in super::super) async fn start(inner: Arc<Inner>, scope: Scope) -> Result<Self> {
        let (id, notify) = (fresh_id(), Arc::new(Notify::new()));
        inner.watchers.notifiers().notifiers.insert(id, Arc::clone(&notify));
        inner.stir.notify_one();
        // Made before the request leaves, so that it leaves the list however
        // this ends.
        let mut watching = Self {
            show_at: inner.clock.now(),
            unseen: VecDeque::new(),
            behind: false,
            cursor: 0,
            id,
            scope,
            inner,
            notify,
        };
        watching.inner.enter_space(watching.scope.namespace()).await?;
        watching.enter().await?;
        Ok(watching)
    }

    /// Enters the list while the namespace is ours, so that every change is
    /// either before the version that is drawn, or written down for us.
    async fn enter(&mut self) -> Result<()> {
        let inner = &self.inner;
        let space = self.scope.namespace().as_str();
        let values =
            vec![int(self.id).into(), int(inner.client).into(), space.into(), span(PRESENT).into()];
        let steps = vec![
            step(&inner.records.draw, vec![space.into()], true),
            step(&inner.watchers.statements.leave, vec![int(self.id).into()], false),
            step(&inner.watchers.statements.enter, values, true),
        ];
        let replies = inner.pool.transact(steps).await?;
        let missing = || Error::new(ErrorKind::Unexpected, "the row of a namespace is gone");
        self.cursor = drawn(replies.ok_or_else(missing)?.first())?;
        self.show_at = inner.clock.now().after(SHOW);
        Ok(())
    }

    async fn wait(&mut self) -> Option<RecordEvent> {
        loop {
            if let Some(event) = self.unseen.pop_front() {
                return Some(event);
            }
            if self.inner.watchers.is_closed() {
                return None;
            }
            if !self.behind {
                self.rest().await;
            }
            self.read().await;
        }
    }

    /// Until it is rung, or has to show that it is there.
    async fn rest(&mut self) {
        let clock = self.inner.clock.clone();
        tokio::select! {
            biased;
            () = self.notify.notified() => {}
            () = clock.sleep_until(self.show_at) => {}
        }
        if clock.now() >= self.show_at {
            self.show_at = clock.now().after(SHOW);
            let values = vec![int(self.id).into(), span(PRESENT).into()];
            // Whoever is off the list finds out when it reads.
            let _ = self.inner.run(&self.inner.watchers.statements.show, values).await;
        }
    }

    async fn read(&mut self) {
        // Whoever drops this call finds what it would have read.
        self.behind = true;
        let values = vec![
            self.scope.namespace().as_str().into(),
            int(self.cursor).into(),
            int(self.id).into(),
            READ.into(),
        ];
        let reply = self.inner.run(&self.inner.watchers.statements.read, values).await;
        self.behind = false;
        match reply.and_then(|reply| self.take(&reply)) {
            Ok(true) => {}
            // Someone took us for dead.
            Ok(false) => {
                if self.enter().await.is_ok() {
                    self.unseen.push_back(RecordEvent::Resync);
                }
            }
            // The next look will tell.
            Err(error) if error.kind() == ErrorKind::Unavailable => {}
            Err(_) => self.unseen.push_back(RecordEvent::Resync),
        }
    }

    /// Takes what was read; false if we are not on the list.
    fn take(&mut self, reply: &Reply) -> Result<bool> {
        let Some(first) = reply.rows.first() else { return Ok(false) };
        let (last, cut) = (first.int(0)?.unsigned_abs(), first.int(1)?.unsigned_abs());
        if first.int(2)? == 0 {
            return Ok(false);
        }
        if cut > self.cursor {
            self.unseen.push_back(RecordEvent::Resync);
            self.cursor = last.max(cut);
            return Ok(true);
        }
        let mut cursor = self.cursor;
        for row in &reply.rows {
            let Some(version) = row.maybe_int(3)? else { break };
            cursor = version.unsigned_abs();
            self.unseen.extend(self.event(row, cursor)?);
        }
        self.behind = reply.rows.len() as u64 >= READ.unsigned_abs();
        self.cursor = if self.behind { cursor } else { cursor.max(last) };
        Ok(true)
    }

    fn event(&self, row: &Row, version: u64) -> Result<Option<RecordEvent>> {
        let name = Name::new(self.scope.namespace(), self.inner.name_of(row, 4)?)?;
        if !self.scope.covers(&name) {
            return Ok(None);
        }
        let stored = |value: &[u8]| RawRecord::new(value.to_vec(), version);
        Ok(Some(match row.maybe_bytes(5)? {
            None => RecordEvent::Deleted(name),
            Some(value) => RecordEvent::Stored(name, stored(value)),
        }))
    }
}

impl RecordEvents for Watching {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<RecordEvent>> + Send + '_>> {
        Box::pin(self.wait())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.inner.watchers.notifiers().notifiers.remove(&self.id);
        let (inner, id) = (Arc::clone(&self.inner), self.id);
        if !inner.watchers.is_closed() {
            self.inner.home.spawn(async move {
                let leave = &inner.watchers.statements.leave;
                let _ = inner.run(leave, vec![int(id).into()]).await;
            });
        }
    }
}
