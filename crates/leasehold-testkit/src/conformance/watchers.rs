//! Watchers: they hear of every change, or that they have missed some.

use std::collections::HashSet;
use std::future::poll_fn;
use std::task::Poll;

use leasehold::Name;
use leasehold::claim::{RawRecord, Store};
use leasehold::engine::{RecordEvent, RecordEvents};

use super::check::{Check, Outcome, check};
use super::records::{Pair, children, name, next, put, records, store};
use super::store::Store as Shared;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(a_watcher_sees_every_change_of_a_record_in_order),
        check!(a_watcher_that_lags_far_behind_is_told_to_load_again),
        check!(a_large_value_is_watched_too),
        check!(a_dropped_call_for_the_next_change_loses_nothing),
    ]
}

async fn a_watcher_sees_every_change_of_a_record_in_order(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut events = records(&pair.b).watch(children("w")).await?;
    let mut expected = Vec::new();
    for at in 0..300 {
        let engine = if at % 3 == 0 { &pair.b } else { &pair.a };
        let text = format!("w/{}", at % 7);
        store(engine, put("elsewhere", "x")).await?;
        store(engine, put("w/too/deep", "x")).await?;
        if at % 10 == 9 {
            let version = store(engine, put(&text, "x")).await?;
            expected.push(RecordEvent::Stored(name(&text), RawRecord::new("x".into(), version)));
            store(engine, Store::delete(name(&text))).await?;
            expected.push(RecordEvent::Deleted(name(&text)));
        } else {
            let value = at.to_string();
            let version = store(engine, put(&text, &value)).await?;
            expected.push(RecordEvent::Stored(name(&text), RawRecord::new(value.into(), version)));
        }
    }
    hears(&mut events, expected, Vec::new()).await;
    Ok(())
}

/// The rest of what is expected, the changes of each record in their turn; what
/// is missing has a `Resync` in its place.
async fn hears(
    events: &mut Box<dyn RecordEvents>,
    mut expected: Vec<RecordEvent>,
    heard: Vec<RecordEvent>,
) {
    let (mut heard, mut gaps) = (heard.into_iter(), HashSet::new());
    while !expected.is_empty() {
        let event = match heard.next() {
            Some(event) => event,
            None => next(events).await,
        };
        match changed(&event).cloned() {
            None => gaps.extend(expected.iter().filter_map(changed).cloned()),
            Some(name) => {
                let gap = gaps.remove(&name);
                strike(&mut expected, &event, &name, gap);
            }
        }
    }
}

/// Takes a change off the list, and those of the same record that a gap ate.
fn strike(expected: &mut Vec<RecordEvent>, event: &RecordEvent, name: &Name, gap: bool) {
    let at = expected.iter().position(|it| it == event).expect("a change that was made");
    let skips = |it: &RecordEvent| changed(it) == Some(name);
    let skipped = expected[..at].iter().filter(|it| skips(it)).count();
    assert!(skipped == 0 || gap, "{skipped} changes were left out before {event:?}");
    let later = expected.split_off(at + 1);
    expected.retain(|it| !skips(it));
    expected.extend(later);
}

fn changed(event: &RecordEvent) -> Option<&Name> {
    match event {
        RecordEvent::Stored(name, _) | RecordEvent::Deleted(name) => Some(name),
        _ => None,
    }
}

async fn a_watcher_that_lags_far_behind_is_told_to_load_again(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut events = records(&pair.b).watch(children("w")).await?;
    for _ in 0..50 {
        let writes = (0..100).map(|at| records(&pair.a).store(put("w/n", &at.to_string())));
        for write in writes {
            let _ = write.await?;
        }
    }
    let mut seen = Vec::new();
    while !seen.contains(&RecordEvent::Resync) {
        seen.push(next(&mut events).await);
    }
    store(&pair.a, put("w/n", "last")).await?;
    loop {
        if let RecordEvent::Stored(_, record) = next(&mut events).await
            && record.value == b"last"
        {
            return Ok(());
        }
    }
}

async fn a_large_value_is_watched_too(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut events = records(&pair.b).watch(children("w")).await?;
    let version = store(&pair.a, Store::put(name("w/n"), vec![7; 512 * 1024])).await?;
    let expected = RecordEvent::Stored(name("w/n"), RawRecord::new(vec![7; 512 * 1024], version));
    assert!(next(&mut events).await == expected);
    Ok(())
}

/// Polls a few times and lets go, unless there is something.
async fn poll_and_drop(events: &mut Box<dyn RecordEvents>, times: usize) -> Option<RecordEvent> {
    let mut next = events.next();
    for _ in 0..times {
        let once = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx)));
        if let Poll::Ready(event) = once.await {
            return event;
        }
        tokio::task::yield_now().await;
    }
    None
}

async fn a_dropped_call_for_the_next_change_loses_nothing(shared: Shared) -> Outcome {
    let Some(pair) = Pair::new(&shared).await? else { return Ok(()) };
    let mut events = records(&pair.b).watch(children("w")).await?;
    let (mut expected, mut seen) = (Vec::new(), Vec::new());
    for at in 0..100 {
        let version = store(&pair.a, put("w/n", "x")).await?;
        expected.push(RecordEvent::Stored(name("w/n"), RawRecord::new("x".into(), version)));
        seen.extend(poll_and_drop(&mut events, at % 7).await);
    }
    hears(&mut events, expected, seen).await;
    Ok(())
}
