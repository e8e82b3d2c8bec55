//! Fencing tokens: one sequence for all sides.

use crate::stage::{Checked, LONG, NOW, Scene};

const ROUNDS: usize = 5;

pub(crate) fn tokens_grow(scene: &mut Scene<'_>) -> Checked {
    let Scene { kind, name, first, second, .. } = scene;
    let mut tokens = Vec::new();
    for _ in 0..ROUNDS {
        for peer in [&mut *first, &mut *second] {
            let granted = peer.lock(kind, name, NOW, LONG)?.ok_or("the name was free")?;
            tokens.push(granted.token.ok_or("a fenced lock has tokens")?);
            assert!(peer.unlock(kind, name)?.is_some(), "it was held");
        }
    }
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
    Ok(())
}
