//! Records, counters, and work that is done once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::Effect;
use leasehold::once::{Fingerprint, OnBusy, OnCrash, OnceError, Refusal};
use tokio::time::sleep;

use super::One;
use super::deeds::shown;
use crate::ledger::Run;

/// How long outcomes are kept: longer than any run, and by some for ever.
const KEEP: [Duration; 2] = [Duration::from_secs(24 * 60 * 60), Duration::MAX];

/// Somebody else writes there, too.
fn is_strangers(name: &str) -> bool {
    name.starts_with('p')
}

impl One {
    pub(super) async fn count(&mut self, name: &str) {
        let record = self.locks.record::<u64>(name);
        let ledger = Arc::clone(&self.around.ledger);
        if is_strangers(name) {
            drop(record.create(&0).await);
            return;
        }
        // Who dies in the middle never says what came of it.
        ledger.tallies(|tallies| tallies.begin_count(name));
        let counted = record.update(|value| Some(value.unwrap_or(0) + 1)).await;
        self.tell(|| match &counted {
            Ok(_) => format!("has counted {name}"),
            Err(error) => format!("has not counted {name}: {error}"),
        });
        match &counted {
            Ok(_) => ledger.tallies(|tallies| tallies.end_count(name, true)),
            Err(error) if error.effect() == Effect::Unknown => {}
            Err(_) => ledger.tallies(|tallies| tallies.end_count(name, false)),
        }
    }

    pub(super) async fn bind(&mut self, name: &str) {
        let Some(page) = self.page(name) else { return };
        let Some(proof) = self.around.ledger.entry(page, |it| it.proof.clone()) else { return };
        let Some(guard) = proof.guard() else { return };
        let record = self.locks.record::<u64>(format!("b/{name}")).bound_to(guard);
        let bound = record.set(&guard.fence()).await;
        self.tell(|| format!("binds b/{name} to {name}: {}", shown(&bound)));
    }

    pub(super) async fn once(&mut self, key: &str, work: Duration) {
        let at_most_once = key.ends_with('1');
        let crash = if at_most_once { OnCrash::Unknown } else { OnCrash::Rerun };
        let keep = KEEP[usize::from(at_most_once)];
        let lease = Duration::from_millis(self.around.setting.ttl);
        let busy = if work.as_millis().is_multiple_of(2) {
            OnBusy::Refuse
        } else {
            OnBusy::Wait(lease * 2)
        };
        let once = self.locks.once("jobs").lease(lease).keep(keep).on_crash(crash).on_busy(busy);
        self.asked += 1;
        let mark = format!("{}#{}", self.user, self.asked);
        let run = Run { key: key.to_owned(), at_most_once };
        let begun = Arc::new(AtomicBool::new(false));
        self.tell(|| format!("does {key} once"));
        let (ledger, seen) = (Arc::clone(&self.around.ledger), Arc::clone(&begun));
        let truth = Arc::clone(&self.around.truth);
        let done = once
            .run(key, Fingerprint::none(), async |_turn| {
                seen.store(true, Ordering::Relaxed);
                let wrong = ledger.tallies(|tallies| tallies.begin(&run));
                if let Some(how) = wrong.filter(|_| !truth.has_forgotten()) {
                    ledger.breaks("once", how);
                }
                sleep(work).await;
                Ok::<_, String>(mark.clone())
            })
            .await;
        let begun = begun.load(Ordering::Relaxed);
        self.settle(key, begun, &done);
    }

    fn settle(
        &self,
        key: &str,
        begun: bool,
        done: &Result<leasehold::once::Done, OnceError<String>>,
    ) {
        let ledger = &self.around.ledger;
        match done {
            Ok(done) => {
                self.tell(|| format!("has done {key}, replayed: {}", done.replayed));
                let wrong = ledger.tallies(|tallies| tallies.outcome(key, &done.outcome));
                if let Some(how) = wrong.filter(|_| !self.around.truth.has_forgotten()) {
                    ledger.breaks("once", how);
                }
            }
            Err(OnceError::Refused(refusal)) => {
                self.tell(|| format!("is refused {key}: {refusal:?}"));
                if begun {
                    let how = format!("{key} was run, and its caller is told that it was not");
                    ledger.breaks("I4", how);
                }
                let unknown = matches!(refusal, Refusal::Unknown { .. });
                let lost = ledger.tallies(|tallies| tallies.forgotten(key)).filter(|_| unknown);
                if let Some(how) = lost.filter(|_| !self.around.truth.has_forgotten()) {
                    ledger.breaks("once", how);
                }
                if self.around.calm && matches!(refusal, Refusal::Engine(_)) {
                    ledger.breaks("once", format!("{key} is refused, and nothing is wrong"));
                }
            }
            Err(error) => {
                self.tell(|| format!("has no outcome of {key}: {error:?}"));
                if self.around.calm {
                    ledger.breaks("once", format!("{key} is not recorded, and nothing is wrong"));
                }
            }
        }
    }
}
