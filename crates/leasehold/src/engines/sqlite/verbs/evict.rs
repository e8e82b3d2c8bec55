//! Taking leases away.

use std::sync::Arc;

use rusqlite::params;

use super::super::command::Command;
use super::super::fault::Trial;
use super::super::notify::{EvictionNotice, Message};
use super::super::transaction::{Transaction, int};
use crate::claim::LeaseId;
use crate::engine::state::{Answer, FollowUp, SessionId, Verb};
use crate::engine::{Evicted, Eviction};

#[derive(Debug)]
pub(in super::super) struct Evict(pub(in super::super) Eviction);

impl Evict {
    fn why(&self) -> EvictionNotice {
        EvictionNotice { actor: Arc::clone(&self.0.actor), reason: Arc::clone(&self.0.reason) }
    }

    /// Writes the loss down for the holder, which will find it even if the
    /// message does not reach it.
    fn note(
        &self,
        transaction: &mut Transaction<'_>,
        lease: LeaseId,
        session: SessionId,
    ) -> Trial<()> {
        const PUT: &str = "INSERT OR REPLACE INTO losses (session, lease, why) VALUES (?1, ?2, ?3)";
        let why = serde_json::to_string(&self.why()).unwrap_or_default();
        let row = params![int(session), format!("{:032x}", lease.to_bits()), why];
        transaction.db.prepare_cached(PUT)?.execute(row)?;
        Ok(())
    }

    /// Turns what this step asks for into messages that say why.
    fn tell(&self, transaction: &mut Transaction<'_>, from: usize) -> Trial<()> {
        let news = transaction.after_commit.follow_ups.split_off(from);
        for (client, follow_up) in news {
            if let FollowUp::Evicted { id, session } = follow_up {
                if client != transaction.mine.client {
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

impl Command for Evict {
    type Answer = Evicted;

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<Evicted> {
        let mut page = transaction.load(&self.0.name)?;
        let from = transaction.after_commit.follow_ups.len();
        // Whoever gets its turn just now is among the holders to be shown.
        transaction.step(&mut page, Verb::Tick)?;
        let before = page.state.clone();
        let remark = self.0.remark();
        let answer = transaction.step(&mut page, Verb::Evict { target: self.0.target, remark })?;
        transaction.save(page)?;
        self.tell(transaction, from)?;
        let Answer::Evicted(ids) = answer else { return Ok(Evicted::default()) };
        let now = transaction.now;
        Ok(Evicted::new(ids.into_iter().filter_map(|id| before.held(id, now)).collect()))
    }
}
