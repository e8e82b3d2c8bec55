//! The roll call: a look at the store for those who wait here. Now and then for all,
//! in case that a message was lost; and for some when their name may have opened by
//! itself.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rusqlite::{OptionalExtension, Row, params};

use super::command::StoreCommand;
use super::fault::{StoreFault, Trial};
use super::notify::{StoreOutlook, Tickets};
use super::schema::{int, lease_id, read_name};
use super::transaction::StoreTransaction;
use super::wait::{Peeked, WaitContext, peek};
use crate::claim::LeaseId;
use crate::clock::Moment;
use crate::engine::state::SessionId;
use crate::error::{Error, Result};
use crate::name::Name;

/// Up to so many waiters the look is taken on the thread that asks.
const QUICK: usize = 16;
/// How many names are looked at in one go: others want the store too.
const PORTION: usize = 128;

/// Looks for as long as the engine lives; rests while nobody waits.
pub(super) async fn call(context: WaitContext) {
    let next_poll = || context.clock.now().after(context.poll);
    let (mut called, mut poll) = (Moment::default(), next_poll());
    loop {
        let at = context.next_call.plan(&context.tickets, poll, called);
        tokio::select! {
            biased;
            () = context.next_call.rung() => {
                // While nobody waited there was nothing to look for.
                poll = if at == Moment::NEVER { next_poll() } else { poll };
                continue;
            }
            () = context.clock.sleep_until(at) => {}
        }
        let (since, now) = (called, context.clock.now());
        called = now;
        if poll <= now {
            look_for_all(&context).await;
            poll = next_poll();
        } else {
            look_for_due(&context, since, now).await;
        }
    }
}

async fn look_for_all(context: &WaitContext) {
    let waiting = context.tickets.waiting(|lease, session, _| Some((lease, session)));
    if let Ok(firsts) = context.handle.ask(RollCall { waiting, gone: Vec::new() }).await {
        look_at(context, firsts).await;
    }
}

/// For those whose moment came after `since`, and no others: a call for each of a
/// thousand names must not look at a thousand names.
async fn look_for_due(context: &WaitContext, since: Moment, now: Moment) {
    let due = context.tickets.waiting(|_, session, outlook| {
        let due = since < outlook.look_at && outlook.look_at <= now;
        outlook.name.clone().filter(|_| due).map(|name| (session, name))
    });
    if let Ok(firsts) = context.handle.ask(DueCall(due.into_iter().collect())).await {
        look_at(context, firsts).await;
    }
}

async fn look_at(context: &WaitContext, firsts: Firsts) {
    let firsts: Vec<_> = firsts.into_iter().map(|(name, (_, lease))| (name, lease)).collect();
    for portion in firsts.chunks(PORTION) {
        let look = PeekNames { firsts: portion.to_vec(), found: Vec::new() };
        // The next call will do, if the store cannot be read.
        let Ok(found) = context.handle.ask(look).await else { return };
        found.iter().for_each(|outlook| context.death_watch.watch(&outlook.blockers));
    }
}

/// The place and the lease of whoever of us is first, for each name.
type Firsts = BTreeMap<Name, (i64, LeaseId)>;

fn enter(firsts: &mut Firsts, name: Name, seat: (i64, LeaseId)) {
    let first = firsts.entry(name).or_insert(seat);
    *first = seat.min(*first);
}

/// Who of all those who wait does not any more, and who is first in each line.
#[derive(Debug)]
struct RollCall {
    waiting: Vec<(LeaseId, SessionId)>,
    gone: Vec<LeaseId>,
}

impl RollCall {
    /// Our rows: whose they are, and who of them is first in each line.
    fn rows(&self, transaction: &StoreTransaction<'_>) -> Trial<(HashSet<LeaseId>, Firsts)> {
        const OURS: &str = "SELECT namespace, name, place, lease FROM seats WHERE session = ?1";
        let sessions: HashSet<_> = self.waiting.iter().map(|(_, session)| *session).collect();
        let (mut there, mut firsts) = (HashSet::new(), Firsts::new());
        let mut ours = transaction.db.prepare_cached(OURS)?;
        for session in sessions {
            let mut rows = ours.query(params![int(session)])?;
            while let Some(row) = rows.next()? {
                let lease = lease_id(&row.get::<_, String>(3)?);
                let (Ok(name), Some(lease)) = (read_name(row)?, lease) else { continue };
                there.insert(lease);
                enter(&mut firsts, name, (row.get(2)?, lease));
            }
        }
        Ok((there, firsts))
    }
}

impl StoreCommand for RollCall {
    type Answer = Firsts;
    const READS: bool = true;

    fn is_quick(&self) -> bool {
        self.waiting.len() <= QUICK
    }

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Firsts> {
        let (there, firsts) = self.rows(transaction)?;
        let gone = self.waiting.iter().map(|(lease, _)| *lease);
        self.gone = gone.filter(|lease| !there.contains(lease)).collect();
        Ok(firsts)
    }

    fn settle(&mut self, answer: Result<&Firsts, &Error>, tickets: &Tickets) {
        if answer.is_ok() {
            self.gone.iter().for_each(|lease| tickets.stir(*lease));
        }
    }
}

/// Who is first in each of these lines, of those that these sessions keep.
#[derive(Debug)]
struct DueCall(BTreeSet<(SessionId, Name)>);

impl StoreCommand for DueCall {
    type Answer = Firsts;
    const READS: bool = true;

    fn is_quick(&self) -> bool {
        self.0.len() <= QUICK
    }

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Firsts> {
        const FIRST: &str = "SELECT place, lease FROM seats \
             WHERE session = ?1 AND namespace = ?2 AND name = ?3 ORDER BY place LIMIT 1";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, String>(1)?));
        let mut firsts = Firsts::new();
        let mut first = transaction.db.prepare_cached(FIRST)?;
        for (session, name) in &self.0 {
            let key = params![int(*session), name.namespace().as_str(), name.as_str()];
            // If nobody waits there any more, the next call for all finds out.
            let Some((place, lease)) = first.query_row(key, read).optional()? else { continue };
            lease_id(&lease)
                .into_iter()
                .for_each(|id| enter(&mut firsts, name.clone(), (place, id)));
        }
        Ok(firsts)
    }
}

/// Whose turn may have come. All that is read of a name is read in one go, so its
/// newest fence is no older than its line.
#[derive(Debug)]
struct PeekNames {
    firsts: Vec<(Name, LeaseId)>,
    found: Vec<(LeaseId, Peeked)>,
}

impl StoreCommand for PeekNames {
    type Answer = Vec<StoreOutlook>;
    const READS: bool = true;

    fn is_quick(&self) -> bool {
        self.firsts.len() <= QUICK
    }

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Self::Answer> {
        for (name, lease) in &self.firsts {
            let peeked = match peek(transaction, name, *lease) {
                // It hears so itself when it claims again.
                Err(StoreFault::Refused(_)) => Peeked::Look,
                peeked => peeked?,
            };
            self.found.push((*lease, peeked));
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
