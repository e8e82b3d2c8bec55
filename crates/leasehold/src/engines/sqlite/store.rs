//! The connection and what is done with it.
//!
//! Everything that is waiting is run in one transaction, so that many verbs
//! share one commit. Writers of all processes queue at an exclusive
//! lock on a side file first: SQLite alone lets them sleep and try again, and
//! under load some then wait for seconds.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use super::clients::{ClientId, ClientLiveness, ClientLock, ClientRegistry};
use super::command::AnyCommand;
use super::fault::{StoreFault, error, told};
use super::notify::{Inbox, Message, Notifier};
use super::open::{self, SqliteOptions};
use super::schema::{self, int};
use super::sessions::{OwnSessions, SessionRow};
use super::transaction::{AfterCommit, StoreTransaction};
use super::upkeep::Swept;
use crate::clock::{Clock, Moment};
use crate::engine::state::FollowUp;
use crate::error::{Error, ErrorKind, Result};

/// After so many commits the log is folded into the file: not by whoever makes
/// the last of them, because that waits for the disk.
const FOLD: u32 = 1000;
/// How often an idle store looks for what others have left to clean up, and a
/// busy one notes how the clocks stand.
const ROUND: Duration = Duration::from_secs(60);

/// All that belongs to the thread.
#[derive(Debug)]
pub(super) struct LockStore {
    options: SqliteOptions,
    clock: Clock,
    db: Connection,
    gate: File,
    clients: Arc<ClientRegistry>,
    client_lock: ClientLock,
    mine: OwnSessions,
    inbox: Inbox,
    notifier: Notifier,
    suspects: Vec<ClientId>,
    next_sweep: Option<Moment>,
    /// When the thread of the store wakes by itself.
    asleep_until: Moment,
    /// Since the log was last folded into the file.
    commits: u32,
    noted_at: Moment,
    seen_version: i64,
    /// Whether a commit waits for the disk.
    full: bool,
}

/// What the engine gets to know of an opened store.
#[derive(Debug)]
pub(super) struct OpenedStore {
    pub(super) clients: Arc<ClientRegistry>,
    pub(super) client: ClientId,
}

impl LockStore {
    pub(super) fn open(options: SqliteOptions, clock: Clock, inbox: Inbox) -> Result<Self> {
        open::check(&options)?;
        let gate = open::gate(&options.path)?;
        let clients = ClientRegistry::open(&options.path).map_err(|e| outside(&options, e))?;
        gate.lock().map_err(|e| outside(&options, e))?;
        let db = open::connect(&options)?;
        let client_lock = clients.enter().map_err(|e| outside(&options, e))?;
        let mine = OwnSessions::new(client_lock.client);
        let clients = Arc::new(clients);
        let now = clock.now();
        let mut store = Self {
            next_sweep: None,
            asleep_until: now,
            commits: 0,
            noted_at: now,
            seen_version: 0,
            full: false,
            suspects: Vec::new(),
            notifier: Notifier::default(),
            options,
            clock,
            db,
            gate,
            clients,
            client_lock,
            mine,
            inbox,
        };
        match store.move_in() {
            Ok(()) => Ok(store),
            Err(error) => {
                store.clients.leave(store.client_lock);
                Err(error)
            }
        }
    }

    /// The first transaction: a new boot, the dead, and a first sweep. The
    /// gate is closed behind us meanwhile.
    fn move_in(&mut self) -> Result<()> {
        let clients = self.clients.clients().map_err(|e| outside(&self.options, e))?;
        let (dead, others): (Vec<_>, Vec<_>) = clients
            .into_iter()
            .filter(|client| *client != self.client_lock.client)
            .partition(|client| self.clients.liveness(*client) == ClientLiveness::Dead);
        let boot = self.new_boot(others.is_empty())?;
        self.wait_for_disk(boot.is_some())?;
        let sweeps = self.options.sweeps();
        let mut next = Swept::default();
        let after_commit = self.transaction(|transaction| {
            boot.iter().try_for_each(|boot| transaction.reboot(boot))?;
            dead.iter().try_for_each(|client| transaction.reap(*client).map(drop))?;
            next = if sweeps { transaction.sweep()? } else { Swept::default() };
            Ok(schema::note_clocks(transaction.db, transaction.now)?)
        });
        let _ = self.gate.unlock();
        self.deliver(after_commit?);
        self.plan_sweep(next.then);
        Ok(())
    }

