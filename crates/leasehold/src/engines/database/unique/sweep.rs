//! Rows whose time is over are removed, a few at a time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::client::UniqueClient;
use super::sql::StatementValues;
use crate::clock::Clock;

/// How long stale rows lie about, about.
const EVERY: Duration = Duration::from_secs(30);

/// Sweeps now and then, as long as the engine lives.
pub(super) async fn run(inner: Weak<UniqueClient>, clock: Clock) {
    loop {
        // Clients that began together must not sweep together.
        let pause = EVERY.mul_f64(0.5 + fastrand::f64());
        clock.sleep_until(clock.now().after(pause)).await;
        let Some(inner) = inner.upgrade() else { return };
        sweep(&inner).await;
    }
}

/// By key, and only what is still over: a scan that deletes would lock every
/// row that it passes on MySQL. What fails now is swept the next time.
async fn sweep(inner: &Arc<UniqueClient>) {
    let (Some(stale), Some(remove)) = (&inner.texts.stale, &inner.texts.sweep) else { return };
    let Ok(found) = inner.pool.run(stale.sql(), Vec::new()).await else { return };
    for row in found.rows {
        let Ok(name) = row.text(0) else { continue };
        let facts = StatementValues { name: name.to_owned(), ..StatementValues::default() };
        let _ = inner.pool.run(remove.sql(), remove.values(&facts)).await;
    }
}
