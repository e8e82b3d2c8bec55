//! One client of the lease table: what its verbs share.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::clock_offset::ClockOffset;
use super::outlook::Tickets;
use super::own_lines::OwnLines;
use super::own_sessions::TableSessions;
use super::records::change_log::ChangeLog;
use super::records::statements::RecordSql;
use super::row::ClientId;
use super::rows_sql::RowsSql;
use super::seats::SeatSql;
use super::statements::LeaseSql;
use super::sweep_sql::SweepSql;
use super::text::SqlText;
use super::turns::Turns;
use super::unconfirmed::UnconfirmedClaims;
use super::wakes::Wakes;
use crate::claim::Ticket;
use crate::clock::{Clock, Moment};
use crate::engine::Profile;
use crate::engine::state::SessionId;
use crate::engines::database::pool::Pool;
use crate::engines::kit::record_watch::RecordWatchers;
use crate::home::Handle;
use crate::name::Namespace;

/// For how long after its last work a client looks whether it is its turn to sweep.
const WORKED: Duration = Duration::from_secs(180);

/// What the verbs share.
#[derive(Debug)]
pub(super) struct TableClient {
    pub(super) pool: Pool,
    pub(super) clock: Clock,
    pub(super) statements: LeaseSql,
    pub(super) seats: SeatSql,
    pub(super) listing: SqlText,
    pub(super) records: RecordSql,
    pub(super) changes: ChangeLog,
    pub(super) watchers: RecordWatchers,
    pub(super) namespaces: KnownNamespaces,
    pub(super) home: Handle,
    /// Two columns of each name.
    pub(super) versions: RowsSql,
    pub(super) sweeping: SweepSql,
    /// When a verb was last asked for.
    pub(super) busy_at: AtomicU64,
    pub(super) wakes: Wakes,
    pub(super) client: ClientId,
    pub(super) own_sessions: TableSessions,
    pub(super) tickets: Tickets,
    /// Those that wait.
    pub(super) lines: OwnLines,
    /// How often connections had broken when we last renewed.
    pub(super) breaks: AtomicU64,
    pub(super) turns: Turns,
    pub(super) clock_offset: ClockOffset,
    pub(super) unconfirmed: UnconfirmedClaims,
    /// Rung when somebody begins to wait.
    pub(super) stir: Arc<Notify>,
    pub(super) profile: Profile,
    pub(super) tasks: Mutex<Vec<AbortHandle>>,
}

impl TableClient {
    /// Starts a task that ends with the engine.
    pub(super) fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = self.home.spawn(task).abort_handle();
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    pub(super) fn quiet(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.iter().for_each(AbortHandle::abort);
        self.tickets.close();
        self.watchers.close();
    }

    /// Notes that there may be something to sweep one day.
    pub(super) fn note_work(&self) {
        let now = self.clock.now();
        let rested = !self.is_at_work(now);
        self.busy_at.store(now.nanos(), Ordering::Relaxed);
        // The task that sweeps sleeps for as long as there is nothing to sweep.
        if rested {
            self.stir.notify_one();
        }
    }

    pub(super) fn is_at_work(&self, now: Moment) -> bool {
        let worked = Moment::from_nanos(self.busy_at.load(Ordering::Relaxed));
        now.since(worked) < WORKED
    }

    /// Notes that we hold something. Whoever holds looks now and then whether
    /// it was taken away, so the first one wakes the task that does.
    pub(super) fn holds(&self, ticket: &Ticket, session: SessionId, fence: u64) {
        self.lines.leave(ticket.id);
        if self.tickets.held(ticket, session, fence) {
            self.stir.notify_one();
        }
    }
}

impl Drop for TableClient {
    fn drop(&mut self) {
        self.quiet();
    }
}

/// The namespaces whose rows are known to be there.
#[derive(Debug, Default)]
pub(super) struct KnownNamespaces(Mutex<HashSet<Namespace>>);

impl KnownNamespaces {
    pub(super) fn contains(&self, space: &Namespace) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(space)
    }

    pub(super) fn insert(&self, space: &Namespace) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(space.clone());
    }
}