    /// The id of this boot, if the store has not seen it yet.
    fn new_boot(&self, alone: bool) -> Result<Option<String>> {
        let known = schema::get(&self.db, "boot").map_err(|e| told(&e, &self.options.path))?;
        Ok(match &self.options.host.boot {
            Some(boot) => (known.as_ref() != Some(boot)).then(|| boot.clone()),
            // The kernel does not tell: be careful whenever nobody else could.
            None => alone.then(|| "unknown".to_owned()),
        })
    }

    /// Says whether commits shall wait for the disk from now on.
    fn wait_for_disk(&mut self, full: bool) -> Result<()> {
        if self.full != full {
            let level = if full { "FULL" } else { "NORMAL" };
            let told = |e| told(&e, &self.options.path);
            self.db.execute_batch(&format!("PRAGMA synchronous = {level}")).map_err(told)?;
            self.full = full;
        }
        Ok(())
    }

    /// What the engine gets to know of it.
    pub(super) fn opened(&self) -> OpenedStore {
        OpenedStore { clients: Arc::clone(&self.clients), client: self.client_lock.client }
    }

    /// How long its thread may sleep if nothing happens.
    pub(super) fn doze(&mut self) -> Duration {
        let now = self.clock.now();
        let due = self.next_sweep.map_or(ROUND, |next| next.since(now));
        let nap = due.clamp(Duration::from_millis(1), ROUND);
        self.asleep_until = now.after(nap);
        if self.suspects.is_empty() { nap } else { Duration::ZERO }
    }

    /// Runs `command` on this thread if nobody else is at the store; gives it back
    /// otherwise.
    pub(super) fn run_if_free(
        &mut self,
        command: Box<dyn AnyCommand>,
    ) -> Result<(), Box<dyn AnyCommand>> {
        let free = self.suspects.is_empty() && (command.reads() || self.gate.try_lock().is_ok());
        if !free {
            return Err(command);
        }
        self.run(vec![command]);
        Ok(())
    }

    /// Whether its thread should look after it before it wakes by itself.
    pub(super) fn needs_care(&self) -> bool {
        // Its sleep stands still while the machine is suspended; our clock does not.
        let sweep = |next: Moment| next < self.asleep_until || self.is_late(next);
        self.next_sweep.is_some_and(sweep) || !self.suspects.is_empty() || self.commits >= FOLD
    }

    /// What is done when there is nothing else to do, or too late.
    pub(super) fn care(&mut self) {
        if !self.suspects.is_empty() {
            self.run(Vec::new());
        }
        if self.commits >= FOLD {
            self.commits = 0;
            // Whoever reads right now keeps some of it back; the next time will do.
            let _ = self.db.execute_batch("PRAGMA wal_checkpoint(PASSIVE)");
        }
        self.tidy();
    }

    pub(super) fn run(&mut self, mut batch: Vec<Box<dyn AnyCommand>>) {
        let reads = self.suspects.is_empty() && batch.iter().all(|command| command.reads());
        batch.iter().for_each(|command| command.prepare(&self.inbox.tickets));
        let end = if reads { self.read(&mut batch) } else { self.write(&mut batch) };
        let (end, after_commit) = match end {
            Ok(after_commit) => (Ok(()), after_commit),
            Err(error) => (Err(error), AfterCommit::default()),
        };
        for command in batch {
            command.finish(end.clone(), &self.inbox.tickets);
        }
        self.deliver(after_commit);
    }

