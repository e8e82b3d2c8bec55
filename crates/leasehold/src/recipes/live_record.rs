//! A record that is followed: what is there now, and what comes after it.

use std::time::Duration;

use super::watch::RecordWatch;
use crate::claim::RawRecord;
use crate::engine::{RecordEvent, Scope};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::Locks;
use crate::name::Name;

/// The pause before what failed is read again.
const PAUSE: Duration = Duration::from_millis(100);

/// One record. It is watched before it is read, so nothing falls in between.
#[derive(Debug)]
pub(super) struct LiveRecord {
    locks: Locks,
    name: Name,
    watch: RecordWatch,
    seen: Option<RawRecord>,
    /// Changes may have been missed: it has to be read again.
    in_doubt: bool,
}

impl LiveRecord {
    pub(super) async fn follow(locks: &Locks, name: &Name) -> Result<Self> {
        let watch = RecordWatch::start(locks, Scope::name(name)).await?;
        let (locks, name) = (locks.clone(), name.clone());
        let mut followed = Self { locks, name, watch, seen: None, in_doubt: true };
        followed.read().await?;
        Ok(followed)
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

    /// Reads it again with the next look, whatever was heard.
    pub(super) const fn doubt(&mut self) {
        self.in_doubt = true;
    }

    /// Waits until something else may be there. An engine that is away is asked
    /// again. Needs the runtime of home, and may be dropped at any point.
    pub(super) async fn changed(&mut self) -> Result<()> {
        while !self.in_doubt {
            match self.watch.next().await {
                None => return Err(closed(&self.name)),
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
            let clock = self.locks.clock();
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
            RecordEvent::Deleted(_) if self.seen.is_some() => self.seen = None,
            _ => return false,
        }
        true
    }

    async fn read(&mut self) -> Result<()> {
        let record_store = self.locks.record_store()?;
        self.seen = self.locks.at_home(|| record_store.load(self.name.clone())).await?;
        self.in_doubt = false;
        Ok(())
    }
}

fn closed(name: &Name) -> Error {
    let text = "the locks were shut down while this record was watched";
    Error::new(ErrorKind::Unavailable, text).with("record", name)
}
