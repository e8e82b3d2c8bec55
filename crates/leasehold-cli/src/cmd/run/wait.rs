//! Waiting for the lock, or for the end of patience.

use leasehold::Locks;

use super::notice::Notice;
use super::recipe::Recipe;
use super::tenure::Tenure;
use crate::args::Run;
use crate::engine;
use crate::failure::{BUSY, Failure};
use crate::text::span;

/// The lease, or a failure that says who has it.
pub(crate) async fn acquire(locks: &Locks, args: &Run, label: &str) -> Result<Tenure, Failure> {
    let recipe = Recipe::new(locks, args, label);
    let got = if args.no_wait {
        let got = engine::answer(async { Ok(recipe.try_lock().await?) }).await?;
        got.ok_or(Failure::silent(BUSY))
    } else {
        wait(locks, args, label, &recipe).await
    };
    match got {
        Err(failure) if failure.code == BUSY => Err(busy(locks, args, label).await),
        got => got,
    }
}

async fn wait(locks: &Locks, args: &Run, label: &str, recipe: &Recipe) -> Result<Tenure, Failure> {
    let notice = Notice::new(locks, args, label);
    tokio::select! {
        biased;
        got = recipe.lock(args.wait) => Ok(got?),
        never = notice.show() => match never {},
    }
}

/// Who has the lock, now that we have given up.
async fn busy(locks: &Locks, args: &Run, label: &str) -> Failure {
    let (name, who) = Notice::new(locks, args, label).obstacle().await;
    let waited = args.wait.map(|limit| format!("still busy after {}", span(limit)));
    let state = waited.unwrap_or_else(|| "busy".into());
    Failure::new(args.busy_code, format!("{name} is {state}{who}"))
}
