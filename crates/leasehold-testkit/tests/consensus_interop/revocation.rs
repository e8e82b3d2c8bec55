//! Curator's `Revoker` and ours.

use leasehold::engine::{Eviction, Target};
use leasehold_testkit::contest::{BOUND, Checked, until};
use tokio::time::timeout;

use crate::stage::{LONG, NOW, PATH, Stage, token};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_asks_us_and_we_let_go() -> Checked {
    let mut stage = Stage::new().await?;
    let guard = stage.ours.mutex(PATH).ttl(LONG).lock().await?;
    let node = stage.znodes()?.children(PATH)?.pop().ok_or("our node")?;
    stage.java.ask_back(&format!("{PATH}/{node}"))?;
    timeout(BOUND, guard.revocation()).await?;
    guard.check()?;
    guard.release().await?;
    token(stage.java.lock("mutex", PATH, NOW, NOW)?)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_ask_curator_and_it_lets_go() -> Checked {
    let Stage { ours, mut java, server: _server } = Stage::new().await?;
    token(java.lock("revocable", PATH, NOW, NOW)?)?;
    assert!(!java.is_asked("revocable", PATH)?);
    let ask = Eviction::new(ours.name(PATH)?, Target::All, "ann", "a fix is waiting")?;
    ours.evict(ask.asking()).await?;
    until("it hears", || {
        let heard = java.is_asked("revocable", PATH);
        async { Ok(heard?) }
    })
    .await?;
    assert!(ours.mutex(PATH).try_lock().await?.is_none(), "it was only asked");
    assert!(java.unlock("revocable", PATH)?.is_some());
    ours.mutex(PATH).ttl(LONG).lock().within(BOUND).await?.check()?;
    Ok(())
}
