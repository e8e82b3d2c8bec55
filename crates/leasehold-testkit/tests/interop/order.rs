//! Fair locks: who came first is served first, whatever it is written in.

use crate::stage::{Checked, LONG, NOW, Scene, eventually};

pub(crate) fn served_in_order(scene: &mut Scene<'_>) -> Checked {
    let (kind, name) = (scene.kind, scene.name.clone());
    let mut third = scene.third()?;
    assert!(scene.first.lock(kind, &name, NOW, LONG)?.is_some(), "the name was free");
    scene.second.ask(kind, &name, 2 * LONG, LONG)?;
    eventually("the second is queued", || Ok(scene.queued()? == 1))?;
    third.ask(kind, &name, 2 * LONG, LONG)?;
    eventually("the third is queued", || Ok(scene.queued()? == 2))?;
    assert!(scene.first.unlock(kind, &name)?.is_some(), "it was held");
    let second = scene.second.granted()?.ok_or("it came first")?;
    assert!(scene.second.unlock(kind, &name)?.is_some(), "it was held");
    let last = third.granted()?.ok_or("it came second")?;
    assert!(third.unlock(kind, &name)?.is_some(), "it was held");
    assert!(second.at < last.at, "the third overtook the second");
    scene.dismiss(third);
    Ok(())
}
