//! What is held: one lease, several that are good only together, or the lead.

use leasehold::engine::{BoxFuture, Loss};
use leasehold::{Guard, Guards, Moment, Reign, Released, Result, Standing};

use super::lease::Lease;

/// The leases of a command.
pub(crate) enum Tenure {
    /// On one name.
    One(Guard),
    /// On several names.
    All(Guards),
    /// The lead.
    Reign(Reign),
}

impl Tenure {
    /// The guards, in byte order of their names.
    pub(crate) fn guards(&self) -> &[Guard] {
        match self {
            Self::One(guard) => std::slice::from_ref(guard),
            Self::All(guards) => guards.iter().as_slice(),
            Self::Reign(reign) => std::slice::from_ref(reign.guard()),
        }
    }

    /// The lease that is worst off; as it goes, so go all.
    pub(crate) fn weakest(&self) -> &Guard {
        let worst = self.guards().iter().min_by_key(|guard| (rank(guard), guard.remaining()));
        worst.expect("a tenure has at least one lease")
    }

    pub(crate) async fn release(self) -> Result<Released> {
        match self {
            Self::One(guard) => guard.release().await,
            Self::All(guards) => guards.release().await,
            Self::Reign(reign) => reign.resign().await,
        }
    }

    /// `"a", "b"`: for messages.
    pub(crate) fn names(&self) -> String {
        let names = self.guards().iter().map(|guard| format!("{:?}", guard.name().as_str()));
        names.collect::<Vec<_>>().join(", ")
    }
}

impl Lease for Tenure {
    fn name(&self) -> String {
        self.weakest().name().to_string()
    }

    fn standing(&self) -> Standing {
        self.weakest().standing()
    }

    fn deadline(&self) -> Moment {
        self.weakest().deadline()
    }

    fn others_end(&self) -> Moment {
        let held = self.guards().iter().filter(|guard| rank(guard) == HELD);
        held.map(Guard::deadline).min().unwrap_or(Moment::NEVER)
    }

    fn check(&self) -> Result<()> {
        self.weakest().check()
    }

    fn lost(&self) -> BoxFuture<Standing> {
        match self {
            Self::One(guard) => Box::pin(guard.lost()),
            Self::All(guards) => Box::pin(guards.lost()),
            Self::Reign(reign) => Box::pin(reign.lost()),
        }
    }
}

const HELD: u8 = 2;

/// Who was evicted has a moment left to end; who expired has not.
fn rank(guard: &Guard) -> u8 {
    match guard.standing() {
        Standing::Lost(Loss::Evicted { .. }) => 1,
        Standing::Lost(_) => 0,
        _ => HELD,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold::engine::{Eviction, Target};
    use leasehold::{Clock, Locks};

    use super::*;

    #[tokio::test]
    async fn all_are_as_good_as_the_worst() {
        let locks = Locks::memory();
        let tenure = Tenure::All(locks.all(["b", "a", "c"]).lock().await.unwrap());
        assert_eq!(tenure.names(), r#""a", "b", "c""#);
        let name = locks.name("b").unwrap();
        let eviction = Eviction::new(name, Target::All, "me", "a drill").unwrap();
        locks.evict(eviction).await.unwrap();
        assert!(matches!(tenure.lost().await, Standing::Lost(Loss::Evicted { .. })));
        assert_eq!(tenure.weakest().name().as_str(), "b");
        let later = Clock::System.now().after(Duration::from_secs(1));
        assert!(tenure.others_end() > later && tenure.others_end() < Moment::NEVER);
        assert_eq!(tenure.release().await.unwrap(), Released::AlreadyLost);
        assert!(locks.mutex("a").try_lock().await.unwrap().is_some());
    }
}