    fn read(&mut self, batch: &mut [Box<dyn AnyCommand>]) -> Result<AfterCommit> {
        let path = self.options.path.clone();
        self.exec("BEGIN").map_err(|e| told(&e, &path))?;
        let now = self.clock.now();
        let tickets = Arc::clone(&self.inbox.tickets);
        let mut transaction =
            StoreTransaction::new(&self.db, &self.clients, &tickets, &mut self.mine, now);
        let done = batch.iter_mut().try_for_each(|command| command.run(&mut transaction));
        let end = self.exec("ROLLBACK");
        done.and(end).map_err(|e| told(&e, &path)).map(|()| AfterCommit::default())
    }

    fn write(&mut self, batch: &mut [Box<dyn AnyCommand>]) -> Result<AfterCommit> {
        self.wait_for_disk(batch.iter().any(|command| command.is_lasting()))?;
        self.gate.lock().map_err(|e| outside(&self.options, e))?;
        let suspects = std::mem::take(&mut self.suspects);
        let done = self.transaction(|transaction| {
            for client in suspects {
                let _ = transaction.is_dead(client) && transaction.reap(client)?;
            }
            batch.iter_mut().try_for_each(|command| command.run(transaction))?;
            // Those who waited for the dead need not wait for our next sweep.
            if transaction.after_commit.reaped.is_empty() {
                Ok(())
            } else {
                transaction.sweep().map(drop)
            }
        });
        let _ = self.gate.unlock();
        if self.next_sweep.is_none() {
            self.plan_sweep(Some(self.clock.now().after(ROUND)));
        }
        done
    }

