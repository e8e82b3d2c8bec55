//! What etcd does for the lock algorithm.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::Etcd;
use crate::claim::{LeaseId, Mode};
use crate::engine::{BoxFuture, Bus, Finding, Profile, Scope};
use crate::engines::consensus::{
    Ensemble, Entered, If, Look, NameLines, Newcomer, QueueEntry, QueueId, Scan, Session,
    StoredValue, TxnStep, ValueLife, ValueNews, WatchedKey, WatchedQueue,
};
use crate::error::Result;
use crate::name::{Name, Namespace};

impl Ensemble for Arc<Etcd> {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn mutex_is_semaphore(&self) -> bool {
        false
    }

    fn bus(&self) -> &Bus {
        self.link.state_publisher().bus()
    }

    /// Go's mutex listens to nobody, and the value of an election is its own.
    fn asks_strangers(&self) -> bool {
        false
    }

    /// A value may have a lease of its own.
    fn times_values(&self) -> bool {
        true
    }

    /// Each call is on its own: a member may stand still with one in its hands while
    /// another member serves the next.
    fn may_overtake(&self) -> bool {
        true
    }

    fn session(&self, ttl: Duration, delay: Duration) -> BoxFuture<Result<Arc<Session>>> {
        let me = Self::clone(self);
        Box::pin(async move { me.leases.session(ttl, delay).await })
    }

    fn prove(&self, session: Arc<Session>) -> BoxFuture<Result<()>> {
        let me = Self::clone(self);
        Box::pin(async move { me.leases.prove(&session, me.link.deadline()).await })
    }

    fn join(
        &self,
        session: Arc<Session>,
        line: QueueId,
        newcomer: Newcomer,
    ) -> BoxFuture<Result<Entered>> {
        let me = Self::clone(self);
        Box::pin(async move { me.join_line(session, &line, newcomer).await })
    }

    fn list(&self, line: QueueId, mine: Option<QueueEntry>) -> BoxFuture<Result<Vec<QueueEntry>>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::list(&me, &line, mine.as_ref()).await })
    }

    fn lines(&self, names: Vec<Name>) -> BoxFuture<Result<Vec<NameLines>>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::lines(&me, &names).await })
    }

    fn announce(&self, entry: QueueEntry) -> BoxFuture<Result<()>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::announce(&me, &entry).await })
    }

    fn watch_line(&self, line: QueueId) -> BoxFuture<Result<WatchedQueue>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::watch_line(&me, &line).await })
    }

    fn look(&self, keys: Vec<Arc<str>>) -> BoxFuture<Result<Vec<Look>>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::look(&me, &keys).await })
    }

    fn is_there(&self, key: Arc<str>, fence: u64) -> BoxFuture<Result<bool>> {
        let me = Self::clone(self);
        Box::pin(async move {
            let seen = Etcd::look(&me, &[key]).await?;
            Ok(seen.into_iter().flatten().any(|(_, made)| made == fence))
        })
    }

    fn watch(&self, key: Arc<str>) -> BoxFuture<Result<Option<WatchedKey>>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::watch(&me, &key).await })
    }

    fn change(&self, steps: Vec<TxnStep>) -> BoxFuture<Result<Option<u64>>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::change(&me, steps).await })
    }

    fn downgrade(
        &self,
        session: Arc<Session>,
        entry: QueueEntry,
    ) -> BoxFuture<Result<Option<QueueEntry>>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::downgrade(&me, &session, entry).await })
    }

    fn withdraw(
        &self,
        line: QueueId,
        (id, mode): (LeaseId, Mode),
        session: Option<Arc<Session>>,
    ) -> BoxFuture<Result<bool>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::withdraw(&me, &line, (id, mode), session.as_deref()).await })
    }

    fn names(
        &self,
        namespace: Namespace,
        prefix: Arc<str>,
        after: Option<Name>,
        most: usize,
    ) -> BoxFuture<Result<(Vec<Name>, bool)>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::names(&me, &namespace, &prefix, after, most).await })
    }

    fn load(&self, name: Name) -> BoxFuture<Result<Option<StoredValue>>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::load(&me, &name).await })
    }

    fn store(
        &self,
        name: Name,
        condition: If,
        bytes: Option<Vec<u8>>,
        life: ValueLife,
        while_there: Option<(Arc<str>, u64)>,
    ) -> BoxFuture<Result<Option<u64>>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::store(&me, &name, condition, bytes, life, while_there).await })
    }

    fn scan(&self, scope: Scope, from: Arc<str>, most: usize) -> BoxFuture<Result<Scan>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::scan(&me, &scope, &from, most).await })
    }

    fn follow(
        &self,
        namespace: Namespace,
        prefix: Arc<str>,
    ) -> BoxFuture<Result<mpsc::UnboundedReceiver<ValueNews>>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::follow(&me, namespace, &prefix).await })
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::examine(&me).await })
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let me = Self::clone(self);
        Box::pin(async move { Etcd::close(&me).await })
    }
}
