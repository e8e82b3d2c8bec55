//! One connection to a PostgreSQL.

mod tls;
mod values;

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_core::Stream;
use rustix::net::sockopt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, RowStream, Statement};

use self::tls::{Connector, PostgresTls};
use super::facts::ServerFacts;
use super::fault::{self, SqlFault};
use super::notice::{Notice, NoticeSender};
use super::settings::{ConnectionUse, DatabaseSettings, Encrypt};
use super::transaction;
use super::value::{Reply, ReplyRow, SqlStep, Value};
use crate::clock::Clock;
use crate::engines::kit::hosts::ServerAddress;
use crate::error::Result;
use crate::home::Handle;

/// A connection. Statements may be sent before the answer to the last has come;
/// a transaction needs it alone.
pub(super) struct Postgres {
    client: Client,
    driver: AbortHandle,
    /// Closed when the driver has ended.
    alive: watch::Receiver<()>,
    prepared: Mutex<HashMap<Arc<str>, Statement>>,
    /// Behind a pooler a statement cannot be prepared: the next one may find
    /// itself in another session.
    pooled: AtomicBool,
    /// Our end of the connection, as we see it.
    port: Option<u16>,
    cancel: Cancel,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Postgres {
    pub(super) async fn open(
        address: &ServerAddress,
        settings: &DatabaseSettings,
        notices: Option<NoticeSender>,
    ) -> Result<Self> {
        let tls = Connector::new(address, &settings.tls)?;
        let stream = connect(address).await?;
        let port = stream.local_addr().ok().map(|it| it.port());
        let made = config(settings).connect_raw(stream, tls.clone()).await;
        let (client, connection) = made.map_err(|cause| fault::postgres::at_door(&cause))?;
        let (living, alive) = watch::channel(());
        let driver = Handle::current().spawn(drive(connection, notices, living)).abort_handle();
        let cancel = Cancel { token: client.cancel_token(), address: address.clone(), tls };
        let (prepared, pooled) = (Mutex::default(), AtomicBool::new(false));
        Ok(Self { client, driver, alive, prepared, pooled, port, cancel })
    }

    /// What kind of server this is.
    pub(super) async fn look(&self, clock: &Clock) -> Result<ServerFacts, SqlFault> {
        let row = self.alone(LOOK, clock).await?;
        let through = row.maybe_int(2)? != self.port.map(i64::from);
        Ok(ServerFacts { read_only: row.int(0)? != 0, rank: row.int(1)?, through })
    }

    /// Which server this is.
    pub(super) async fn place(
        &self,
        _: &DatabaseSettings,
        clock: &Clock,
    ) -> Result<String, SqlFault> {
        Ok(self.alone(PLACE, clock).await?.text(0)?.to_owned())
    }

    /// The process that serves us now.
    pub(super) async fn backend(&self, clock: &Clock) -> Result<i64, SqlFault> {
        Ok(self.alone("SELECT pg_backend_pid()", clock).await?.int(0)?)
    }

    async fn alone(&self, sql: &str, clock: &Clock) -> Result<ReplyRow, SqlFault> {
        let reply = self.typed(sql, &[], clock).await?;
        reply.rows.into_iter().next().ok_or_else(|| fault::odd("no answer to a question").into())
    }

    pub(super) fn set_pooled(&self) {
        self.pooled.store(true, Ordering::Relaxed);
    }

    pub(super) fn behind_pooler(&self) -> bool {
        self.pooled.load(Ordering::Relaxed)
    }

    /// Tells the session how we work. That of a pooler is not ours to change.
    pub(super) async fn settle(
        &self,
        settings: &DatabaseSettings,
        kind: ConnectionUse,
        clock: &Clock,
    ) -> Result<(), SqlFault> {
        if self.behind_pooler() {
            return Ok(());
        }
        let wanted: Vec<String> =
            limits(settings, kind).map(|(name, value)| format!("('{name}', '{value}')")).collect();
        // Only what this version knows.
        let sql = format!(
            "SELECT set_config(name, wanted.value, false) FROM pg_catalog.pg_settings \
             JOIN (VALUES {}) AS wanted (name, value) USING (name)",
            wanted.join(", ")
        );
        self.typed(&sql, &[], clock).await.map(drop)
    }

    /// One statement; others may be under way.
    pub(super) async fn run(
        &self,
        sql: &Arc<str>,
        values: &[Value],
        clock: &Clock,
    ) -> Result<Reply, SqlFault> {
        if self.behind_pooler() {
            return self.typed(sql, values, clock).await;
        }
        let said = self.prepared(sql, values, clock).await;
        if said.as_ref().is_err_and(|fault| fault.again) {
            // Its plan may be the reason.
            self.known().remove(sql);
        }
        said
    }

    /// One after the other: the second leaves before the first is answered.
    pub(super) async fn run_both(
        &self,
        [first, then]: &[SqlStep; 2],
        clock: &Clock,
    ) -> Result<[Reply; 2], SqlFault> {
        if !self.behind_pooler() {
            // What has to be prepared first would be overtaken.
            self.prepare(&first.sql, &first.values).await.map_err(SqlFault::undone)?;
            self.prepare(&then.sql, &then.values).await.map_err(SqlFault::undone)?;
        }
        let (one, other) = tokio::join!(
            biased;
            self.run(&first.sql, &first.values, clock),
            self.run(&then.sql, &then.values, clock),
        );
        Ok([one?, other.map_err(SqlFault::unknown)?])
    }

    pub(super) async fn batch(&self, sql: &str) -> Result<(), SqlFault> {
        self.client.batch_execute(sql).await.map_err(|cause| self.fault(&cause))
    }

    /// All steps or none; `None` if one that had to meet a row did not.
    pub(super) async fn transact(
        &self,
        steps: &[SqlStep],
        settings: &DatabaseSettings,
        clock: &Clock,
    ) -> Result<Option<Vec<Reply>>, SqlFault> {
        transaction::run(&mut &*self, &begin(settings), steps, clock).await
    }

    async fn prepared(
        &self,
        sql: &Arc<str>,
        values: &[Value],
        clock: &Clock,
    ) -> Result<Reply, SqlFault> {
        let statement = self.prepare(sql, values).await.map_err(SqlFault::undone)?;
        let sent_at = clock.now();
        let stream = self.client.query_raw(&statement, values).await;
        let (rows, affected) = collect(stream.map_err(|cause| self.fault(&cause))?).await?;
        Ok(Reply { rows, affected, last_id: 0, sent_at })
    }

    async fn prepare(&self, sql: &Arc<str>, values: &[Value]) -> Result<Statement, SqlFault> {
        if let Some(statement) = self.known().get(sql) {
            return Ok(statement.clone());
        }
        let types: Vec<_> = values.iter().map(values::type_of).collect();
        let made = self.client.prepare_typed(sql, &types).await;
        let made = made.map_err(|cause| self.fault(&cause))?;
        self.known().insert(Arc::clone(sql), made.clone());
        Ok(made)
    }

    /// In one go, and nothing stays behind.
    async fn typed(&self, sql: &str, values: &[Value], clock: &Clock) -> Result<Reply, SqlFault> {
        let sent_at = clock.now();
        let typed = values.iter().map(|value| (value, values::type_of(value)));
        let stream = self.client.query_typed_raw(sql, typed).await;
        let (rows, affected) = collect(stream.map_err(|cause| self.fault(&cause))?).await?;
        Ok(Reply { rows, affected, last_id: 0, sent_at })
    }

    /// A pooler that was not seen before shows itself by what it forgets.
    fn fault(&self, cause: &tokio_postgres::Error) -> SqlFault {
        if matches!(cause.code().map(SqlState::code), Some("26000" | "42P05")) {
            self.set_pooled();
        }
        fault::postgres::of(cause)
    }

    pub(super) fn close(&self) {
        self.driver.abort();
    }

    pub(super) fn alive(&self) -> watch::Receiver<()> {
        self.alive.clone()
    }

    /// Asks the server to stop what it does for us; it may be done already.
    pub(super) fn cancel(&self) -> impl Future<Output = ()> + Send + use<> {
        self.cancel.clone().send()
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Statement>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl transaction::TransactionSession for &Postgres {
    async fn say(
        &mut self,
        sql: &Arc<str>,
        values: &[Value],
        clock: &Clock,
    ) -> Result<Reply, SqlFault> {
        self.run(sql, values, clock).await
    }

    async fn tell(&mut self, sql: &str) -> Result<(), SqlFault> {
        self.batch(sql).await
    }
}

/// Whether it takes writes, how often its line was promoted, and our port as the
/// server sees it. The name of a log file begins with its timeline.
const LOOK: &str = "\
SELECT CASE WHEN pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' \
            THEN 1 ELSE 0 END, \
       CASE WHEN pg_is_in_recovery() THEN 0 \
            ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int8 END, \
       inet_client_port()";

/// No two servers began in the same microsecond, with the same port.
const PLACE: &str = "\
SELECT CAST(pg_postmaster_start_time() AS text) || ' ' || current_setting('port')";

/// What a session is told. A connection of one's own may rest for as long as it
/// likes and wait for as long as it is asked to, but a client that has vanished
/// must be noticed.
fn limits(
    settings: &DatabaseSettings,
    kind: ConnectionUse,
) -> impl Iterator<Item = (&'static str, String)> {
    let millis = |span: Duration| format!("{}ms", span.as_millis());
    let shared = kind == ConnectionUse::Shared;
    let or_never = move |span: Duration| if shared { millis(span) } else { "0".into() };
    [
        ("statement_timeout", or_never(settings.work())),
        ("lock_timeout", or_never(settings.patience())),
        ("idle_in_transaction_session_timeout", or_never(settings.timeout)),
        ("idle_session_timeout", "0".to_owned()),
        ("default_transaction_isolation", "read committed".to_owned()),
        ("client_min_messages", "error".to_owned()),
        ("client_connection_check_interval", "1s".to_owned()),
        ("tcp_keepalives_idle", "5".to_owned()),
        ("tcp_keepalives_interval", "2".to_owned()),
        ("tcp_keepalives_count", "3".to_owned()),
        // An answer that nobody takes in puts the questions off for minutes.
        ("tcp_user_timeout", "15s".to_owned()),
    ]
    .into_iter()
}

/// Also behind a pooler a client that pauses in the middle blocks nobody for
/// long.
fn begin(settings: &DatabaseSettings) -> String {
    let (work, patience) = (settings.work().as_millis(), settings.patience().as_millis());
    let rest = settings.timeout.as_millis();
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {work}; \
         SET LOCAL lock_timeout = {patience}; \
         SET LOCAL idle_in_transaction_session_timeout = {rest}"
    )
}

fn config(settings: &DatabaseSettings) -> Config {
    let mut config = Config::new();
    config.user(&settings.target.login.user).dbname(&settings.target.database);
    config.application_name("leasehold");
    config.ssl_mode(match settings.tls.encrypt {
        Encrypt::Never => SslMode::Disable,
        Encrypt::IfOffered => SslMode::Prefer,
        Encrypt::Always => SslMode::Require,
    });
    if let Some(password) = &settings.target.login.password {
        config.password(password);
    }
    config
}

async fn connect(address: &ServerAddress) -> Result<TcpStream> {
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
    let stream = stream.and_then(|stream| prepare(&stream).map(|()| stream));
    stream.map_err(|cause| fault::away("cannot connect").caused_by(cause))
}

/// A connection that rests has to notice that the other side has vanished.
fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(2))?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    Ok(())
}

