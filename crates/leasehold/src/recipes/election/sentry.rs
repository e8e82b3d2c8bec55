//! A sentry: looks who is first in line, where an entry says who leads and nobody
//! tells of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::leader::{Leader, Observations, Observed};
use crate::core::Core;
use crate::engine::{Page, Selector};
use crate::error::Result;
use crate::name::Name;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// The task behind an observer of entries.
pub(super) struct Sentry {
    pub(super) core: Arc<Core>,
    pub(super) name: Name,
    pub(super) observations: Observations,
    pub(super) tell: watch::Sender<Option<Result<Observed>>>,
}

impl Sentry {
    /// Looks until nobody listens, or the locks were shut down.
    pub(super) async fn run(mut self) {
        let tell = self.tell.clone();
        loop {
            let at = self.core.clock.now().after(PAUSE);
            tokio::select! {
                () = tell.closed() => return,
                _ = self.core.closing() => return,
                () = self.core.clock.sleep_until(at) => {}
            }
            if self.look().await.is_err() {
                let doubt = self.observations.doubt();
                self.say(doubt);
            }
        }
    }

    pub(super) async fn look(&mut self) -> Result<()> {
        let which = Selector::Name(self.name.clone());
        let found = self.core.engine.inspect(which, Page::default()).await?;
        let holder = found.names.first().and_then(|status| status.holders.first());
        let leader = holder
            .map(|held| Leader::new(held.fence.unwrap_or_default(), &held.label, &held.label));
        let news = self.observations.see(leader);
        self.say(news);
        Ok(())
    }

    fn say(&self, news: Option<Observed>) {
        if let Some(news) = news {
            let _ = self.tell.send(Some(Ok(news)));
        }
    }
}
