//! The watches of this client: one stream for all of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tonic::Status;

use super::link::{EtcdLink, Inbound, backoff};
use super::proto::watch_request::RequestUnion;
use super::proto::{Event, WatchCancelRequest, WatchCreateRequest, WatchRequest, WatchResponse};
use crate::engines::kit::backoff::Backoff;
use crate::home::Handle;

/// Makes watches.
pub(super) struct KeyWatches {
    orders: mpsc::UnboundedSender<WatchOrder>,
    /// Ids are ours to choose. Never 0, which the server would replace.
    next: AtomicI64,
    stream: AbortHandle,
}

/// What happens to some keys, until it is dropped.
pub(super) struct KeyWatch {
    id: i64,
    events: mpsc::UnboundedReceiver<Event>,
    orders: mpsc::UnboundedSender<WatchOrder>,
}

enum WatchOrder {
    Create(WatchCreateRequest, mpsc::UnboundedSender<Event>),
    Cancel(i64),
}

impl KeyWatches {
    pub(super) fn new(link: &Arc<EtcdLink>, home: &Handle) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let stream = WatchStream {
            link: Arc::clone(link),
            orders: inbox,
            watches: HashMap::new(),
            backoff: backoff(),
        };
        let stream = home.spawn(stream.run()).abort_handle();
        Self { orders, next: AtomicI64::new(1), stream }
    }

    /// Whoever watches is told that the watch broke.
    pub(super) fn close(&self) {
        self.stream.abort();
    }

    /// Watches the keys from `key` to `range_end` (one key, if that is empty),
    /// from this revision on. What happened before it was made is told as well.
    pub(super) fn watch(&self, key: &str, range_end: Vec<u8>, start_revision: i64) -> KeyWatch {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, events) = mpsc::unbounded_channel();
        let create = WatchCreateRequest {
            key: key.into(),
            range_end,
            start_revision,
            watch_id: id,
            fragment: true,
        };
        // The stream is there for as long as we are.
        let _ = self.orders.send(WatchOrder::Create(create, tell));
        KeyWatch { id, events, orders: self.orders.clone() }
    }
}

impl KeyWatch {
    /// What happened next; `None` if that cannot be told any more.
    pub(super) async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

impl Drop for KeyWatch {
    fn drop(&mut self) {
        let _ = self.orders.send(WatchOrder::Cancel(self.id));
    }
}

/// Has the stream, and those who listen. Lives as long as somebody can send it
/// orders. When the stream breaks everybody is told that something may have been
/// missed, and nothing is watched again by itself: those who care look first.
struct WatchStream {
    link: Arc<EtcdLink>,
    orders: mpsc::UnboundedReceiver<WatchOrder>,
    watches: HashMap<i64, mpsc::UnboundedSender<Event>>,
    backoff: Backoff,
}

type Outbound = mpsc::UnboundedSender<WatchRequest>;

impl WatchStream {
    async fn run(mut self) {
        while let Some(order) = self.orders.recv().await {
            if matches!(order, WatchOrder::Cancel(_)) {
                continue;
            }
            let (out, outbound) = mpsc::unbounded_channel();
            self.carry_out(order, &out);
            let by = self.link.deadline();
            let go_on = match self.link.stream(outbound, by).await {
                Ok(inbound) => self.serve(&out, inbound).await,
                Err(_) => true,
            };
            self.watches.clear();
            if !go_on {
                return;
            }
            self.backoff.sleep(self.link.clock()).await;
        }
    }

    /// Whether to go on with another stream.
    async fn serve(&mut self, out: &Outbound, inbound: Inbound<WatchResponse>) -> bool {
        let Inbound { mut answers, way } = inbound;
        loop {
            tokio::select! {
                biased;
                answer = answers.message() => if let Err(status) = self.tell(answer) {
                    self.link.broke(&way, status.as_ref());
                    return true;
                },
                order = self.orders.recv() => match order {
                    Some(order) => self.carry_out(order, out),
                    None => return false,
                },
            }
        }
    }

    fn carry_out(&mut self, order: WatchOrder, out: &Outbound) {
        let request = match order {
            WatchOrder::Create(create, tell) => {
                self.watches.insert(create.watch_id, tell);
                RequestUnion::CreateRequest(create)
            }
            WatchOrder::Cancel(watch_id) if self.watches.remove(&watch_id).is_none() => return,
            WatchOrder::Cancel(watch_id) => {
                RequestUnion::CancelRequest(WatchCancelRequest { watch_id })
            }
        };
        // A stream that has ended says so when it is read.
        let _ = out.send(WatchRequest { request_union: Some(request) });
    }

    /// Fails if the stream is no good any more, with what was said about it.
    fn tell(
        &mut self,
        answer: Result<Option<WatchResponse>, Status>,
    ) -> Result<(), Option<Status>> {
        let answer = answer?.ok_or(None)?;
        self.backoff.reset();
        self.link.state_publisher().reached();
        if let Some(tell) = self.watches.get(&answer.watch_id) {
            // Whoever listened may have gone; the order to cancel is on its way.
            answer.events.into_iter().for_each(|event| _ = tell.send(event));
        }
        if !answer.canceled {
            return Ok(());
        }
        let known = self.watches.remove(&answer.watch_id).is_some();
        // The token that the stream was opened with may be too old. A server that
        // names no watch may have refused any of them.
        let refused = known && answer.cancel_reason.contains("permission denied");
        if refused || answer.watch_id <= 0 {
            return Err(Some(Status::unauthenticated(answer.cancel_reason)));
        }
        Ok(())
    }
}
