//! Looking at nodes, and watching them.

use std::sync::Arc;

use super::child_walks::{ChildWalk, SortedChildren};
use super::client::{ZkClient, ask_on, children, data, known, only};
use super::connection::ZkConnection;
use super::layout::downgraded;
use super::paths::text_of;
use super::wire::{What, ZkRequest, version};
use crate::engines::consensus::{KeyChange, Look, Metadata, QueueId, WatchedKey, WatchedQueue};
use crate::error::Result;
use crate::name::{Name, Namespace};

impl ZkClient {
    pub(super) async fn look(&self, keys: Vec<Arc<str>>) -> Result<Vec<Look>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let look = |key: &Arc<str>| ZkRequest::GetData { path: key.to_string(), watch: false };
        let answers = self.ask(keys.iter().map(look).collect()).await?;
        let seen = answers.into_iter().map(|answer| {
            Ok(data(answer)?.map(|(bytes, stat)| (Metadata::read(&bytes), version(stat.made))))
        });
        seen.collect()
    }

    /// Whether an entry is there, under its key or under that of the reader it has
    /// become.
    pub(super) async fn is_there(&self, key: &str) -> Result<bool> {
        let keys = [Some(key.to_owned()), downgraded(key)];
        let looks = keys.into_iter().flatten().map(|path| ZkRequest::Exists { path });
        let answers = self.ask(looks.collect()).await?;
        let seen: Vec<_> = answers.into_iter().map(known).collect::<Result<_>>()?;
        Ok(seen.iter().any(Option::is_some))
    }

    pub(super) async fn watch(&self, key: Arc<str>) -> Result<Option<WatchedKey>> {
        let connection = self.sessions.any().await?.connection().await?;
        // Before the request leaves, so that no change is missed.
        let told = connection.watches().data(&key);
        let Some((bytes, _)) = get(&connection, &key, true).await? else {
            drop(told);
            connection.watches().forget(&key);
            return Ok(None);
        };
        let change = Box::pin(async move {
            match told.await {
                Ok(What::Gone) => KeyChange::Gone,
                Ok(_) => written(&connection, &key).await,
                Err(_) => KeyChange::Doubt,
            }
        });
        // The server numbers what is made, and a reader has another key than the writer
        // it was.
        Ok(Some(WatchedKey { bytes, order: None, change }))
    }

    pub(super) async fn watch_line(&self, line: QueueId) -> Result<WatchedQueue> {
        let path = self.layout.line(&line)?;
        let connection = self.sessions.any().await?.connection().await?;
        let told = connection.watches().children(&path);
        let list = ZkRequest::GetChildren { path: path.clone(), watch: true };
        let answer = only(ask_on(&connection, vec![list]).await?)?;
        // Nobody tells of a path that is not there: it has to be looked for.
        let told = answer.result.is_ok().then_some(told);
        if told.is_none() {
            connection.watches().forget(&path);
        }
        let line = self.layout.entries(line.part, &path, &children(answer)?);
        let change = Box::pin(async move {
            if let Some(told) = told {
                let _ = told.await;
            }
        });
        Ok(WatchedQueue { line, change })
    }

    pub(super) async fn names(
        &self,
        namespace: Namespace,
        prefix: Arc<str>,
        after: Option<Name>,
        most: usize,
    ) -> Result<(Vec<Name>, bool)> {
        let path = self.layout.names_of(&namespace)?;
        let from = after.map_or_else(String::new, |after| format!("{after}\0"));
        let (all, at) = self.walk(path, &prefix, &from, most).await?;
        let end = all.len().min(at.saturating_add(most));
        let names =
            all[at..end].iter().filter_map(|text| Name::new(&namespace, Arc::clone(text)).ok());
        Ok((names.collect(), end < all.len()))
    }
}

impl ZkClient {
    /// What the children of a node stand for that begin with `prefix` and are not before
    /// `from`, or more of them, and where a page of so many begins that are.
    pub(super) async fn walk(
        &self,
        path: String,
        prefix: &Arc<str>,
        from: &str,
        most: usize,
    ) -> Result<SortedChildren> {
        let now = self.terms.clock.now();
        if let Some(found) = self.walks.resume(&path, prefix, from, most, now) {
            return Ok(found);
        }
        let list = ZkRequest::GetChildren { path: path.clone(), watch: false };
        let segments = children(only(self.ask_now(vec![list]).await?)?)?;
        let texts = segments.iter().filter_map(|segment| text_of(segment));
        let wanted = |text: &Arc<str>| text.starts_with(&**prefix) && **text >= *from;
        let mut all: Vec<_> = texts.filter(wanted).collect();
        all.sort_unstable();
        let all: Arc<[_]> = all.into();
        let (prefix, kept) = (Arc::clone(prefix), Arc::clone(&all));
        let walk = ChildWalk { path, prefix, all: kept, at: 0, listed_at: now };
        self.walks.keep(walk, most);
        Ok((all, 0))
    }
}

/// What was written over a node.
async fn written(connection: &ZkConnection, key: &str) -> KeyChange {
    match get(connection, key, false).await {
        Ok(Some((bytes, _))) => KeyChange::Written(bytes),
        Ok(None) => KeyChange::Gone,
        Err(_) => KeyChange::Doubt,
    }
}

async fn get(
    connection: &ZkConnection,
    key: &str,
    watch: bool,
) -> Result<Option<(Vec<u8>, super::wire::Stat)>> {
    let look = ZkRequest::GetData { path: key.to_owned(), watch };
    data(only(ask_on(connection, vec![look]).await?)?)
}
