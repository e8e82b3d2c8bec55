//! Read-write locks: readers share, writers do not.

use crate::stage::{Checked, LONG, NOW, Scene, eventually};

pub(crate) fn share(scene: &mut Scene<'_>) -> Checked {
    let Scene { name, first, second, .. } = scene;
    assert!(first.lock("read", name, NOW, LONG)?.is_some(), "the name was free");
    assert!(second.lock("read", name, NOW, LONG)?.is_some(), "readers share");
    assert!(first.unlock("read", name)?.is_some(), "it read");
    assert!(first.lock("write", name, NOW, LONG)?.is_none(), "a writer beside a reader");
    assert!(second.unlock("read", name)?.is_some(), "it read");
    assert!(first.lock("write", name, NOW, LONG)?.is_some(), "the last reader left");
    assert!(second.lock("read", name, NOW, LONG)?.is_none(), "a reader beside a writer");
    assert!(second.lock("write", name, NOW, LONG)?.is_none(), "two writers");
    assert!(first.unlock("write", name)?.is_some(), "it wrote");
    Ok(())
}

pub(crate) fn last_reader(scene: &mut Scene<'_>) -> Checked {
    let name = scene.name.clone();
    assert!(scene.first.lock("read", &name, NOW, LONG)?.is_some(), "the name was free");
    scene.second.ask("write", &name, 2 * LONG, LONG)?;
    eventually("the writer listens", || scene.is_listened_to())?;
    let released = scene.first.unlock("read", &name)?.ok_or("it read")?;
    let granted = scene.second.granted()?.ok_or("the last reader left")?;
    let took = granted.at.saturating_sub(released);
    assert!(took < LONG / 3, "it took {took:?}, as if only the ttl had ended the wait");
    assert!(scene.second.unlock("write", &name)?.is_some(), "it wrote");
    Ok(())
}
