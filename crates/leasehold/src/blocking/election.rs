//! The election, for threads.

use std::ops::ControlFlow;

use super::call::block_on;
use crate::claim::Released;
use crate::error::Result;
use crate::recipes::election::{
    Campaign, Candidacy, Election, Leadership, Observed, Observer, Reign, Requeue,
};

impl super::Locks {
    /// The election of this name; see [`crate::Locks::election`].
    ///
    /// ```
    /// use leasehold::blocking::Locks;
    ///
    /// let election = Locks::memory().election("scheduler");
    /// let reign = election.campaign("node-1").blocking()?;
    /// reign.check()?;
    /// reign.blocking_resign()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        self.as_async().election(name)
    }
}

impl Campaign {
    /// Waits for the lead on this thread.
    ///
    /// # Errors
    ///
    /// Those of [`Election::campaign`]; `Invalid` inside an async runtime.
    pub fn blocking(self) -> Result<Reign> {
        block_on(self.into_future())
    }
}

impl Election {
    /// Like `lead`, for threads. Nobody can stop a thread: work that takes long
    /// calls [`Reign::check`] between its steps and ends by itself.
    ///
    /// # Errors
    ///
    /// Those of [`Election::lead`]; `Invalid` inside an async runtime.
    pub fn blocking_lead<T>(
        &self,
        value: impl Into<String>,
        work: impl FnOnce(&mut Reign) -> T,
    ) -> Result<T> {
        let reign = self.campaign(value).blocking()?;
        block_on(reign.run(async |reign| work(reign)))
    }

    /// Like `observe`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Election::observe`]; `Invalid` inside an async runtime.
    pub fn blocking_observe(&self) -> Result<Observer> {
        block_on(self.observe())
    }
}

impl Requeue {
    /// Like `lead`, for threads; see [`Election::blocking_lead`].
    ///
    /// # Errors
    ///
    /// Those of [`Requeue::lead`]; `Invalid` inside an async runtime.
    pub fn blocking_lead<T>(
        self,
        value: impl Into<String>,
        mut work: impl FnMut(&mut Reign) -> ControlFlow<T>,
    ) -> Result<T> {
        block_on(self.lead(value, async |reign| work(reign)))
    }
}

impl Reign {
    /// Like `proclaim`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Reign::proclaim`]; `Invalid` inside an async runtime.
    pub fn blocking_proclaim(&mut self, value: impl Into<String>) -> Result<()> {
        block_on(self.proclaim(value))
    }

    /// Like `resign`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Reign::resign`]. Inside an async runtime `Invalid`; the reign is
    /// then dropped, which gives the lead up too.
    pub fn blocking_resign(self) -> Result<Released> {
        block_on(self.resign())
    }
}

impl Candidacy {
    /// Like `changed`, for threads.
    ///
    /// # Errors
    ///
    /// `Invalid` inside an async runtime.
    pub fn blocking_changed(&mut self) -> Result<Option<Leadership>> {
        block_on(async { Ok(self.changed().await) })
    }

    /// Like `leading`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Candidacy::leading`]; `Invalid` inside an async runtime.
    pub fn blocking_leading(&mut self) -> Result<u64> {
        block_on(self.leading())
    }

    /// Like `withdraw`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Candidacy::withdraw`]. Inside an async runtime `Invalid`; the
    /// candidacy is then dropped, which withdraws it too.
    pub fn blocking_withdraw(self) -> Result<()> {
        block_on(self.withdraw())
    }
}

impl Observer {
    /// Like `next`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Observer::next`]; `Invalid` inside an async runtime.
    pub fn blocking_next(&mut self) -> Result<Option<Observed>> {
        block_on(self.next())
    }
}
