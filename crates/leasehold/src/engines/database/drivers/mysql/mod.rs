//! One connection to a MySQL or MariaDB.

mod values;

use std::collections::HashMap;
use std::sync::Arc;

use mysql_async::prelude::Queryable;
use mysql_async::{ClientIdentity, Conn, DriverError, Error as Cause, Opts, OptsBuilder, SslOpts};
use tokio::sync::{Mutex, watch};

use super::facts::ServerFacts;
use super::fault::{self, SqlFault};
use super::settings::{ConnectionUse, DatabaseSettings, Encrypt, Tls};
use super::transaction::{self, TransactionSession};
use super::value::{Reply, ReplyRow, SqlStep, Value};
use crate::clock::Clock;
use crate::engines::database::dialect::SILENCE;
use crate::engines::kit::hosts::ServerAddress;
use crate::engines::kit::tls;
use crate::error::Result;

/// How many statements a connection keeps prepared.
const PREPARED: usize = 128;
/// How long a text that is put together from many rows may be: what MariaDB has
/// unless its operator has changed it.
const TEXT_MAX: u32 = 1 << 20;
/// When the system asks whether the other side is still there.
const KEEPALIVE: std::time::Duration = std::time::Duration::from_secs(5);

/// A connection, for one statement or transaction at a time.
pub(super) struct Mysql {
    /// Empty while one is under way and after one that did not end: what is left
    /// of its answer would be taken for the next.
    live: Mutex<Option<Live>>,
    alive: watch::Receiver<()>,
    id: u32,
    opts: Opts,
}

struct Live {
    conn: Conn,
    /// Closes the receiver with the connection.
    _living: watch::Sender<()>,
}

impl Mysql {
    pub(super) async fn open(address: &ServerAddress, settings: &DatabaseSettings) -> Result<Self> {
        let (conn, opts) = dial(address, settings).await?;
        let (_living, alive) = watch::channel(());
        let id = conn.id();
        Ok(Self { live: Mutex::new(Some(Live { conn, _living })), alive, id, opts })
    }

    /// What kind of server this is.
    pub(super) async fn look(&self, clock: &Clock) -> Result<ServerFacts, SqlFault> {
        let row = self.ask("SELECT @@global.read_only", clock).await?;
        Ok(ServerFacts { read_only: row.int(0)? != 0, rank: 0, through: false })
    }

    /// Which server this is, or which cluster that has no two of anything.
    pub(super) async fn place(
        &self,
        settings: &DatabaseSettings,
        clock: &Clock,
    ) -> Result<String, SqlFault> {
        let mut facts = self.facts(SERVER, clock).await?;
        facts.extend(self.facts(CLUSTER, clock).await?);
        Ok(place(&facts, settings.apart))
    }

    /// What a server says of itself, by names in lower case.
    async fn facts(&self, sql: &str, clock: &Clock) -> Result<Variables, SqlFault> {
        let told = self.run(&sql.into(), &[], clock).await?.rows;
        let facts = told.iter().map(|row| Ok((row.text(0)?.to_lowercase(), row.text(1)?.into())));
        Ok(facts.collect::<Result<_>>()?)
    }

    /// Tells the session how we work.
    pub(super) async fn settle(
        &self,
        settings: &DatabaseSettings,
        kind: ConnectionUse,
        clock: &Clock,
    ) -> Result<(), SqlFault> {
        let facts = self.facts(SESSION, clock).await?;
        self.batch(&limits(settings, kind, &facts)).await?;
        self.batch("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await
    }

    async fn ask(&self, sql: &str, clock: &Clock) -> Result<ReplyRow, SqlFault> {
        let reply = self.run(&sql.into(), &[], clock).await?;
        reply.rows.into_iter().next().ok_or_else(|| fault::odd("no answer to a question").into())
    }

    pub(super) async fn run(
        &self,
        sql: &Arc<str>,
        values: &[Value],
        clock: &Clock,
    ) -> Result<Reply, SqlFault> {
        self.with(async |conn| conn.say(sql, values, clock).await).await
    }

    pub(super) async fn run_both(
        &self,
        [first, then]: &[SqlStep; 2],
        clock: &Clock,
    ) -> Result<[Reply; 2], SqlFault> {
        self.with(async |conn| {
            let one = conn.say(&first.sql, &first.values, clock).await?;
            let other = conn.say(&then.sql, &then.values, clock).await;
            Ok([one, other.map_err(SqlFault::unknown)?])
        })
        .await
    }

    pub(super) async fn batch(&self, sql: &str) -> Result<(), SqlFault> {
        self.with(async |conn| conn.tell(sql).await).await
    }

    pub(super) async fn transact(
        &self,
        steps: &[SqlStep],
        _: &DatabaseSettings,
        clock: &Clock,
    ) -> Result<Option<Vec<Reply>>, SqlFault> {
        self.with(async |conn| transaction::run(conn, "START TRANSACTION", steps, clock).await)
            .await
    }

    /// The connection comes back only if all went to its end.
    async fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T, SqlFault>,
    ) -> Result<T, SqlFault> {
        let mut slot = self.live.lock().await;
        let mut live = slot.take().ok_or_else(SqlFault::gone)?;
        let done = work(&mut live.conn).await;
        if !done.as_ref().is_err_and(|fault| fault.broken) {
            *slot = Some(live);
        }
        done
    }

