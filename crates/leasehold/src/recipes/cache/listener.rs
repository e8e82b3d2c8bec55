//! One who listens to a cache.

use std::fmt;
use std::sync::Arc;

use super::backlog::Backlog;
use super::event::CacheEvent;
use super::life::CacheLife;

/// What a cache tells, one event after the other: first a
/// [`Snapshot`](CacheEvent::Snapshot) of what there was when it began to listen, then
/// each change.
///
/// Whoever does not read holds up nobody. Up to 1,024 events, or 8 MiB of values,
/// are kept; of one that falls further behind, none is kept, and what comes next is
/// a snapshot again.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// use leasehold::cache::CacheEvent;
///
/// let prices = locks.cache::<u32>("price").start().await?;
/// let mut news = prices.events();
/// locks.record("price/apple").set(&3).await?;
/// while let Some(event) = news.next().await {
///     match event {
///         CacheEvent::Snapshot(all) => println!("{} prices", all.len()),
///         CacheEvent::Added { name, new } => {
///             println!("{name} costs {}", new.value()?);
///             break;
///         }
///         other => println!("{other:?}"),
///     }
/// }
/// # Ok(()) }
/// ```
pub struct CacheEvents<T> {
    backlog: Arc<Backlog<T>>,
    life: Arc<CacheLife<T>>,
}

impl<T> fmt::Debug for CacheEvents<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheEvents")
    }
}

impl<T> CacheEvents<T> {
    pub(super) fn new(life: Arc<CacheLife<T>>) -> Self {
        let backlog = life.shared.listen();
        life.shared.catch_up(&backlog);
        Self { backlog, life }
    }
}

impl<T: Send + Sync> CacheEvents<T> {
    /// The next event; `None` once the locks were shut down.
    ///
    /// # Cancel safety
    ///
    /// A dropped call loses nothing: the next one returns it.
    pub async fn next(&mut self) -> Option<CacheEvent<T>> {
        loop {
            self.life.shared.catch_up(&self.backlog);
            if let Some(next) = self.backlog.pop() {
                return next;
            }
            self.backlog.news().await;
        }
    }
}

impl<T> Drop for CacheEvents<T> {
    fn drop(&mut self) {
        self.life.shared.leave(&self.backlog);
    }
}
