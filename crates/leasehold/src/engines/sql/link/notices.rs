//! What a server says on a channel without being asked.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use super::dial::Dialer;
use super::lane::{Pauses, look_after};
use super::wire::{Kind, Wire};
use super::{Dialect, fault, within};
use crate::error::Result;
use crate::home::Handle;

/// Where what is said goes.
pub(super) type Ear = UnboundedSender<Notice>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engines::sql) enum Notice {
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "MySQL has no channels"))]
    Said(String),
    /// Something may have been missed: look again. Also the first thing that is
    /// said, once the channel is listened on.
    Gap,
}

/// A listener's end. The connection behind it ends with it.
#[derive(Debug)]
pub(in crate::engines::sql) struct Notices {
    said: UnboundedReceiver<Notice>,
    task: AbortHandle,
}

impl Notices {
    /// On a family without channels nothing is ever said.
    pub(super) fn start(dialer: Arc<Dialer>, channel: &str) -> Self {
        let (ear, said) = unbounded_channel();
        let listener = Listener { dialer, ear, channel: channel.to_owned() };
        let task = Handle::current().spawn(listener.listen()).abort_handle();
        Self { said, task }
    }

    /// The next; `None` never comes while the listener lives.
    pub(in crate::engines::sql) async fn next(&mut self) -> Option<Notice> {
        self.said.recv().await
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task behind it.
struct Listener {
    dialer: Arc<Dialer>,
    ear: Ear,
    channel: String,
}

impl Listener {
    async fn listen(self) {
        if self.dialer.settings.dialect == Dialect::Mysql {
            return std::future::pending().await;
        }
        let mut pauses = Pauses::new();
        loop {
            let born = self.dialer.clock.now();
            if let Ok(wire) = self.subscribe().await {
                let _ = self.ear.send(Notice::Gap);
                look_after(&self.dialer, &wire).await;
                let _ = self.ear.send(Notice::Gap);
            }
            pauses.rest(&self.dialer, self.dialer.clock.now().since(born)).await;
        }
    }

    async fn subscribe(&self) -> Result<Arc<Wire>> {
        let wire = self.dialer.dial(Kind::Own, Some(self.ear.clone())).await?;
        let sql = format!("LISTEN \"{}\"", self.channel.replace('"', "\"\""));
        let done = within(&self.dialer.clock, self.dialer.settings.timeout, wire.batch(&sql)).await;
        match done {
            Some(Ok(())) => Ok(wire),
            Some(Err(fault)) => Err(fault.error),
            None => Err(fault::late()),
        }
    }
}
