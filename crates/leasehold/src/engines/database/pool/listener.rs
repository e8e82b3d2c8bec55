//! What a server says on a channel without being asked.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::AbortHandle;

use super::dial::PoolDialer;
use super::slot::look_after;
use crate::engines::database::drivers::{ConnectionUse, DatabaseConnection};
use crate::engines::database::drivers::{Notice, NoticeSender, fault};
use crate::engines::kit::supervise;
use crate::engines::kit::timeout::timeout;
use crate::error::Result;
use crate::home::Handle;

/// A listener's end. The connection behind it ends with it.
#[derive(Debug)]
pub(crate) struct ChannelListener {
    said: UnboundedReceiver<Notice>,
    task: AbortHandle,
}

impl ChannelListener {
    /// On a family without channels nothing is ever said.
    pub(super) fn start(dialer: Arc<PoolDialer>, channel: &str) -> Self {
        let (notices, said) = unbounded_channel();
        let listener = ListenTask { dialer, notices, channel: channel.to_owned() };
        let task = Handle::current().spawn(listener.listen()).abort_handle();
        Self { said, task }
    }

    /// The next; `None` never comes while the listener lives.
    pub(crate) async fn next(&mut self) -> Option<Notice> {
        self.said.recv().await
    }
}

impl Drop for ChannelListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task behind it.
struct ListenTask {
    dialer: Arc<PoolDialer>,
    notices: NoticeSender,
    channel: String,
}

impl ListenTask {
    async fn listen(self) {
        let Some(listen) = self.dialer.settings.family.listen(&self.channel) else {
            return std::future::pending().await;
        };
        let mut backoff = supervise::backoff();
        loop {
            let born = self.dialer.clock.now();
            if let Ok(connection) = self.subscribe(&listen).await {
                let _ = self.notices.send(Notice::Gap);
                look_after(&self.dialer, &connection).await;
                let _ = self.notices.send(Notice::Gap);
            }
            let clock = &self.dialer.clock;
            backoff.sleep_after(clock.now().since(born), clock).await;
        }
    }

    async fn subscribe(&self, listen: &str) -> Result<Arc<DatabaseConnection>> {
        let connection = self.dialer.dial(ConnectionUse::Own, Some(self.notices.clone())).await?;
        let done =
            timeout(&self.dialer.clock, self.dialer.settings.timeout, connection.batch(listen))
                .await;
        match done {
            Some(Ok(())) => Ok(connection),
            Some(Err(fault)) => Err(fault.error),
            None => Err(fault::late()),
        }
    }
}