/// Reads and writes until the connection ends.
async fn drive(
    mut connection: Connection<TcpStream, PostgresTls>,
    notices: Option<NoticeSender>,
    living: watch::Sender<()>,
) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let (AsyncMessage::Notification(said), Some(notices)) = (message, &notices) {
            let _ = notices.send(Notice::Said(said.payload().to_owned()));
        }
    }
    drop(living);
}

async fn collect(stream: RowStream) -> Result<(Vec<ReplyRow>, u64), SqlFault> {
    let mut stream = pin!(stream);
    let mut rows = Vec::new();
    while let Some(row) = poll_fn(|context| stream.as_mut().poll_next(context)).await {
        rows.push(values::read(&row.map_err(|cause| fault::postgres::of(&cause))?)?);
    }
    Ok((rows, stream.rows_affected().unwrap_or_default()))
}

/// What it takes to stop a statement from outside its connection.
#[derive(Clone)]
struct Cancel {
    token: tokio_postgres::CancelToken,
    address: ServerAddress,
    tls: Connector,
}

impl Cancel {
    async fn send(self) {
        if let Ok(stream) = connect(&self.address).await {
            // Nobody answers, whatever comes of it.
            let _ = self.token.cancel_query_raw(stream, self.tls).await;
        }
    }
}
