//! The lease table on PostgreSQL and MariaDB, beside the pure core and the
//! server's own books.

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::claim::{Claim, Ending, Owner, Refresh, Renewal, Stance, Ticket, Verdict};
use leasehold::engine::{Eviction, Page, Selector, Status, Target};
use leasehold::{Engine, ErrorKind, Locks, Mode, Moment, Name, Namespace};
use leasehold_testkit::server::{Plan, Server};

type Checked<T = ()> = Result<T, Box<dyn std::error::Error>>;

const HOUR: Duration = Duration::from_secs(3600);

fn name(text: &str) -> Name {
    Name::new(&Namespace::default(), text).expect("a good name")
}

/// The pure core, and two clients of a server that must do the same.
struct Twins {
    core: Arc<dyn Engine>,
    real: [Arc<dyn Engine>; 2],
    /// Every ticket, and which client has it.
    tickets: Vec<(Ticket, usize)>,
    /// The largest fence that was seen of each name.
    fences: HashMap<String, u64>,
    _locks: Vec<Locks>,
}

/// What came of a step, as far as it must be the same.
type Seen = String;

impl Twins {
    async fn new(url: &str) -> Checked<Self> {
        let core = Locks::memory();
        let real = [leasehold::open(url).await?, leasehold::open(url).await?];
        Ok(Self {
            core: core.engine(),
            real: [real[0].engine(), real[1].engine()],
            tickets: Vec::new(),
            fences: HashMap::new(),
            _locks: [vec![core], real.to_vec()].concat(),
        })
    }

    async fn step(&mut self, random: &mut fastrand::Rng) -> Checked {
        let action = random.u8(..100);
        match action {
            0..45 => self.claim(random).await?,
            45..75 => self.release(random).await?,
            75..85 => self.renew(random).await?,
            85..93 => self.convert(random).await?,
            _ => self.evict(random).await?,
        }
        for text in ["a", "b"] {
            self.compare(text).await?;
        }
        Ok(())
    }

    async fn claim(&mut self, random: &mut fastrand::Rng) -> Checked {
        let again = random.bool().then(|| random.choice(self.tickets.clone())).flatten();
        let fresh = (
            Ticket::new(name(random.choice(["a", "b"]).unwrap_or("a")), mode(random)),
            random.usize(..2),
        );
        let (ticket, at) = again.unwrap_or(fresh);
        let owner = Owner::new(format!("{}", self.tickets.len()));
        let mut claim = Claim::new(ticket.clone(), owner, HOUR);
        if random.bool() {
            claim.stance = Stance::Wait { until: Moment::NEVER };
        }
        let core = verdict(self.core.acquire(claim.clone()).await);
        let real = verdict(self.real[at].acquire(claim).await);
        assert_eq!(core, real, "a claim of {ticket:?}");
        if !self.tickets.iter().any(|(known, _)| known.id == ticket.id) {
            self.tickets.push((ticket, at));
        }
        Ok(())
    }

    async fn release(&mut self, random: &mut fastrand::Rng) -> Checked {
        if self.tickets.is_empty() {
            return Ok(());
        }
        let (ticket, at) = self.tickets.swap_remove(random.usize(..self.tickets.len()));
        let ending = if random.u8(..4) == 0 { Ending::cut_off() } else { Ending::new() };
        let core = self.core.release(ticket.clone(), ending.clone()).await?;
        let real = self.real[at].release(ticket, ending).await?;
        assert_eq!(core, real, "a release");
        Ok(())
    }

    async fn renew(&mut self, random: &mut fastrand::Rng) -> Checked {
        let Some((ticket, at)) = random.choice(self.tickets.clone()) else { return Ok(()) };
        let refresh = vec![Refresh::new(ticket, HOUR)];
        let core = renewal(&self.core.renew(refresh.clone()).await[0]);
        let real = renewal(&self.real[at].renew(refresh).await[0]);
        assert_eq!(core, real, "a renewal");
        Ok(())
    }

    async fn convert(&mut self, random: &mut fastrand::Rng) -> Checked {
        let Some((ticket, at)) = random.choice(self.tickets.clone()) else { return Ok(()) };
        let to = mode(random);
        let core = self.core.convert(ticket.clone(), to).await;
        let real = self.real[at].convert(ticket.clone(), to).await;
        let seen = |result: &leasehold::Result<Renewal>| match result {
            Ok(answer) => renewal(answer).to_owned(),
            Err(error) => format!("{:?}", error.kind()),
        };
        assert_eq!(seen(&core), seen(&real), "{ticket:?} to {to}");
        Ok(())
    }

