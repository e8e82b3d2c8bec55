//! Which server a request goes to, and what a refusal means there.

use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;
use tokio::sync::mpsc::UnboundedSender;

use super::super::address::{RedisAddress, Topology};
use super::super::settings::RedisSettings;
use super::cluster::Cluster;
use super::fault;
use super::line::ServerLine;
use super::listener::{ChannelKind, PushListener};
use super::push::Push;
use super::redirect::Redirect;
use super::request::RedisRequest;
use super::ways;
use super::ways::Way;
use super::wire::ConnectionTerms;
use crate::clock::Clock;
use crate::engines::kit::health::{Health, Report};
use crate::error::Result;

/// The servers of a deployment.
#[derive(Clone)]
pub(super) struct Routes(Arc<RoutesShared>);

struct RoutesShared {
    terms: Arc<ConnectionTerms>,
    replicas: Option<u64>,
    shape: Shape,
}

enum Shape {
    /// One primary, whichever it is.
    One { commands: ServerLine, listener: PushListener },
    /// A primary per slot.
    Cluster(Cluster),
}

impl Routes {
    /// Stands when every connection does that is needed from the start.
    pub(super) async fn open(
        settings: &RedisSettings,
        clock: Clock,
        health: &Arc<Health>,
        pushes: UnboundedSender<Push>,
    ) -> Result<Self> {
        let terms = Arc::new(ways::terms(settings, clock)?);
        let shape = match &settings.place {
            Topology::Cluster(seeds) => {
                let seeds = seeds.clone();
                Shape::Cluster(Cluster::open(seeds, &terms, health, pushes).await?)
            }
            place => open_one(Way::new(place, settings, &terms), &terms, health, pushes).await?,
        };
        Ok(Self(Arc::new(RoutesShared { terms, replicas: settings.replicas, shape })))
    }

    /// The way to whoever serves the request.
    pub(super) fn line(&self, request: &RedisRequest) -> Result<ServerLine> {
        match &self.0.shape {
            Shape::One { commands, .. } => Ok(commands.clone()),
            Shape::Cluster(cluster) => cluster.line(request.key()),
        }
    }

    /// Which primary has the slot of a key, in a cluster.
    pub(super) fn home(&self, key: &[u8]) -> Option<RedisAddress> {
        match &self.0.shape {
            Shape::One { .. } => None,
            Shape::Cluster(cluster) => cluster.home(key),
        }
    }

    /// A connection is away. True if another server may take over.
    pub(super) fn lost(&self) -> bool {
        match &self.0.shape {
            Shape::One { .. } => false,
            Shape::Cluster(cluster) => {
                cluster.survey();
                true
            }
        }
    }

    /// A server has refused a request.
    pub(super) fn refused(&self, line: &ServerLine, cause: &RedisError) -> Redirect {
        match &self.0.shape {
            Shape::Cluster(cluster) => cluster.refused(line, cause),
            Shape::One { commands, listener } => {
                if fault::code(cause) == Some("READONLY") {
                    commands.condemn();
                    listener.line().doubt();
                }
                Redirect::Over
            }
        }
    }

    /// Every primary by name.
    pub(super) fn everywhere(&self, endpoint: &str) -> Vec<(String, ServerLine)> {
        match &self.0.shape {
            Shape::One { commands, .. } => vec![(endpoint.to_owned(), commands.clone())],
            Shape::Cluster(cluster) => cluster.everywhere(),
        }
    }

    pub(super) async fn subscribe(&self, channel: &[u8]) -> Result<()> {
        match &self.0.shape {
            Shape::One { listener, .. } => listener.subscribe(channel).await,
            Shape::Cluster(cluster) => cluster.subscribe(channel).await,
        }
    }

    pub(super) async fn unsubscribe(&self, channel: &[u8]) -> Result<()> {
        match &self.0.shape {
            Shape::One { listener, .. } => listener.unsubscribe(channel).await,
            Shape::Cluster(cluster) => cluster.unsubscribe(channel).await,
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.0.shape, Shape::Cluster(_))
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.0.terms.clock
    }

    pub(super) fn timeout(&self) -> Duration {
        self.0.terms.timeout
    }

    pub(super) fn replicas(&self) -> Option<u64> {
        self.0.replicas
    }

    pub(super) fn close(&self) {
        match &self.0.shape {
            Shape::One { commands, listener } => {
                commands.close();
                listener.line().close();
            }
            Shape::Cluster(cluster) => cluster.close(),
        }
    }
}

async fn open_one(
    way: Way,
    terms: &Arc<ConnectionTerms>,
    health: &Arc<Health>,
    pushes: UnboundedSender<Push>,
) -> Result<Shape> {
    let report = Report::new(health);
    let commands = way.clone().command_line(terms, Box::new(move |up| report.set(up)));
    commands.wire(terms.connect).await?;
    let listener =
        PushListener::start(way, Arc::clone(terms), ChannelKind::Plain, pushes, Box::new(|| ()));
    listener.line().wire(terms.connect).await?;
    Ok(Shape::One { commands, listener })
}
