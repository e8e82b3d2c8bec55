//! Semaphores: permits are counted over all sides.

use crate::stage::{Checked, LONG, NOW, Scene};

/// Three permits, as the kind says.
pub(crate) fn counted(scene: &mut Scene<'_>) -> Checked {
    let Scene { kind, name, first, second, .. } = scene;
    for _ in 0..2 {
        assert!(first.lock(kind, name, NOW, LONG)?.is_some(), "a permit was free");
    }
    assert!(second.lock(kind, name, NOW, LONG)?.is_some(), "the third permit was free");
    assert!(second.lock(kind, name, NOW, LONG)?.is_none(), "a fourth permit");
    assert!(first.lock(kind, name, NOW, LONG)?.is_none(), "a fourth permit");
    assert!(first.unlock(kind, name)?.is_some(), "it held two");
    assert!(second.lock(kind, name, NOW, LONG)?.is_some(), "one was given back");
    for _ in 0..2 {
        assert!(second.unlock(kind, name)?.is_some(), "it held two");
    }
    assert!(first.unlock(kind, name)?.is_some(), "it held one");
    Ok(())
}