    async fn evict(&mut self, random: &mut fastrand::Rng) -> Checked {
        let Some((ticket, _)) = random.choice(self.tickets.clone()) else { return Ok(()) };
        let target = if random.bool() { Target::All } else { Target::Lease(ticket.id) };
        let eviction = Eviction::new(ticket.name, target, "a test", "of evictions")?;
        let core = self.core.evict(eviction.clone()).await?;
        let real = self.real[random.usize(..2)].evict(eviction).await?;
        let labels = |leases: &[leasehold::engine::Held]| -> Vec<Arc<str>> {
            leases.iter().map(|held| Arc::clone(&held.label)).collect()
        };
        assert_eq!(labels(&core.leases), labels(&real.leases));
        self.bury().await;
        Ok(())
    }

    /// Whoever was evicted hears of it with the next renewal, and never claims
    /// with the same ticket again.
    async fn bury(&mut self) {
        let mut living = Vec::new();
        for (ticket, at) in std::mem::take(&mut self.tickets) {
            let refresh = vec![Refresh::new(ticket.clone(), HOUR)];
            let core = renewal(&self.core.renew(refresh.clone()).await[0]);
            assert_eq!(core, renewal(&self.real[at].renew(refresh).await[0]), "after an eviction");
            if core != "gone" {
                living.push((ticket, at));
            }
        }
        self.tickets = living;
    }

    /// Both show the same, and a holder that is new has the largest fence.
    async fn compare(&mut self, text: &str) -> Checked {
        let selector = || Selector::Name(name(text));
        let core = self.core.inspect(selector(), Page::default()).await?.names.pop();
        let real = self.real[0].inspect(selector(), Page::default()).await?.names.pop();
        let (core, real) = (core.unwrap_or_else(free(text)), real.unwrap_or_else(free(text)));
        assert_eq!(shown(&core), shown(&real));
        let fences: Vec<u64> = real.holders.iter().filter_map(|held| held.fence).collect();
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
        let known = self.fences.entry(text.to_owned()).or_default();
        *known = fences.last().copied().unwrap_or(0).max(*known);
        Ok(())
    }
}

/// A name of which nobody knows anything.
fn free(text: &str) -> impl FnOnce() -> Status {
    move || Status::new(name(text))
}

fn mode(random: &mut fastrand::Rng) -> Mode {
    let permits = |take| Mode::Permits { take, of: 3 };
    let modes = [Mode::Exclusive, Mode::Read, Mode::Write, Mode::Read, permits(1), permits(2)];
    random.choice(modes).unwrap_or(Mode::Exclusive)
}

/// A clean end may be forgotten at once.
fn verdict(verdict: leasehold::Result<Verdict>) -> Seen {
    match verdict {
        Ok(Verdict::Granted(grant)) => {
            let clean = matches!(
                grant.predecessor,
                leasehold::Predecessor::None | leasehold::Predecessor::Released
            );
            format!("granted after {}", if clean { "nobody" } else { "a loss" })
        }
        Ok(Verdict::Busy(busy)) => {
            let holder = busy.holder.map(|holder| holder.label);
            format!("busy: {holder:?}, placed: {}", busy.place.is_some())
        }
        Err(error) => format!("{:?}", error.kind()),
    }
}

const fn renewal(renewal: &Renewal) -> &'static str {
    match renewal {
        Renewal::Held { .. } => "held",
        Renewal::Queued(_) => "queued",
        Renewal::Gone => "gone",
        Renewal::Unknown(_) => "unknown",
    }
}

fn shown(status: &Status) -> Seen {
    let holders: Vec<_> = status.holders.iter().map(|held| (&held.label, held.mode)).collect();
    let waiters: Vec<_> =
        status.waiters.iter().map(|queued| (&queued.label, queued.mode)).collect();
    format!("{holders:?} {waiters:?} {}", status.closed_for.is_some())
}

#[tokio::test]
async fn random_lives_are_those_of_the_pure_core() -> Checked {
    for plan in [Plan::postgres(), Plan::mariadb()] {
        let server = Server::start(plan)?;
        for seed in 0..6 {
            let url = format!("{}?prefix=seed{seed}_", server.url());
            let (mut twins, mut random) = (Twins::new(&url).await?, fastrand::Rng::with_seed(seed));
            for _ in 0..150 {
                twins.step(&mut random).await?;
            }
            assert!(twins.fences.values().all(|fence| *fence > 0), "nothing was granted");
        }
    }
    Ok(())
}

