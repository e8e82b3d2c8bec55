//! One name, as it was read, and what becomes of it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::columns::{int, key, lease, micros, moment};
use super::line_change::{LineChange, LineRead};
use super::news::EvictionNotice;
use crate::claim::LeaseId;
use crate::clock::Moment;
use crate::engine::state::{Answer, FollowUp, SeatChanges, SessionId, State, Verb, step};
use crate::engines::database::dialect::table::WINDOW;
use crate::engines::database::drivers::{Reply, ReplyRow, SqlStep, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::mutant::{self, Mutant};
use crate::name::Name;

/// An opened engine, as others know it.
pub(super) type ClientId = u64;

/// How long a freed row stays at the least: far longer than any statement
/// lives, because the fence of a new row is drawn before the row is won.
pub(super) const LINGER: Duration = Duration::from_secs(60);
/// How long a guess may be swapped in after it was read, and how long a claim
/// may be on its way.
pub(super) const GOOD: Duration = Duration::from_secs(20);
/// The expiry of a session that nobody remembers.
const GONE: Moment = Moment::from_nanos(0);

/// One name.
#[derive(Debug)]
pub(super) struct NameRow {
    pub(super) name: Name,
    pub(super) state: State,
    /// The state that was read, without those who wait.
    before: State,
    /// From which place on they were to be looked for, if there are any.
    front: Option<i64>,
    /// From which place on there may be more of them.
    unread: Option<u64>,
    /// Whose seats were read.
    places: Vec<(LeaseId, u64)>,
    /// That of the row; `None` if there is none.
    version: Option<i64>,
    /// The last fence of the row.
    drawn: u64,
    /// No fence before was larger, here or in the namespace.
    floor: u64,
    /// The last one of this page.
    fence: u64,
    /// The database's clock.
    pub(super) now: Moment,
    /// When the request left, by our own.
    pub(super) sent_at: Moment,
    /// Our session's end, if we asked for it and it is there.
    pub(super) own: Option<Moment>,
    sessions: HashMap<SessionId, (Moment, ClientId)>,
    pub(super) follow_ups: Vec<FollowUp>,
    /// Why leases are taken away, if they are.
    pub(super) why: Option<EvictionNotice>,
    /// What has to happen with the swap or not at all.
    pub(super) with: Vec<SqlStep>,
    /// The answers, if there was more than the swap.
    pub(super) replies: Option<Vec<Reply>>,
}

/// A lease whose session had ended, and which is another's now or nobody's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Displaced {
    pub(super) lease: LeaseId,
    pub(super) client: ClientId,
    pub(super) fence: u64,
}

impl NameRow {
    pub(super) fn read(name: &Name, reply: &Reply) -> Result<Self> {
        let row = reply.rows.first().ok_or_else(|| damaged(name))?;
        let mut page = Self::from_row(name, row, 0, reply.sent_at)?;
        page.load_line(row.maybe_text(9)?)?;
        Ok(page)
    }

    /// Takes in what was read of the line together with the name.
    fn load_line(&mut self, text: Option<&str>) -> Result<()> {
        if self.front.is_none() {
            return Ok(());
        }
        let parse = |text: &str| serde_json::from_str::<Vec<SeatRead>>(text);
        let seats = text.map_or_else(|| Ok(Vec::new()), parse);
        let mut seats = seats.map_err(|cause| damaged(&self.name).caused_by(cause))?;
        seats.retain(|seat| seat.0 == 1 || !mutant::lives(Mutant::ForgetsWhoAsks));
        let front: Vec<u64> = seats.iter().filter(|seat| seat.0 == 1).map(|seat| seat.1).collect();
        let more = front.len() >= WINDOW && !mutant::lives(Mutant::EndsAtTheWindow);
        let below = front.into_iter().max().filter(|_| more).map(|place| place + 1);
        self.take_seats(&seats, below)
    }

    /// Takes in more of the line; `many` were asked for.
    pub(super) fn load_more(&mut self, reply: &Reply, many: usize) -> Result<()> {
        let seats = reply.rows.iter().map(seat_read).collect::<Result<Vec<_>>>()?;
        let last = seats.last().filter(|_| seats.len() >= many);
        let below = last.map(|seat| seat.1 + 1);
        self.take_seats(&seats, below)
    }

    fn take_seats(&mut self, seats: &[SeatRead], below: Option<u64>) -> Result<()> {
        let damaged = |page: &Self| damaged(&page.name);
        for (_, place, word, session, _, expires, client) in seats {
            let id = lease(word).ok_or_else(|| damaged(self))?;
            self.places.push((id, *place));
            if let (Some(expires), Some(client)) = (expires, client) {
                let known = (moment(*expires), client.unsigned_abs());
                self.sessions.insert(session.unsigned_abs(), known);
            }
        }
        let rows = seats.iter().map(|seat| (seat.1, &*seat.4));
        self.unread = below;
        let loaded = self.state.load_seats(rows, below);
        loaded.map_err(|cause| damaged(self).caused_by(cause))?;
        self.follow();
        Ok(())
    }

