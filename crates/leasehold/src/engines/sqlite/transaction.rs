//! One transaction: names and fences as it has read and changed them, and what
//! others have to hear of it.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension, params};

use super::clients::{ClientId, ClientLiveness, ClientRegistry};
use super::fault::{StoreFault, Trial};
use super::notify::{Message, Tickets};
use super::schema::{at, int};
use super::sessions::{GONE, LoadedSessions, OwnSessions};
use crate::claim::LeaseId;
use crate::clock::{Moment, wall_micros};
use crate::engine::Scope;
use crate::engine::state::{Answer, FollowUp, SessionId, State, Verb, step};
use crate::error::{Error, ErrorKind};
use crate::mutant::{self, Mutant};
use crate::name::{Name, Namespace};

/// The most names that one transaction cleans up in passing.
pub(super) const BROOM: u64 = 64;
/// How many are loaded at a time when those before them did not fill the room.
const MORE: usize = if cfg!(test) { 3 } else { 128 };

/// One transaction: what it has read, and what it has done.
#[derive(Debug)]
pub(super) struct StoreTransaction<'a> {
    pub(super) db: &'a Connection,
    pub(super) clients: &'a ClientRegistry,
    pub(super) tickets: &'a Tickets,
    /// Who we are.
    pub(super) client: ClientId,
    pub(super) now: Moment,
    pub(super) after_commit: AfterCommit,
    fences: HashMap<Namespace, Fence>,
    pub(super) sessions: LoadedSessions<'a>,
    living: HashSet<ClientId>,
    /// Who watches records, by namespace.
    pub(super) listeners: HashMap<Namespace, Vec<(ClientId, Scope)>>,
}

/// What a transaction has done that others have to hear of, once it stands.
#[derive(Debug, Default)]
pub(super) struct AfterCommit {
    pub(super) follow_ups: Vec<(ClientId, FollowUp)>,
    pub(super) evictions: Vec<(ClientId, Message)>,
    pub(super) reaped: Vec<ClientId>,
    /// Who watches a record that was changed.
    pub(super) rung: HashSet<ClientId>,
    /// When the first of what was written may be forgotten.
    pub(super) forget_at: Option<Moment>,
}

#[derive(Debug)]
struct Fence {
    last: u64,
    stored: u64,
}

/// One name, as loaded.
#[derive(Debug)]
pub(super) struct LoadedName {
    pub(super) name: Name,
    pub(super) state: State,
    text: Option<String>,
    /// What others have to hear of its steps, once it is saved.
    follow_ups: Vec<FollowUp>,
}

impl<'a> StoreTransaction<'a> {
    pub(super) fn new(
        db: &'a Connection,
        clients: &'a ClientRegistry,
        tickets: &'a Tickets,
        own: &'a mut OwnSessions,
        now: Moment,
    ) -> Self {
        Self {
            db,
            clients,
            tickets,
            client: own.client,
            now,
            after_commit: AfterCommit::default(),
            fences: HashMap::new(),
            sessions: LoadedSessions::new(db, own, now),
            living: HashSet::new(),
            listeners: HashMap::new(),
        }
    }

    /// Loads a name, and as much of its line as a step needs that is about
    /// `asked`; its seats know when they expire.
    pub(super) fn load(&mut self, name: &Name, asked: Option<LeaseId>) -> Trial<LoadedName> {
        const GET: &str = "SELECT state FROM names WHERE namespace = ?1 AND name = ?2";
        let mut get = self.db.prepare_cached(GET)?;
        let key = [name.namespace().as_str(), name.as_str()];
        let text: Option<String> = get.query_row(key, |row| row.get(0)).optional()?;
        let state =
            text.as_deref().map_or_else(|| Ok(State::default()), |text| parse(name, text))?;
        let (name, follow_ups) = (name.clone(), Vec::new());
        let mut loaded = LoadedName { name, state, text, follow_ups };
        self.load_line(&mut loaded, asked)?;
        self.follow(&mut loaded)?;
        Ok(loaded)
    }

