//! What connections are used for, from the first attempt to the answer.

use std::sync::Arc;
use std::time::Duration;

use super::shared::PoolShared;
use crate::clock::Moment;
use crate::engines::database::drivers::DatabaseConnection;
use crate::engines::database::drivers::DatabaseSettings;
use crate::engines::database::drivers::fault::{self, SqlFault};
use crate::engines::database::drivers::{Reply, SqlStep};
use crate::engines::kit::timeout::timeout;
use crate::error::Result;

/// How often a statement that was in the way of another is repeated.
const AGAIN: u32 = 8;
/// The longest pause before that.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) enum PoolCommand {
    One(SqlStep),
    Both([SqlStep; 2]),
    All(Vec<SqlStep>),
    Batch(String),
}

/// What comes back; `None` if a transaction was given up.
type Answer<E> = Result<Option<Vec<Reply>>, E>;

impl PoolCommand {
    /// Ends by itself within the time-out.
    pub(super) async fn finish(self, pool: Arc<PoolShared>) -> Answer<crate::Error> {
        let clock = &pool.dialer.clock;
        let until = clock.now().after(pool.dialer.settings.timeout);
        let mut tries = 0;
        loop {
            let answer = self.attempt(&pool, until).await;
            tries += 1;
            let again = |fault: &SqlFault| fault.again && tries < AGAIN && clock.now() < until;
            match answer {
                Ok(replies) => return Ok(replies),
                Err(fault) if again(&fault) => {
                    let pause = PAUSE.mul_f64(fastrand::f64());
                    clock.sleep_until(clock.now().after(pause)).await;
                }
                Err(fault) => return Err(fault.error.with("endpoint", &pool.endpoint)),
            }
        }
    }

    async fn attempt(&self, pool: &PoolShared, until: Moment) -> Answer<SqlFault> {
        let lent = pool.slots.choose();
        let unsent = |error| SqlFault { error, again: false, broken: false };
        let (clock, settings) = (&pool.dialer.clock, &pool.dialer.settings);
        let left = || until.since(clock.now());
        let connection = lent.slot().connection(left()).await.map_err(unsent)?;
        let busy = || unsent(fault::away("all connections are busy"));
        let _turn =
            timeout(clock, left(), connection.turn(self.is_alone())).await.ok_or_else(busy)?;
        let done = timeout(clock, left(), Box::pin(self.on(&connection, settings))).await;
        let answer = done.unwrap_or_else(|| Err(late()));
        if connection.behind_pooler() {
            pool.dialer.set_pooled();
        }
        if answer.as_ref().is_err_and(|fault| fault.broken) {
            connection.close();
        }
        answer
    }

    /// Whether nothing else may be under way on its connection.
    const fn is_alone(&self) -> bool {
        !matches!(self, Self::One(_) | Self::Both(_))
    }

    async fn on(
        &self,
        connection: &DatabaseConnection,
        settings: &DatabaseSettings,
    ) -> Answer<SqlFault> {
        match self {
            Self::One(step) => {
                connection.run(&step.sql, &step.values).await.map(|it| Some(vec![it]))
            }
            Self::Both(steps) => connection.run_both(steps).await.map(|it| Some(it.into())),
            Self::All(steps) => connection.transact(steps, settings).await,
            Self::Batch(sql) => connection.batch(sql).await.map(|()| None),
        }
    }
}

/// No answer came in time. The statement is not stopped from outside: a commit
/// that waits for its copy would become visible without one. The limits that its
/// session was told end it.
fn late() -> SqlFault {
    SqlFault { error: fault::late(), again: false, broken: true }
}