    /// Unless it is in use: then it ends with its use.
    pub(super) fn close(&self) {
        if let Ok(mut slot) = self.live.try_lock() {
            slot.take();
        }
    }

    pub(super) fn alive(&self) -> watch::Receiver<()> {
        self.alive.clone()
    }

    /// Asks the server to stop what it does for us; it may be done already.
    pub(super) fn cancel(&self) -> impl Future<Output = ()> + Send + use<> {
        let (opts, id) = (self.opts.clone(), self.id);
        async move {
            if let Ok(mut conn) = Conn::new(opts).await {
                let _ = conn.query_drop(format!("KILL QUERY {id}")).await;
            }
        }
    }
}

impl TransactionSession for Conn {
    async fn say(
        &mut self,
        sql: &Arc<str>,
        values: &[Value],
        clock: &Clock,
    ) -> Result<Reply, SqlFault> {
        let failed = |cause| fault::mysql::of(&cause);
        let prepared = self.prep(sql.as_ref()).await;
        let prepared = prepared.map_err(|cause| failed(cause).undone())?;
        let sent_at = clock.now();
        let mut result = self.exec_iter(&prepared, values::params(values)).await.map_err(failed)?;
        let found: Vec<mysql_async::Row> = result.collect().await.map_err(failed)?;
        let affected = result.affected_rows();
        let last_id = result.last_insert_id().unwrap_or_default();
        result.drop_result().await.map_err(failed)?;
        let rows = found.into_iter().map(values::read).collect::<Result<_>>()?;
        Ok(Reply { rows, affected, last_id, sent_at })
    }

    async fn tell(&mut self, sql: &str) -> Result<(), SqlFault> {
        self.query_drop(sql).await.map_err(|cause| fault::mysql::of(&cause))
    }
}

/// What a server says of itself.
type Variables = HashMap<String, String>;

/// What only some servers have is not asked for by name.
const SESSION: &str = "\
SHOW SESSION VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'wsrep_on', \
'group_replication_group_name', 'group_replication_consistency')";
const SERVER: &str = "\
SHOW GLOBAL VARIABLES WHERE Variable_name IN \
('hostname', 'port', 'datadir', 'server_id', 'group_replication_group_name')";
const CLUSTER: &str = "\
SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_state_uuid', 'wsrep_cluster_status')";

fn fact<'a>(facts: &'a Variables, name: &str) -> &'a str {
    facts.get(name).map(String::as_str).unwrap_or_default()
}

/// A cluster that certifies every commit is one place; what only copies is not,
/// nor is one for what is never committed.
fn place(facts: &Variables, apart: bool) -> String {
    let fact = |name: &str| fact(facts, name);
    let (galera, group) = (fact("wsrep_cluster_state_uuid"), fact("group_replication_group_name"));
    if fact("wsrep_cluster_status") == "Primary" && !apart {
        return format!("galera {galera}");
    }
    if !group.is_empty() && !apart {
        return format!("group {group}");
    }
    ["hostname", "port", "datadir", "server_id"].map(fact).join(" ")
}

/// In a cluster a server may be behind the others: it is to wait until it has
/// all that was committed anywhere before it reads or changes anything.
fn in_step(facts: &Variables) -> Option<String> {
    if fact(facts, "wsrep_on").eq_ignore_ascii_case("on") {
        // Reads 1, updates and deletes 2, inserts 4.
        return Some("wsrep_sync_wait = 7".into());
    }
    let grouped = !fact(facts, "group_replication_group_name").is_empty();
    let knows = facts.contains_key("group_replication_consistency");
    (grouped && knows).then(|| "group_replication_consistency = 'BEFORE'".into())
}

/// What a session is told. A connection of one's own may wait for as long as it
/// is asked to. If it rests for longer than we let it, its client has vanished.
fn limits(settings: &DatabaseSettings, kind: ConnectionUse, facts: &Variables) -> String {
    let mut wanted = vec![
        "autocommit = 1".to_owned(),
        // Where clocks are set back, an hour would come twice.
        "time_zone = '+00:00'".into(),
        "sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'".into(),
        format!("innodb_lock_wait_timeout = {}", settings.patience().as_secs().max(1)),
        // MariaDB cuts a line that is longer, with no more than a warning.
        format!("group_concat_max_len = {TEXT_MAX}"),
    ];
    let version = ["version", "version_comment"].map(|name| fact(facts, name).to_lowercase());
    let mariadb = version.iter().any(|text| text.contains("mariadb"));
    let work = settings.work();
    wanted.extend(in_step(facts).filter(|_| kind == ConnectionUse::Shared));
    match (kind, mariadb) {
        (ConnectionUse::Own, _) => wanted.push(format!("wait_timeout = {SILENCE}")),
        (ConnectionUse::Shared, true) => {
            wanted.push(format!("max_statement_time = {}", work.as_secs_f64()));
            let rest = settings.timeout.as_secs().max(1);
            wanted.push(format!("idle_transaction_timeout = {rest}"));
        }
        (ConnectionUse::Shared, false) => {
            wanted.push(format!("max_execution_time = {}", work.as_millis()));
            wanted.push(format!("wait_timeout = {SILENCE}"));
        }
    }
    format!("SET SESSION {}", wanted.join(", SESSION "))
}

