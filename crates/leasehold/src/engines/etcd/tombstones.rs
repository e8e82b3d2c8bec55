//! Tombstones: a request that is still under way finds one and leaves nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::leases::Leases;
use super::link::{CallFault, EtcdLink};
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

    /// Puts up a tombstone, and looks around in the same step.
    pub(super) async fn put_up(
        &self,
        (link, leases): (&EtcdLink, &Leases),
        tombstone: &str,
        looks: Vec<RequestOp>,
        by: Moment,
    ) -> Result<TxnResponse> {
        loop {
            let lease = self.current_lease((link, leases), by).await?;
            let stone = txn::put(tombstone, Vec::new(), lease);
            let success = std::iter::once(stone).chain(looks.iter().cloned()).collect();
            let request = TxnRequest { success, ..TxnRequest::default() };
            match link.try_ask(request, by).await {
                // Somebody has revoked it.
                Err(CallFault::LeaseGone) => *self.lease() = None,
                answer => return answer.map_err(CallFault::into_error),
            }
        }
    }

    async fn current_lease(&self, (link, leases): (&EtcdLink, &Leases), by: Moment) -> Result<i64> {
        let now = link.clock().now();
        let known = self.lease().filter(|(_, until)| now < *until);
        if let Some((lease, _)) = known {
            return Ok(lease);
        }
        let twice = i64::try_from(2 * STAY.as_secs()).unwrap_or(i64::MAX);
        let (lease, _) = leases.lease(twice, by).await?;
        *self.lease() = Some((lease, now.after(STAY)));
        Ok(lease)
    }
}
