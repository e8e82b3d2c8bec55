//! Keeping tickets alive: one row for all that share a session.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::client::TableClient;
use super::errand::Errand;
use super::name_versions::NAMES_MAX;
use super::news::EvictionNotice;
use super::row::{int, key, lease};
use crate::claim::{LeaseId, Place, Refresh, Renewal, Ticket};
use crate::clock::Moment;
use crate::engine::state::{Answer, SessionId, Verb};
use crate::error::Result;

/// What is left of a session and since when, `None` if it has ended.
type Left = Result<Option<(Duration, Moment)>>;

impl TableClient {
    pub(super) async fn renew(&self, refreshes: Vec<Refresh>) -> Vec<Renewal> {
        if refreshes.is_empty() {
            return Vec::new();
        }
        self.doubt_after_a_break();
        // Those that stay in doubt are asked for one by one.
        let _ = self.clear_doubts(&refreshes).await;
        let left = self.extend_all(&refreshes).await;
        let lost = self.losses().await.unwrap_or_default();
        let still = self.still_queued(&refreshes).await.unwrap_or_default();
        // Whoever has got its turn since then holds.
        let known = self.tickets.known_all(refreshes.iter().map(|refresh| refresh.ticket.id));
        let mut answers = Vec::with_capacity(refreshes.len());
        for (refresh, known) in refreshes.iter().zip(known) {
            let answer = match known {
                _ if lost.contains(&refresh.ticket.id) => Ok(Renewal::Gone),
                Some((session, true)) => held(left.get(&session)),
                Some((session, false)) if still.contains(&refresh.ticket.id) => {
                    held(left.get(&session)).map(queued)
                }
                _ => self.ask_by_name(refresh, &left).await,
            };
            if matches!(answer, Ok(Renewal::Gone)) {
                self.forget(refresh.ticket.id);
            }
            answers.push(answer.unwrap_or_else(Renewal::Unknown));
        }
        answers
    }

    /// A session may be known to a server that never heard of a lease: a copy
    /// that took over and was late.
    fn doubt_after_a_break(&self) {
        let breaks = self.pool.breaks();
        if self.breaks.swap(breaks, Ordering::Relaxed) != breaks {
            self.tickets.doubt();
        }
    }

    /// Names that say whose they are leave no doubt: one statement for many.
    async fn clear_doubts(&self, refreshes: &[Refresh]) -> Result<()> {
        let tickets = refreshes.iter().map(|refresh| &refresh.ticket);
        let doubted: Vec<_> = tickets.filter(|it| self.tickets.is_doubted(it.id)).collect();
        for some in doubted.chunks(NAMES_MAX) {
            let marks = self.marks_of(some.iter().map(|ticket| &ticket.name)).await?;
            let ours = |ticket: &&&Ticket| {
                let mark = marks.get(&ticket.name);
                mark.is_some_and(|mark| mark.lease.as_ref() == Some(&key(ticket.id)))
            };
            some.iter().filter(ours).for_each(|ticket| self.tickets.trust(ticket.id));
        }
        Ok(())
    }

    /// Extends every session that our tickets live by, once.
    async fn extend_all(&self, refreshes: &[Refresh]) -> HashMap<SessionId, Left> {
        let mut longest: HashMap<SessionId, (Duration, Duration)> = HashMap::new();
        let known = self.tickets.known_all(refreshes.iter().map(|refresh| refresh.ticket.id));
        for (refresh, known) in refreshes.iter().zip(known) {
            if let Some((session, _)) = known {
                let (ttl, delay) = longest.entry(session).or_default();
                *ttl = refresh.ttl.max(*ttl);
                *delay = refresh.lock_delay.max(*delay);
            }
        }
        let mut left = HashMap::new();
        for (session, (ttl, delay)) in longest {
            left.insert(session, self.extend(session, ttl, delay).await);
        }
        left
    }

    /// Those that still have their places: one statement for each session.
    async fn still_queued(&self, refreshes: &[Refresh]) -> Result<HashSet<LeaseId>> {
        let known = self.tickets.known_all(refreshes.iter().map(|refresh| refresh.ticket.id));
        let waiting = known.into_iter().flatten().filter(|(_, held)| !held);
        let sessions: HashSet<SessionId> = waiting.map(|(session, _)| session).collect();
        let mut still = HashSet::new();
        for session in sessions {
            let reply = self.run(&self.seats.of_session, vec![int(session).into()]).await?;
            for row in &reply.rows {
                still.extend(lease(row.text(0)?));
            }
        }
        Ok(still)
    }

    /// For a ticket that may have been granted meanwhile, or is not ours.
    async fn ask_by_name(
        &self,
        refresh: &Refresh,
        left: &HashMap<SessionId, Left>,
    ) -> Result<Renewal> {
        let Refresh { ticket, ttl, .. } = refresh;
        let verb = Verb::Renew { id: ticket.id, ttl: *ttl };
        let act = |page: &mut super::row::NameRow| Ok(page.step(verb.clone()));
        let errand = Errand::to(&ticket.name).about(ticket.id);
        let (answer, page) = self.change(errand, act).await?;
        let (Some((session, grant)), false) = (page.state.find(ticket.id), answer == Answer::Gone)
        else {
            return Ok(Renewal::Gone);
        };
        let left = match left.get(&session) {
            Some(left) => left.clone()?,
            None => self.extend(session, *ttl, refresh.lock_delay).await?,
        };
        let Some((left, sent_at)) = left else { return Ok(Renewal::Gone) };
        if let Some((fence, _)) = grant {
            self.holds(ticket, session, fence);
            return Ok(Renewal::Held { ttl: left, sent_at });
        }
        let floor = page.newest();
        if self.tickets.known(ticket.id).is_none() {
            self.waits(ticket, session, &page, Moment::NEVER);
        }
        Ok(Renewal::Queued(Place::new(left, sent_at).above(floor)))
    }

    /// What was taken away from us; it is told, and then struck off the list.
    pub(super) async fn losses(&self) -> Result<HashSet<LeaseId>> {
        let client = int(self.client);
        let reply = self.run(&self.statements.losses, vec![client.into()]).await?;
        let mut lost = HashSet::new();
        for row in &reply.rows {
            let (word, why) = (row.text(0)?, row.text(1)?);
            if let Some(lease) = lease(word).filter(|lease| self.is_lost(*lease, why)) {
                lost.insert(lease);
            }
            self.run(&self.statements.heard, vec![client.into(), word.into()]).await?;
        }
        Ok(lost)
    }
}

impl TableClient {
    /// Takes in why a lease was taken away; false if it was that of an earlier
    /// attempt of its ticket.
    fn is_lost(&self, lease: LeaseId, why: &str) -> bool {
        match (EvictionNotice::read(why), why.parse()) {
            (Some(why), _) => {
                self.lost(lease, why);
                true
            }
            (None, Ok(fence)) => self.over(lease, fence),
            (None, Err(_)) => false,
        }
    }
}

/// The same for one that waits.
fn queued(renewal: Renewal) -> Renewal {
    match renewal {
        Renewal::Held { ttl, sent_at } => Renewal::Queued(Place::new(ttl, sent_at)),
        other => other,
    }
}

/// All about it is known: it lives as long as its session.
fn held(left: Option<&Left>) -> Result<Renewal> {
    match left {
        Some(Ok(Some((ttl, sent_at)))) => Ok(Renewal::Held { ttl: *ttl, sent_at: *sent_at }),
        Some(Err(error)) => Err(error.clone()),
        Some(Ok(None)) | None => Ok(Renewal::Gone),
    }
}
