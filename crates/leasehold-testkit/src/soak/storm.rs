//! The storm: what is done to the servers and to the ways that lead to them.

use std::fmt;
use std::time::{Duration, Instant};

use super::deployment::Deployment;
use crate::contest::Checked;
use crate::proxy::{Fault, Way};

/// How often each fault was done, and how often it was felt.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Nodes that stood still.
    pub pauses: u64,
    /// Times that all connections of a way were reset.
    pub cuts: u64,
    /// Times that replies were kept back for longer than a ttl.
    pub delays: u64,
    /// Connections that were reset.
    pub reset: u64,
    /// Bytes of replies that were kept back.
    pub held: u64,
    /// Whether there are ways whose bytes are counted.
    ways: bool,
}

impl Faults {
    /// Whether every kind of fault that is possible here was felt.
    #[must_use]
    pub const fn bit(&self) -> bool {
        self.pauses > 0 && self.reset > 0 && self.delays > 0 && (!self.ways || self.held > 0)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pauses, cuts, delays, reset, held, .. } = self;
        write!(f, "{pauses} pauses, {cuts} cuts ({reset} connections), ")?;
        write!(f, "{delays} delays ({held} bytes late)")
    }
}

/// Breaks one thing at a time; now and then two at once, on other nodes.
pub(super) struct Storm<'a> {
    deployment: &'a mut Deployment,
    faults: Faults,
}

impl<'a> Storm<'a> {
    pub(super) fn new(deployment: &'a mut Deployment) -> Self {
        let faults = Faults { ways: !deployment.ways().is_empty(), ..Faults::default() };
        Self { deployment, faults }
    }

    /// Until then; everything is whole again at the end.
    pub(super) async fn rage(mut self, end: Instant) -> Checked<Faults> {
        while Instant::now() < end {
            match fastrand::u8(..3) {
                0 => self.pause().await?,
                1 => self.cut()?,
                _ => self.delay().await?,
            }
            sleep(200..1_500).await;
        }
        self.deployment.heal()?;
        let counts = self.deployment.ways().iter().map(crate::proxy::FaultProxy::counts);
        let (reset, held) = counts.fold((self.faults.reset, 0), |(reset, held), it| {
            (reset + it.reset, held + it.replies.held)
        });
        Ok(Faults { reset, held, ..self.faults })
    }

    /// Some nodes stand still for 50 to 5,000 ms.
    async fn pause(&mut self) -> Checked {
        let count = self.deployment.servers().len();
        let mut nodes: Vec<usize> = (0..count).collect();
        fastrand::shuffle(&mut nodes);
        nodes.truncate(fastrand::usize(1..=count.div_ceil(2)));
        for node in &nodes {
            self.deployment.servers()[*node].pause()?;
        }
        self.faults.pauses += nodes.len() as u64;
        // Short and long ones alike: as many below 500 ms as above.
        let most = if fastrand::bool() { 500 } else { 5_000 };
        sleep(50..most).await;
        for node in nodes {
            self.deployment.servers()[node].resume()?;
        }
        Ok(())
    }

    fn cut(&mut self) -> Checked {
        match fastrand::choice(self.deployment.ways()) {
            Some(way) => way.reset_all(),
            None => self.faults.reset += self.deployment.hang_up()?,
        }
        self.faults.cuts += 1;
        Ok(())
    }

    /// Replies come later than any lease lives that nobody could renew.
    async fn delay(&mut self) -> Checked {
        let span = Duration::from_millis(fastrand::u64(500..4_000));
        match fastrand::choice(self.deployment.ways()) {
            Some(way) => {
                way.set(Way::Replies, Fault::Hold);
                tokio::time::sleep(span).await;
                way.heal();
            }
            None => {
                self.deployment.keep_waiting(span)?;
                tokio::time::sleep(span).await;
            }
        }
        self.faults.delays += 1;
        Ok(())
    }
}

async fn sleep(range: std::ops::Range<u64>) {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(range))).await;
}
