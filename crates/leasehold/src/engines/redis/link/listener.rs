//! The connection for pushes of one server, with all that is subscribed to.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc::UnboundedSender;

use super::fault;
use super::line::ServerLine;
use super::push::Push;
use super::ways::Way;
use super::wire::{ConnectionTerms, Ear, Wire};
use crate::error::{ErrorKind, Result};

/// Whether channels belong to slots.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ChannelKind {
    Plain,
    Sharded,
}

/// Hears one server. Ends with its last clone.
#[derive(Clone)]
pub(super) struct PushListener {
    line: ServerLine,
    shared: Arc<ListenerShared>,
}

struct ListenerShared {
    kind: ChannelKind,
    channels: Mutex<BTreeSet<Vec<u8>>>,
    pushes: UnboundedSender<Push>,
    /// Whether it stood before.
    stood: AtomicBool,
    /// Called when the server is not the one for a channel any more.
    strayed: Box<dyn Fn() + Send + Sync>,
}

impl PushListener {
    pub(super) fn start(
        way: Way,
        terms: Arc<ConnectionTerms>,
        kind: ChannelKind,
        pushes: UnboundedSender<Push>,
        strayed: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let channels = Mutex::default();
        let stood = AtomicBool::new(false);
        let shared = Arc::new(ListenerShared { kind, channels, pushes, stood, strayed });
        let probe = way.probe();
        let (hearing, with) = (Arc::clone(&shared), Arc::clone(&terms));
        let dial = move || {
            let (way, shared, terms) = (way.clone(), Arc::clone(&hearing), Arc::clone(&with));
            Box::pin(async move {
                let wire = way.dial(&terms, Some(Arc::clone(&shared).ear())).await?;
                shared.stand(&wire).await?;
                Ok(wire)
            }) as _
        };
        let line = ServerLine::start(terms, probe, Box::new(dial), Box::new(|_| ()));
        Self { line, shared }
    }

    pub(super) const fn line(&self) -> &ServerLine {
        &self.line
    }

    /// Done when the server has confirmed it.
    pub(super) async fn subscribe(&self, channel: &[u8]) -> Result<()> {
        // Listed first: a connection that comes up meanwhile includes it.
        let new = self.shared.channels().insert(channel.to_vec());
        let done = self.say(self.shared.kind.subscribe(), channel).await;
        // Who was there before listens on, whatever became of this request.
        if done.is_err() && new {
            self.shared.channels().remove(channel);
        }
        done
    }

    pub(super) async fn unsubscribe(&self, channel: &[u8]) -> Result<()> {
        self.shared.channels().remove(channel);
        match self.say(self.shared.kind.unsubscribe(), channel).await {
            // The next connection will not have it.
            Err(error) if error.kind() == ErrorKind::Unavailable => Ok(()),
            done => done,
        }
    }

    /// The channel is elsewhere now. The server may have said so in the place
    /// of an answer, so this connection is not to be trusted with the rest.
    pub(super) fn forget(&self, channel: &[u8]) {
        self.shared.channels().remove(channel);
        self.line.condemn();
    }

    async fn say(&self, verb: &str, channel: &[u8]) -> Result<()> {
        let mut pipeline = redis::Pipeline::with_capacity(1);
        pipeline.cmd(verb).arg(channel);
        let answers = self.line.send(&pipeline).await?;
        check(answers)
    }
}

impl ListenerShared {
    fn channels(&self) -> MutexGuard<'_, BTreeSet<Vec<u8>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to everything on a new connection, then tells of the gap.
    async fn stand(&self, wire: &Wire) -> Result<()> {
        let mut pipeline = redis::Pipeline::new();
        for channel in self.channels().iter() {
            pipeline.cmd(self.kind.subscribe()).arg(&channel[..]);
        }
        if !pipeline.is_empty() {
            let done = wire.send(&pipeline).await.and_then(check);
            done.inspect_err(|_| (self.strayed)())?;
        }
        if self.stood.swap(true, Ordering::Relaxed) {
            let _ = self.pushes.send(Push::Gap);
        }
        Ok(())
    }

    fn ear(self: Arc<Self>) -> Ear {
        Arc::new(move |push| self.hear(push))
    }

    fn hear(&self, push: PushInfo) {
        match push.kind {
            PushKind::Message | PushKind::SMessage => {
                if let Some(push) = message(push.data) {
                    let _ = self.pushes.send(push);
                }
            }
            // Without our asking, if the slot has moved elsewhere.
            PushKind::SUnsubscribe if self.wants(&push.data) => (self.strayed)(),
            _ => {}
        }
    }

    fn wants(&self, data: &[Value]) -> bool {
        match data.first() {
            Some(Value::BulkString(channel)) => self.channels().contains(channel),
            _ => false,
        }
    }
}

impl ChannelKind {
    const fn subscribe(self) -> &'static str {
        match self {
            Self::Plain => "SUBSCRIBE",
            Self::Sharded => "SSUBSCRIBE",
        }
    }

    const fn unsubscribe(self) -> &'static str {
        match self {
            Self::Plain => "UNSUBSCRIBE",
            Self::Sharded => "SUNSUBSCRIBE",
        }
    }
}

fn check(answers: Vec<Value>) -> Result<()> {
    let errors = answers.into_iter().filter_map(|answer| answer.extract_error().err());
    errors.map(|error| Err(fault::refused(&error))).next().unwrap_or(Ok(()))
}

fn message(data: Vec<Value>) -> Option<Push> {
    let mut parts = data.into_iter().map(|part| match part {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    });
    Some(Push::Message { channel: parts.next()??, payload: parts.next()?? })
}