/// Encrypted if that is wanted and offered.
async fn dial(address: &ServerAddress, settings: &DatabaseSettings) -> Result<(Conn, Opts)> {
    let plain = options(address, settings);
    let Some(ssl) = ssl(&settings.tls)? else { return open(plain).await };
    let secure: Opts = OptsBuilder::from_opts(plain.clone()).ssl_opts(ssl).into();
    match Conn::new(secure.clone()).await {
        Ok(conn) => Ok((conn, secure)),
        Err(Cause::Driver(DriverError::NoClientSslFlagFromServer))
            if settings.tls.encrypt == Encrypt::IfOffered =>
        {
            open(plain).await
        }
        Err(cause) => Err(fault::mysql::at_door(&cause)),
    }
}

async fn open(opts: Opts) -> Result<(Conn, Opts)> {
    let made = Conn::new(opts.clone()).await;
    made.map(|conn| (conn, opts)).map_err(|cause| fault::mysql::at_door(&cause))
}

fn options(address: &ServerAddress, settings: &DatabaseSettings) -> Opts {
    let login = &settings.target.login;
    let builder = OptsBuilder::default()
        .ip_or_hostname(&address.host)
        .tcp_port(address.port)
        .user(Some(&login.user))
        .pass(login.password.as_ref())
        .db_name(Some(&settings.target.database))
        .prefer_socket(false)
        .stmt_cache_size(PREPARED)
        .tcp_keepalive(Some(KEEPALIVE))
        // As PostgreSQL counts: what an update met, changed or not.
        .client_found_rows(true)
        .connect_attribute("program_name", "leasehold");
    builder.into()
}

/// The driver reads the files itself, at every connection; it says less about
/// what is wrong with them than our own reading of them.
fn ssl(settings: &Tls) -> Result<Option<SslOpts>> {
    let Tls { encrypt, verify, files } = settings;
    if *encrypt == Encrypt::Never {
        return Ok(None);
    }
    tls::config(files)?;
    choose_provider();
    let own = files.own.clone();
    let own = own.map(|(cert, key)| ClientIdentity::new(cert.into(), key.into()));
    let ssl = SslOpts::default()
        .with_root_certs(files.ca.iter().map(|path| path.clone().into()).collect())
        .with_disable_built_in_roots(files.ca.is_some())
        .with_client_identity(own)
        .with_danger_accept_invalid_certs(!verify);
    Ok(Some(ssl))
}

/// The driver takes the provider of the process, and panics if there are two to
/// choose from and nobody has chosen.
fn choose_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Whoever was faster has chosen.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::Url;

    fn facts(told: &[(&str, &str)]) -> Variables {
        told.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_cluster_is_one_place_but_not_for_what_each_server_keeps_to_itself() {
        let galera = [("wsrep_cluster_state_uuid", "c"), ("wsrep_cluster_status", "Primary")];
        for cluster in [&galera[..], &[("group_replication_group_name", "g")]] {
            let [one, two] = ["1", "2"].map(|id| {
                let mut node = facts(cluster);
                node.insert("server_id".into(), id.into());
                node
            });
            assert_eq!(place(&one, false), place(&two, false), "{cluster:?}");
            assert_ne!(place(&one, true), place(&two, true), "{cluster:?}");
        }
    }

    #[test]
    fn a_server_of_a_cluster_is_told_to_keep_in_step_and_no_other() {
        let url = Url::parse("mysql://me@h/d").unwrap();
        let settings = DatabaseSettings::from_url(&url).unwrap();
        let said = |told: &[(&str, &str)], kind| limits(&settings, kind, &facts(told));
        let galera = [("version", "10.11-MariaDB"), ("wsrep_on", "ON")];
        assert!(said(&galera, ConnectionUse::Shared).contains("wsrep_sync_wait = 7"));
        assert!(!said(&galera, ConnectionUse::Own).contains("wsrep_sync_wait"));
        let group = |name| {
            [("group_replication_consistency", "EVENTUAL"), ("group_replication_group_name", name)]
        };
        assert!(said(&group("g"), ConnectionUse::Shared).contains("group_replication_consistency"));
        let alone = [&[("wsrep_on", "OFF")][..], &group(""), &[("version", "8.0.36")]];
        for alone in alone {
            let said = said(alone, ConnectionUse::Shared);
            assert!(!said.contains("wsrep") && !said.contains("group_replication"), "{said}");
        }
    }
}
