//! What the handles on a cache keep alive together.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::shared::SharedView;
use crate::locks::Locks;

/// What the handles on a cache keep alive together: its task, and the client.
pub(super) struct CacheLife<T> {
    pub(super) shared: Arc<SharedView<T>>,
    /// Dropping it ends the task; before the client, which may be the last one.
    pub(super) _alive: oneshot::Sender<()>,
    pub(super) _locks: Locks,
}

impl<T> fmt::Debug for CacheLife<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheLife")
    }
}
