//! The leases that stand for a client: one for each namespace and ttl, for as long
//! as anything is bound to it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;

use crate::error::Result;
use crate::guard::Guard;
use crate::name::Namespace;

type Kind = (Namespace, Duration);

/// Those of one client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presences(Arc<Mutex<HashMap<Kind, Weak<Guard>>>>);

impl Presences {
    /// The lease that is there and still ours, or a new one. Who asks meanwhile
    /// waits for it.
    pub(crate) async fn get_or_begin(
        &self,
        kind: Kind,
        begin: impl Future<Output = Result<Guard>>,
    ) -> Result<Arc<Guard>> {
        let mut known = self.0.lock().await;
        let found = known.get(&kind).and_then(Weak::upgrade);
        if let Some(found) = found.filter(|guard| guard.check().is_ok()) {
            return Ok(found);
        }
        let begun = Arc::new(begin.await?);
        known.retain(|_, guard| guard.strong_count() > 0);
        known.insert(kind, Arc::downgrade(&begun));
        Ok(begun)
    }
}
