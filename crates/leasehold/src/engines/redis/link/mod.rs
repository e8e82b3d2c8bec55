//! The way to a deployment: connections, routes, pushes, what comes back when
//! they break. Layouts know nothing of hosts.

mod fault;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion};
use redis::{PushInfo, PushKind, RedisConnectionInfo, RedisError, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::script::Call;
use super::settings::Settings;
use crate::clock::{Clock, Moment};
use crate::engine::{Bus, Events};
use crate::error::Result;

/// What came back.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) value: Value,
    /// When the request left.
    pub(super) sent_at: Moment,
}

/// What the server says without being asked.
#[derive(Debug)]
pub(super) enum Push {
    Message {
        channel: Vec<u8>,
        payload: Vec<u8>,
    },
    /// Messages may have been missed. Everything subscribed to is subscribed
    /// to again.
    Gap,
}

/// A way to one deployment; cheap to clone. Lives on home.
#[derive(Clone)]
pub(super) struct Link(Arc<Inner>);

struct Inner {
    commands: MultiplexedConnection,
    listener: MultiplexedConnection,
    pushes: Mutex<Option<UnboundedReceiver<Push>>>,
    clock: Clock,
    bus: Bus,
    endpoint: String,
}

impl Link {
    pub(super) async fn open(settings: &Settings, clock: Clock) -> Result<Self> {
        let (sender, pushes) = unbounded_channel();
        let client = client(settings).map_err(fault::error)?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(settings.connect))
            .set_response_timeout(Some(settings.timeout));
        let listen = config.clone().set_push_sender(move |push| forward(&sender, push));
        let commands = client.get_multiplexed_async_connection_with_config(&config).await;
        let listener = client.get_multiplexed_async_connection_with_config(&listen).await;
        Ok(Self(Arc::new(Inner {
            commands: commands.map_err(fault::error)?,
            listener: listener.map_err(fault::error)?,
            pushes: Mutex::new(Some(pushes)),
            clock,
            bus: Bus::new(),
            endpoint: settings.endpoint(),
        })))
    }

    /// Runs a script, once. A server that has forgotten it is sent its text.
    pub(super) async fn call(&self, call: Call) -> Result<Reply> {
        let sent_at = self.0.clock.now();
        let mut connection = self.0.commands.clone();
        // An error inside a reply is a reply.
        let answer = connection.send_packed_command(&call.by_digest()).await;
        let answer = match answer.and_then(|value| value.extract_error()) {
            Err(error) if fault::is_forgotten(&error) => {
                let answer = connection.send_packed_command(&call.in_full()).await;
                answer.and_then(|value| value.extract_error())
            }
            answer => answer,
        };
        let value = answer.map_err(fault::error)?;
        Ok(Reply { value, sent_at })
    }

    /// Runs several scripts in one go, each with an answer of its own. Their
    /// keys may be of different slots.
    pub(super) async fn calls(&self, calls: Vec<Call>) -> Vec<Result<Reply>> {
        let mut answers = Vec::with_capacity(calls.len());
        for call in calls {
            answers.push(self.call(call).await);
        }
        answers
    }

    /// Any other command, to the primary that has its first key; to any primary
    /// if it has none.
    pub(super) async fn command(&self, command: redis::Cmd) -> Result<Value> {
        let answer = self.0.commands.clone().send_packed_command(&command).await;
        answer.and_then(|value| value.extract_error()).map_err(fault::error)
    }

    /// The same command to every primary, which is named without secrets.
    pub(super) async fn everywhere(&self, command: redis::Cmd) -> Vec<(String, Result<Value>)> {
        vec![(self.0.endpoint.clone(), self.command(command).await)]
    }

    /// Listens on a channel; done when the server has confirmed it. In a
    /// cluster the channel is sharded: published by `SPUBLISH`, in the slot of
    /// its name.
    pub(super) async fn subscribe(&self, channel: &[u8]) -> Result<()> {
        self.0.listener.clone().subscribe(channel).await.map_err(fault::error)
    }

    /// Does not listen any more.
    pub(super) async fn unsubscribe(&self, channel: &[u8]) -> Result<()> {
        self.0.listener.clone().unsubscribe(channel).await.map_err(fault::error)
    }

    /// What the server says. For one listener: whoever asks second gets nothing.
    pub(super) fn pushes(&self) -> Option<UnboundedReceiver<Push>> {
        self.0.pushes.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether keys are spread over slots.
    pub(super) fn is_cluster(&self) -> bool {
        false
    }

    /// Where it is, without secrets.
    pub(super) fn endpoint(&self) -> &str {
        &self.0.endpoint
    }

    /// Where the connection's coming and going is told; layouts add the tickets.
    pub(super) fn bus(&self) -> &Bus {
        &self.0.bus
    }

    pub(super) fn events(&self) -> Events {
        self.0.bus.subscribe()
    }

    /// Ends connections and tasks.
    pub(super) async fn close(&self) {
        self.0.bus.close();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({})", self.0.endpoint)
    }
}

fn client(settings: &Settings) -> Result<Client, RedisError> {
    let mut login = RedisConnectionInfo::default()
        .set_db(settings.database)
        .set_protocol(ProtocolVersion::RESP3);
    if let Some(user) = &settings.user {
        login = login.set_username(user);
    }
    if let Some(password) = &settings.password {
        login = login.set_password(password);
    }
    let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    let address = ConnectionAddr::Tcp(settings.host.clone(), settings.port);
    let info = address.into_connection_info()?.set_redis_settings(login).set_tcp_settings(tcp);
    Client::open(info)
}

fn forward(to: &UnboundedSender<Push>, push: PushInfo) -> Result<(), redis::aio::SendError> {
    let push = match push.kind {
        PushKind::Message | PushKind::SMessage => message(push.data),
        PushKind::Disconnection => Some(Push::Gap),
        _ => None,
    };
    match push {
        Some(push) => to.send(push).map_err(|_| redis::aio::SendError),
        None => Ok(()),
    }
}

fn message(data: Vec<Value>) -> Option<Push> {
    let mut parts = data.into_iter().map(|part| match part {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    });
    Some(Push::Message { channel: parts.next()??, payload: parts.next()?? })
}
