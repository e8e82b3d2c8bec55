//! A record that is followed: what is there now, and what comes after it.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::RawRecord;
use crate::core::{Core, shut_down};
use crate::engine::{RecordEvent, RecordEvents, Scope};
use crate::error::{ErrorKind, Result};
use crate::locks::Locks;
use crate::name::Name;

/// The pause before what failed is read again.
const PAUSE: Duration = Duration::from_millis(100);

/// One record. It is watched before it is read, so nothing falls in between. It is
/// followed by tasks on home, and keeps no client alive: whoever has the other end
/// of such a task does.
#[derive(Debug)]
pub(super) struct LiveRecord {
    core: Arc<Core>,
    name: Name,
    watch: Box<dyn RecordEvents>,
    seen: Option<RawRecord>,
    /// Changes may have been missed: it has to be read again.
    in_doubt: bool,
}

impl LiveRecord {
    pub(super) async fn follow(locks: &Locks, name: &Name) -> Result<Self> {
        let record_store = locks.record_store()?;
        let watch = locks.at_home(|| record_store.watch(Scope::name(name))).await?;
        let seen = locks.at_home(|| record_store.load(name.clone())).await?;
        let (core, name) = (Arc::clone(locks.core()), name.clone());
        Ok(Self { core, name, watch, seen, in_doubt: false })
    }

    /// What is there, as far as is known.
    pub(super) const fn record(&self) -> Option<&RawRecord> {
        self.seen.as_ref()
    }

    /// Which writing of it that is.
    pub(super) fn version(&self) -> Option<u64> {
        self.seen.as_ref().map(|record| record.version)
    }

    /// Whether something else may be there by now.
    pub(super) const fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Whether the locks were shut down: nothing more will come.
    pub(super) fn is_closed(&self) -> bool {
        self.core.is_closed()
    }

    /// Reads it again with the next look, whatever was heard.
    pub(super) const fn doubt(&mut self) {
        self.in_doubt = true;
    }

    /// Waits until something else may be there. An engine that is away is asked
    /// again. Needs the runtime of home, and may be dropped at any point.
    pub(super) async fn changed(&mut self) -> Result<()> {
        while !self.in_doubt {
            match self.watch.next().await {
                None => return Err(shut_down()),
                Some(RecordEvent::Resync) => self.in_doubt = true,
                Some(event) => {
                    if self.take(event) {
                        return Ok(());
                    }
                }
            }
        }
        while let Err(error) = self.read().await {
            if error.kind() != ErrorKind::Unavailable {
                return Err(error);
            }
            let clock = &self.core.clock;
            clock.sleep_until(clock.now().after(PAUSE)).await;
        }
        Ok(())
    }

    /// Takes in what was told; whether it is news. What was read before it was told
    /// of may be newer.
    fn take(&mut self, event: RecordEvent) -> bool {
        let version = self.seen.as_ref().map_or(0, |record| record.version);
        match event {
            RecordEvent::Stored(_, record) if record.version > version => self.seen = Some(record),
            RecordEvent::Deleted(_, gone) if self.seen.is_some() && gone > version => {
                self.seen = None;
            }
            _ => return false,
        }
        true
    }

    async fn read(&mut self) -> Result<()> {
        self.core.check_open()?;
        let record_store = self.core.engine.records().ok_or_else(shut_down)?;
        self.seen = record_store.load(self.name.clone()).await?;
        self.in_doubt = false;
        Ok(())
    }
}
