//! The way to a deployment: connections, routes, pushes, what comes back when
//! they break. Layouts know nothing of hosts.

mod cluster;
mod fault;
mod line;
mod listener;
mod push;
mod redirect;
mod reply;
mod request;
mod round;
mod routes;
mod slots;
#[cfg(test)]
mod tests;
mod ways;
mod wire;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use redis::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

pub(super) use self::fault::{OTHER_LAYOUT, failed};
pub(super) use self::push::Push;
pub(in crate::engines) use self::reply::RedisReply;
pub(super) use self::request::RedisRequest;
use self::routes::Routes;
use super::address::RedisAddress;
use super::script::ScriptCall;
use super::settings::RedisSettings;
use crate::clock::Clock;
use crate::engine::{Bus, Event, Events};
use crate::engines::kit::health::Health;
use crate::error::{Error, ErrorKind, Result};

/// A way to one deployment; cheap to clone. Lives on home.
#[derive(Clone)]
pub(in crate::engines) struct RedisLink(Arc<LinkShared>);

struct LinkShared {
    routes: Routes,
    health: Arc<Health>,
    pushes: Mutex<Option<UnboundedReceiver<Push>>>,
    endpoint: String,
}

impl RedisLink {
    pub(in crate::engines) async fn open(settings: &RedisSettings, clock: Clock) -> Result<Self> {
        let endpoint = settings.endpoint();
        let (sender, pushes) = unbounded_channel();
        let health = Health::new(clock.clone());
        // Connecting takes a lot of room, and only once.
        let routes = Box::pin(Routes::open(settings, clock, &health, sender)).await;
        let routes = routes.map_err(|error| error.with("endpoint", &endpoint))?;
        health.bus().publish(&Event::Connected);
        let pushes = Mutex::new(Some(pushes));
        Ok(Self(Arc::new(LinkShared { routes, health, pushes, endpoint })))
    }

    /// Runs a script, once. A server that has forgotten it is sent its text.
    pub(in crate::engines) async fn call(&self, call: ScriptCall) -> Result<RedisReply> {
        self.ask(RedisRequest::Call(call)).await
    }

    /// Runs several scripts in one go, each with an answer of its own. Their
    /// keys may be of different slots.
    pub(in crate::engines) async fn calls(
        &self,
        calls: Vec<ScriptCall>,
    ) -> Vec<Result<RedisReply>> {
        self.asks(calls.into_iter().map(RedisRequest::Call).collect()).await
    }

    /// The same for whatever there is to ask.
    pub(super) async fn asks(&self, requests: Vec<RedisRequest>) -> Vec<Result<RedisReply>> {
        round::run(&self.0.routes, requests).await
    }

    /// Any other command, to the primary that has its first key; to any primary
    /// if it has none.
    pub(in crate::engines) async fn command(&self, command: redis::Cmd) -> Result<Value> {
        self.ask(RedisRequest::Command(command)).await.map(|reply| reply.value)
    }

    /// The same command to every primary, which is named without secrets.
    pub(super) async fn everywhere(&self, command: redis::Cmd) -> Vec<(String, Result<Value>)> {
        let mut answers = Vec::new();
        for (name, line) in self.0.routes.everywhere(&self.0.endpoint) {
            let answer = match line.wire(self.0.routes.timeout()).await {
                Ok(wire) => wire.ask(command.clone()).await,
                Err(error) => Err(error),
            };
            answers.push((name, answer));
        }
        answers
    }

    pub(super) async fn ask(&self, request: RedisRequest) -> Result<RedisReply> {
        let answer = self.asks(vec![request]).await.pop();
        answer.unwrap_or_else(|| Err(Error::new(ErrorKind::Unexpected, "no answer to a request")))
    }

    /// Whether grants count only once replicas know of them.
    pub(super) fn counts_replicas(&self) -> bool {
        self.0.routes.replicas().is_some()
    }

    /// A grant that too few replicas know of may be lost with its server. The
    /// caller gives it back, as it does whenever it cannot be sure.
    pub(super) fn check_grant(&self, acknowledged: Option<u64>) -> Result<()> {
        let (Some(wanted), Some(known)) = (self.0.routes.replicas(), acknowledged) else {
            return Ok(());
        };
        if known >= wanted {
            return Ok(());
        }
        let message = format!(
            "granted, but only {known} of {wanted} replicas confirmed it in time; it is given back"
        );
        Err(Error::new(ErrorKind::Unavailable, message).unknown())
    }

    /// Listens on a channel; done when the server has confirmed it. In a
    /// cluster the channel is sharded: published by `SPUBLISH`, in the slot of
    /// its name.
    pub(super) async fn subscribe(&self, channel: &[u8]) -> Result<()> {
        self.0.routes.subscribe(channel).await
    }

    /// Does not listen any more.
    pub(super) async fn unsubscribe(&self, channel: &[u8]) -> Result<()> {
        self.0.routes.unsubscribe(channel).await
    }

    /// What the server says. For one listener: whoever asks second gets nothing.
    pub(super) fn pushes(&self) -> Option<UnboundedReceiver<Push>> {
        self.0.pushes.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Which primary has the slot of a key, in a cluster.
    pub(super) fn home(&self, key: &[u8]) -> Option<RedisAddress> {
        self.0.routes.home(key)
    }

    /// Whether keys are spread over slots.
    pub(super) fn is_cluster(&self) -> bool {
        self.0.routes.is_cluster()
    }

    /// Where it is, without secrets.
    pub(super) fn endpoint(&self) -> &str {
        &self.0.endpoint
    }

    /// Where the connection's coming and going is told; layouts add the tickets.
    pub(super) fn bus(&self) -> &Bus {
        self.0.health.bus()
    }

    pub(super) fn events(&self) -> Events {
        self.0.health.bus().subscribe()
    }

    /// Ends connections and tasks.
    pub(in crate::engines) fn close(&self) {
        self.0.routes.close();
        self.0.health.bus().close();
    }
}

impl fmt::Debug for RedisLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisLink({})", self.0.endpoint)
    }
}