    /// From the columns of a row, the first of which is `at`.
    pub(super) fn from_row(
        name: &Name,
        row: &ReplyRow,
        at: usize,
        sent_at: Moment,
    ) -> Result<Self> {
        let (clock, floor) = (row.int(at)?, row.int(at + 1)?);
        let own = row.maybe_int(at + 2)?.map(moment);
        let version = row.maybe_int(at + 3)?;
        let drawn = row.maybe_int(at + 4)?.unwrap_or(0).unsigned_abs();
        let since = moment(row.maybe_int(at + 5)?.unwrap_or(0));
        let mut state = row.maybe_text(at + 6)?.map_or_else(
            || Ok(State::default()),
            |text| serde_json::from_str(text).map_err(|cause| damaged(name).caused_by(cause)),
        )?;
        state.fill(drawn, since);
        state.follow(|_| GONE);
        let front = row.maybe_int(at + 8)?;
        let sessions = row.maybe_text(at + 7)?.map_or_else(|| Ok(HashMap::new()), sessions)?;
        let clock = clock.unsigned_abs();
        let floor = drawn.max(floor.unsigned_abs()).max(clock.saturating_sub(1));
        let mut page = Self {
            name: name.clone(),
            before: state.clone(),
            front,
            unread: front.map(i64::unsigned_abs),
            places: Vec::new(),
            state,
            version,
            drawn,
            floor,
            fence: floor,
            now: Moment::from_nanos(clock.saturating_mul(1000)),
            sent_at,
            own,
            sessions,
            follow_ups: Vec::new(),
            why: None,
            with: Vec::new(),
            replies: None,
        };
        page.follow();
        Ok(page)
    }

    /// Gives every seat the expiry of its session.
    fn follow(&mut self) {
        let sessions = &self.sessions;
        self.state.follow(|id| sessions.get(&id).map_or(GONE, |(expires, _)| *expires));
    }

    /// Takes one step.
    pub(super) fn step(&mut self, verb: Verb) -> Answer {
        let done = step(&mut self.state, verb, self.now, &mut self.fence);
        self.follow_ups.extend(done.follow_ups);
        done.answer
    }

    /// What is left of the session of a seat; `own` is that of a new one.
    pub(super) fn left(&self, session: SessionId) -> Duration {
        let known = self.sessions.get(&session).map(|(expires, _)| *expires);
        known.or(self.own).unwrap_or(GONE).since(self.now)
    }

    /// Whose a session is; 0 if that is not known.
    pub(super) fn client(&self, session: SessionId) -> ClientId {
        self.sessions.get(&session).map_or(0, |(_, client)| *client)
    }

    /// Sessions that kept something here and have ended.
    pub(super) fn dead(&self) -> Vec<SessionId> {
        let over = self.sessions.iter().filter(|(_, (expires, _))| *expires <= self.now);
        over.map(|(id, _)| *id).collect()
    }

    /// The leases that were taken away because their sessions had ended: whose
    /// they were, and with which fence. Whoever still believes in one must hear
    /// of it.
    pub(super) fn displaced(&self) -> Vec<Displaced> {
        let left: HashSet<_> = self.state.grants().map(|(lease, ..)| lease).collect();
        let over = self.before.grants().filter_map(|(lease, session, fence, _)| {
            let (expires, client) = self.sessions.get(&session)?;
            let over = *expires <= self.now && !left.contains(&lease);
            over.then_some(Displaced { lease, client: *client, fence })
        });
        over.collect()
    }

    /// The newest fence of the name, once the page is written. Whoever waits
    /// after that will get a larger one.
    pub(super) const fn newest(&self) -> u64 {
        if self.fence > self.floor { self.fence } else { self.drawn }
    }

    /// Whether there is anything to write.
    pub(super) fn has_changed(&self) -> bool {
        let written = |state: &State| serde_json::to_string(state).ok();
        let line = self.line_change();
        written(&self.after()) != written(&self.before) || line.is_ok_and(|line| !line.is_none())
    }

    /// The state as it is stored: sessions have the expiries.
    fn after(&self) -> State {
        let mut after = self.state.clone();
        after.follow(|_| GONE);
        after
    }

    /// What becomes of the line.
    pub(super) fn line_change(&self) -> Result<LineChange> {
        let changes = self.changes()?;
        let first = self.first_to_stay(&changes).map(int);
        let places: Vec<_> = self.places.iter().map(|(_, place)| int(*place)).collect();
        let next = int(self.before.next_place());
        let read = LineRead { front: self.front, next, places: &places };
        Ok(LineChange::new(read, first, changes))
    }

    fn changes(&self) -> Result<SeatChanges> {
        let changes = self.after().seat_changes();
        changes.map_err(|cause| unreadable("a seat").caused_by(cause))
    }

