//! Single entries: looked at, watched, checked and removed.

use std::sync::Arc;

use super::Etcd;
use super::keys::card_of;
use super::proto::event::EventType;
use super::proto::{Event, TxnRequest};
use super::txn;
use super::watches::Watch;
use crate::engines::consensus::{Card, Change, Step, Watched};
use crate::error::Result;

/// How many steps a transaction may have: servers take 128 unless told otherwise.
const STEPS: usize = 100;

impl Etcd {
    pub(super) async fn look(&self, keys: &[Arc<str>]) -> Result<Vec<Option<(Card, u64)>>> {
        let by = self.link.deadline();
        let mut seen = Vec::with_capacity(keys.len());
        for some in keys.chunks(STEPS) {
            let success = some.iter().map(|key| txn::read(txn::one(key))).collect();
            let request = TxnRequest { success, ..TxnRequest::default() };
            let found = txn::found(self.link.ask(request, by).await?);
            let entry = |key| (card_of(&key), txn::fence(&key));
            seen.extend(found.map(|mut range| range.kvs.pop().map(entry)));
        }
        Ok(seen)
    }

    pub(super) async fn watch(&self, key: &str) -> Result<Option<Watched>> {
        let mut range = self.link.ask(txn::one(key), self.link.deadline()).await?;
        let Some(entry) = range.kvs.pop() else { return Ok(None) };
        let watch = self.watches.watch(key, Vec::new(), txn::revision(range.header) + 1);
        Ok(Some(Watched { bytes: entry.value, change: Box::pin(first_change(watch)) }))
    }

    /// All steps or none: the version of the change, if it came about.
    pub(super) async fn change(&self, steps: Vec<Step>) -> Result<Option<u64>> {
        let by = self.link.deadline();
        let mut request = TxnRequest::default();
        for step in &steps {
            match step {
                Step::Remove { key, fence } | Step::Write { key, fence, .. } => {
                    request.compare.push(txn::made_at(key, fence.cast_signed()));
                }
                Step::Put { name, bytes, life } => {
                    request.success.push(self.put(name, bytes.clone(), life, by).await?);
                }
            }
            match step {
                Step::Remove { key, .. } => request.success.push(txn::delete(key)),
                Step::Write { key, bytes, .. } => {
                    request.success.push(txn::overwrite(key, bytes.clone()));
                }
                Step::Put { .. } => {}
            }
        }
        let lives = steps.iter().filter_map(|step| match step {
            Step::Put { life, .. } => Some(life),
            _ => None,
        });
        self.commit(request, lives, by).await
    }
}

async fn first_change(mut watch: Watch) -> Change {
    match watch.next().await {
        None => Change::Doubt,
        Some(event) if event.r#type() == EventType::Delete => Change::Gone,
        Some(Event { kv, .. }) => Change::Written(kv.unwrap_or_default().value),
    }
}
