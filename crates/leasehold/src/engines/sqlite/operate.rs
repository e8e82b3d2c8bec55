//! What operators ask: who holds and who waits, and to take leases away.

use std::sync::Arc;

use rusqlite::params;

use super::command::StoreCommand;
use super::fault::Trial;
use super::name_range::NameRange;
use super::notify::{EvictedBy, Message};
use super::schema::{int, lease_key};
use super::transaction::StoreTransaction;
use crate::claim::LeaseId;
use crate::engine::state::{Answer, FollowUp, SessionId, Verb};
use crate::engine::{Evicted, Eviction, Listing, Page, Selector, Status};
use crate::name::{Name, Namespace};

/// How many seats of a name are asked whether they live.
const ASKED: usize = 64;

/// Who holds and who waits.
#[derive(Debug)]
pub(super) struct Inspect {
    pub(super) selector: Selector,
    pub(super) page: Page,
}

impl StoreCommand for Inspect {
    type Answer = Listing;

    fn is_quick(&self) -> bool {
        matches!(self.selector, Selector::Name(_))
    }

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Listing> {
        let (names, more) = match &self.selector {
            Selector::Name(name) => (vec![name.clone()], false),
            Selector::Prefix(space, prefix) => self.scan(transaction, space, prefix)?,
        };
        let mut listing = Listing::new(Vec::with_capacity(names.len()), more);
        for name in names {
            listing.names.push(status(transaction, &name)?);
        }
        Ok(listing)
    }
}

impl Inspect {
    /// Walks the index from the prefix on: user text never becomes a pattern.
    fn scan(
        &self,
        transaction: &StoreTransaction<'_>,
        space: &Namespace,
        prefix: &str,
    ) -> Trial<(Vec<Name>, bool)> {
        let range = NameRange::new(prefix, &self.page);
        let mut walk = transaction.db.prepare_cached(&range.sql("name", "names"))?;
        let mut rows = walk.query([space.as_str(), range.from])?;
        let mut names = Vec::new();
        while let Some(row) = rows.next()? {
            let text: Arc<str> = row.get(0)?;
            if !text.starts_with(prefix) {
                break;
            }
            if names.len() == self.page.size {
                return Ok((names, true));
            }
            names.push(Name::new(space, text)?);
        }
        Ok((names, false))
    }
}

/// A name as it is now: what has expired or died is not shown as held.
fn status(transaction: &mut StoreTransaction<'_>, name: &Name) -> Trial<Status> {
    let mut loaded = transaction.load(name, None)?;
    transaction.load_whole_line(&mut loaded)?;
    transaction.follow(&mut loaded)?;
    let seats: Vec<_> = loaded.state.sessions().take(ASKED).collect();
    if transaction.reap_dead(&seats)? {
        transaction.follow(&mut loaded)?;
    }
    transaction.step(&mut loaded, Verb::Tick)?;
    let status = loaded.state.status(name.clone(), transaction.now);
    transaction.save(loaded)?;
    Ok(status)
}

/// Takes leases away.
#[derive(Debug)]
pub(super) struct Evict(pub(super) Eviction);

impl Evict {
    fn why(&self) -> EvictedBy {
        EvictedBy { actor: Arc::clone(&self.0.actor), reason: Arc::clone(&self.0.reason) }
    }

    /// Writes the loss down for the holder, which will find it even if the
    /// message does not reach it.
    fn note(
        &self,
        transaction: &mut StoreTransaction<'_>,
        lease: LeaseId,
        session: SessionId,
    ) -> Trial<()> {
        const PUT: &str = "INSERT OR REPLACE INTO losses (session, lease, why) VALUES (?1, ?2, ?3)";
        let why = serde_json::to_string(&self.why()).unwrap_or_default();
        let row = params![int(session), lease_key(lease), why];
        transaction.db.prepare_cached(PUT)?.execute(row)?;
        Ok(())
    }

    /// Turns what this step asks for into messages that say why.
    fn tell(&self, transaction: &mut StoreTransaction<'_>, from: usize) -> Trial<()> {
        let news = transaction.after_commit.follow_ups.split_off(from);
        for (client, follow_up) in news {
            if let FollowUp::Evicted { id, session } = follow_up {
                if client != transaction.client {
                    self.note(transaction, id, session)?;
                }
                let message = Message::Evicted { lease: id, why: self.why() };
                transaction.after_commit.evictions.push((client, message));
            } else {
                transaction.after_commit.follow_ups.push((client, follow_up));
            }
        }
        Ok(())
    }
}

impl StoreCommand for Evict {
    type Answer = Evicted;

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Evicted> {
        let mut loaded = transaction.load(&self.0.name, None)?;
        let from = transaction.after_commit.follow_ups.len();
        // Whoever gets its turn just now is among the holders to be shown.
        transaction.step(&mut loaded, Verb::Tick)?;
        let before = loaded.state.clone();
        let remark = self.0.remark();
        let answer =
            transaction.step(&mut loaded, Verb::Evict { target: self.0.target, remark })?;
        transaction.save(loaded)?;
        self.tell(transaction, from)?;
        let Answer::Evicted(ids) = answer else { return Ok(Evicted::default()) };
        let now = transaction.now;
        Ok(Evicted::new(ids.into_iter().filter_map(|id| before.held(id, now)).collect()))
    }
}
