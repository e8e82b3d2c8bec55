//! What has changed between two looks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::SystemTime;

use leasehold::Mode;
use leasehold::claim::Predecessor;
use leasehold::engine::{Held, Last, Queued, Status};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, ModeJson};
use crate::text::visible;

/// Something that happened to a name. Field names are a promise.
#[derive(Serialize)]
pub(crate) struct Change<'a> {
    at: String,
    event: &'static str,
    name: &'a str,
    namespace: &'a str,
    label: &'a str,
    #[serde(flatten)]
    json_mode: ModeJson,
    #[serde(skip)]
    mode: Mode,
    fence: Option<u64>,
    remark: Option<Cow<'a, str>>,
}

impl<'a> Change<'a> {
    /// What is so when the watch begins.
    pub(crate) fn start(names: &'a [Status]) -> Vec<Self> {
        let held = |status: &'a Status| {
            status.holders.iter().map(|held| Self::of_holder("held", status, held))
        };
        let waiting = |status: &'a Status| {
            status.waiters.iter().map(|queued| Self::of_waiter("waiting", status, queued))
        };
        names.iter().flat_map(|status| held(status).chain(waiting(status))).collect()
    }

    fn of_holder(event: &'static str, status: &'a Status, held: &'a Held) -> Self {
        let mut change = Self::new(event, status, &held.label, held.mode);
        change.fence = held.fence;
        change
    }

    fn of_waiter(event: &'static str, status: &'a Status, queued: &'a Queued) -> Self {
        Self::new(event, status, &queued.label, queued.mode)
    }

    fn new(event: &'static str, status: &'a Status, label: &'a str, mode: Mode) -> Self {
        Self {
            at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            event,
            name: status.name.as_str(),
            namespace: status.name.namespace().as_str(),
            label,
            json_mode: mode.into(),
            mode,
            fence: None,
            remark: None,
        }
    }

    pub(crate) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            return output::print_json_line(self);
        }
        output::print(&self.line())
    }

    fn line(&self) -> String {
        let fence = self.fence.map(|fence| format!(", fence {fence}")).unwrap_or_default();
        let remark = self.remark.as_deref().map(|remark| format!(" {}", visible(remark)));
        let (name, label) = (visible(self.name), visible(self.label));
        let who = format!("{label} ({}{fence}){}", self.mode, remark.unwrap_or_default());
        format!("{} {:<8}  {name}  {who}\n", self.at, self.event)
    }
}

/// All changes, name by name; on each name first who ended, then who came.
pub(crate) fn changes<'a>(before: &'a [Status], after: &'a [Status]) -> Vec<Change<'a>> {
    let mut pairs: BTreeMap<&str, (Option<&Status>, Option<&Status>)> = BTreeMap::new();
    before.iter().for_each(|it| pairs.entry(it.name.as_str()).or_default().0 = Some(it));
    after.iter().for_each(|it| pairs.entry(it.name.as_str()).or_default().1 = Some(it));
    pairs.into_values().flat_map(|(before, after)| of_name(before, after)).collect()
}

fn of_name<'a>(before: Option<&'a Status>, after: Option<&'a Status>) -> Vec<Change<'a>> {
    let Some(any) = after.or(before) else { return Vec::new() };
    let [was, is] = [before, after].map(|status| status.map_or(&[][..], |it| &it.holders));
    let ended = without(was, is, is_same);
    let granted = without(is, was, is_same);
    let [was, is] = [before, after].map(|status| status.map_or(&[][..], |it| &it.waiters));
    // Who was granted does not wait any more: told once.
    let left = without_refs(without(was, is, is_alike), &granted, |a, b| a.label == b.label);
    let waiting = without(is, was, is_alike);

    let last = after.and_then(|status| status.last.as_ref());
    let ended = ended.into_iter().map(|held| end_of(any, held, last));
    let left = left.into_iter().map(|queued| Change::of_waiter("left", any, queued));
    let granted = granted.into_iter().map(|held| Change::of_holder("granted", any, held));
    let waiting = waiting.into_iter().map(|queued| Change::of_waiter("waiting", any, queued));
    ended.chain(left).chain(granted).chain(waiting).collect()
}

fn is_same(a: &Held, b: &Held) -> bool {
    a.fence == b.fence && a.label == b.label
}

fn is_alike(a: &Queued, b: &Queued) -> bool {
    a.label == b.label && a.mode == b.mode
}