    /// Gives every seat the expiry of its session.
    pub(super) fn follow(&mut self, loaded: &mut LoadedName) -> Trial<()> {
        for session in loaded.state.sessions() {
            self.sessions.get(session)?;
        }
        loaded.state.follow(|id| self.sessions.expiry(id));
        Ok(())
    }

    /// Takes a step on a loaded name: whoever can be served is served, though it
    /// be not loaded yet.
    pub(super) fn step(&mut self, loaded: &mut LoadedName, verb: Verb) -> Trial<Answer> {
        // Whoever leaves the queue is not served on its way out.
        let leaves = matches!(verb, Verb::Release { .. });
        let serves = !leaves || mutant::lives(Mutant::ServesOnTheWayOut);
        if loaded.state.has_waiters() && serves {
            self.step_once(loaded, Verb::Tick)?;
            self.serve_the_rest(loaded)?;
        }
        let answer = self.step_once(loaded, verb)?;
        self.serve_the_rest(loaded)?;
        Ok(answer)
    }

    fn serve_the_rest(&mut self, loaded: &mut LoadedName) -> Trial<()> {
        while let Some(from) = loaded.state.lacks_from() {
            if mutant::lives(Mutant::StopsAtTheWindow) {
                break;
            }
            self.load_front(loaded, from, MORE)?;
            self.follow(loaded)?;
            self.step_once(loaded, Verb::Tick)?;
        }
        Ok(())
    }

    fn step_once(&mut self, loaded: &mut LoadedName, verb: Verb) -> Trial<Answer> {
        let now = self.now;
        let fence = self.fence(loaded.name.namespace())?;
        let step = step(&mut loaded.state, verb, now, &mut fence.last);
        if mutant::lives(Mutant::ToldBeforeSaved) {
            step.follow_ups.into_iter().try_for_each(|follow_up| self.follow_up(follow_up))?;
        } else {
            loaded.follow_ups.extend(step.follow_ups);
        }
        Ok(step.answer)
    }

    /// Does what a step has asked for that stands by now.
    fn follow_up(&mut self, follow_up: FollowUp) -> Trial<()> {
        let session = match follow_up {
            FollowUp::HandedOver { session, .. } | FollowUp::Evicted { session, .. } => session,
            FollowUp::Ended { id } => return self.unbind(id),
        };
        let client = self.sessions.get(session)?.map_or(0, |session| session.client);
        self.after_commit.follow_ups.push((client, follow_up));
        Ok(())
    }

    fn fence(&mut self, namespace: &Namespace) -> Trial<&mut Fence> {
        if !self.fences.contains_key(namespace) {
            const GET: &str = "SELECT last FROM fences WHERE namespace = ?1";
            let mut get = self.db.prepare_cached(GET)?;
            let row = get.query_row([namespace.as_str()], |row| row.get(0)).optional()?;
            let last: i64 = row.unwrap_or_else(|| int(wall_micros()));
            let last = last.unsigned_abs();
            self.fences.insert(namespace.clone(), Fence { last, stored: last });
        }
        self.fences.get_mut(namespace).ok_or_else(|| StoreFault::Refused(lost_name()))
    }

    /// The newest fence of a namespace, as far as this transaction has come.
    pub(super) fn newest(&mut self, namespace: &Namespace) -> Trial<u64> {
        Ok(self.fence(namespace)?.last)
    }

    /// A new version: it comes from the same counter as the fences.
    pub(super) fn draw(&mut self, namespace: &Namespace) -> Trial<u64> {
        let fence = self.fence(namespace)?;
        fence.last += 1;
        Ok(fence.last)
    }

    /// Makes sure that somebody cleans up at `at`.
    pub(super) fn plan(&mut self, at: Option<Moment>) {
        self.after_commit.forget_at = self.after_commit.forget_at.into_iter().chain(at).min();
    }

    /// Writes a name back, if it has changed. Not before that does anybody hear of
    /// its steps: a verb that is refused half way is not saved, and the
    /// transaction may stand all the same.
    pub(super) fn save(&mut self, mut loaded: LoadedName) -> Trial<()> {
        let follow_ups = std::mem::take(&mut loaded.follow_ups);
        self.save_rows(loaded)?;
        follow_ups.into_iter().try_for_each(|follow_up| self.follow_up(follow_up))
    }

