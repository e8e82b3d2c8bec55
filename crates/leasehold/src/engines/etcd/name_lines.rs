//! The lines of many names at once.

use super::Etcd;
use super::proto::{KeyValue, TxnRequest};
use super::txn;
use crate::engines::consensus::{NameLines, QueueEntry, QueueId, QueuePart};
use crate::error::{Error, Result};
use crate::name::Name;

/// How many names are read in one transaction: servers take 128 steps unless told
/// otherwise.
const NAMES: usize = 100;
/// How much of a name is read with others. One with more is read by itself, so that an
/// answer does not grow with the lines.
const KEYS: i64 = 32;

impl Etcd {
    pub(super) async fn lines(&self, names: &[Name]) -> Result<Vec<NameLines>> {
        let by = self.link.deadline();
        let mut all = Vec::with_capacity(names.len());
        for some in names.chunks(NAMES) {
            let below = |name| Ok(txn::read(txn::below(&self.keys.base(name)?, KEYS)));
            let success = some.iter().map(below).collect::<Result<_>>()?;
            let request = TxnRequest { success, ..TxnRequest::default() };
            let found = txn::found(self.link.ask(request, by).await?);
            for (name, range) in some.iter().zip(found) {
                all.push(match range.more {
                    true => self.long_lines(name).await?,
                    false => self.short_lines(name, &range.kvs)?,
                });
            }
        }
        Ok(all)
    }

    async fn long_lines(&self, name: &Name) -> Result<NameLines> {
        let queue = self.list(&QueueId::of(name, QueuePart::Queue), None).await?;
        if !queue.is_empty() {
            return Ok(NameLines { queue, ..NameLines::default() });
        }
        let permits = self.list(&QueueId::of(name, QueuePart::Permits), None).await?;
        let door = self.list(&QueueId::of(name, QueuePart::Door), None).await?;
        Ok(NameLines { queue, permits, door })
    }

    /// The lines of a name all of whose keys these are.
    fn short_lines(&self, name: &Name, keys: &[KeyValue]) -> Result<NameLines> {
        let line = |part| {
            let mut line = self.place(&QueueId::of(name, part))?.view(keys).line;
            line.sort_by_key(|entry| entry.order);
            Ok::<Vec<QueueEntry>, Error>(line)
        };
        let (queue, permits) = (line(QueuePart::Queue)?, line(QueuePart::Permits)?);
        Ok(NameLines { queue, permits, door: line(QueuePart::Door)? })
    }
}
