//! Tombstones: a request that is still under way finds one and leaves nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Etcd;
use super::link::CallFault;
use super::proto::{RequestOp, TxnRequest, TxnResponse};
use super::txn;
use crate::clock::Moment;
use crate::error::Result;

/// How long one stays at least. Nothing is known to travel for longer.
const STAY: Duration = Duration::from_secs(60);

/// The lease that tombstones live on, until another is taken: many share one.
#[derive(Debug, Default)]
pub(super) struct Tombstones(Mutex<Option<(i64, Moment)>>);

impl Tombstones {
    fn lease(&self) -> MutexGuard<'_, Option<(i64, Moment)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Etcd {
    /// Puts up a tombstone, and looks around in the same step.
    pub(super) async fn bury(
        &self,
        tombstone: &str,
        look: RequestOp,
        by: Moment,
    ) -> Result<TxnResponse> {
        loop {
            let lease = self.grave(by).await?;
            let stone = txn::put(tombstone, Vec::new(), lease);
            let request =
                TxnRequest { success: vec![stone, look.clone()], ..TxnRequest::default() };
            match self.link.try_ask(request, by).await {
                // Somebody has revoked it.
                Err(CallFault::LeaseGone) => *self.tombstones.lease() = None,
                answer => return answer.map_err(CallFault::into_error),
            }
        }
    }

    async fn grave(&self, by: Moment) -> Result<i64> {
        let now = self.link.clock().now();
        let known = self.tombstones.lease().filter(|(_, until)| now < *until);
        if let Some((lease, _)) = known {
            return Ok(lease);
        }
        let twice = i64::try_from(2 * STAY.as_secs()).unwrap_or(i64::MAX);
        let (lease, _) = self.leases.lease(twice, by).await?;
        *self.tombstones.lease() = Some((lease, now.after(STAY)));
        Ok(lease)
    }
}
