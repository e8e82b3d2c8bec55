//! Following values: every change, or the news that some were missed.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::mpsc;

use super::client::{ZkClient, ask_on, data, only};
use super::connection::{ZkAnswer, ZkConnection};
use super::fault;
use super::watches::Heard;
use super::wire::{WatchNotice, What, ZkRequest, version};
use crate::engines::consensus::ValueNews;
use crate::error::Result;
use crate::name::{Name, Namespace};

impl ZkClient {
    pub(super) async fn follow(
        self: Arc<Self>,
        namespace: Namespace,
        prefix: Arc<str>,
    ) -> Result<mpsc::UnboundedReceiver<ValueNews>> {
        let path = self.layout.followed(&namespace, &prefix)?;
        let (tell, told) = mpsc::unbounded_channel();
        let follower = ValueFollower { client: Arc::clone(&self), namespace, prefix, path, tell };
        let tap = follower.tap().await?;
        self.terms.home.spawn(follower.follow(tap));
        Ok(told)
    }
}

/// One who wants to hear of the values of a namespace.
struct ValueFollower {
    client: Arc<ZkClient>,
    namespace: Namespace,
    prefix: Arc<str>,
    path: String,
    tell: mpsc::UnboundedSender<ValueNews>,
}

/// Notices of one connection.
struct Tap {
    connection: ZkConnection,
    notices: mpsc::UnboundedReceiver<Heard>,
    /// Those that have come and were not dealt with.
    queue: VecDeque<Heard>,
    /// Nodes with a mark: that they go is no news.
    marked: HashSet<String>,
    /// How far a look has come.
    seen: SeenUpTo,
}

/// What was told before a frame are all changes up to a version, and it may be some
/// more.
#[derive(Clone, Copy, Debug, Default)]
struct SeenUpTo {
    frame: u64,
    version: u64,
}

impl From<&ZkAnswer> for SeenUpTo {
    fn from(answer: &ZkAnswer) -> Self {
        Self { frame: answer.frame, version: version(answer.zxid) }
    }
}

impl ValueFollower {
    /// Every change from now on is told, while the connection stands.
    async fn tap(&self) -> Result<Tap> {
        let connection = self.client.sessions.any().await?.connection().await?;
        let notices = connection.watches().below(&self.path);
        let watch = ZkRequest::AddWatch { path: self.path.clone() };
        only(ask_on(&connection, vec![watch]).await?)?.result.map_err(fault::refused)?;
        let (queue, marked, seen) = (VecDeque::new(), HashSet::new(), SeenUpTo::default());
        Ok(Tap { connection, notices, queue, marked, seen })
    }

    async fn follow(self, mut tap: Tap) {
        loop {
            tokio::select! {
                () = self.tell.closed() => return,
                () = self.drain(&mut tap) => {}
            }
            match self.again().await {
                Some(next) => tap = next,
                None => return,
            }
            if self.tell.send(ValueNews::Gap).is_err() {
                return;
            }
        }
    }

    /// Another connection; `None` once nobody wants to know any more.
    async fn again(&self) -> Option<Tap> {
        let clock = &self.client.terms.clock;
        loop {
            if self.tell.is_closed() || self.client.sessions.is_closed() {
                return None;
            }
            if let Ok(tap) = self.tap().await {
                return Some(tap);
            }
            clock.sleep_until(clock.now().after(std::time::Duration::from_millis(100))).await;
        }
    }

    /// Tells of changes until the connection ends.
    async fn drain(&self, tap: &mut Tap) {
        while let Some((frame, notice)) = tap.next().await {
            let Some(name) = self.name(&notice.path) else { continue };
            let told = match notice.what {
                What::Gone => self.tell_of_end(tap, name, frame, &notice.path).await,
                _ => self.tell_of(tap, name, notice).await,
            };
            if told.is_err() {
                return;
            }
        }
    }

    fn name(&self, path: &str) -> Option<Name> {
        let name = self.client.layout.value_name(&self.namespace, path)?;
        name.as_str().starts_with(&*self.prefix).then_some(name)
    }

    /// A node went at `frame`, and the notice does not say in which change. Any later
    /// answer does: if nothing more was told of the node before it, nothing was there
    /// when it was given. A node that went may have been made anew in the same change,
    /// so that no version of its end would be right.
    async fn tell_of_end(&self, tap: &mut Tap, name: Name, frame: u64, path: &str) -> Result<()> {
        if tap.marked.remove(path) {
            return Ok(());
        }
        if tap.seen.frame < frame {
            tap.look(ZkRequest::Exists { path: path.to_owned() }).await?;
        }
        let SeenUpTo { frame, version } = tap.seen;
        let again = tap.is_told_again(path, frame);
        self.send(if again { ValueNews::Gap } else { ValueNews::Gone(name, version) });
        Ok(())
    }

    async fn tell_of(&self, tap: &mut Tap, name: Name, notice: WatchNotice) -> Result<()> {
        if tap.is_told_again(&notice.path, u64::MAX) {
            self.send(ValueNews::Gap);
            return Ok(());
        }
        let look = ZkRequest::GetData { path: notice.path.clone(), watch: false };
        let answer = tap.look(look).await?;
        // A server tells of a change before it shows it: this may be what a later
        // notice tells of, and is told in its turn.
        if tap.is_told_again(&notice.path, answer.frame) {
            self.send(ValueNews::Gap);
            return Ok(());
        }
        match data(answer)?.map(|(bytes, stat)| self.client.layout.stored(bytes, stat)) {
            Some(stored) if !stored.is_mark() => {
                tap.marked.remove(&notice.path);
                self.send(ValueNews::Put(name, stored.value()));
            }
            Some(mark) => {
                let is_first = tap.marked.insert(notice.path.clone());
                // A node that was made as a mark held nothing before.
                if is_first && notice.what != What::Made {
                    self.send(ValueNews::Gone(name, mark.value().version));
                }
            }
            None if tap.marked.remove(&notice.path) => {}
            None => self.send(ValueNews::Gone(name, tap.seen.version)),
        }
        Ok(())
    }

    fn send(&self, news: ValueNews) {
        // That nobody listens any more is noticed elsewhere.
        let _ = self.tell.send(news);
    }
}

impl Tap {
    async fn next(&mut self) -> Option<Heard> {
        match self.queue.pop_front() {
            Some(heard) => Some(heard),
            None => self.notices.recv().await,
        }
    }

    async fn look(&mut self, look: ZkRequest) -> Result<ZkAnswer> {
        let answer = only(ask_on(&self.connection, vec![look]).await?)?;
        self.seen = SeenUpTo::from(&answer);
        Ok(answer)
    }

    fn fill(&mut self) {
        while let Ok(heard) = self.notices.try_recv() {
            self.queue.push_back(heard);
        }
    }

    /// Whether another notice of this path came before a frame.
    fn is_told_again(&mut self, path: &str, before: u64) -> bool {
        self.fill();
        self.queue.iter().any(|(frame, notice)| notice.path == path && *frame < before)
    }
}
