//! Many things to do, so many at a time.

use leasehold_testkit::contest::Checked;
use tokio::task::JoinSet;

/// As many as a busy process has under way.
pub(crate) const MANY: usize = 1_000;
/// As many as an operator would dare.
pub(crate) const SOME: usize = 64;

/// What came of each, in no order.
pub(crate) async fn each<I, T, F>(
    items: impl IntoIterator<Item = I>,
    abreast: usize,
    mut task: impl FnMut(I) -> F,
) -> Checked<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Checked<T>> + Send + 'static,
{
    let (mut running, mut done) = (JoinSet::new(), Vec::new());
    for item in items {
        if running.len() == abreast
            && let Some(ended) = running.join_next().await
        {
            done.push(ended??);
        }
        running.spawn(task(item));
    }
    while let Some(ended) = running.join_next().await {
        done.push(ended??);
    }
    Ok(done)
}
