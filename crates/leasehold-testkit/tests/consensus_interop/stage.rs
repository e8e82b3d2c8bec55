//! A ZooKeeper with Curator on one side and Leasehold on the other.

use std::time::Duration;

use leasehold::Locks;
use leasehold_testkit::contest::Checked;
use leasehold_testkit::holder::Orders;
use leasehold_testkit::peer::{Granted, Peer, Tongue};
use leasehold_testkit::server::Server;
use leasehold_testkit::znodes::Znodes;

/// No waiting.
pub(crate) const NOW: Duration = Duration::ZERO;
/// Outlasts every wait: what comes sooner comes because somebody let go.
pub(crate) const LONG: Duration = Duration::from_secs(100);
/// A session that is meant to be outwaited, on our side.
pub(crate) const BRIEF: Duration = Duration::from_secs(2);
/// The path that both sides lock.
pub(crate) const PATH: &str = "/shop/orders";

/// Dropped from top to bottom: clients first.
pub(crate) struct Stage {
    pub(crate) ours: Locks,
    pub(crate) java: Peer,
    pub(crate) server: Server,
}

impl Stage {
    pub(crate) async fn new() -> Checked<Self> {
        Self::with("").await
    }

    /// With further options for our side.
    pub(crate) async fn with(options: &str) -> Checked<Self> {
        let server = Server::zookeeper()?;
        let ours = leasehold::open(url(&server, options)).await?;
        let java = Peer::start(Tongue::Curator, &[server.addr().to_string()])?;
        Ok(Self { ours, java, server })
    }

    /// One more Curator.
    pub(crate) fn peer(&self) -> Checked<Peer> {
        Ok(Peer::start(Tongue::Curator, &[self.server.addr().to_string()])?)
    }

    /// One more of us, as a process.
    pub(crate) fn orders(&self) -> Orders {
        Orders::new(&url(&self.server, ""), PATH).ttl(BRIEF)
    }

    pub(crate) fn znodes(&self) -> Checked<Znodes> {
        Ok(Znodes::connect(self.server.addr())?)
    }

    /// How many stand in line at a path.
    pub(crate) fn line(&self, path: &str) -> Checked<usize> {
        Ok(self.znodes()?.children(path)?.len())
    }
}

fn url(server: &Server, options: &str) -> String {
    format!("{}?names=raw&{options}", server.url()).trim_end_matches('&').to_owned()
}

/// The number of a grant: the change that made its node.
pub(crate) fn token(granted: Option<Granted>) -> Checked<u64> {
    let granted = granted.ok_or("it was not granted")?;
    Ok(granted.token.ok_or("its node is gone")?)
}
