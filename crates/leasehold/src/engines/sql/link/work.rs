//! What connections are used for, from the first attempt to the answer.

use std::sync::Arc;
use std::time::Duration;

use super::fault::{self, Fault};
use super::settings::Settings;
use super::value::{Reply, Step};
use super::wire::Wire;
use super::{Inner, within};
use crate::clock::Moment;
use crate::error::Result;

/// How often a statement that was in the way of another is repeated.
const AGAIN: u32 = 8;
/// The longest pause before that.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) enum Work {
    One(Step),
    Both([Step; 2]),
    All(Vec<Step>),
    Batch(String),
}

/// What comes back; `None` if a transaction was given up.
type Answer<E> = Result<Option<Vec<Reply>>, E>;

impl Work {
    /// Ends by itself within the time-out.
    pub(super) async fn finish(self, link: Arc<Inner>) -> Answer<crate::Error> {
        let clock = &link.dialer.clock;
        let until = clock.now().after(link.dialer.settings.timeout);
        let mut tries = 0;
        loop {
            let answer = self.attempt(&link, until).await;
            tries += 1;
            let again = |fault: &Fault| fault.again && tries < AGAIN && clock.now() < until;
            match answer {
                Ok(replies) => return Ok(replies),
                Err(fault) if again(&fault) => {
                    let pause = PAUSE.mul_f64(fastrand::f64());
                    clock.sleep_until(clock.now().after(pause)).await;
                }
                Err(fault) => return Err(fault.error.with("endpoint", &link.endpoint)),
            }
        }
    }

    async fn attempt(&self, link: &Inner, until: Moment) -> Answer<Fault> {
        let seat = link.lanes.choose();
        let unsent = |error| Fault { error, again: false, broken: false };
        let wire = seat.lane().wire(until).await.map_err(unsent)?;
        let (clock, settings) = (&link.dialer.clock, &link.dialer.settings);
        let left = || until.since(clock.now());
        let busy = || unsent(fault::away("all connections are busy"));
        let _turn = within(clock, left(), wire.turn(self.is_alone())).await.ok_or_else(busy)?;
        let done = within(clock, left(), Box::pin(self.on(&wire, settings))).await;
        let answer = done.unwrap_or_else(|| Err(late()));
        if wire.is_pooled() {
            link.dialer.set_pooled();
        }
        if answer.as_ref().is_err_and(|fault| fault.broken) {
            wire.close();
        }
        answer
    }

    /// Whether nothing else may be under way on its connection.
    const fn is_alone(&self) -> bool {
        !matches!(self, Self::One(_) | Self::Both(_))
    }

    async fn on(&self, wire: &Wire, settings: &Settings) -> Answer<Fault> {
        match self {
            Self::One(step) => wire.run(&step.sql, &step.values).await.map(|it| Some(vec![it])),
            Self::Both(steps) => wire.run_both(steps).await.map(|it| Some(it.into())),
            Self::All(steps) => wire.transact(steps, settings).await,
            Self::Batch(sql) => wire.batch(sql).await.map(|()| None),
        }
    }
}

/// No answer came in time. The statement is not stopped from outside: a commit
/// that waits for its copy would become visible without one. The limits that its
/// session was told end it.
fn late() -> Fault {
    Fault { error: fault::late(), again: false, broken: true }
}