    fn save_rows(&mut self, mut loaded: LoadedName) -> Trial<()> {
        let (watch, forget_at) = (loaded.state.sessions().next(), loaded.state.forget_at());
        // Expiry lives in the sessions; leaving it out keeps the text stable.
        loaded.state.follow(|_| GONE);
        self.save_line(&loaded)?;
        if loaded.state == State::default() {
            return loaded.text.map_or(Ok(()), |_| self.delete(&loaded.name));
        }
        let text = serde_json::to_string(&loaded.state).map_err(|e| lost_name().caused_by(e))?;
        if loaded.text.as_ref() == Some(&text) {
            return Ok(());
        }
        self.plan(forget_at);
        self.write(&loaded.name, &text, forget_at, watch)
    }

    fn write(
        &self,
        name: &Name,
        text: &str,
        forget_at: Option<Moment>,
        watch: Option<SessionId>,
    ) -> Trial<()> {
        const PUT: &str = "INSERT INTO names (namespace, name, state, forget_at, watch) \
             VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET \
             state = excluded.state, forget_at = excluded.forget_at, watch = excluded.watch";
        let row = params![
            name.namespace().as_str(),
            name.as_str(),
            text,
            forget_at.map(at),
            watch.map(int)
        ];
        self.db.prepare_cached(PUT)?.execute(row)?;
        Ok(())
    }

    fn delete(&self, name: &Name) -> Trial<()> {
        const CUT: &str = "DELETE FROM names WHERE namespace = ?1 AND name = ?2";
        self.db.prepare_cached(CUT)?.execute([name.namespace().as_str(), name.as_str()])?;
        Ok(())
    }

    /// Lets time pass for one name.
    pub(super) fn tick(&mut self, name: &Name) -> Trial<()> {
        let mut loaded = self.load(name, None)?;
        self.step(&mut loaded, Verb::Tick)?;
        self.save(loaded)
    }

    /// Writes down the fences that were given out.
    pub(super) fn flush(&mut self) -> Trial<()> {
        const PUT: &str = "INSERT INTO fences (namespace, last) VALUES (?1, ?2) \
             ON CONFLICT DO UPDATE SET last = max(last, excluded.last)";
        for (namespace, fence) in self.fences.iter().filter(|(_, f)| f.last != f.stored) {
            self.db.prepare_cached(PUT)?.execute(params![namespace.as_str(), int(fence.last)])?;
        }
        Ok(())
    }

    /// Ends the sessions of those among `sessions` whose client has died;
    /// `true` if there were any.
    pub(super) fn reap_dead(&mut self, sessions: &[SessionId]) -> Trial<bool> {
        let mut any = false;
        for &id in sessions {
            let client = self.sessions.live(id)?.map_or(0, |session| session.client);
            any |= client != 0 && self.is_dead(client) && self.reap(client)?;
        }
        Ok(any)
    }

    /// Asks once per transaction and client.
    pub(super) fn is_dead(&mut self, client: ClientId) -> bool {
        if client == self.client || self.living.contains(&client) {
            return false;
        }
        let dead = self.clients.liveness(client) == ClientLiveness::Dead;
        if !dead {
            self.living.insert(client);
        }
        dead
    }

    /// Ends all sessions of a dead client, now.
    pub(super) fn reap(&mut self, client: ClientId) -> Trial<bool> {
        self.sessions.end_of(client)?;
        self.leave_watchers(client)?;
        self.after_commit.reaped.push(client);
        Ok(true)
    }
}

fn parse(name: &Name, text: &str) -> Result<State, Error> {
    serde_json::from_str(text).map_err(|cause| {
        let message =
            "the row of this name is damaged: stop all users of the store and move it away";
        Error::new(ErrorKind::Unexpected, message).with("name", name).caused_by(cause)
    })
}

fn lost_name() -> Error {
    Error::new(ErrorKind::Unexpected, "the state of a name cannot be written")
}