    /// The place of the first one who was there before and still is. Whoever is new
    /// does not count: behind its place stands nobody, but on MySQL a deletion of all
    /// before it would wait for the line of the next name.
    fn first_to_stay(&self, changes: &SeatChanges) -> Option<u64> {
        let places = self.places.iter().map(|(_, place)| *place);
        let here = places.filter(|place| changes.gone.binary_search(place).is_err());
        self.state.lacks_from().or(here.min())
    }

    fn first_of(&self, changes: &SeatChanges) -> Option<u64> {
        let new = || changes.new.iter().map(|row| row.place).min();
        self.first_to_stay(changes).or_else(new)
    }

    /// From which place on there are more to be read, whoever is next.
    pub(super) fn unread(&self) -> Option<u64> {
        self.unread
    }

    /// The place of whoever is next; `None` if nobody waits.
    pub(super) fn first(&self) -> Result<Option<u64>> {
        Ok(self.first_of(&self.changes()?))
    }

    /// The place of a lease that waits.
    pub(super) fn place(&self, id: LeaseId) -> Option<u64> {
        let changes = self.state.seat_changes().ok()?;
        let new = changes.new.iter().find(|row| row.lease == id).map(|row| row.place);
        new.or_else(|| self.places.iter().find(|(lease, _)| *lease == id).map(|(_, place)| *place))
    }

    /// Whether a swap can succeed that needs this session of ours to live.
    pub(super) fn may_be_written(&self, session: SessionId) -> bool {
        session == 0 || self.own.is_some_and(|end| end > self.now)
    }

    /// Whether it has to be written, if only for what goes with it.
    pub(super) fn is_to_be_written(&self) -> bool {
        !self.with.is_empty() || self.has_changed()
    }

    /// Notes that the row is as this page says.
    pub(super) fn was_written(&mut self) {
        self.version = Some(self.version.map_or(self.first_version(), |version| version + 1));
    }

    /// The version of the row, as far as this page knows.
    pub(super) const fn version(&self) -> Option<i64> {
        self.version
    }

    /// That of a row that was not there before.
    fn first_version(&self) -> i64 {
        micros(self.now)
    }

    pub(super) const fn is_new(&self) -> bool {
        self.version.is_none()
    }

    /// The values of the swap, in the order of its statement.
    pub(super) fn values(&self, name: Value, session: SessionId) -> Result<Vec<Value>> {
        let after = self.after();
        let blank = after.is_blank(self.now);
        let state = if blank { None } else { Some(text(&after)?) };
        let front = self.first_of(&self.changes()?).map(int);
        let mut sessions: Vec<SessionId> = after.holding_sessions().collect();
        sessions.sort_unstable();
        sessions.dedup();
        let owner = after.owner();
        Ok(vec![
            self.name.namespace().as_str().into(),
            name,
            self.version.unwrap_or_else(|| self.first_version()).into(),
            state.into(),
            int(self.newest()).into(),
            after.sole().map(key).into(),
            sessions.first().map(|id| int(*id)).into(),
            (!sessions.is_empty()).then(|| text(&sessions)).transpose()?.into(),
            self.forget_at(&after).into(),
            owner.map(|(label, _)| label).into(),
            owner.and_then(|(_, meta)| meta).into(),
            micros(self.now.after(GOOD)).into(),
            int(session).into(),
            front.into(),
        ])
    }

    /// Not before the row has lingered, however long ago the last one ended.
    fn forget_at(&self, after: &State) -> Option<i64> {
        let least = self.now.after(LINGER);
        after.forget_at().map(|at| micros(at.max(least)))
    }
}

/// Whether it is from the front, place, lease, session, seat; the end and the client
/// of the session, if it is there.
type SeatRead = (u8, u64, String, i64, String, Option<i64>, Option<i64>);

fn seat_read(row: &ReplyRow) -> Result<SeatRead> {
    let (place, word) = (row.int(0)?.unsigned_abs(), row.text(1)?.to_owned());
    let (session, seat) = (row.int(2)?, row.text(3)?.to_owned());
    Ok((1, place, word, session, seat, row.maybe_int(4)?, row.maybe_int(5)?))
}

fn sessions(text: &str) -> Result<HashMap<SessionId, (Moment, ClientId)>> {
    let rows: HashMap<String, (i64, i64)> = serde_json::from_str(text)
        .map_err(|cause| unreadable("the sessions of a name").caused_by(cause))?;
    let parse = |(id, (expires, client)): (String, (i64, i64))| {
        let id = id.parse().map_err(|_| unreadable("the id of a session"))?;
        Ok((id, (moment(expires), client.unsigned_abs())))
    };
    rows.into_iter().map(parse).collect()
}

fn damaged(name: &Name) -> Error {
    let message = "the rows of this name are damaged: stop all users of it and delete its rows \
         from the tables of names and seats";
    Error::new(ErrorKind::Unexpected, message).with("name", name)
}

fn unreadable(what: &str) -> Error {
    Error::new(ErrorKind::Unexpected, format!("{what} cannot be read"))
}

fn text(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|cause| unreadable("the state of a name").caused_by(cause))
}