    /// One transaction: stands, or is undone, or nobody can tell.
    fn transaction(
        &mut self,
        work: impl FnOnce(&mut StoreTransaction<'_>) -> Result<(), StoreFault>,
    ) -> Result<AfterCommit> {
        let path = self.options.path.clone();
        self.exec("BEGIN IMMEDIATE").map_err(|e| told(&e, &path))?;
        // Read under the lock: time never runs back from one writer to the next.
        let now = self.clock.now();
        let tickets = Arc::clone(&self.inbox.tickets);
        let mut transaction =
            StoreTransaction::new(&self.db, &self.clients, &tickets, &mut self.mine, now);
        let done = work(&mut transaction).and_then(|()| transaction.flush());
        let after_commit = std::mem::take(&mut transaction.after_commit);
        if let Err(fault) = done {
            let _ = self.exec("ROLLBACK");
            return Err(self.explain(fault));
        }
        self.commits += 1;
        match self.exec("COMMIT") {
            Ok(()) => Ok(after_commit),
            Err(cause) => {
                let _ = self.exec("ROLLBACK");
                Err(told(&cause, &path).unknown())
            }
        }
    }

    fn explain(&self, fault: StoreFault) -> Error {
        match fault {
            StoreFault::Refused(error) => error,
            StoreFault::Store(cause) => told(&cause, &self.options.path),
        }
    }

    fn exec(&self, sql: &str) -> rusqlite::Result<()> {
        self.db.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// Tells everyone concerned what a transaction has done.
    fn deliver(&mut self, after_commit: AfterCommit) {
        let handed =
            after_commit.follow_ups.into_iter().filter_map(|(client, follow_up)| match follow_up {
                FollowUp::HandedOver { id, fence, predecessor, .. } => {
                    Some((client, Message::Handed { lease: id, fence, predecessor }))
                }
                FollowUp::Evicted { .. } | FollowUp::Ended { .. } => None,
            });
        let rung = after_commit.rung.into_iter().map(|client| (client, Message::Changed));
        for (client, message) in
            handed.chain(after_commit.evictions).chain(rung).collect::<Vec<_>>()
        {
            self.tell(client, message);
        }
        for client in after_commit.reaped {
            self.inbox.tickets.died(client);
            self.clients.clear(client);
        }
        if let Some(at) = after_commit.forget_at {
            self.plan_sweep(Some(at));
        }
    }

    fn tell(&mut self, client: ClientId, message: Message) {
        if client == self.client_lock.client {
            return self.inbox.take(message);
        }
        if client != 0 && !self.notifier.ring(&self.clients, client, &message) {
            // Nobody there: perhaps it died with the lease just handed to it.
            self.suspects.push(client);
        }
    }

    /// Makes sure that a sweep comes at `at`, but not all the time.
    fn plan_sweep(&mut self, at: Option<Moment>) {
        if !self.options.sweeps() {
            return;
        }
        let soon = self.clock.now().after(self.options.sweep);
        let at = at.map(|at| at.max(soon));
        self.next_sweep = self.next_sweep.into_iter().chain(at).min();
    }

    /// A store that is never idle cleans up too.
    pub(super) fn tidy_if_late(&mut self) {
        if self.next_sweep.is_some_and(|next| self.is_late(next)) {
            self.tidy();
        }
    }

    fn is_late(&self, sweep: Moment) -> bool {
        sweep.after(self.options.sweep) <= self.clock.now()
    }

    fn tidy(&mut self) {
        let now = self.clock.now();
        let due = self.next_sweep.is_some_and(|next| next <= now);
        if !self.options.sweeps() || !(due || self.others_wrote()) {
            return;
        }
        self.next_sweep = None;
        if self.gate.lock().is_err() {
            return;
        }
        let note = now.since(self.noted_at) >= ROUND;
        let mut next = Swept::default();
        let done = self.transaction(|transaction| {
            next = transaction.sweep()?;
            if note { Ok(schema::note_clocks(transaction.db, transaction.now)?) } else { Ok(()) }
        });
        let _ = self.gate.unlock();
        self.noted_at = if note { now } else { self.noted_at };
        self.plan_sweep(if done.is_err() { Some(now) } else { next.then });
        if next.full {
            self.next_sweep = Some(now);
        }
        self.deliver(done.unwrap_or_default());
    }

    fn others_wrote(&mut self) -> bool {
        let version = self.db.query_row("PRAGMA data_version", [], |row| row.get(0));
        let before = std::mem::replace(&mut self.seen_version, version.unwrap_or(0));
        before != self.seen_version
    }

    /// Leaves the store: as a client that closes, or as one that was killed.
    pub(super) fn end(mut self, clean: bool) {
        if clean {
            self.move_out();
            self.clients.leave(self.client_lock);
        } else {
            drop(self.client_lock);
        }
        // The last one out lets SQLite fold the log into the file.
        drop(self.db);
    }

    /// Our sessions go, unless something is still held by them: that runs out
    /// by its ttl, because its holder may not know yet that we have closed.
    fn move_out(&mut self) {
        if self.gate.lock().is_err() {
            return;
        }
        let used = self.inbox.tickets.sessions();
        let _ = self.transaction(|transaction| {
            const OURS: &str = "SELECT id FROM sessions WHERE client = ?1 \
                 AND NOT EXISTS (SELECT 1 FROM records WHERE session = sessions.id)";
            const UNREAD: &str = "DELETE FROM changes WHERE NOT EXISTS (SELECT 1 FROM watchers)";
            let mine = int(transaction.client);
            let mut all = transaction.db.prepare(OURS)?;
            let ids = all.query_map([mine], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
            for id in ids.into_iter().filter(|id| !used.contains(&id.unsigned_abs())) {
                SessionRow::delete(transaction.db, id.unsigned_abs())?;
            }
            transaction.db.execute("UPDATE sessions SET client = 0 WHERE client = ?1", [mine])?;
            transaction.leave_watchers(transaction.client)?;
            transaction.db.execute(UNREAD, [])?;
            Ok(schema::note_clocks(transaction.db, transaction.now)?)
        });
        let _ = self.gate.unlock();
    }
}

fn outside(options: &SqliteOptions, cause: std::io::Error) -> Error {
    let message = "a file beside the store cannot be used: look at the permissions of its folder";
    error(ErrorKind::Denied, message, &options.path).caused_by(cause)
}
