//! What everyone with a handle to a pool shares.

use std::sync::Arc;

use super::dial::PoolDialer;
use super::slots::PoolSlots;
use crate::engines::kit::health::Health;

/// One pool.
pub(super) struct PoolShared {
    pub(super) dialer: Arc<PoolDialer>,
    pub(super) slots: PoolSlots,
    pub(super) health: Arc<Health>,
    pub(super) endpoint: String,
}
