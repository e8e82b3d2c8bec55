//! A soak: minutes of traffic on real servers while everything around it
//! breaks, and a witness who looks for what must never be seen.
//!
//! Nodes stand still for 50 to 5,000 ms, connections are cut, replies come after
//! the ttl; leases live for 1 to 3 s, are extended and converted. What is looked
//! for: two holders at once, a fence out of order, and anything that stays
//! behind.

mod deployment;
mod storm;
mod traffic;
mod witness;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::Locks;
use tokio::task::spawn_blocking;

pub use deployment::{DEPLOYMENTS, Deployment};
pub use storm::Faults;
pub use witness::Witness;

use crate::contest::Checked;
use storm::Storm;
use traffic::{NAMES, Traffic};

/// Clients of one deployment, as many as a small fleet.
const CLIENTS: usize = 4;
/// How long anything may stay behind: the longest linger that is promised.
const LINGER: Duration = Duration::from_secs(60);

/// What a soak saw.
#[derive(Debug)]
pub struct Report {
    /// Which deployment.
    pub deployment: &'static str,
    /// Leases that were seen as granted.
    pub grants: u64,
    /// Calls that ended without a lease: busy, timed out, unknown.
    pub refusals: u64,
    /// Leases that were lost while they were held.
    pub losses: u64,
    /// Extensions and conversions that were confirmed.
    pub changes: u64,
    /// What was done to the servers, by kind.
    pub faults: Faults,
    /// Two holders at once, or a fence out of order: each one told in words.
    pub overlaps: Vec<String>,
    /// Names that were held, waited for or closed after everybody had gone.
    pub residue: Vec<String>,
}

impl Report {
    /// Whether nothing was seen that must not be, and everything was tried.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.overlaps.is_empty() && self.residue.is_empty() && self.grants > 0 && self.faults.bit()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deployment, grants, refusals, losses, changes, faults, .. } = self;
        write!(f, "{deployment:<10} {grants:>8} grants {refusals:>7} refused {losses:>6} lost ")?;
        write!(f, "{changes:>6} changed | {faults} | ")?;
        write!(f, "{} overlaps, {} residue", self.overlaps.len(), self.residue.len())?;
        let told = self.overlaps.iter().chain(&self.residue).take(20);
        told.into_iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// Soaks one deployment for so long.
///
/// # Errors
///
/// When its servers cannot be started, or a client cannot be opened.
pub async fn soak(name: &'static str, span: Duration) -> Checked<Report> {
    // Servers are waited for by threads, not by tasks.
    let mut deployment = spawn_blocking(move || Deployment::start(name)).await??;
    let witness = Arc::new(Witness::default());
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(leasehold::open(deployment.url()).await?);
    }
    let watching = witness.watch();
    let traffic = Traffic::start(&clients, &witness);
    let faults = Storm::new(&mut deployment).rage(Instant::now() + span).await?;
    let counts = traffic.end().await;
    watching.abort();
    let residue = leave(&deployment, clients).await?;
    let overlaps = witness.overlaps();
    Ok(Report {
        deployment: name,
        grants: counts.grants,
        refusals: counts.refusals,
        losses: counts.losses,
        changes: counts.changes,
        faults,
        overlaps,
        residue,
    })
}

/// Everybody goes; what is left then, and stays, is residue.
async fn leave(deployment: &Deployment, clients: Vec<Locks>) -> Checked<Vec<String>> {
    for client in &clients {
        client.shutdown(LINGER).await?;
    }
    drop(clients);
    let visitor = leasehold::open(deployment.url()).await?;
    let end = Instant::now() + LINGER;
    loop {
        let mut left = Vec::new();
        for name in NAMES {
            let status = visitor.status(name).await?;
            if status.is_busy() {
                left.push(format!("{name} stays in use: {status:?}"));
            }
        }
        if left.is_empty() || Instant::now() > end {
            return Ok(left);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
