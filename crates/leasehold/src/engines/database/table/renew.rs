//! Keeping tickets alive: one row for all that share a session.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::client::TableClient;
use super::columns::{int, key, lease};
use super::errand::Errand;
use super::news::EvictionNotice;
use super::row::NameRow;
use super::rows_sql::ROWS_MAX;
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
        let cleared = self.clear_doubts(&refreshes).await;
        let left = self.extend_all(&refreshes).await;
        let lost = self.losses().await.unwrap_or_default();
        let still = self.still_queued(&refreshes).await;
        // Whoever has got its turn since then holds.
        let known = self.tickets.known_all(refreshes.iter().map(|refresh| refresh.ticket.id));
        let mut answers = Vec::with_capacity(refreshes.len());
        for (refresh, known) in refreshes.iter().zip(known) {
            let answer = match known {
                _ if lost.contains(&refresh.ticket.id) => Ok(Renewal::Gone),
                Some((session, true)) => held(left.get(&session)),
                Some((session, false)) => match &still {
                    Ok(still) if still.contains(&(refresh.ticket.id, session)) => {
                        held(left.get(&session)).map(queued)
                    }
                    Ok(_) => self.ask_by_name(refresh, &left).await,
                    Err(error) => Err(error.clone()),
                },
                None => match &cleared {
                    // Thousands would be asked for one by one, and are looked for again.
                    Err(error) if self.tickets.is_doubted(refresh.ticket.id) => Err(error.clone()),
                    _ => self.ask_by_name(refresh, &left).await,
                },
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
            self.own_sessions.doubt();
        }
    }

    /// Names that say whose they are leave no doubt: one statement for many.
    async fn clear_doubts(&self, refreshes: &[Refresh]) -> Result<()> {
        let tickets = refreshes.iter().map(|refresh| &refresh.ticket);
        let doubted: Vec<_> = tickets.filter(|it| self.tickets.is_doubted(it.id)).collect();
        for some in doubted.chunks(ROWS_MAX) {
            let versions = self.versions_of(some.iter().map(|ticket| &ticket.name)).await?;
            let ours = |ticket: &&&Ticket| {
                let found = versions.get(&ticket.name);
                found.is_some_and(|name| name.lease.as_ref() == Some(&key(ticket.id)))
            };
            some.iter().filter(ours).for_each(|ticket| self.tickets.trust(ticket.id));
        }
        Ok(())
    }

    /// Extends every session that our tickets live by, once; not again if that was
    /// only just done for others who live by it.
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
            let known = self.own_sessions.just_extended(session, ttl, delay, self.clock.now());
            let extended = match known {
                Some(known) => Ok(Some(known)),
                None => self.extend(session, ttl, delay).await,
            };
            left.insert(session, extended);
        }
        left
    }

    /// Those that still have their places, and in which sessions: one statement for
    /// many.
    async fn still_queued(&self, refreshes: &[Refresh]) -> Result<HashSet<(LeaseId, SessionId)>> {
        let known = self.tickets.known_all(refreshes.iter().map(|refresh| refresh.ticket.id));
        let waiting = refreshes.iter().zip(known).filter(|(_, it)| matches!(it, Some((_, false))));
        let keys: Vec<_> = waiting.map(|(it, _)| vec![key(it.ticket.id).into()]).collect();
        let mut still = HashSet::new();
        for some in keys.chunks(ROWS_MAX) {
            let (text, values) = self.seats.of_leases.of(some);
            for row in &self.run(text, values).await?.rows {
                let session = row.int(1)?.unsigned_abs();
                still.extend(lease(row.text(0)?).map(|id| (id, session)));
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
        let act = |page: &mut NameRow| Ok(page.step(verb.clone()));
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
