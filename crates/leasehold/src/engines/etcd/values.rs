//! Values: written under a condition, listed and followed.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::Etcd;
use super::keys::EtcdKeys;
use super::leases::seconds;
use super::link::{CallFault, backoff};
use super::proto::event::EventType;
use super::proto::{Event, KeyValue, RangeRequest, RangeResponse, RequestOp, TxnRequest};
use super::reach::RangeReach;
use super::txn;
use super::watches::KeyWatch;
use crate::clock::Moment;
use crate::engine::Scope;
use crate::engine::records::PAGE_BYTES;
use crate::engines::consensus::{If, Scan, Session, StoredValue, ValueLife, ValueNews};
use crate::error::Result;
use crate::name::{Name, Namespace};

/// How many values are read at once: the largest have to fit into one answer.
const PAGE: usize = 32;

impl Etcd {
    pub(super) async fn load(&self, name: &Name) -> Result<Option<StoredValue>> {
        let request = txn::one(&self.keys.record(name)?);
        let mut range = self.link.ask(request, self.link.deadline()).await?;
        Ok(range.kvs.pop().map(value))
    }

    pub(super) async fn store(
        &self,
        name: &Name,
        condition: If,
        bytes: Option<Vec<u8>>,
        life: ValueLife,
        while_there: Option<(Arc<str>, u64)>,
    ) -> Result<Option<u64>> {
        let by = self.link.deadline();
        let key = self.keys.record(name)?;
        let mut request = TxnRequest::default();
        request.compare.extend(match condition {
            If::Any => None,
            If::Absent => Some(txn::absent(&key)),
            If::Stamp(stamp) => Some(txn::written_at(&key, stamp)),
        });
        let made_at = |(key, fence): (Arc<str>, u64)| txn::made_at(&key, fence.cast_signed());
        request.compare.extend(while_there.map(made_at));
        request.success.push(match bytes {
            None => txn::delete(&key),
            Some(bytes) => self.put(name, bytes, &life, by).await?,
        });
        self.commit(request, session_of(life), by).await
    }

    /// A step that writes a value.
    pub(super) async fn put(
        &self,
        name: &Name,
        value: Vec<u8>,
        life: &ValueLife,
        by: Moment,
    ) -> Result<RequestOp> {
        let key = self.keys.record(name)?;
        Ok(match life {
            ValueLife::Forever => txn::put(&key, value, 0),
            ValueLife::Keep => txn::overwrite(&key, value),
            ValueLife::For(ttl) => {
                let (lease, _) = self.leases.lease(seconds(*ttl), by).await?;
                txn::put(&key, value, lease)
            }
            ValueLife::Session(session) => txn::put(&key, value, session.id().cast_signed()),
        })
    }

    /// Carries out a transaction, whose values may be bound to a session: the
    /// revision of its change, if it came about.
    pub(super) async fn commit(
        &self,
        request: TxnRequest,
        bound: Option<Arc<Session>>,
        by: Moment,
    ) -> Result<Option<u64>> {
        let mut leases = txn::leases(&request);
        leases.retain(|lease| bound.as_ref().is_none_or(|it| it.id() != lease.cast_unsigned()));
        let answer = self.link.try_ask(request, by).await;
        let answer = match bound {
            Some(session) => self.on_session(&session, answer)?,
            None => answer.map_err(CallFault::into_error)?,
        };
        if !answer.succeeded {
            self.give_back(leases, by).await;
        }
        Ok(answer.succeeded.then(|| txn::revision(answer.header).unsigned_abs()))
    }

    /// Leases that values were to live on, had they been written. They end by
    /// themselves if they cannot be given back, after all of their time.
    async fn give_back(&self, leases: Vec<i64>, by: Moment) {
        for lease in leases {
            let _ = self.leases.revoke(lease, by).await;
        }
    }

    pub(super) async fn scan(&self, scope: &Scope, from: &str, most: usize) -> Result<Scan> {
        let (by, namespace) = (self.link.deadline(), scope.namespace());
        let records = self.keys.records(namespace)?;
        let range_end = end_of_texts(&(records.clone() + scope.root()));
        let mut key = first_of(records.clone() + scope.root().max(from)).into_bytes();
        let (mut page, mut bytes, mut misses) = (Vec::new(), 0, 0);
        loop {
            let limit = PAGE.min(most.saturating_sub(page.len())).max(1);
            let until = self.value_reach().end(&key, &range_end, misses);
            let range = self.values_between(key, &until, limit, by).await?;
            if range.more && limit == PAGE.min(most) {
                self.learn_values(&range);
            }
            bytes += range.kvs.iter().map(|kv| kv.value.len()).sum::<usize>();
            key = range.kvs.last().filter(|_| range.more).map_or(until, |last| after(&last.key));
            key = self.keys.past_own(key);
            misses = if range.more { 0 } else { misses + 1 };
            let named = |kv: KeyValue| {
                let name = self.keys.record_name(namespace, &records, &kv.key)?;
                Some((name, value(kv)))
            };
            page.extend(range.kvs.into_iter().filter_map(named));
            let more = key < range_end;
            if !more || page.len() >= most || bytes >= PAGE_BYTES {
                return Ok((page, more));
            }
        }
    }

