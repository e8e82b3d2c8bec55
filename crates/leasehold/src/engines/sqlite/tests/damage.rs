//! Rows that cannot be read: a verb that stops there tells nobody of what it has not
//! saved.

use super::super::seats::WINDOW;
use super::*;
use crate::claim::Store;
use crate::error::{Effect, ErrorKind};
use crate::mutant::{Mutant, each_is_found};

/// Changes rows behind the engine's back.
struct Edit(String);

impl StoreCommand for Edit {
    type Answer = usize;

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<usize> {
        Ok(transaction.db.execute(&self.0, [])?)
    }
}

async fn edit(engine: &Sqlite, sql: &str) {
    assert_eq!(engine.context.handle.ask(Edit(sql.to_owned())).await.unwrap(), 1, "{sql}");
}

/// A line whose first look ends with the first who lives, and whose next row is
/// damaged.
struct Broken {
    rig: Rig,
    engine: Sqlite,
    holder: Ticket,
    first: Ticket,
}

impl Broken {
    async fn line(held_for: Duration) -> Self {
        let rig = Rig::new();
        let mut options = rig.options();
        (options.sweep, options.poll) = (Duration::MAX, secs(600));
        let engine = Sqlite::open(options, rig.clock.clone().into()).await.unwrap();
        let (holder, first) = (ticket("job"), ticket("job"));
        granted(engine.acquire(Claim { ttl: held_for, ..claim(&holder) }).await.unwrap());
        let bound = Store::put(name("bound"), "to the lease".into());
        let bound = Store { bound_to: Some(holder.clone()), ..bound };
        RecordStore::store(&engine, bound).await.unwrap().unwrap();
        for _ in 1..WINDOW {
            engine.acquire(Claim { ttl: secs(5), ..waiting(&ticket("job")) }).await.unwrap();
        }
        queue(&engine, &first).await;
        // The last of a line is read too, and is well.
        for _ in 0..2 {
            queue(&engine, &ticket("job")).await;
        }
        let damage = format!("UPDATE seats SET seat = '#' || seat WHERE place = {WINDOW}");
        edit(&engine, &damage).await;
        rig.clock.advance(secs(5));
        Self { rig, engine, holder, first }
    }

    async fn repair(&self) {
        let repair = format!("UPDATE seats SET seat = substr(seat, 2) WHERE place = {WINDOW}");
        edit(&self.engine, &repair).await;
    }

    /// What the first who lives has heard.
    async fn heard(&self) -> Wake {
        self.engine.wait(self.first.clone(), self.rig.clock.now()).await.unwrap()
    }
}

#[tokio::test]
async fn nobody_hears_of_a_hand_over_that_was_not_saved() {
    let broken = Broken::line(secs(5)).await;
    let error = broken.engine.acquire(claim(&ticket("job"))).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unexpected, Effect::NotApplied));
    let heard = broken.heard().await;
    assert!(matches!(heard, Wake::Look), "the store says that it waits: {heard:?}");
    broken.repair().await;
    assert!(matches!(broken.engine.acquire(claim(&ticket("job"))).await, Ok(Verdict::Busy(_))));
    assert!(matches!(broken.heard().await, Wake::Granted { .. }));
}

#[test]
fn a_hand_over_that_is_told_before_it_is_saved_is_found() {
    each_is_found(&[Mutant::ToldBeforeSaved], nobody_hears_of_a_hand_over_that_was_not_saved);
    each_is_found(
        &[Mutant::ToldBeforeSaved],
        a_release_that_stops_half_way_leaves_what_is_bound_to_the_lease,
    );
}

#[tokio::test]
async fn a_release_that_stops_half_way_leaves_what_is_bound_to_the_lease() {
    let Broken { engine, holder, .. } = &Broken::line(TTL).await;
    let error = engine.release(holder.clone(), Ending::new()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unexpected, Effect::NotApplied));
    assert!(RecordStore::load(engine, name("bound")).await.unwrap().is_some(), "it is held");
}

#[tokio::test]
async fn a_release_that_has_stored_its_record_and_stops_is_unknown() {
    let broken = Broken::line(TTL).await;
    let ending = Ending::storing(Store::put(name("n"), "done".into()));
    let error = broken.engine.release(broken.holder.clone(), ending).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    assert!(RecordStore::load(&broken.engine, name("n")).await.unwrap().is_some());
    assert!(matches!(broken.heard().await, Wake::Look), "it is held");
}
