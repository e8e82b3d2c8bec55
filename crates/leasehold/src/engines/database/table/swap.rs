//! Guess and swap: read, step, put the new state in the place of the old one.
//!
//! No transaction is open between the two, so a client that is paused there
//! blocks nobody, and any connection of any pooler will do. Whoever was faster
//! makes the swap fail, and it begins again.
//!
//! A swap that takes more than one statement is a transaction: all that change a
//! line on MySQL, on PostgreSQL a few. One that is paused inside of it keeps
//! others from that name until the server ends its session.

use std::time::Duration;

use super::client::TableClient;
use super::columns::{int, key};
use super::errand::Errand;
use super::news::{EvictionNotice, TicketNews};
use super::row::{Displaced, NameRow};
use super::session::channel;
use super::statements::{DEAD, LeaseSql};
use super::sweep;
use super::text::{SqlText, step};
use crate::claim::{LeaseId, Predecessor};
use crate::clock::{Clock, Moment};
use crate::engine::state::{FollowUp, SessionId, Verb};
use crate::engine::{Event, Loss};
use crate::engines::database::drivers::{Reply, SqlStep, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::mutant::{self, Mutant};
use crate::name::Name;

/// How long a verb goes on when others are always faster.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many more of a line are read when all of those who were read have got their
/// turn, and at the most.
const MORE: usize = if cfg!(test) { 3 } else { 64 };
const MORE_MAX: usize = 512;
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_millis(64);

impl TableClient {
    /// Runs one statement.
    pub(super) fn run(
        &self,
        text: &SqlText,
        values: Vec<Value>,
    ) -> impl Future<Output = Result<Reply>> + Send {
        self.pool.run(&text.sql, text.values(values))
    }

    /// Reads a name.
    pub(super) async fn load(&self, errand: Errand<'_>) -> Result<NameRow> {
        let [space, text] = self.key(errand.name);
        let values = vec![space, text, int(errand.session).into(), errand.lease.map(key).into()];
        let reply = self.run(&self.statements.load, values).await?;
        let page = NameRow::read(errand.name, &reply)?;
        self.clock_offset.note(page.now, page.sent_at);
        Ok(page)
    }

    /// The two columns of a name.
    pub(super) fn key(&self, name: &Name) -> [Value; 2] {
        [name.namespace().as_str().into(), self.word(name.as_str())]
    }

    /// A name, or a part of one, as its column has it.
    pub(super) fn word(&self, text: &str) -> Value {
        if self.pool.family().names_are_bytes() { text.as_bytes().into() } else { text.into() }
    }

    /// Lets time pass, until nobody can be served any more.
    async fn serve(&self, page: &mut NameRow) -> Result<()> {
        page.step(Verb::Tick);
        self.serve_more(page).await
    }

    /// Reads on while whoever is next stands in a row that was not read.
    async fn serve_more(&self, page: &mut NameRow) -> Result<()> {
        let mut many = MORE;
        while let Some(from) = page.state.lacks_from() {
            if mutant::lives(Mutant::StopsAtTheWindow) {
                break;
            }
            self.read_on(page, from, many).await?;
            page.step(Verb::Tick);
            many = (many * 2).min(MORE_MAX);
        }
        Ok(())
    }

    /// Reads more of those who wait.
    pub(super) async fn read_on(&self, page: &mut NameRow, from: u64, many: usize) -> Result<()> {
        let [space, text] = self.key(&page.name);
        let values = vec![space, text, int(from).into(), sweep::count(many)];
        let reply = self.run(&self.seats.more, values).await?;
        page.load_more(&reply, many)
    }

    /// Reads, acts, swaps; again if someone else was faster.
    pub(super) async fn change<T: Send>(
        &self,
        errand: Errand<'_>,
        mut act: impl FnMut(&mut NameRow) -> Result<T> + Send,
    ) -> Result<(T, NameRow)> {
        let mut tries = Tries::new(&self.clock);
        loop {
            if let Some(done) = self.attempt(errand, &mut act).await? {
                return Ok(done);
            }
            tries.pause().await?;
        }
    }

    /// The same, once; `None` if someone else was faster.
    pub(super) async fn attempt<T: Send>(
        &self,
        errand: Errand<'_>,
        mut act: impl FnMut(&mut NameRow) -> Result<T> + Send,
    ) -> Result<Option<(T, NameRow)>> {
        let _turn = self.turns.enter(errand.name).await;
        let mut page = self.load(errand).await?;
        let lives = page.may_be_written(errand.session);
        let serves = !errand.leaves || mutant::lives(Mutant::ServesOnTheWayOut);
        if serves && lives {
            self.serve(&mut page).await?;
        }
        let done = act(&mut page)?;
        if !lives {
            // No swap can succeed, and the dead who were not read are one in any
            // case: it would be tried until the patience ends.
            return Ok(Some((done, page)));
        }
        self.serve_more(&mut page).await?;
        if page.is_to_be_written() {
            if !self.write(&mut page, errand.session).await? {
                return Ok(None);
            }
            page.was_written();
        }
        self.tell(&page);
        // It stands already; what is left of this the next one who looks does.
        let _ = self.end_bound(&ended(&page)).await;
        Ok(Some((done, page)))
    }

    /// Swaps the page in; false if someone else was faster.
    pub(super) async fn write(&self, page: &mut NameRow, session: SessionId) -> Result<bool> {
        let (name, line) = (self.key(&page.name), page.line_change()?);
        let mut values = page.values(name[1].clone(), session)?;
        if self.pool.family().tells() {
            values.push(self.messages(page)?.into());
        }
        let LeaseSql { enter, swap, swap_with_line, .. } = &self.statements;
        let mut seats = Vec::new();
        let text = match swap_with_line {
            _ if line.is_none() => {
                if page.is_new() {
                    enter
                } else {
                    swap
                }
            }
            Some(text) if !page.is_new() => {
                values.extend(line.values()?);
                text
            }
            _ => {
                seats = self.seats.steps(&name, &line);
                if page.is_new() { enter } else { swap }
            }
        };
        let mut steps = vec![step(text, values, true)];
        steps.extend(self.losses_of(page)?);
        let orphan = |lease| step(&self.records.orphan, vec![key(lease).into()], false);
        let orphans: Vec<_> = ended(page).into_iter().map(orphan).collect();
        // Names come before namespaces and those before records, for everyone:
        // two transactions never wait for each other.
        steps.splice(1..1, std::mem::take(&mut page.with));
        steps.extend(orphans);
        steps.extend(seats);
        steps.extend(self.still_dead(page));
        if steps.len() == 1
            && let Some(alone) = steps.pop()
        {
            let reply = self.pool.run(&alone.sql, alone.values).await?;
            return Ok(reply.affected > 0);
        }
        page.replies = self.pool.transact(steps).await?;
        Ok(page.replies.is_some())
    }

    /// Whoever was judged to be dead must not have come back to life since.
    fn still_dead(&self, page: &NameRow) -> Vec<SqlStep> {
        let look = |ids: &[SessionId]| {
            // The last one fills the places that are left.
            let filled = (0..DEAD).filter_map(|at| ids.get(at).or(ids.last()));
            step(&self.statements.dead, filled.map(|id| int(*id).into()).collect(), true)
        };
        page.dead().chunks(DEAD).map(look).collect()
    }

    /// What other clients are told with the swap: channel and text of each.
    fn messages(&self, page: &NameRow) -> Result<String> {
        let mut messages = Vec::new();
        for follow_up in &page.follow_ups {
            let Some((session, news)) = news(follow_up, page.why.as_ref()) else { continue };
            let client = page.client(session);
            if client != 0 && client != self.client {
                messages.push((channel(client), news.text()?));
            }
        }
        for Displaced { lease, client, fence } in self.displaced(page) {
            messages.push((channel(client), TicketNews::Over { lease, fence }.text()?));
        }
        serde_json::to_string(&messages).map_err(|cause| {
            Error::new(ErrorKind::Unexpected, "a message cannot be written").caused_by(cause)
        })
    }

    /// Writes losses down for their holders, which find them even if no
    /// message reaches them.
    fn losses_of(&self, page: &NameRow) -> Result<Vec<SqlStep>> {
        let mut steps = Vec::new();
        for follow_up in &page.follow_ups {
            let (FollowUp::Evicted { id, session }, Some(why)) = (follow_up, &page.why) else {
                continue;
            };
            let client = page.client(*session);
            if client != 0 && client != self.client {
                let values = vec![int(client).into(), key(*id).into(), why.text()?.into()];
                steps.push(step(&self.statements.lose, values, false));
            }
        }
        for Displaced { lease, client, fence } in self.displaced(page) {
            let values = vec![int(client).into(), key(lease).into(), fence.to_string().into()];
            steps.push(step(&self.statements.lose, values, false));
        }
        Ok(steps)
    }

    /// The leases of other clients whose time was up.
    fn displaced(&self, page: &NameRow) -> Vec<Displaced> {
        page.displaced().into_iter().filter(|it| it.client != self.client).collect()
    }

    /// Tells our own tickets.
    fn tell(&self, page: &NameRow) {
        for follow_up in &page.follow_ups {
            if let Some((_, news)) = news(follow_up, page.why.as_ref()) {
                self.hear(news);
            }
        }
        for Displaced { lease, client, fence } in page.displaced() {
            if client == self.client {
                self.hear(TicketNews::Over { lease, fence });
            }
        }
    }

    /// Takes in what became of a ticket, if it is ours.
    pub(super) fn hear(&self, news: TicketNews) {
        match news {
            TicketNews::Granted { lease, fence, predecessor } => {
                self.hand(lease, fence, predecessor);
            }
            TicketNews::Evicted { lease, why } => self.lost(lease, why),
            TicketNews::Over { lease, fence } => {
                self.over(lease, fence);
            }
        }
    }

    /// A ticket of ours was handed the lease.
    pub(super) fn hand(&self, lease: LeaseId, fence: u64, predecessor: Predecessor) {
        self.tickets.hand(lease, fence, predecessor);
        if !self.tickets.is_queued(lease) {
            self.lines.leave(lease);
        }
    }

    /// Forgets a ticket.
    pub(super) fn forget(&self, lease: LeaseId) -> bool {
        self.lines.leave(lease);
        self.tickets.remove(lease)
    }

    /// A ticket was taken away.
    pub(super) fn lost(&self, lease: LeaseId, why: EvictionNotice) {
        if self.forget(lease) {
            let loss = Loss::Evicted { actor: why.actor, reason: why.reason };
            self.pool.bus().publish(&Event::TicketLost(lease, loss));
        }
    }

    /// The time of a lease was up, and it was given away; false if the ticket
    /// does not hold what it held then.
    pub(super) fn over(&self, lease: LeaseId, fence: u64) -> bool {
        let held = self.tickets.holds(lease, fence);
        if held && self.forget(lease) {
            self.pool.bus().publish(&Event::TicketLost(lease, Loss::Gone));
        }
        held
    }
}

/// The leases that have ended, of those to which something is bound.
fn ended(page: &NameRow) -> Vec<LeaseId> {
    let ended = page.follow_ups.iter().filter_map(|follow_up| match follow_up {
        FollowUp::Ended { id } => Some(*id),
        _ => None,
    });
    ended.collect()
}

fn news(follow_up: &FollowUp, why: Option<&EvictionNotice>) -> Option<(SessionId, TicketNews)> {
    match *follow_up {
        FollowUp::HandedOver { id: lease, session, fence, predecessor } => {
            Some((session, TicketNews::Granted { lease, fence, predecessor }))
        }
        FollowUp::Evicted { id: lease, session } => {
            why.map(|why| (session, TicketNews::Evicted { lease, why: why.clone() }))
        }
        FollowUp::Ended { .. } => None,
    }
}

/// How often it was tried, and for how long it will be.
pub(super) struct Tries<'a> {
    clock: &'a Clock,
    until: Moment,
    pause: Duration,
}

impl<'a> Tries<'a> {
    pub(super) fn new(clock: &'a Clock) -> Self {
        let until = clock.now().after(PATIENCE);
        Self { clock, until, pause: Duration::from_millis(1) }
    }

    /// A pause of random length, longer each time.
    pub(super) async fn pause(&mut self) -> Result<()> {
        let now = self.clock.now();
        if now >= self.until {
            let message = "others change this name all the time; try again later";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        self.clock.sleep_until(now.after(self.pause.mul_f64(fastrand::f64()))).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }
}
