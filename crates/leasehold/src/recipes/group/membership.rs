//! A membership: we are in a group.

use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, watch};

use crate::core::Core;
use crate::detached::Detached;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::locks::Locks;
use crate::recipes::present_record::PresentRecord;

/// The pause between two tries to join again, which doubles, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Our record; `None` once we have left.
type OwnRecord = Arc<Mutex<Option<PresentRecord>>>;

/// How a membership stands.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MembershipState {
    /// Others see us.
    Here,
    /// We were away for too long, so others saw us leave; we are joining again.
    Away,
    /// Somebody else has our id by now, or the locks were shut down.
    Ended(Error),
}

/// We are in a group, until this is dropped, given up, or its client ends.
///
/// Who was away for too long has left, as others see it, and joins again by itself.
///
/// Dropping it waits until the group is left, normally one round trip and a second at
/// most; [`Membership::leave`] does not block.
#[must_use = "the group is left when the membership is dropped"]
#[derive(Debug)]
pub struct Membership {
    locks: Locks,
    record: OwnRecord,
    state: watch::Receiver<MembershipState>,
}

impl Membership {
    pub(super) fn new(locks: &Locks, record: PresentRecord) -> Self {
        let presence = Arc::clone(record.presence());
        let record = Arc::new(Mutex::new(Some(record)));
        let (tell, state) = watch::channel(MembershipState::Here);
        locks.spawn(stay(Arc::clone(locks.core()), Arc::downgrade(&record), presence, tell));
        Self { locks: locks.clone(), record, state }
    }

    /// How it stands.
    #[must_use]
    pub fn state(&self) -> MembershipState {
        self.state.borrow().clone()
    }

    /// The next state: each after the one that [`Membership::state`] shows at first.
    /// `None` once it has ended.
    ///
    /// # Cancel safety
    ///
    /// A dropped call misses nothing: the next one returns it.
    pub async fn changed(&mut self) -> Option<MembershipState> {
        self.state.changed().await.ok()?;
        Some(self.state.borrow_and_update().clone())
    }

    /// Says something else about us from now on.
    ///
    /// # Errors
    ///
    /// `NotHeld` while we are away; the engine's error if it cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have said it.
    pub async fn set(&self, payload: impl AsRef<str>) -> Result<()> {
        let mut record = self.record.lock().await;
        let record = record.as_mut().ok_or_else(left)?;
        record.say(payload.as_ref()).await
    }

    /// Leaves the group; false if others had seen us leave before.
    ///
    /// # Errors
    ///
    /// The engine's error if it cannot be reached; what is left then goes with the
    /// client.
    ///
    /// # Cancel safety
    ///
    /// The group is left even if the future is dropped.
    pub async fn leave(self) -> Result<bool> {
        let leave = take_out(Arc::clone(&self.record));
        Detached::of(self.locks.home().clone(), leave).await
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let (record, (done, ended)) = (Arc::clone(&self.record), channel());
        self.locks.finish(async move {
            // What cannot be removed goes with the lease.
            let _ = take_out(record).await;
            drop(done);
        });
        self.locks.wait_for(&ended);
    }
}

fn left() -> Error {
    Error::new(ErrorKind::NotHeld, "the group was left")
}

async fn take_out(record: OwnRecord) -> Result<bool> {
    match record.lock().await.take() {
        Some(record) => record.leave().await,
        None => Ok(false),
    }
}

/// Joins again whenever the lease was lost.
async fn stay(
    core: Arc<Core>,
    record: Weak<Mutex<Option<PresentRecord>>>,
    mut presence: Arc<Guard>,
    tell: watch::Sender<MembershipState>,
) {
    loop {
        let lost = presence.lost();
        // Nobody is in the way of the end of this lease but those who are bound to it.
        drop(presence);
        tokio::select! {
            () = tell.closed() => return,
            _ = lost => {}
        }
        let _ = tell.send(MembershipState::Away);
        match join_again(&core, &record, &tell).await {
            Some(Ok(again)) => presence = again,
            Some(Err(error)) => return tell.send(MembershipState::Ended(error)).unwrap_or(()),
            None => return,
        }
        let _ = tell.send(MembershipState::Here);
    }
}

/// `None` once we have left.
async fn join_again(
    core: &Core,
    record: &Weak<Mutex<Option<PresentRecord>>>,
    tell: &watch::Sender<MembershipState>,
) -> Option<Result<Arc<Guard>>> {
    let mut pause = PAUSE;
    while !tell.is_closed() {
        let joined = {
            let ours = record.upgrade()?;
            let mut ours = ours.lock().await;
            let ours = ours.as_mut()?;
            ours.enter_again().await.map(|()| Arc::clone(ours.presence()))
        };
        match joined {
            Err(error) if may_pass(&error) => {}
            joined => return Some(joined),
        }
        let pause_now = pause.mul_f64(0.5 + 0.5 * fastrand::f64());
        core.clock.sleep_until(core.clock.now().after(pause_now)).await;
        pause = (2 * pause).min(PAUSE_MAX);
    }
    None
}

/// Whether another try may not meet this error.
fn may_pass(error: &Error) -> bool {
    error.is_retryable() || error.is_lost() || error.kind() == ErrorKind::NotHeld
}
