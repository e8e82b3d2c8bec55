//! What becomes of a client whose last handle ends on home.

use std::task::Poll;

use super::*;

/// Whether its engine is closed.
async fn is_closed(events: &mut crate::engine::Events) -> bool {
    let mut next = std::pin::pin!(events.next());
    std::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_ready())).await
}

#[tokio::test]
async fn a_client_that_ends_on_home_holds_up_nobody() -> Result<()> {
    // Its time stands still, so it waits for nothing but its tasks.
    let (locks, other) = (Locks::memory_on(TestClock::new()), Locks::memory());
    let core = Arc::clone(locks.core());
    let (under_way, mut events) = (core.tasks.begin(), core.engine.events());
    let (tell, told) = tokio::sync::oneshot::channel();
    other.spawn(async move {
        drop(locks);
        let _ = tell.send(());
    });
    told.await.expect("the handle is dropped");
    other.rest(Duration::from_millis(1)).await?;
    assert!(!is_closed(&mut events).await, "home was blocked, and gave up");
    drop(under_way);
    while events.next().await.is_some() {}
    Ok(())
}
