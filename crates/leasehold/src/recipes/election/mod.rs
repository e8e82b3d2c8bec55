//! The election: of many that would do a job, one leads.

mod campaign;
mod candidacy;
mod lead;
mod leader;
mod observer;
mod publication;
mod reign;
mod sentry;

pub use campaign::Campaign;
pub use candidacy::{Candidacy, Leadership};
pub use lead::Requeue;
pub use leader::{Leader, Observed};
pub use observer::Observer;
pub use reign::Reign;

use crate::claim::Mode;
use crate::error::{Error, ErrorKind, Result};
use crate::locks::Locks;
use crate::recipes::request_builder::{RequestBuilder, options};

/// An election on a name: of those who campaign, one leads, and the others wait
/// in line.
///
/// Who leads holds the lease of this name, and a record of the same name says who
/// that is. The record goes with the lease, so nobody is shown as a leader who
/// has died. Work that must not be done by two hands [`Reign::fence`] to what it
/// writes to.
///
/// Three ways to take part:
///
/// - [`Election::campaign`] waits for the lead and gives a [`Reign`]
/// - [`Election::stand`] takes part in the background, and tells how it stands
/// - [`Election::lead`] runs work while it leads, and drops the work on a loss
///
/// [`Election::observe`] looks on without taking part.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// use leasehold::{Locks, Observed};
///
/// let locks = Locks::memory();
/// let election = locks.election("scheduler");
///
/// let mut reign = election.campaign("10.0.0.7:8080").await?;
/// let mut observer = election.observe().await?;
/// let Some(Observed::Leader(leader)) = observer.next().await? else { panic!("nobody leads") };
/// assert_eq!((&*leader.value, leader.fence), ("10.0.0.7:8080", reign.fence()));
///
/// reign.proclaim("10.0.0.7:9090").await?;
/// reign.resign().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    builder: RequestBuilder,
}

options!(Election);

impl Locks {
    /// The election of this name; needs the cargo feature `records`.
    ///
    /// A name that is not valid is an error of the first call that uses it.
    #[must_use]
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election { builder: RequestBuilder::new(self, name.as_ref()) }
    }
}

impl Election {
    /// Waits until we lead, and says who we are: with `value`, what others need
    /// to know of a leader, such as its address. See [`Campaign`] for limits.
    ///
    /// An engine without records can only elect who says nothing: `""`. With
    /// `names=raw` the value lies in our entry of the line, where other software
    /// reads it, and stays as it is for the whole reign.
    ///
    /// # Errors
    ///
    /// `TimedOut` after a wait limit; `Invalid` for a bad name, option or value;
    /// `Unsupported` if there is a value and the engine keeps no records; `Lost`
    /// if the lead was lost before others could be told; the engine's error if it
    /// cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind. Its place in the line is lost.
    ///
    /// # Fencing
    ///
    /// The fence of a reign is larger than that of every reign before.
    pub fn campaign(&self, value: impl Into<String>) -> Campaign {
        let (mut builder, value) = (self.builder.clone(), value.into());
        builder.candidate = Some(value.as_bytes().into());
        let lock = builder.lock(Mode::Exclusive);
        Campaign::new(builder, lock, value)
    }

    /// Takes part in the background until the [`Candidacy`] is dropped: campaigns,
    /// and again after each loss.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// use leasehold::Leadership;
    ///
    /// let mut candidacy = locks.election("scheduler").stand("node-1")?;
    /// let fence = candidacy.leading().await?;
    /// assert_eq!(candidacy.state(), Leadership::Leading { fence });
    /// candidacy.withdraw().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad name; `Unsupported` if there is a value and the engine
    /// keeps no records. What comes later is told by [`Candidacy::failure`].
    pub fn stand(&self, value: impl Into<String>) -> Result<Candidacy> {
        let value = value.into();
        self.check(&value)?;
        Ok(Candidacy::start(self.clone(), value))
    }

    /// Waits until we lead, runs `work`, and resigns. If the lead is lost
    /// meanwhile, the work is dropped at its next await point.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// let election = locks.election("scheduler");
    /// let fence = election.lead("node-1", async |reign| reign.fence()).await?;
    /// # assert!(fence > 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Election::campaign`], and `Lost` if the lead ended before the
    /// work.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, then gives the lead back.
    pub async fn lead<T>(
        &self,
        value: impl Into<String>,
        work: impl AsyncFnOnce(&mut Reign) -> T,
    ) -> Result<T> {
        self.campaign(value).await?.run(work).await
    }

    /// To lead again and again; see [`Requeue::lead`].
    #[must_use]
    pub fn requeue(&self) -> Requeue {
        Requeue::new(self.clone())
    }

    /// Who leads, now and from now on, without taking part. With `names=raw` it asks
    /// every second, and sees the leaders of other software, too.
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad name; `Unsupported` if the engine keeps no records; the
    /// engine's error if it cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped call watches nothing.
    pub async fn observe(&self) -> Result<Observer> {
        Observer::start(&self.builder.locks, self.builder.name()?).await
    }

    /// Refuses early what could only be refused once we lead.
    fn check(&self, value: &str) -> Result<()> {
        let name = self.builder.name()?;
        let profile = self.builder.locks.profile();
        let told = profile.candidates_in_entries || self.builder.locks.record_store().is_ok();
        if value.is_empty() || told {
            return Ok(());
        }
        let text = "this engine keeps no records, so nobody could be told who leads: campaign \
                    with an empty value, or use an engine with records";
        Err(Error::new(ErrorKind::Unsupported, text).with("election", name))
    }
}