/// How a holder ended, if the engine still knows.
fn end_of<'a>(status: &'a Status, held: &'a Held, last: Option<&'a Last>) -> Change<'a> {
    let (own, later) = match last {
        Some(last) if Some(last.fence) == held.fence => (Some(last), None),
        last => (None, last),
    };
    let event = match own.map(|last| last.ended) {
        Some(Predecessor::Released) => "released",
        Some(Predecessor::Expired) => "expired",
        Some(Predecessor::Evicted) => "evicted",
        _ => "ended",
    };
    let mut change = Change::of_holder(event, status, held);
    let remark = own.and_then(|last| last.remark.as_deref()).map(Cow::Borrowed);
    change.remark = remark.or_else(|| later.map(forgotten));
    change
}

/// Engines remember one end for each name. Who came and went between two looks
/// has covered the one before, an eviction too: that is said, not passed over.
fn forgotten(later: &Last) -> Cow<'_, str> {
    let (label, fence) = (&later.label, later.fence);
    format!("unknown how: only the end of {label} (fence {fence}) is remembered").into()
}

/// The items that have no partner among the others; each has one at most.
fn without<'a, T>(items: &'a [T], others: &'a [T], same: impl Fn(&T, &T) -> bool) -> Vec<&'a T> {
    without_refs(items.iter().collect(), &others.iter().collect::<Vec<_>>(), same)
}

fn without_refs<'a, T, U>(
    items: Vec<&'a T>,
    others: &[&'a U],
    same: impl Fn(&T, &U) -> bool,
) -> Vec<&'a T> {
    let mut others = others.to_vec();
    let mut is_alone = |item: &&'a T| {
        let partner = others.iter().position(|other| same(item, other));
        partner.map(|at| others.swap_remove(at)).is_none()
    };
    items.into_iter().filter(|item| is_alone(item)).collect()
}

#[cfg(test)]
mod tests {
    use leasehold::Locks;
    use leasehold::engine::{Eviction, Target};

    use super::*;

    async fn look(locks: &Locks) -> Vec<Status> {
        vec![locks.status("x").await.unwrap()]
    }

    fn events<'a>(before: &'a [Status], after: &'a [Status]) -> Vec<(&'a str, &'a str)> {
        changes(before, after).iter().map(|change| (change.event, change.label)).collect()
    }

    #[tokio::test]
    async fn a_hand_over_is_an_end_and_a_grant() {
        let locks = Locks::memory();
        let free = look(&locks).await;
        let one = locks.mutex("x").label("one").lock().await.unwrap();
        let held = look(&locks).await;
        assert_eq!(events(&free, &held), [("granted", "one")]);
        assert_eq!(events(&held, &held), []);

        let two = tokio::spawn(locks.mutex("x").label("two").lock().into_future());
        let mut queued = look(&locks).await;
        while queued[0].waiters.is_empty() {
            tokio::task::yield_now().await;
            queued = look(&locks).await;
        }
        assert_eq!(events(&held, &queued), [("waiting", "two")]);

        one.release().await.unwrap();
        let two = two.await.unwrap().unwrap();
        let next = look(&locks).await;
        let ended = events(&queued, &next);
        assert!(matches!(ended[..], [(_, "one"), ("granted", "two")]), "{ended:?}");
        two.release().await.unwrap();
        let end = look(&locks).await;
        // An engine may forget a clean end at once, and this one does.
        assert_eq!(events(&next, &end), [("ended", "two")]);
        assert_eq!(Change::start(&next)[0].event, "held");
    }

    async fn evict(locks: &Locks) {
        let name = locks.name("x").unwrap();
        let eviction = Eviction::new(name, Target::All, "me", "a drill").unwrap();
        locks.evict(eviction).await.unwrap();
    }

    #[tokio::test]
    async fn an_eviction_is_told_although_the_next_one_holds_by_now() {
        let locks = Locks::memory();
        let _one = locks.mutex("x").label("one").lock().await.unwrap();
        let held = look(&locks).await;
        evict(&locks).await;
        let _two = locks.mutex("x").label("two").lock().await.unwrap();
        let next = look(&locks).await;
        assert_eq!(events(&held, &next), [("evicted", "one"), ("granted", "two")]);
        assert_eq!(changes(&held, &next)[0].remark.as_deref(), Some("by me: a drill"));
    }

    #[tokio::test]
    async fn an_end_that_was_covered_by_another_is_said_to_be() {
        let locks = Locks::memory();
        let _one = locks.mutex("x").label("one").lock().await.unwrap();
        let held = look(&locks).await;
        evict(&locks).await;
        let two = locks.mutex("x").label("two").lock().await.unwrap();
        let fence = two.fence();
        two.release().await.unwrap();
        let next = look(&locks).await;
        assert_eq!(events(&held, &next), [("ended", "one")]);
        let remark = format!("unknown how: only the end of two (fence {fence}) is remembered");
        assert_eq!(changes(&held, &next)[0].remark.as_deref(), Some(&*remark));
    }
}