/// How many statements a MariaDB has run.
fn statements(server: &Server) -> Checked<u64> {
    let counted = server.sql("SHOW GLOBAL STATUS LIKE 'Com_stmt_execute'")?;
    Ok(counted.split_whitespace().last().ok_or("no number")?.parse()?)
}

#[tokio::test]
async fn an_uncontended_lock_is_one_statement_each_way() -> Checked {
    const ROUNDS: u64 = 200;
    let server = Server::mariadb()?;
    let locks = leasehold::open(server.url()).await?;
    let mutex = locks.mutex("n").ttl(HOUR);
    mutex.lock().await?.release().await?;
    let before = statements(&server)?;
    for _ in 0..ROUNDS {
        mutex.lock().await?.release().await?;
    }
    let run = statements(&server)? - before;
    // The sweeper and the look for losses may come in between.
    assert!((2 * ROUNDS..2 * ROUNDS + 40).contains(&run), "{run} statements");
    Ok(())
}

#[tokio::test]
async fn a_thousand_leases_are_renewed_with_one_row() -> Checked {
    let server = Server::mariadb()?;
    let locks = leasehold::open(server.url()).await?;
    let engine = locks.engine();
    let mut refreshes = Vec::new();
    for at in 0..1000 {
        let ticket = Ticket::new(name(&at.to_string()), Mode::Exclusive);
        let claim = Claim::new(ticket.clone(), Owner::new("many"), HOUR);
        assert!(matches!(engine.acquire(claim).await?, Verdict::Granted(_)));
        refreshes.push(Refresh::new(ticket, HOUR));
    }
    let before = statements(&server)?;
    let renewed = engine.renew(refreshes.clone()).await;
    assert!(renewed.iter().all(|it| matches!(it, Renewal::Held { .. })));
    let run = statements(&server)? - before;
    assert!(run < 40, "{run} statements for a thousand leases");
    // After a break every lease is looked for, many with one statement.
    end_connections(&server)?;
    let mut tries = 0;
    // Connections come back one after the other, and before the break is seen the
    // session that all share was only just extended.
    loop {
        tries += 1;
        assert!(tries < 100, "the connections do not come back");
        let before = statements(&server)?;
        let renewed = engine.renew(refreshes.clone()).await;
        let run = statements(&server)? - before;
        assert!(run < 100, "{run} statements in try {tries}");
        let held = renewed.iter().all(|it| matches!(it, Renewal::Held { .. }));
        if held && run >= 1000 / 64 {
            break;
        }
        let odd = |it: &&Renewal| !matches!(renewal(it), "held" | "unknown");
        assert_eq!(renewed.iter().find(odd).map(renewal), None);
    }
    Ok(())
}

/// What a MariaDB has counted.
fn counted(server: &Server, what: &str) -> Checked<u64> {
    let counted = server.sql(&format!("SHOW GLOBAL STATUS LIKE '{what}'"))?;
    Ok(counted.split_whitespace().last().ok_or("no number")?.parse()?)
}

/// A claim that waits.
fn waiting(text: &str) -> Claim {
    let mut claim = Claim::new(Ticket::new(name(text), Mode::Exclusive), Owner::new("waits"), HOUR);
    claim.stance = Stance::Wait { until: Moment::NEVER };
    claim
}

/// Statements and bytes of one join and one release each, for a name with waiters.
async fn price(server: &Server, engine: &Arc<dyn Engine>, waiters: usize) -> Checked<[u64; 2]> {
    const ROUNDS: u64 = 16;
    let text = format!("line of {waiters}");
    let mut line = Vec::new();
    for _ in 0..=waiters {
        let claim = waiting(&text);
        engine.acquire(claim.clone()).await?;
        line.push(claim.ticket);
    }
    let bytes = || -> Checked<u64> {
        Ok(counted(server, "Bytes_sent")? + counted(server, "Bytes_received")?)
    };
    let (before, sent) = (statements(server)?, bytes()?);
    for at in 0..ROUNDS {
        let last = waiting(&text);
        engine.acquire(last.clone()).await?;
        // Whoever is first leaves the name to the next.
        let first = line[usize::try_from(at)?].clone();
        engine.release(first, Ending::new()).await?;
        line.push(last.ticket);
    }
    Ok([statements(server)? - before, (bytes()? - sent) / ROUNDS])
}

#[tokio::test]
async fn a_line_of_five_hundred_costs_what_one_of_twenty_costs() -> Checked {
    let server = Server::mariadb()?;
    let locks = leasehold::open(format!("{}?poll=1h&poll_max=1h", server.url())).await?;
    let few = price(&server, &locks.engine(), 20).await?;
    let many = price(&server, &locks.engine(), 500).await?;
    // The sweeper and the look for losses may come in between.
    assert!(many[0] <= few[0] + 12, "statements: {few:?}, {many:?}");
    assert!(many[1] <= few[1] + few[1] / 4, "bytes: {few:?}, {many:?}");
    Ok(())
}

