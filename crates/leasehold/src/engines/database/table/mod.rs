//! The lease table: the default strategy on a database server.
//!
//! A row per name holds the state of the pure core. Taking a free name and
//! giving it back are one statement each; everything else is a guess that is
//! swapped in ([`swap`]). What keeps leases alive is a row per client and ttl
//! ([`session`]). All time is the database's.

mod acquire;
mod client;
mod clock_offset;
mod columns;
mod errand;
mod line_change;
mod name_versions;
mod names;
mod news;
mod operate;
mod outlook;
mod own_lines;
mod own_sessions;
mod poller;
mod records;
mod release;
mod renew;
mod row;
mod rows_sql;
mod schema;
mod seats;
mod session;
mod statements;
mod swap;
mod sweep;
mod sweep_sql;
#[cfg(test)]
mod tests;
mod text;
mod turns;
mod unconfirmed;
mod wait;
mod wakes;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::client::{KnownNamespaces, TableClient};
use self::clock_offset::ClockOffset;
use self::names::TableNames;
use self::outlook::Tickets;
use self::own_lines::OwnLines;
use self::own_sessions::TableSessions;
use self::records::TableChanges;
use self::records::change_log::ChangeLog;
use self::records::statements::RecordSql;
use self::seats::SeatSql;
use self::statements::LeaseSql;
use self::sweep_sql::SweepSql;
use self::turns::Turns;
use self::unconfirmed::UnconfirmedClaims;
use self::wakes::Wakes;
use super::checkup;
use crate::claim::{
    Claim, Ending, Mode, RawRecord, Refresh, Released, Renewal, Store, Ticket, Verdict, Wake,
};
use crate::clock::{Clock, Moment};
use crate::engine::profile::{
    Fencing, Grants, Lists, Liveness, Order, Reach, Survives, Timekeeper, WakeUp,
};
use crate::engine::{
    BoxFuture, Engine, Events, Evicted, Eviction, Finding, Listing, Page, Profile, RecordEvents,
    RecordListing, RecordStore, Scope, Selector,
};
use crate::engines::database::dialect::Family;
use crate::engines::database::pool::Pool;
use crate::engines::kit::record_watch::RecordWatchers;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;
use crate::name::Name;
use crate::url::Url;

/// How long the last words to a server may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// Leases in tables of a database server.
#[derive(Clone, Debug)]
struct Table(Arc<TableClient>);

/// The tables as text, for those who create them by hand.
pub(crate) fn schema_text(
    family: &'static dyn Family,
    prefix: Option<&str>,
    schema: Option<&str>,
) -> Result<String> {
    Ok(schema::text(&TableNames::new(family, schema, prefix.unwrap_or(names::PREFIX))?))
}

/// Opens the strategy on a server that is reached.
pub(crate) async fn open(pool: Pool, url: &Url, clock: Clock) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(Table::open(pool, url, clock).await?))
}

impl Table {
    async fn open(pool: Pool, url: &Url, clock: Clock) -> Result<Self> {
        let names = TableNames::from_options(pool.family(), &url.options)?;
        let wakes = Wakes::from_options(&url.options, &pool)?;
        schema::prepare(&pool, &names).await?;
        let inner = Arc::new(TableClient {
            profile: promises(&pool, wakes, checkup::survives(&pool).await),
            statements: LeaseSql::new(&names),
            seats: SeatSql::new(&names),
            listing: operate::listing(&names),
            records: RecordSql::new(&names),
            changes: ChangeLog::new(&names),
            watchers: RecordWatchers::default(),
            namespaces: KnownNamespaces::default(),
            home: Handle::current(),
            versions: name_versions::versions(&names),
            sweeping: SweepSql::new(&names),
            busy_at: AtomicU64::new(0),
            client: session::fresh_id(),
            own_sessions: TableSessions::default(),
            tickets: Tickets::default(),
            lines: OwnLines::default(),
            breaks: AtomicU64::new(0),
            turns: Turns::default(),
            clock_offset: ClockOffset::default(),
            unconfirmed: UnconfirmedClaims::default(),
            stir: Arc::default(),
            tasks: Mutex::default(),
            wakes,
            clock,
            pool,
        });
        inner.look_at_the_clock().await?;
        inner.start(poller::Poller::new(&inner).watch());
        Ok(Self(inner))
    }
}

