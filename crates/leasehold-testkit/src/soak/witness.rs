//! The witness: sees every guard, and whether two that exclude each other say
//! at one moment that they hold.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::{Guard, Mode};
use tokio::sync::RwLock;
use tokio::task::JoinHandle;

/// How often it looks at everybody, beside each grant.
const LOOK: Duration = Duration::from_millis(1);

/// A guard that its holder uses and the witness looks at. Whoever releases it
/// takes it out first: from then on it claims nothing.
pub(super) type Shown = Arc<RwLock<Option<Guard>>>;

/// Sees all guards of one deployment.
#[derive(Debug, Default)]
pub struct Witness {
    names: Mutex<BTreeMap<String, Seen>>,
    overlaps: Mutex<Vec<String>>,
}

/// What was seen of one name.
#[derive(Debug, Default)]
struct Seen {
    guards: Vec<Shown>,
    /// The largest fence of those who exclude all others.
    alone: u64,
    /// The largest fence of anybody.
    any: u64,
}

impl Witness {
    /// Shows a guard as soon as it is granted.
    #[must_use]
    pub(super) fn show(&self, guard: Guard) -> Shown {
        let name = guard.name().as_str().to_owned();
        let mut names = locked(&self.names);
        let seen = names.entry(name.clone()).or_default();
        // One that was lost on the way here may well come after its successor.
        if guard.check().is_ok()
            && let Some(fault) = seen.note_fence(&name, guard.mode(), guard.fence())
        {
            locked(&self.overlaps).push(fault);
        }
        let shown = Arc::new(RwLock::new(Some(guard)));
        seen.guards.push(Arc::clone(&shown));
        self.judge(&name, seen);
        shown
    }

    /// Looks at everybody again and again, until it is aborted.
    pub(super) fn watch(self: &Arc<Self>) -> JoinHandle<()> {
        let witness = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK).await;
                witness.look();
            }
        })
    }

    /// What was seen that must never be.
    #[must_use]
    pub fn overlaps(&self) -> Vec<String> {
        locked(&self.overlaps).clone()
    }

    fn look(&self) {
        for (name, seen) in locked(&self.names).iter_mut() {
            seen.guards.retain(|shown| claims(shown).is_some() || shown.try_read().is_err());
            self.judge(name, seen);
        }
    }

    /// Everybody is asked twice. Who says yes both times held in between, because
    /// a loss is for ever; so all of those held at one moment.
    fn judge(&self, name: &str, seen: &Seen) {
        let once = seen.guards.iter().filter_map(|shown| Some((shown, claims(shown)?)));
        let once: Vec<_> = once.collect();
        let twice = once.into_iter().filter(|(shown, claim)| claims(shown) == Some(*claim));
        let twice: Vec<_> = twice.map(|(_, claim)| claim).collect();
        if let Some(fault) = clash(&twice) {
            locked(&self.overlaps).push(format!("{name}: {fault}"));
        }
    }
}

impl Seen {
    /// A fence is larger than that of every earlier grant that it excludes.
    fn note_fence(&mut self, name: &str, mode: Mode, fence: u64) -> Option<String> {
        let before = match mode {
            Mode::Permits { .. } => 0,
            Mode::Read => self.alone,
            _ => self.any,
        };
        self.any = self.any.max(fence);
        if !matches!(mode, Mode::Read | Mode::Permits { .. }) {
            self.alone = self.alone.max(fence);
        }
        let late = fence <= before && !matches!(mode, Mode::Permits { .. });
        late.then(|| format!("{name}: {mode} has fence {fence}, {before} was there before"))
    }
}

/// Mode and fence of a guard that says it holds.
fn claims(shown: &Shown) -> Option<(Mode, u64)> {
    let guard = shown.try_read().ok()?;
    let guard = guard.as_ref()?;
    guard.check().is_ok().then(|| (guard.mode(), guard.fence()))
}

/// Why these cannot hold together, if they cannot.
fn clash(claims: &[(Mode, u64)]) -> Option<String> {
    let alone = |mode: &Mode| !matches!(mode, Mode::Read | Mode::Permits { .. });
    let taken: u64 = claims.iter().map(|(mode, _)| u64::from(taken(*mode))).sum();
    let most = claims.iter().filter_map(|(mode, _)| most(*mode)).min();
    let two = claims.len() > 1 && claims.iter().any(|(mode, _)| alone(mode));
    (two || most.is_some_and(|most| taken > most)).then(|| format!("{claims:?} hold at once"))
}

const fn taken(mode: Mode) -> u32 {
    if let Mode::Permits { take, .. } = mode { take } else { 0 }
}

fn most(mode: Mode) -> Option<u64> {
    if let Mode::Permits { of, .. } = mode { Some(u64::from(of)) } else { None }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold::Locks;

    /// Two stores grant one name twice: what a broken engine would do.
    #[tokio::test]
    async fn two_holders_are_seen() {
        let witness = Witness::default();
        let (one, two) = (Locks::memory(), Locks::memory());
        let first = witness.show(one.mutex("a").lock().await.unwrap());
        assert_eq!(witness.overlaps(), Vec::<String>::new());
        let _second = witness.show(two.mutex("a").lock().await.unwrap());
        assert!(witness.overlaps().iter().any(|told| told.contains("hold at once")));
        assert!(first.read().await.is_some());
    }

    #[tokio::test]
    async fn a_fence_that_goes_back_is_seen() {
        let witness = Witness::default();
        let (one, two) = (Locks::memory(), Locks::memory());
        let old = two.mutex("a").lock().await.unwrap();
        let new = one.mutex("a").lock().await.unwrap();
        let (old, new) = if old.fence() < new.fence() { (old, new) } else { (new, old) };
        let shown = witness.show(new);
        let released = shown.write().await.take().unwrap().release().await;
        assert!(released.is_ok());
        let _late = witness.show(old);
        assert!(witness.overlaps().iter().any(|told| told.contains("was there before")));
    }

    #[tokio::test]
    async fn permits_are_counted() {
        let witness = Witness::default();
        let (one, two) = (Locks::memory(), Locks::memory());
        let _two = witness.show(one.semaphore("s", 3).acquire(2).await.unwrap());
        let _one = witness.show(one.semaphore("s", 3).acquire(1).await.unwrap());
        assert_eq!(witness.overlaps(), Vec::<String>::new());
        let _more = witness.show(two.semaphore("s", 3).acquire(1).await.unwrap());
        assert_eq!(witness.overlaps().len(), 1);
    }

    #[tokio::test]
    async fn readers_may_share_and_what_was_given_back_claims_nothing() {
        let witness = Witness::default();
        let locks = Locks::memory();
        let first = witness.show(locks.rwlock("r").read().await.unwrap());
        let second = witness.show(locks.rwlock("r").read().await.unwrap());
        for shown in [first, second] {
            let released = shown.write().await.take().unwrap().release().await;
            assert!(released.is_ok());
        }
        let _writer = witness.show(locks.rwlock("r").write().await.unwrap());
        assert_eq!(witness.overlaps(), Vec::<String>::new());
    }
}
