//! Turns: one verb of this client at a time on a name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::name::Name;

/// Verbs of one client on one name go one after the other: they would only
/// beat each other.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<Name, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    pub(super) async fn enter(&self, name: &Name) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if turns.len() >= 1024 {
                turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            }
            Arc::clone(turns.entry(name.clone()).or_default())
        };
        turn.lock_owned().await
    }
}
