//! One who watches records, from its first look on.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::client::NativeClient;
use super::keys::Shard;
use super::look::texts;
use super::stored_record;
use crate::clock::{Moment, wall_micros};
use crate::engine::{RecordEvent, RecordEvents, Scope};
use crate::engines::kit::watch_queue::WatchQueue;
use crate::engines::redis::link::RedisRequest;
use crate::error::Result;
use crate::name::{Name, Namespace};

/// How often a watcher looks for what ends by itself: nothing tells it.
const LOOK: Duration = Duration::from_secs(1);

/// The channels that one watcher needs, until it goes.
#[derive(Debug)]
struct Subscription {
    engine: Arc<NativeClient>,
    channels: Vec<Vec<u8>>,
}

impl Subscription {
    async fn on(engine: &Arc<NativeClient>, channels: &[Vec<u8>]) -> Result<Self> {
        let mut stay = Self { engine: Arc::clone(engine), channels: Vec::new() };
        for channel in channels {
            engine.channels.stay(channel).await?;
            stay.channels.push(channel.clone());
        }
        Ok(stay)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let (engine, channels) = (Arc::clone(&self.engine), std::mem::take(&mut self.channels));
        self.engine.home.spawn(async move {
            for channel in channels {
                engine.channels.leave(&channel).await;
            }
        });
    }
}

/// One watcher.
#[derive(Debug)]
pub(super) struct NativeWatch {
    engine: Arc<NativeClient>,
    _stay: Subscription,
    queue: Arc<WatchQueue>,
    shards: Vec<Shard>,
    space: Namespace,
    look_at: Moment,
}

impl NativeWatch {
    pub(super) async fn start(engine: Arc<NativeClient>, scope: Scope) -> Result<Self> {
        let space = scope.namespace().clone();
        let shards = shards_of(&engine, &scope);
        let channels: Vec<_> = shards.iter().map(Shard::changes).collect();
        let stay = Subscription::on(&engine, &channels).await?;
        // What ended before is not news to this watcher.
        look(&engine, &shards, &space).await?;
        let queue = engine.watchers.add(scope, channels);
        let look_at = engine.clock.now().after(LOOK);
        Ok(Self { engine, _stay: stay, queue, shards, space, look_at })
    }

    async fn wait(&mut self) -> Option<RecordEvent> {
        loop {
            if let Some(next) = self.queue.pop() {
                return next;
            }
            tokio::select! {
                biased;
                () = self.queue.news() => {}
                () = self.engine.clock.sleep_until(self.look_at) => {
                    self.look_at = self.engine.clock.now().after(LOOK);
                    // The next look may succeed.
                    let _ = look(&self.engine, &self.shards, &self.space).await;
                }
            }
        }
    }
}

/// Where the records in scope are: one alone is in one place, and nowhere if it cannot
/// be a record.
fn shards_of(engine: &NativeClient, scope: &Scope) -> Vec<Shard> {
    let space = scope.namespace();
    if scope.depth() > 0 {
        return engine.key_space.shards(space);
    }
    Name::new(space, scope.root()).map(|name| engine.shard(&name)).into_iter().collect()
}

/// Ends what is due; those who watch are told by the script that ends it. A
/// server that is away keeps nobody from looking at the others.
async fn look(engine: &NativeClient, shards: &[Shard], space: &Namespace) -> Result<()> {
    // Only a hint: what is due is decided by the server.
    let due = |shard: &Shard| stored_record::due(shard.lapses().to_vec(), wall_micros() / 1000);
    let asked = shards.iter().map(|shard| RedisRequest::Command(due(shard))).collect();
    let mut outcome = Ok(());
    for reply in engine.link.asks(asked).await {
        outcome = match reply {
            Ok(reply) => end_all(engine, space, reply.value).await.and(outcome),
            Err(error) => Err(error),
        };
    }
    outcome
}

async fn end_all(engine: &NativeClient, space: &Namespace, due: redis::Value) -> Result<()> {
    for text in texts(due)? {
        engine.end_if_due(&Name::new(space, text)?).await?;
    }
    Ok(())
}

impl RecordEvents for NativeWatch {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<RecordEvent>> + Send + '_>> {
        Box::pin(self.wait())
    }
}

impl Drop for NativeWatch {
    fn drop(&mut self) {
        self.engine.watchers.remove(&self.queue, &self.space);
    }
}
