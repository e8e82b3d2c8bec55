//! The roll call: one look at the store for all who wait here, when a name may have
//! opened by itself, and now and then in case that a message was lost.

use std::collections::{BTreeMap, HashSet};

use rusqlite::params;

use super::command::StoreCommand;
use super::fault::{StoreFault, Trial};
use super::notify::{StoreOutlook, Tickets};
use super::schema::{int, read_name};
use super::transaction::StoreTransaction;
use super::wait::{Peeked, WaitContext, peek};
use crate::claim::LeaseId;
use crate::clock::Moment;
use crate::engine::state::SessionId;
use crate::error::{Error, Result};
use crate::name::Name;

/// Up to so many waiters the look is taken on the thread that asks.
const QUICK: usize = 16;

/// Looks for as long as the engine lives; rests while nobody waits.
pub(super) async fn call(context: WaitContext) {
    let mut called = Moment::default();
    loop {
        let poll = context.clock.now().after(context.poll);
        let at = context.next_call.plan(&context.tickets, poll, called);
        tokio::select! {
            biased;
            () = context.next_call.rung() => continue,
            () = context.clock.sleep_until(at) => {}
        }
        called = context.clock.now();
        let waiting = context.tickets.places();
        if let Ok(found) = context.handle.ask(RollCall::of(waiting)).await {
            found.iter().for_each(|outlook| context.death_watch.watch(&outlook.blockers));
        }
    }
}

/// The place and the lease of whoever of us is first, for each name.
type Firsts = BTreeMap<Name, (i64, LeaseId)>;

/// Who of those who wait does not any more, and whose turn may have come.
#[derive(Debug)]
struct RollCall {
    waiting: Vec<(LeaseId, SessionId)>,
    found: Vec<(LeaseId, Peeked)>,
}

impl RollCall {
    const fn of(waiting: Vec<(LeaseId, SessionId)>) -> Self {
        Self { waiting, found: Vec::new() }
    }

    /// Our rows: whose they are, and who of them is first in each line.
    fn rows(&self, transaction: &StoreTransaction<'_>) -> Trial<(HashSet<LeaseId>, Firsts)> {
        const OURS: &str = "SELECT namespace, name, place, lease FROM seats WHERE session = ?1";
        let sessions: HashSet<_> = self.waiting.iter().map(|(_, session)| *session).collect();
        let (mut there, mut firsts) = (HashSet::new(), Firsts::new());
        let mut ours = transaction.db.prepare_cached(OURS)?;
        for session in sessions {
            let mut rows = ours.query(params![int(session)])?;
            while let Some(row) = rows.next()? {
                let bits = u128::from_str_radix(&row.get::<_, String>(3)?, 16);
                let (Ok(name), Ok(bits)) = (read_name(row)?, bits) else { continue };
                let seat = (row.get(2)?, LeaseId::from_bits(bits));
                there.insert(seat.1);
                let first = firsts.entry(name).or_insert(seat);
                *first = seat.min(*first);
            }
        }
        Ok((there, firsts))
    }
}

impl StoreCommand for RollCall {
    type Answer = Vec<StoreOutlook>;
    const READS: bool = true;

    fn is_quick(&self) -> bool {
        self.waiting.len() <= QUICK
    }

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Self::Answer> {
        let (there, firsts) = self.rows(transaction)?;
        let gone = self.waiting.iter().filter(|(lease, _)| !there.contains(lease));
        self.found = gone.map(|(lease, _)| (*lease, Peeked::Look)).collect();
        for (name, (_, lease)) in firsts {
            let peeked = match peek(transaction, &name, lease) {
                // It hears so itself when it claims again.
                Err(StoreFault::Refused(_)) => Peeked::Look,
                peeked => peeked?,
            };
            self.found.push((lease, peeked));
        }
        let still = self.found.iter().filter_map(|(_, peeked)| peeked.outlook().cloned());
        Ok(still.collect())
    }

    fn settle(&mut self, answer: Result<&Self::Answer, &Error>, tickets: &Tickets) {
        if answer.is_err() {
            return;
        }
        for (lease, peeked) in self.found.drain(..) {
            match peeked {
                Peeked::Look => tickets.stir(lease),
                Peeked::Still(outlook) => tickets.revise(lease, outlook),
            }
        }
    }
}

/// The task, which ends with the engine.
pub(super) fn start(context: &WaitContext) -> tokio::task::AbortHandle {
    context.home.spawn(call(context.clone())).abort_handle()
}
