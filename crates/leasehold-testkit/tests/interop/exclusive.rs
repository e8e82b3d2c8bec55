//! What every lock with one holder must do, whoever holds and whoever asks.

use std::time::Duration;

use leasehold_testkit::peer::now;

use crate::stage::{Checked, LONG, NOW, SHORT, Scene, eventually};

/// How long two sides fight for a name; `cargo xtask interop --long` sets more.
const SPAN_VARIABLE: &str = "LEASEHOLD_INTEROP_SECONDS";
const SPAN: Duration = Duration::from_secs(2);
/// How often they fight, if one of them has not met a free name yet.
const ROUNDS: usize = 10;
/// The tasks of each side.
const TASKS: usize = 4;

pub(crate) fn busy_until_released(scene: &mut Scene<'_>) -> Checked {
    let Scene { kind, name, first, second, .. } = scene;
    assert!(first.lock(kind, name, NOW, LONG)?.is_some(), "the name was free");
    assert!(second.lock(kind, name, NOW, LONG)?.is_none(), "two holders");
    assert!(first.unlock(kind, name)?.is_some(), "it was held");
    assert!(second.lock(kind, name, NOW, LONG)?.is_some(), "it was released");
    assert!(second.unlock(kind, name)?.is_some(), "it was held");
    Ok(())
}

/// The ttl has most of its time left when the waiter is in.
pub(crate) fn woken(scene: &mut Scene<'_>) -> Checked {
    let (kind, name) = (scene.kind, scene.name.clone());
    assert!(scene.first.lock(kind, &name, NOW, LONG)?.is_some(), "the name was free");
    scene.second.ask(kind, &name, 2 * LONG, LONG)?;
    eventually("the waiter listens", || scene.is_listened_to())?;
    let released = scene.first.unlock(kind, &name)?.ok_or("it was held")?;
    let granted = scene.second.granted()?.ok_or("it was released")?;
    let took = granted.at.saturating_sub(released);
    assert!(took < LONG / 3, "it took {took:?}, as if only the ttl had ended the wait");
    assert!(scene.second.unlock(kind, &name)?.is_some(), "it was held");
    Ok(())
}

/// Each adds to a counter in two steps: two at once would lose an update.
pub(crate) fn compete(scene: &mut Scene<'_>) -> Checked {
    let mut did = [0, 0];
    // A client that asks now and then meets a free name less often than one
    // that is told; but it must meet it in the end.
    for _ in 0..ROUNDS {
        let more = fight(scene)?;
        did = [did[0] + more[0], did[1] + more[1]];
        assert_eq!(scene.counter()?, did[0] + did[1], "updates were lost: two held it at once");
        if did.iter().all(|did| *did > 0) {
            return Ok(());
        }
    }
    panic!("one side starved: {did:?}")
}

/// The counter of `compete` proves something: readers, who exclude nobody, lose
/// updates of each other.
pub(crate) fn bites(scene: &mut Scene<'_>) -> Checked {
    let did = fight(scene)?;
    assert!(scene.counter()? < did[0] + did[1], "no update was lost without exclusion");
    Ok(())
}

fn fight(scene: &mut Scene<'_>) -> Result<[u64; 2], libtest_mimic::Failed> {
    let Scene { kind, name, first, second, .. } = scene;
    first.contend(kind, name, TASKS, span())?;
    second.contend(kind, name, TASKS, span())?;
    let did = [first.did()?, second.did()?];
    println!(
        "{kind}: {} did {}, {} did {}",
        first.tongue().name(),
        did[0],
        second.tongue().name(),
        did[1]
    );
    Ok(did)
}

fn span() -> Duration {
    let told = std::env::var(SPAN_VARIABLE).ok().and_then(|seconds| seconds.parse().ok());
    told.map_or(SPAN, Duration::from_secs)
}

pub(crate) fn dead_holder(scene: &mut Scene<'_>) -> Checked {
    let Scene { kind, name, first, second, .. } = scene;
    let asked = now();
    assert!(first.lock(kind, name, NOW, SHORT)?.is_some(), "the name was free");
    first.kill()?;
    let granted = second.lock(kind, name, LONG, LONG)?.ok_or("the ttl ended")?;
    assert!(granted.at >= asked + SHORT, "it came in {:?} after the dead", granted.at - asked);
    assert!(second.unlock(kind, name)?.is_some(), "it was held");
    scene.recast_first()
}

pub(crate) fn late_release(scene: &mut Scene<'_>) -> Checked {
    let Scene { kind, name, first, second, .. } = scene;
    assert!(first.lock(kind, name, NOW, SHORT)?.is_some(), "the name was free");
    assert!(second.lock(kind, name, LONG, LONG)?.is_some(), "the ttl ended");
    assert!(first.unlock(kind, name)?.is_none(), "it released what it had lost");
    assert!(first.lock(kind, name, NOW, LONG)?.is_none(), "the successor was thrown out");
    assert!(second.unlock(kind, name)?.is_some(), "the successor held it");
    Ok(())
}

/// What one side extends, the other finds taken for longer.
pub(crate) fn extended(scene: &mut Scene<'_>) -> Checked {
    let (kind, name) = (scene.kind, scene.name.clone());
    assert!(scene.first.lock(kind, &name, NOW, LONG)?.is_some(), "the name was free");
    assert!(scene.time_left()? <= LONG, "the lease asked for");
    assert!(scene.first.extend(kind, &name, 10 * LONG)?, "it was held");
    assert!(scene.time_left()? > 2 * LONG, "the key was not extended");
    assert!(scene.second.lock(kind, &name, NOW, LONG)?.is_none(), "two holders");
    assert!(scene.first.unlock(kind, &name)?.is_some(), "it was held");
    Ok(())
}
