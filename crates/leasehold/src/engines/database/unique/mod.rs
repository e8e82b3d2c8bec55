//! A row in the user's table is the lock: insert = lock, delete = unlock.
//!
//! The table is the user's, and others may use it in the same way. Nobody tells
//! waiters of a delete, so they ask again and again.

mod client;
mod leases;
mod options;
mod sql;
mod survey;
mod sweep;
#[cfg(test)]
mod tests;
mod verbs;

use std::sync::Arc;

use tokio::task::AbortHandle;

use self::client::UniqueClient;
use self::leases::UniqueLeases;
use self::options::UserTable;
use self::sql::UniqueSql;
use self::survey::ColumnSurvey;
use super::checkup;
use super::plans;
use crate::claim::{Claim, Ending, Mode, Refresh, Released, Renewal, Ticket, Verdict, Wake};
use crate::clock::{Clock, Moment};
use crate::engine::profile::{Cost, Reach, Survives};
use crate::engine::{
    BoxFuture, Engine, Events, Evicted, Eviction, Finding, Listing, Page, Profile, RecordStore,
    Selector,
};
use crate::engines::database::pool::Pool;
use crate::engines::kit::by_name;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;
use crate::url::Url;

/// Opens the strategy on a server that is reached.
pub(crate) async fn open(pool: Pool, url: &Url, clock: Clock) -> Result<Arc<dyn Engine>> {
    let form = UserTable::from_options(&url.options)?;
    let texts = UniqueSql::new(&form, pool.family())?;
    let survey =
        ColumnSurvey::of(&form, &pool).await.map_err(|it| it.with("table", &form.table))?;
    let profile = profile(&pool, &form, &survey);
    let owner_max = survey.owner_max(&form);
    let leases = UniqueLeases::new(form.backoff());
    let inner = Arc::new(UniqueClient { pool, clock, form, texts, survey, leases, owner_max });
    let sweeper = inner.form.expires.is_some().then(|| {
        let sweeping = sweep::run(Arc::downgrade(&inner), inner.clock.clone());
        Handle::current().spawn(sweeping).abort_handle()
    });
    Ok(Arc::new(Unique { inner, profile, sweeper }))
}

/// What the rows promise: they outlive a restart, have no fence and no queue.
fn profile(pool: &Pool, form: &UserTable, survey: &ColumnSurvey) -> Profile {
    let mut profile = Profile::new(pool.family().word(), pool.endpoint());
    profile.reach = Reach::Network;
    profile.survives = Survives::Restart;
    profile.cost = Cost::ONE_TRIP;
    profile.limits.name_max = survey.name_max(form);
    profile
}

#[derive(Debug)]
struct Unique {
    inner: Arc<UniqueClient>,
    profile: Profile,
    sweeper: Option<AbortHandle>,
}

impl Unique {
    fn stop(&self) {
        if let Some(sweeper) = &self.sweeper {
            sweeper.abort();
        }
    }
}

impl Drop for Unique {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Engine for Unique {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        Box::pin(Arc::clone(&self.inner).acquire(claim))
    }

    fn wait(&self, _: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        let clock = self.inner.clock.clone();
        Box::pin(async move {
            clock.sleep_until(until).await;
            Ok(Wake::Look)
        })
    }

    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        Box::pin(Arc::clone(&self.inner).renew(tickets))
    }

    /// What the ending asks for beyond the end is refused by the profile.
    fn release(&self, ticket: Ticket, _: Ending) -> BoxFuture<Result<Released>> {
        Box::pin(Arc::clone(&self.inner).release(ticket))
    }

    fn convert(&self, _: Ticket, _: Mode) -> BoxFuture<Result<Renewal>> {
        let error = Error::new(ErrorKind::Unsupported, "a row cannot be shared");
        Box::pin(std::future::ready(Err(error)))
    }

    fn events(&self) -> Events {
        self.inner.pool.events()
    }

    fn inspect(&self, selector: Selector, _: Page) -> BoxFuture<Result<Listing>> {
        let inner = Arc::clone(&self.inner);
        by_name::inspect(selector, |name| async move { inner.status(name).await })
    }

    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        Box::pin(Arc::clone(&self.inner).evict(eviction))
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let UniqueClient { pool, form, survey, .. } = &*inner;
            let mut findings = survey.findings(form);
            findings.extend(plans::examine(pool, &form.table, &form.column).await?);
            findings.extend(checkup::examine(pool).await?);
            Ok(findings)
        })
    }

    fn records(&self) -> Option<&dyn RecordStore> {
        None
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.stop();
        self.inner.pool.close();
        Box::pin(std::future::ready(Ok(())))
    }
}
