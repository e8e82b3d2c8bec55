//! The lane of renewals: beside the one of callers, who do not wait for it.
//!
//! However many leases are due, only so much of them is on its way at a time that
//! a call of somebody else who comes now is served soon.

use std::sync::Arc;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Semaphore, oneshot};

use super::verb::closed;
use crate::engines::redis::link::{RedisLink, RedisReply, RedisRequest};
use crate::error::Result;
use crate::home::Handle;

/// How many renewals are on their way at the same time: enough for a server that
/// is far away.
const RENEWALS_UNDER_WAY: usize = 1_024;
/// How many leave together, so that they share a trip.
const TOGETHER: usize = RENEWALS_UNDER_WAY / 4;
/// How many requests have room to wait here: those for many shards are small.
const ROOM: usize = 64;

/// Carries requests, a few at a time; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct RenewalLane(Sender<RenewalPortion>);

/// One request of many renewals.
struct RenewalPortion {
    request: RedisRequest,
    /// How much work it is, in plain renewals.
    weight: usize,
    /// Takes the answer, though nobody waits for it any more.
    done: Box<dyn FnOnce(Result<RedisReply>) + Send>,
}

impl RenewalLane {
    /// Ends with its last handle.
    pub(super) fn start(home: &Handle, link: RedisLink) -> Self {
        let (lane, portions) = channel(ROOM);
        home.spawn(deliver_all(link, portions));
        Self(lane)
    }

    /// Done when there is room in the lane; what comes of it then has what `read`
    /// has made of its answer.
    pub(super) async fn carry<T, R>(
        &self,
        request: RedisRequest,
        weight: usize,
        read: R,
    ) -> impl Future<Output = Result<T>> + Send + use<T, R>
    where
        T: Send + 'static,
        R: FnOnce(Result<RedisReply>) -> T + Send + 'static,
    {
        let (back, answer) = oneshot::channel();
        let done = Box::new(|reply| drop(back.send(read(reply))));
        let sent = self.0.send(RenewalPortion { request, weight, done }).await;
        let failed = sent.is_err();
        async move { if failed { Err(closed()) } else { answer.await.map_err(|_| closed().unknown()) } }
    }
}

async fn deliver_all(link: RedisLink, mut portions: Receiver<RenewalPortion>) {
    let room = Arc::new(Semaphore::new(RENEWALS_UNDER_WAY));
    while let Some(first) = portions.recv().await {
        let (weight, gathered) = gather(first, &mut portions);
        let Ok(places) = Arc::clone(&room).acquire_many_owned(weight).await else { return };
        let link = link.clone();
        Handle::current().spawn(async move {
            deliver(&link, gathered).await;
            drop(places);
        });
    }
}

/// Those that are there and may leave together.
fn gather(
    first: RenewalPortion,
    portions: &mut Receiver<RenewalPortion>,
) -> (u32, Vec<RenewalPortion>) {
    let (mut weight, mut gathered) = (first.weight, vec![first]);
    while weight < TOGETHER
        && let Ok(portion) = portions.try_recv()
    {
        weight += portion.weight;
        gathered.push(portion);
    }
    (u32::try_from(weight.min(RENEWALS_UNDER_WAY)).unwrap_or(1), gathered)
}

async fn deliver(link: &RedisLink, portions: Vec<RenewalPortion>) {
    let (requests, done): (Vec<_>, Vec<_>) =
        portions.into_iter().map(|portion| (portion.request, portion.done)).unzip();
    for (done, reply) in done.into_iter().zip(link.asks(requests).await) {
        done(reply);
    }
}