fn promises(pool: &Pool, wakes: Wakes, survives: Survives) -> Profile {
    let mut profile = Profile::new(pool.family().word(), pool.endpoint());
    profile.grants = Grants::Counted;
    profile.fencing = Fencing::Strict;
    profile.order = Order::Fifo;
    profile.liveness = Liveness::Session;
    profile.clock = Timekeeper::Server;
    profile.wake = if wakes.push { WakeUp::Push } else { WakeUp::Poll };
    profile.reach = Reach::Network;
    profile.survives = survives;
    profile.listing = Lists::Indexed;
    profile.predecessor = true;
    profile.lock_delay = true;
    profile.keep_closed = true;
    profile.convert = true;
    profile
}

impl TableClient {
    /// The first look at the server's clock, and whether it is new enough.
    async fn look_at_the_clock(&self) -> Result<()> {
        let reply = self.run(&self.statements.clock, Vec::new()).await.map_err(too_old)?;
        if let Some(row) = reply.rows.first() {
            self.clock_offset.note(columns::moment(row.int(0)?), reply.sent_at);
        }
        Ok(())
    }
}

/// A server that cannot be asked what every load asks.
fn too_old(error: Error) -> Error {
    if error.is_retryable() || error.kind() == ErrorKind::Denied {
        return error;
    }
    let message =
        "the server is too old: use PostgreSQL 12, MariaDB 10.6 or MySQL 8.0.14, or later";
    Error::new(ErrorKind::Unsupported, message).caused_by(error)
}

impl Engine for Table {
    fn profile(&self) -> &Profile {
        &self.0.profile
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let inner = Arc::clone(&self.0);
        inner.note_work();
        Box::pin(async move { inner.acquire(claim).await })
    }

    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { Ok(inner.wait(ticket, until).await) })
    }

    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.renew(tickets).await })
    }

    fn release(&self, ticket: Ticket, ending: Ending) -> BoxFuture<Result<Released>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.release(ticket, ending).await })
    }

    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.convert(ticket, to).await })
    }

    fn events(&self) -> Events {
        self.0.pool.events()
    }

    fn inspect(&self, selector: Selector, page: Page) -> BoxFuture<Result<Listing>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.inspect(selector, page).await })
    }

    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.evict(eviction).await })
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        let pool = self.0.pool.clone();
        Box::pin(async move { checkup::examine(&pool).await })
    }

    fn records(&self) -> Option<&dyn RecordStore> {
        Some(self)
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let limit = inner.clock.now().after(FAREWELL);
            tokio::select! {
                biased;
                () = inner.end_idle() => {}
                () = inner.clock.sleep_until(limit) => {}
            }
            inner.quiet();
            inner.pool.close();
            Ok(())
        })
    }
}

impl RecordStore for Table {
    fn load(&self, name: Name) -> BoxFuture<Result<Option<RawRecord>>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.record(&name).await })
    }

    fn store(&self, store: Store) -> BoxFuture<Result<Result<u64, Option<RawRecord>>>> {
        let inner = Arc::clone(&self.0);
        inner.note_work();
        Box::pin(async move { inner.store(store).await })
    }

    fn add(&self, name: Name, amount: i64) -> BoxFuture<Result<i64>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.add(name, amount).await })
    }

    fn list(&self, scope: Scope, page: Page) -> BoxFuture<Result<RecordListing>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.list_records(scope, page).await })
    }

    fn watch(&self, scope: Scope) -> BoxFuture<Result<Box<dyn RecordEvents>>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let watching = TableChanges::watch(inner, scope).await?;
            Ok(Box::new(watching) as Box<dyn RecordEvents>)
        })
    }
}
