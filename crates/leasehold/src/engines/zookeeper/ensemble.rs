//! ZooKeeper as a consensus store.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::client::ZkClient;
use crate::claim::{LeaseId, Mode};
use crate::engine::{BoxFuture, Bus, Finding, Profile, Scope};
use crate::engines::consensus::{
    Ensemble, Entered, If, Look, NameLines, Newcomer, QueueEntry, QueueId, RecordFormat, Scan,
    Session, StoredValue, TxnStep, ValueLife, ValueNews, WatchedKey, WatchedQueue,
};
use crate::error::Result;
use crate::name::{Name, Namespace};

#[derive(Debug)]
pub(super) struct ZooKeeper {
    pub(super) client: Arc<ZkClient>,
    pub(super) profile: Profile,
    /// Looks after values whose time is up.
    pub(super) tidying: AbortHandle,
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        self.tidying.abort();
    }
}

impl ZooKeeper {
    /// A verb that owns what it needs.
    fn run<T, F>(&self, verb: impl FnOnce(Arc<ZkClient>) -> F) -> BoxFuture<Result<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        Box::pin(verb(Arc::clone(&self.client)))
    }
}

impl Ensemble for ZooKeeper {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn mutex_is_semaphore(&self) -> bool {
        self.client.terms.settings.mutex_is_semaphore
    }

    fn bus(&self) -> &Bus {
        self.client.terms.state_publisher.bus()
    }

    fn asks_strangers(&self) -> bool {
        true
    }

    /// What lies beside a value says until when it is there.
    fn times_values(&self) -> bool {
        self.client.layout.records() == RecordFormat::Own
    }

    /// A session is on one server at a time, in one order.
    fn may_overtake(&self) -> bool {
        false
    }

    fn session(&self, ttl: Duration, delay: Duration) -> BoxFuture<Result<Arc<Session>>> {
        self.run(|client| async move { client.session(ttl, delay).await })
    }

    fn prove(&self, session: Arc<Session>) -> BoxFuture<Result<()>> {
        self.run(|client| async move { client.prove(session).await })
    }

    fn join(
        &self,
        session: Arc<Session>,
        line: QueueId,
        newcomer: Newcomer,
    ) -> BoxFuture<Result<Entered>> {
        self.run(|client| async move { client.join(session, line, newcomer).await })
    }

    fn list(&self, line: QueueId, mine: Option<QueueEntry>) -> BoxFuture<Result<Vec<QueueEntry>>> {
        self.run(|client| async move { client.list(line, mine).await })
    }

    fn lines(&self, names: Vec<Name>) -> BoxFuture<Result<Vec<NameLines>>> {
        self.run(|client| async move { client.lines(&names).await })
    }

    /// Whoever joins lists the line, and sees who holds.
    fn announce(&self, _: QueueEntry) -> BoxFuture<Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn watch_line(&self, line: QueueId) -> BoxFuture<Result<WatchedQueue>> {
        self.run(|client| async move { client.watch_line(line).await })
    }

    fn look(&self, keys: Vec<Arc<str>>) -> BoxFuture<Result<Vec<Look>>> {
        self.run(|client| async move { client.look(keys).await })
    }

    /// Keys are unique, so that one is there says that it is the one that was meant.
    fn is_there(&self, key: Arc<str>, _: u64) -> BoxFuture<Result<bool>> {
        self.run(|client| async move { client.is_there(&key).await })
    }

    fn watch(&self, key: Arc<str>) -> BoxFuture<Result<Option<WatchedKey>>> {
        self.run(|client| async move { client.watch(key).await })
    }

    fn change(&self, steps: Vec<TxnStep>) -> BoxFuture<Result<Option<u64>>> {
        self.run(|client| async move { client.change(steps).await })
    }

    fn downgrade(
        &self,
        session: Arc<Session>,
        entry: QueueEntry,
    ) -> BoxFuture<Result<Option<QueueEntry>>> {
        self.run(|client| async move { client.downgrade(session, entry).await })
    }

    /// Keys are numbered, so that none can be told before it is seen.
    fn withdraw(
        &self,
        line: QueueId,
        (id, _): (LeaseId, Mode),
        _: Option<Arc<Session>>,
    ) -> BoxFuture<Result<bool>> {
        self.run(|client| async move { client.withdraw(line, id).await })
    }

    fn names(
        &self,
        namespace: Namespace,
        prefix: Arc<str>,
        after: Option<Name>,
        most: usize,
    ) -> BoxFuture<Result<(Vec<Name>, bool)>> {
        self.run(|client| async move { client.names(namespace, prefix, after, most).await })
    }

    fn load(&self, name: Name) -> BoxFuture<Result<Option<StoredValue>>> {
        self.run(|client| async move { client.load(name).await })
    }

    fn store(
        &self,
        name: Name,
        condition: If,
        bytes: Option<Vec<u8>>,
        life: ValueLife,
        while_there: Option<(Arc<str>, u64)>,
    ) -> BoxFuture<Result<Option<u64>>> {
        let guard = while_there.map(|(key, _)| key);
        self.run(|client| async move { client.store(name, condition, bytes, life, guard).await })
    }

    fn scan(&self, scope: Scope, from: Arc<str>, most: usize) -> BoxFuture<Result<Scan>> {
        self.run(|client| async move { client.scan(scope, from, most).await })
    }

    fn follow(
        &self,
        namespace: Namespace,
        prefix: Arc<str>,
    ) -> BoxFuture<Result<mpsc::UnboundedReceiver<ValueNews>>> {
        self.run(|client| async move { client.follow(namespace, prefix).await })
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        self.run(|client| async move { client.examine().await })
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.tidying.abort();
        self.run(|client| async move {
            client.sessions.close().await;
            client.terms.state_publisher.bus().close();
            Ok(())
        })
    }
}
