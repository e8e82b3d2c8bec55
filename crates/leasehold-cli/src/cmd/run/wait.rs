//! Waiting for the lock, or for the end of patience.

use leasehold::Locks;

use super::notice::Notice;
use super::recipe::Recipe;
use super::request::Request;
use super::tenure::Tenure;
use crate::engine;
use crate::failure::{BUSY, Failure};
use crate::text::span;

/// The lease, or a failure that says who has it.
pub(crate) async fn acquire(locks: &Locks, request: &Request<'_>) -> Result<Tenure, Failure> {
    let recipe = Recipe::new(locks, request);
    let got = if request.job.no_wait {
        let got = engine::answer(async { Ok(recipe.try_lock().await?) }).await?;
        got.ok_or(Failure::silent(BUSY))
    } else {
        wait(locks, request, &recipe).await
    };
    match got {
        Err(failure) if failure.code == BUSY => Err(busy(locks, request).await),
        got => got,
    }
}

async fn wait(locks: &Locks, request: &Request<'_>, recipe: &Recipe) -> Result<Tenure, Failure> {
    let notice = Notice::new(locks, request);
    tokio::select! {
        biased;
        got = recipe.lock(request.job.wait) => Ok(got?),
        never = notice.show() => match never {},
    }
}

/// Who has the lock, now that we have given up.
async fn busy(locks: &Locks, request: &Request<'_>) -> Failure {
    let (name, who) = Notice::new(locks, request).obstacle().await;
    let waited = request.job.wait.map(|limit| format!("still busy after {}", span(limit)));
    let state = waited.unwrap_or_else(|| "busy".into());
    Failure::new(request.job.busy_code, format!("{name} is {state}{who}"))
}
