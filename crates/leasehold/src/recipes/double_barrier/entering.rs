//! Entering: the wait for enough others.
//!
//! Whoever sees enough who wait writes the next round, if nobody else was faster.
//! Before that it reads the rounds and then lists who is here, in this order:
//! whoever gives up removes its record and then writes the rounds anew. So
//! either the list was made without it, or its write makes the decision fail.

use std::sync::Arc;
use std::time::Duration;

use super::DoubleBarrier;
use super::inside::Inside;
use super::round::{BarrierRound, BarrierRounds};
use super::round_record::RoundRecord;
use crate::clock::Moment;
use crate::detached::{Detached, Handoff};
use crate::engine::BoxFuture;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::recipes::cache::{Cache, KeyOnly};
use crate::recipes::live_record::LiveRecord;
use crate::recipes::present_record::{PresentRecord, PresentValue};

/// How long each of the others leaves the decision to those before it.
const TURN: Duration = Duration::from_millis(50);
/// The pause before an engine is asked again that was away.
const PAUSE: Duration = Duration::from_millis(100);

/// A double barrier to be entered.
///
/// # Cancel safety
///
/// A dropped future waits no more.
#[must_use = "does nothing unless awaited"]
#[derive(Debug)]
pub struct Enter {
    barrier: DoubleBarrier,
    limit: Option<Duration>,
}

impl Enter {
    pub(super) const fn new(barrier: DoubleBarrier, limit: Option<Duration>) -> Self {
        Self { barrier, limit }
    }

    /// Waits at most this long for the others; then the error is `TimedOut`, and
    /// nobody has counted us.
    pub const fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    async fn enter(self) -> Result<Inside> {
        self.barrier.check()?;
        let now = self.barrier.locks.clock().now();
        let until = self.limit.map_or(Moment::NEVER, |limit| now.after(limit));
        let home = self.barrier.locks.home().clone();
        let task = move |handoff: Arc<Handoff<_>>| async move {
            let entered = enter(self.barrier, until, &handoff).await;
            handoff.put(entered);
        };
        Detached::new(home, task).await
    }
}

impl IntoFuture for Enter {
    type Output = Result<Inside>;
    type IntoFuture = BoxFuture<Result<Inside>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.enter())
    }
}

async fn enter(
    barrier: DoubleBarrier,
    until: Moment,
    handoff: &Handoff<Result<Inside>>,
) -> Result<Inside> {
    let here = barrier.locks.cache::<()>(barrier.members_path()).keys_only().start().await?;
    let rounds = RoundRecord::new(barrier.locks.clone(), barrier.round_name()?);
    let last = LiveRecord::follow(&barrier.locks, &barrier.round_name()?).await?;
    let value = PresentValue::new(&barrier.label, "");
    let name = barrier.locks.name(&format!("{}/{}", barrier.members_path(), value.mark))?;
    let record = PresentRecord::enter(&barrier.locks, name, barrier.ttl, value).await?;
    let clock = barrier.locks.clock().clone();
    let mut newcomer = Entrant { barrier, record, here, rounds, last };
    let begun = tokio::select! {
        biased;
        begun = newcomer.wait() => Some(begun),
        () = clock.sleep_until(until) => None,
        () = handoff.abandoned() => None,
    };
    match begun {
        Some(Ok(round)) => Ok(newcomer.begin(round)),
        Some(Err(error)) => newcomer.give_up().await.and(Err(error)),
        None => newcomer.give_up().await,
    }
}

/// One who waits.
struct Entrant {
    barrier: DoubleBarrier,
    record: PresentRecord,
    here: Cache<KeyOnly>,
    rounds: RoundRecord,
    last: LiveRecord,
}

impl Entrant {
    fn mark(&self) -> &Arc<str> {
        &self.record.value().mark
    }

    fn begin(self, round: BarrierRound) -> Inside {
        Inside::new(self.barrier, round, self.record, self.here)
    }

    /// Waits for the round that we begin in. May be dropped at any point.
    async fn wait(&mut self) -> Result<BarrierRound> {
        let mut news = self.here.events();
        loop {
            let rounds = self.told()?;
            if let Some(round) = rounds.of(self.mark()) {
                return Ok(round.clone());
            }
            self.see_to_our_record().await?;
            let (turn, lost) = (self.turn(&rounds), self.record.presence().lost());
            let clock = self.barrier.locks.clock().clone();
            let at = turn.map_or(Moment::NEVER, |turn| clock.now().after(TURN * turn));
            tokio::select! {
                biased;
                changed = self.last.changed() => changed?,
                _ = lost => {}
                news = news.next() => drop(news.ok_or_else(crate::core::shut_down)?),
                () = clock.sleep_until(at) => self.try_to_decide().await?,
            }
        }
    }

    /// The rounds, as far as we were told.
    fn told(&self) -> Result<BarrierRounds> {
        self.last
            .record()
            .map_or_else(|| Ok(BarrierRounds::default()), |it| self.rounds.read(&it.value))
    }