    async fn values_between(
        &self,
        key: Vec<u8>,
        until: &[u8],
        limit: usize,
        by: Moment,
    ) -> Result<RangeResponse> {
        let (range_end, limit) = (until.to_vec(), i64::try_from(limit).unwrap_or(1));
        let request = RangeRequest { key, range_end, limit, ..RangeRequest::default() };
        self.link.ask(request, by).await
    }

    fn learn_values(&self, range: &RangeResponse) {
        if let [first, .., last] = &*range.kvs {
            self.value_reach().learn(&first.key, &last.key);
        }
    }

    const fn value_reach(&self) -> &RangeReach {
        &self.reaches[1]
    }

    /// Follows on home, for as long as anybody listens and the store is open.
    pub(super) async fn follow(
        self: &Arc<Self>,
        namespace: Namespace,
        prefix: &str,
    ) -> Result<mpsc::UnboundedReceiver<ValueNews>> {
        let records = self.keys.records(&namespace)?;
        let (watched, keys) = (records.clone() + prefix, self.keys.clone());
        let follower = Follower { watched, records, namespace, keys };
        let watch = follower.watch(self).await?;
        let (tell, news) = mpsc::unbounded_channel();
        let etcd = Arc::downgrade(self);
        let mut closed = self.closed.subscribe();
        self.home.spawn(async move {
            tokio::select! {
                () = follower.follow(&etcd, watch, &tell) => {}
                _ = closed.wait_for(|closed| *closed) => {}
                () = tell.closed() => {}
            }
        });
        Ok(news)
    }
}

/// One who wants to hear of every change.
struct Follower {
    namespace: Namespace,
    /// What the keys of the values begin with.
    records: String,
    /// What the watched ones begin with.
    watched: String,
    keys: EtcdKeys,
}

impl Follower {
    /// From the revision that the store has now.
    async fn watch(&self, etcd: &Etcd) -> Result<KeyWatch> {
        let first = first_of(self.watched.clone());
        let now = RangeRequest { count_only: true, ..txn::one(&first) };
        let now = etcd.link.ask(now, etcd.link.deadline()).await?;
        let from = txn::revision(now.header) + 1;
        Ok(etcd.watches.watch(&first, txn::end_of(&self.watched), from))
    }

    async fn follow(
        &self,
        etcd: &std::sync::Weak<Etcd>,
        mut watch: KeyWatch,
        tell: &mpsc::UnboundedSender<ValueNews>,
    ) {
        let mut backoff = backoff();
        loop {
            while let Some(event) = watch.next().await {
                backoff.reset();
                // Nobody listens any more: seen to by who started us.
                let _ = self.news(event).map(|news| tell.send(news));
            }
            let Some(etcd) = etcd.upgrade() else { return };
            backoff.sleep(etcd.link.clock()).await;
            if let Ok(again) = self.watch(&etcd).await {
                watch = again;
                let _ = tell.send(ValueNews::Gap);
            }
        }
    }

    fn news(&self, event: Event) -> Option<ValueNews> {
        let gone = event.r#type() == EventType::Delete;
        let key = event.kv?;
        let name = self.keys.record_name(&self.namespace, &self.records, &key.key)?;
        let value = value(key);
        Some(if gone { ValueNews::Gone(name, value.version) } else { ValueNews::Put(name, value) })
    }
}

/// The first key that begins like this: no key is empty.
fn first_of(prefix: String) -> String {
    if prefix.is_empty() { "\0".into() } else { prefix }
}

/// The end of the range of all keys that begin with `prefix` and are texts.
fn end_of_texts(prefix: &str) -> Vec<u8> {
    if prefix.is_empty() { vec![u8::MAX] } else { txn::end_of(prefix) }
}

pub(super) fn value(key: KeyValue) -> StoredValue {
    let version = key.mod_revision.unsigned_abs();
    StoredValue { bytes: key.value, version, stamp: key.mod_revision }
}

/// What a value may end with.
pub(super) fn session_of(life: ValueLife) -> Option<Arc<Session>> {
    match life {
        ValueLife::Session(session) => Some(session),
        _ => None,
    }
}

/// The first key after this one.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