/// Nobody but the first has anything to look for.
#[tokio::test]
async fn hundreds_who_wait_ask_together() -> Checked {
    let server = Server::mariadb()?;
    let locks = leasehold::open(server.url()).await?;
    let engine = locks.engine();
    let mut line = Vec::new();
    for _ in 0..=300 {
        let claim = waiting("n");
        engine.acquire(claim.clone()).await?;
        let (engine, ticket) = (Arc::clone(&engine), claim.ticket);
        line.push(tokio::spawn(async move { engine.wait(ticket, Moment::NEVER).await }));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = statements(&server)?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let run = statements(&server)? - before;
    line.iter().for_each(tokio::task::JoinHandle::abort);
    // At most as often as at the beginning: a name's version, and now and then a name.
    assert!(run < 200, "{run} statements of 300 who wait");
    Ok(())
}

fn end_connections(server: &Server) -> Checked {
    let theirs = "SELECT ID FROM information_schema.PROCESSLIST \
         WHERE ID <> CONNECTION_ID() AND USER = 'root'";
    for id in server.sql(theirs)?.lines().filter_map(|line| line.trim().parse::<u64>().ok()) {
        server.sql(&format!("KILL {id}"))?;
    }
    Ok(())
}

/// Everything at once: new names, hand-overs, tries, records.
async fn busy_day(url: &str) -> Checked {
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(leasehold::open(url).await?);
    }
    let mut tasks: tokio::task::JoinSet<leasehold::Result<()>> = tokio::task::JoinSet::new();
    for (at, locks) in clients.iter().cycle().take(16).cloned().enumerate() {
        tasks.spawn(async move {
            for round in 0..15 {
                let guard = locks.mutex("hot").lock().await?;
                locks.mutex(format!("new/{round}")).try_lock().await?;
                locks.semaphore("permits", 3).acquire(2).await?.release().await?;
                guard.release().await?;
                locks.record::<u32>("count").set(&at_u32(at)).await?;
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

fn at_u32(at: usize) -> u32 {
    u32::try_from(at).unwrap_or_default()
}

#[tokio::test]
async fn the_log_of_a_postgres_stays_quiet() -> Checked {
    let server = Server::start(Plan::postgres().args(["-c", "log_min_messages=warning"]))?;
    // The test must be able to fail.
    assert!(server.sql("SELECT 1/0").is_err());
    busy_day(&server.url()).await?;
    let log = server.log_text();
    assert!(log.contains("division by zero"), "the log was not read: {log}");
    let noise: Vec<_> = log
        .lines()
        .filter(|line| line.contains("ERROR") || line.contains("WARNING"))
        .filter(|line| !line.contains("division by zero"))
        .collect();
    assert!(noise.is_empty(), "{noise:#?}");
    Ok(())
}

#[tokio::test]
async fn no_statement_of_a_mariadb_fails_or_deadlocks() -> Checked {
    let plan = Plan::mariadb().args(["--innodb-print-all-deadlocks=ON", "--log-warnings=9"]);
    let server = Server::start(plan)?;
    busy_day(&server.url()).await?;
    let log = server.log_text().to_lowercase();
    let noise: Vec<_> =
        log.lines().filter(|it| it.contains("deadlock") || it.contains("unsafe")).collect();
    assert!(noise.is_empty(), "{noise:#?}");
    let count = server
        .sql("SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'")?;
    assert_eq!(count, "0", "deadlocks");
    Ok(())
}

/// A role that may use the tables, but make none.
#[tokio::test]
async fn a_role_that_may_only_use_the_tables_will_do() -> Checked {
    let postgres = Server::postgres()?;
    let error = {
        postgres.sql("CREATE ROLE plain LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC")?;
        leasehold::open(plain(&postgres)).await.err().ok_or("it made tables")?
    };
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    busy_day(&postgres.url()).await?;
    postgres.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO plain")?;
    busy_day(&plain(&postgres)).await?;

    let mariadb = Server::mariadb()?;
    busy_day(&mariadb.url()).await?;
    mariadb.sql("CREATE USER plain@'127.0.0.1'")?;
    mariadb.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON leasehold.* TO plain@'127.0.0.1'")?;
    busy_day(&plain(&mariadb)).await
}

fn plain(server: &Server) -> String {
    server.url().replace("postgres@", "plain@").replace("root@", "plain@")
}
