//! The lines of many names at once.

use super::client::{ZkClient, children};
use super::layout::{LEASES, LOCKS};
use super::wire::ZkRequest;
use crate::engines::consensus::{NameLines, QueueEntry, QueueId, QueuePart};
use crate::error::Result;
use crate::name::Name;

impl ZkClient {
    pub(super) async fn lines(&self, names: &[Name]) -> Result<Vec<NameLines>> {
        let (mut all, mut counted) = (Vec::with_capacity(names.len()), Vec::new());
        let queues = names.iter().map(|name| QueueId::of(name, QueuePart::Queue));
        for (name, (queue, children)) in names.iter().zip(self.lists(queues).await?) {
            let folder = |child: &String| [LOCKS, LEASES].contains(&child.as_str());
            if queue.is_empty() && children.iter().any(folder) {
                counted.push((all.len(), name));
            }
            all.push(NameLines { queue, ..NameLines::default() });
        }
        let parts = counted.iter().flat_map(|(_, name)| {
            [QueuePart::Permits, QueuePart::Door].map(|part| QueueId::of(name, part))
        });
        let mut found = self.lists(parts).await?.into_iter().map(|(line, _)| line);
        for (at, _) in counted {
            all[at].permits = found.next().unwrap_or_default();
            all[at].door = found.next().unwrap_or_default();
        }
        Ok(all)
    }

    /// Many lines in one go, each with all children of its path.
    async fn lists(
        &self,
        lines: impl Iterator<Item = QueueId>,
    ) -> Result<Vec<(Vec<QueueEntry>, Vec<String>)>> {
        let places = lines.map(|line| Ok((line.part, self.layout.line(&line)?)));
        let places: Vec<_> = places.collect::<Result<_>>()?;
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let list =
            |(_, path): &(_, String)| ZkRequest::GetChildren { path: path.clone(), watch: false };
        let answers = self.ask_now(places.iter().map(list).collect()).await?;
        let read = places.iter().zip(answers).map(|((part, path), answer)| {
            let children = children(answer)?;
            Ok((self.layout.entries(*part, path, &children), children))
        });
        read.collect()
    }
}
