//! Single entries: looked at, watched, checked and removed.

use std::sync::Arc;

use super::Etcd;
use super::keys::card_of;
use super::marks::Leaver;
use super::proto::event::EventType;
use super::proto::{Compare, Event, TxnRequest};
use super::txn;
use super::values::session_of;
use super::watches::KeyWatch;
use crate::engines::consensus::{KeyChange, Look, TxnStep, WatchedKey};
use crate::error::Result;

/// How many steps a transaction may have: servers take 128 unless told otherwise.
const STEPS: usize = 100;

impl Etcd {
    pub(super) async fn look(&self, keys: &[Arc<str>]) -> Result<Vec<Look>> {
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

    pub(super) async fn watch(&self, key: &str) -> Result<Option<WatchedKey>> {
        let mut range = self.link.ask(txn::one(key), self.link.deadline()).await?;
        let Some(entry) = range.kvs.pop() else { return Ok(None) };
        let watch = self.watches.watch(key, Vec::new(), txn::revision(range.header) + 1);
        let (bytes, order) = (entry.value, Some(entry.create_revision));
        Ok(Some(WatchedKey { bytes, order, change: Box::pin(first_change(watch)) }))
    }

    /// All steps or none: the version of the change, if it came about.
    pub(super) async fn change(&self, steps: Vec<TxnStep>) -> Result<Option<u64>> {
        let by = self.link.deadline();
        let mut request = TxnRequest::default();
        let mut bound = None;
        for step in steps {
            request.compare.extend(condition(&step));
            match step {
                TxnStep::Remove { key, fence, departure } => {
                    request.success.push(txn::delete(&key));
                    let leaver = self.keys.leaver(&key, fence.cast_signed());
                    let marks = leaver.as_ref().map(|it| it.leaving(&departure));
                    request.success.extend(marks.into_iter().flatten());
                    request.failure.extend(leaver.as_ref().map(Leaver::left));
                }
                TxnStep::Write { key, bytes, .. } => {
                    request.success.push(txn::overwrite(&key, bytes));
                }
                TxnStep::Put { name, bytes, life } => {
                    request.success.push(self.put(&name, bytes, &life, by).await?);
                    bound = session_of(life).or(bound);
                }
                TxnStep::Delete { name } => {
                    request.success.push(txn::delete(&self.keys.record(&name)?));
                }
            }
        }
        self.commit(request, bound, by).await
    }
}

/// What must be there for a step to be taken.
fn condition(step: &TxnStep) -> Option<Compare> {
    match step {
        TxnStep::Remove { key, fence, .. } | TxnStep::Write { key, fence, .. } => {
            Some(txn::made_at(key, fence.cast_signed()))
        }
        TxnStep::Put { .. } | TxnStep::Delete { .. } => None,
    }
}

async fn first_change(mut watch: KeyWatch) -> KeyChange {
    match watch.next().await {
        None => KeyChange::Doubt,
        Some(event) if event.r#type() == EventType::Delete => KeyChange::Gone,
        Some(Event { kv, .. }) => KeyChange::Written(kv.unwrap_or_default().value),
    }
}
