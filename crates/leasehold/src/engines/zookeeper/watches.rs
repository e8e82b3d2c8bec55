//! Who wants to hear what of a connection. Ends with it: whoever still waits
//! then hears that nobody will tell.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::wire::{WatchNotice, What};

/// A notice, and which frame of its connection it was.
pub(super) type Heard = (u64, WatchNotice);
type OneShot = HashMap<String, Vec<oneshot::Sender<What>>>;

#[derive(Debug, Default)]
pub(super) struct NodeWatches(Mutex<WatchMap>);

#[derive(Debug, Default)]
struct WatchMap {
    /// Of a node itself.
    data: OneShot,
    /// Of who is below it.
    children: OneShot,
    /// Of everything at a path and below, again and again.
    always: Vec<(String, mpsc::UnboundedSender<Heard>)>,
    closed: bool,
}

impl NodeWatches {
    /// The next change of a node.
    pub(super) fn data(&self, path: &str) -> oneshot::Receiver<What> {
        let mut all = self.locked();
        let closed = all.closed;
        add(&mut all.data, path, closed)
    }

    /// The next change of the children of a node.
    pub(super) fn children(&self, path: &str) -> oneshot::Receiver<What> {
        let mut all = self.locked();
        let closed = all.closed;
        add(&mut all.children, path, closed)
    }

    /// Nobody will tell of this path, and whoever wanted to know has gone.
    pub(super) fn forget(&self, path: &str) {
        let mut all = self.locked();
        let WatchMap { data, children, .. } = &mut *all;
        for once in [data, children] {
            if once.get(path).is_some_and(|tells| tells.iter().all(oneshot::Sender::is_closed)) {
                once.remove(path);
            }
        }
    }

    /// All changes at a path and below.
    pub(super) fn below(&self, path: &str) -> mpsc::UnboundedReceiver<Heard> {
        let (tell, told) = mpsc::unbounded_channel();
        let mut all = self.locked();
        if !all.closed {
            all.always.push((path.to_owned(), tell));
        }
        told
    }

    pub(super) fn tell(&self, frame: u64, notice: &WatchNotice) {
        let mut all = self.locked();
        if matches!(notice.what, What::Gone | What::WriteResult) {
            fire(&mut all.data, notice);
        }
        if matches!(notice.what, What::Gone | What::Children) {
            fire(&mut all.children, notice);
        }
        all.always.retain(|(path, tell)| {
            let concerned = is_below(&notice.path, path);
            if concerned { tell.send((frame, notice.clone())).is_ok() } else { !tell.is_closed() }
        });
    }

    pub(super) fn close(&self) {
        *self.locked() = WatchMap { closed: true, ..WatchMap::default() };
    }

    fn locked(&self) -> MutexGuard<'_, WatchMap> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(once: &mut OneShot, path: &str, closed: bool) -> oneshot::Receiver<What> {
    let (tell, told) = oneshot::channel();
    if !closed {
        let all = once.entry(path.to_owned()).or_default();
        all.retain(|other| !other.is_closed());
        all.push(tell);
    }
    told
}

fn fire(once: &mut OneShot, notice: &WatchNotice) {
    for tell in once.remove(&notice.path).into_iter().flatten() {
        // Whoever has lost interest does not hear it.
        let _ = tell.send(notice.what);
    }
}

fn is_below(path: &str, top: &str) -> bool {
    top == "/"
        || path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(what: What, path: &str) -> WatchNotice {
        WatchNotice { what, path: path.into() }
    }

    #[test]
    fn each_hears_what_it_asked_for() {
        let watches = NodeWatches::default();
        let (mut data, mut children) = (watches.data("/a"), watches.children("/a"));
        let mut below = watches.below("/a");
        watches.tell(1, &notice(What::Children, "/a"));
        assert_eq!(children.try_recv(), Ok(What::Children));
        assert!(data.try_recv().is_err());
        watches.tell(2, &notice(What::Gone, "/a"));
        assert_eq!(data.try_recv(), Ok(What::Gone));
        watches.tell(3, &notice(What::Made, "/ab"));
        watches.tell(4, &notice(What::Made, "/a/b"));
        let heard: Vec<_> = std::iter::from_fn(|| below.try_recv().ok()).collect();
        assert_eq!(heard.len(), 3);
        assert_eq!(heard[2], (4, notice(What::Made, "/a/b")));
    }

    #[test]
    fn what_nobody_waits_for_is_forgotten() {
        let watches = NodeWatches::default();
        drop(watches.data("/a"));
        let kept = watches.data("/b");
        ["/a", "/b"].iter().for_each(|path| watches.forget(path));
        assert_eq!(watches.locked().data.keys().collect::<Vec<_>>(), ["/b"]);
        drop(kept);
    }

    #[test]
    fn whoever_waits_at_the_end_is_told_so() {
        let watches = NodeWatches::default();
        let mut before = watches.data("/a");
        watches.close();
        let mut after = watches.data("/a");
        for told in [&mut before, &mut after] {
            assert_eq!(told.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        }
    }
}
