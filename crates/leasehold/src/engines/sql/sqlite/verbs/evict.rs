//! Taking leases away.

use std::sync::Arc;

use rusqlite::params;

use super::super::bell::{Message, Why};
use super::super::fault::Trial;
use super::super::job::Act;
use super::super::ledger::{Ledger, int};
use crate::claim::LeaseId;
use crate::engine::state::{Answer, Effect, SessionId, Verb};
use crate::engine::{Evicted, Eviction};

#[derive(Debug)]
pub(in super::super) struct Evict(pub(in super::super) Eviction);

impl Evict {
    fn why(&self) -> Why {
        Why { actor: Arc::clone(&self.0.actor), reason: Arc::clone(&self.0.reason) }
    }

    /// Writes the loss down for the holder, which will find it even if the
    /// message does not reach it.
    fn note(&self, ledger: &mut Ledger<'_>, lease: LeaseId, session: SessionId) -> Trial<()> {
        const PUT: &str = "INSERT OR REPLACE INTO losses (session, lease, why) VALUES (?1, ?2, ?3)";
        let why = serde_json::to_string(&self.why()).unwrap_or_default();
        let row = params![int(session), format!("{:032x}", lease.to_bits()), why];
        ledger.db.prepare_cached(PUT)?.execute(row)?;
        Ok(())
    }

    /// Turns the effects of this step into messages that say why.
    fn tell(&self, ledger: &mut Ledger<'_>, from: usize) -> Trial<()> {
        let news = ledger.deeds.effects.split_off(from);
        for (client, effect) in news {
            if let Effect::Evicted { id, session } = effect {
                if client != ledger.mine.client {
                    self.note(ledger, id, session)?;
                }
                let message = Message::Evicted { lease: id, why: self.why() };
                ledger.deeds.evictions.push((client, message));
            } else {
                ledger.deeds.effects.push((client, effect));
            }
        }
        Ok(())
    }
}

impl Act for Evict {
    type Answer = Evicted;

    fn run(&mut self, ledger: &mut Ledger<'_>) -> Trial<Evicted> {
        let mut page = ledger.load(&self.0.name)?;
        let from = ledger.deeds.effects.len();
        // Whoever gets its turn just now is among the holders to be shown.
        ledger.step(&mut page, Verb::Tick)?;
        let before = page.state.clone();
        let remark = self.0.remark();
        let answer = ledger.step(&mut page, Verb::Evict { target: self.0.target, remark })?;
        ledger.save(page)?;
        self.tell(ledger, from)?;
        let Answer::Evicted(ids) = answer else { return Ok(Evicted::default()) };
        let now = ledger.now;
        Ok(Evicted::new(ids.into_iter().filter_map(|id| before.held(id, now)).collect()))
    }
}