    /// Whoever was taken for dead waits as a newcomer.
    async fn see_to_our_record(&mut self) -> Result<()> {
        if self.record.presence().check().is_ok() {
            return Ok(());
        }
        match self.record.enter_again().await {
            Err(error) if may_pass(&error) => self.barrier.locks.rest(PAUSE).await,
            entered => entered,
        }
    }

    /// How many decide before us, if enough are here: the one who came last of those
    /// who are to begin is the first to do so.
    fn turn(&self, rounds: &BarrierRounds) -> Option<u32> {
        let waiting = rounds.waiting(&self.marks());
        let size = self.barrier.size;
        let begin = waiting.get(..size)?;
        let at = begin.iter().rev().position(|mark| mark == self.mark());
        Some(u32::try_from(at.unwrap_or(size)).unwrap_or(u32::MAX))
    }

    /// Who is here as far as we were told, in the order of arrival.
    fn marks(&self) -> Vec<Arc<str>> {
        let all = self.here.snapshot();
        let mut here: Vec<(u64, Arc<str>)> =
            all.iter().map(|(name, entry)| (entry.version(), mark_of(name.as_str()))).collect();
        here.sort();
        here.into_iter().map(|(_, mark)| mark).collect()
    }

    /// Writes the next round, if enough are here. One that cannot be reached is
    /// asked again.
    async fn try_to_decide(&mut self) -> Result<()> {
        match self.decide().await {
            Ok(true) => {}
            Ok(false) => self.barrier.locks.rest(TURN).await?,
            Err(error) if may_pass(&error) => self.barrier.locks.rest(PAUSE).await?,
            Err(error) => return Err(error),
        }
        // What came of it, ours or not, is read and not guessed.
        self.last.doubt();
        self.last.changed().await
    }

    /// False if too few are here, or somebody else was faster.
    async fn decide(&mut self) -> Result<bool> {
        let (expect, rounds) = self.rounds.load().await?;
        let listed = self.barrier.locks.records::<PresentValue>(self.barrier.members_path());
        let mut here: Vec<(u64, Arc<str>)> = listed
            .list(1)
            .await?
            .into_iter()
            .map(|(_, found)| (found.version, found.value.mark))
            .collect();
        here.sort();
        let here: Vec<Arc<str>> = here.into_iter().map(|(_, mark)| mark).collect();
        match rounds.next(&here, self.barrier.size) {
            Some(next) => self.rounds.write(expect, &next).await,
            None => Ok(false),
        }
    }

    /// Waits no more. If a round was decided with us in that very moment, we have
    /// begun. Asks for a ttl at most: by then nobody counts us any more.
    async fn give_up(mut self) -> Result<Inside> {
        let clock = self.barrier.locks.clock().clone();
        let until = clock.now().after(self.barrier.ttl);
        let begun = tokio::select! {
            begun = self.leave_and_withdraw() => begun,
            () = clock.sleep_until(until) => Err(untold(&self.barrier)),
        };
        match begun {
            Ok(Some(round)) => {
                // Should it fail, the others see us leave.
                let _ = self.record.enter_again().await;
                Ok(self.begin(round))
            }
            Ok(None) => Err(too_few(&self.barrier)),
            Err(error) => {
                self.record.leave_apart();
                Err(error)
            }
        }
    }

    async fn leave_and_withdraw(&mut self) -> Result<Option<BarrierRound>> {
        loop {
            let withdrawn = match self.record.leave().await {
                Ok(_) => self.withdraw().await,
                Err(error) => Err(error),
            };
            match withdrawn {
                Err(error) if may_pass(&error) => self.barrier.locks.rest(PAUSE).await?,
                withdrawn => return withdrawn,
            }
        }
    }

    /// Makes every decision fail that was begun while we were here; or the round that
    /// we are in.
    async fn withdraw(&mut self) -> Result<Option<BarrierRound>> {
        loop {
            let (expect, rounds) = self.rounds.load().await?;
            if let Some(round) = rounds.of(self.mark()) {
                return Ok(Some(round.clone()));
            }
            if self.rounds.write(expect, &rounds).await? {
                return Ok(None);
            }
        }
    }
}

fn mark_of(name: &str) -> Arc<str> {
    name.rsplit('/').next().unwrap_or(name).into()
}

/// Whether another try may not meet this error.
fn may_pass(error: &Error) -> bool {
    error.is_retryable() || error.is_lost() || error.effect() == Effect::Unknown
}

fn too_few(barrier: &DoubleBarrier) -> Error {
    let text = format!("fewer than {} were here in time; nobody has counted us", barrier.size);
    Error::new(ErrorKind::TimedOut, text).with("barrier", &barrier.path)
}

fn untold(barrier: &DoubleBarrier) -> Error {
    let text = "the engine is away, so nobody knows whether the others have begun with us; they \
                see us leave";
    let error = Error::new(ErrorKind::Unavailable, text).unknown();
    error.with("barrier", &barrier.path)
}
