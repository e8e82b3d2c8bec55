//! Lists that somebody walks through page by page. Servers tell all children of a node or
//! none, so who goes on with the next page is given more of the list that the page before
//! was cut from. Who begins anew has the servers list anew.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Moment;

/// How long a list is gone on with: names made since are not in it.
const FRESH: Duration = Duration::from_secs(5);
/// How many lists are kept. One of a hundred thousand names takes a few megabytes.
const KEPT: usize = 4;

/// What children of a node stand for, in order, and where a page of it begins.
pub(super) type SortedChildren = (Arc<[Arc<str>]>, usize);

/// The lists that were last walked through.
#[derive(Debug, Default)]
pub(super) struct ChildWalks(Mutex<Vec<ChildWalk>>);

/// One of them.
#[derive(Debug)]
pub(super) struct ChildWalk {
    pub(super) path: String,
    pub(super) prefix: Arc<str>,
    pub(super) all: Arc<[Arc<str>]>,
    /// Where the last page began.
    pub(super) at: usize,
    pub(super) listed_at: Moment,
}

impl ChildWalks {
    /// The list whose last page somebody goes on behind.
    pub(super) fn resume(
        &self,
        path: &str,
        prefix: &str,
        from: &str,
        most: usize,
        now: Moment,
    ) -> Option<SortedChildren> {
        let mut kept = self.kept();
        kept.retain(|walk| now < walk.listed_at.after(FRESH));
        let goes_on = |walk: &ChildWalk| {
            walk.path == path && *walk.prefix == *prefix && *walk.all[walk.at] < *from
        };
        let at = kept.iter().position(goes_on)?;
        let mut walk = kept.remove(at);
        drop(kept);
        walk.at = walk.all.partition_point(|text| **text < *from);
        let found = (Arc::clone(&walk.all), walk.at);
        self.keep(walk, most);
        Some(found)
    }

    /// Keeps a list, if there is anything behind this page.
    pub(super) fn keep(&self, walk: ChildWalk, most: usize) {
        if walk.all.len() <= walk.at.saturating_add(most) {
            return;
        }
        let mut kept = self.kept();
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push(walk);
    }

    fn kept(&self) -> MutexGuard<'_, Vec<ChildWalk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TestClock;

    fn walk(texts: &[&str], listed_at: Moment) -> ChildWalk {
        let all = texts.iter().map(|text| Arc::from(*text)).collect();
        ChildWalk { path: "/n".into(), prefix: "".into(), all, at: 0, listed_at }
    }

    #[test]
    fn who_goes_on_is_given_the_list_and_who_begins_anew_is_not() {
        let (walks, now) = (ChildWalks::default(), TestClock::new().now());
        walks.keep(walk(&["a", "b", "c", "d", "e"], now), 2);
        let resume = |from, most| walks.resume("/n", "", from, most, now).map(|(_, at)| at);
        assert_eq!(walks.resume("/other", "", "b\0", 2, now), None);
        assert_eq!(walks.resume("/n", "a", "b\0", 2, now), None);
        assert_eq!(resume("", 2), None);
        assert_eq!(resume("b\0", 2), Some(2));
        assert_eq!(resume("b\0", 2), None, "that page was given");
        assert_eq!(resume("d\0", 2), Some(4));
        assert_eq!(resume("e\0", 2), None, "nothing was behind it");
    }

    #[test]
    fn a_list_that_is_old_or_one_too_many_is_forgotten() {
        let (walks, test) = (ChildWalks::default(), TestClock::new());
        walks.keep(walk(&["a", "b"], test.now()), 1);
        test.advance(FRESH);
        assert_eq!(walks.resume("/n", "", "a\0", 1, test.now()), None);
        for _ in 0..=KEPT {
            walks.keep(walk(&["a", "b"], test.now()), 1);
        }
        assert_eq!(walks.kept().len(), KEPT);
    }
}
