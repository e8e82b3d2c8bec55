//! Values that one client has bound to the lease of another.

use std::sync::Arc;

use leasehold::claim::{Claim, Ending, Mode, Owner, Store as Put, Ticket, Verdict};
use leasehold::engine::{Engine, Eviction, RecordEvent, Scope, Target};
use leasehold::{Name, Namespace};
use leasehold_testkit::contest::{BOUND, Checked};
use tokio::time::timeout;

use super::store::Store;
use super::{LONG, open};

fn name(text: &str) -> Checked<Name> {
    Ok(Name::new(&Namespace::default(), text)?)
}

async fn hold(engine: &Arc<dyn Engine>, text: &str) -> Checked<Ticket> {
    let ticket = Ticket::new(name(text)?, Mode::Exclusive);
    match engine.acquire(Claim::new(ticket.clone(), Owner::new("test"), LONG)).await? {
        Verdict::Granted(_) => Ok(ticket),
        Verdict::Busy(busy) => Err(format!("busy: {busy:?}").into()),
    }
}

/// Who has the lease does not know of them, and who watches is told all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_bound_to_the_lease_of_another_client_goes_with_it() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
        let (holder, binder) = (one.engine(), two.engine());
        let records = binder.records().ok_or("no records")?;
        let mut events = records.watch(Scope::name(&name("member/a")?)).await?;
        for by_hand in [false, true] {
            let ticket = hold(&holder, "/lock").await?;
            // The second value of a name is seen to like the first.
            for value in ["1", "2"] {
                let mut put = Put::put(name("member/a")?, value.into());
                put.bound_to = Some(ticket.clone());
                records.store(put).await?.map_err(|_| "a conflict")?;
                let event = timeout(BOUND, events.next()).await?;
                assert!(matches!(event, Some(RecordEvent::Stored(..))), "{store:?}: {event:?}");
            }
            if by_hand {
                one.evict(Eviction::new(name("/lock")?, Target::All, "ops", "stuck")?).await?;
            } else {
                holder.release(ticket, Ending::new()).await?;
            }
            let event = timeout(BOUND, events.next()).await?;
            let Some(RecordEvent::Deleted(gone, _)) = event else {
                return Err(format!("{store:?}: {event:?}").into());
            };
            assert_eq!(gone, name("member/a")?, "{store:?}");
        }
    }
    Ok(())
}
