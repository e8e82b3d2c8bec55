//! Caches over a server that restarts, and over a way to it that is cut while records
//! change: they say that they may lack changes, and come to have what the store has.

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use leasehold::cache::Cache;
use leasehold::{Locks, Record};
use leasehold_testkit::audience::Audience;
use leasehold_testkit::contest::{BOUND, Checked, until};
use leasehold_testkit::proxy::{Fault, FaultProxy};
use leasehold_testkit::server::{Plan, Server};

const RECORDS: u32 = 60;

/// A store, one who writes to it, and one who has a cache of it, by another way.
struct Scene {
    server: Server,
    proxy: FaultProxy,
    writer: Locks,
    cache: Cache<u32>,
    audience: Audience<u32>,
}

/// A proxy has a runtime of its own, which no other may start.
fn proxy(server: &Server) -> Checked<FaultProxy> {
    let addr = server.addr();
    let started = std::thread::spawn(move || FaultProxy::to(addr)).join();
    Ok(started.map_err(|_| "the proxy did not start")??)
}

async fn open(url: &str) -> Checked<Locks> {
    Ok(leasehold::open(format!("{url}?retry=forever:20ms")).await?)
}

async fn write(record: &Record<u32>, at: u32) -> leasehold::Result<()> {
    match (at, at % 3) {
        (RECORDS.., _) => record.set(&at).await.map(drop),
        (_, 0) => record.set(&(at + 1)).await.map(drop),
        (_, 1) => record.delete().await,
        _ => Ok(()),
    }
}

impl Scene {
    async fn new(plan: Plan) -> Checked<Self> {
        let server = Server::start(plan)?;
        let proxy = proxy(&server)?;
        let writer = open(&server.url()).await?;
        for at in 0..RECORDS {
            writer.record(format!("c/{at}")).set(&at).await?;
        }
        let reader = open(&server.url_via(proxy.addr())).await?;
        let cache = reader.cache::<u32>("c").start().await?;
        let audience = Audience::of(&cache);
        let mut scene = Self { server, proxy, writer, cache, audience };
        scene.agrees().await?;
        Ok(scene)
    }

    async fn agrees(&mut self) -> Checked {
        Ok(self.audience.agrees(&self.writer, "c", 1, BOUND).await?)
    }

    /// Some are changed, some deleted, some made.
    async fn change(&self) -> Checked {
        for at in 0..RECORDS + 20 {
            let record = self.writer.record::<u32>(format!("c/{at}"));
            // A server that was just started may break a connection once more.
            until("it is written", || async { Ok(write(&record, at).await.is_ok()) }).await?;
        }
        Ok(())
    }

    async fn is_stale(&self) -> Checked {
        until("it says that it is stale", || async { Ok(!self.cache.freshness().is_live()) }).await
    }

    /// What it has stays readable, and is not what the store has.
    async fn cut(mut self) -> Checked {
        let before = self.audience.seen();
        self.proxy.set_both(Fault::Reset);
        self.proxy.reset_all();
        self.change().await?;
        assert!(self.proxy.counts().reset > 0, "nothing was cut");
        assert_eq!(self.audience.seen(), before, "it heard of changes: the fault did not bite");
        self.is_stale().await?;
        self.proxy.heal();
        self.agrees().await?;
        assert!(self.audience.stale > 0 && self.audience.seen() != before);
        self.change().await?;
        self.agrees().await
    }

    async fn restart(mut self) -> Checked {
        self.server.kill()?;
        assert!(!self.server.answers(), "the fault did not bite");
        self.is_stale().await?;
        self.server.restart()?;
        self.change().await?;
        self.agrees().await?;
        assert!(self.audience.stale > 0);
        Ok(())
    }
}

macro_rules! faults {
    ($($engine:ident: $plan:expr,)+) => {
        $(mod $engine {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn what_changes_during_a_cut_is_there_afterwards() -> Checked {
                Scene::new($plan).await?.cut().await
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn after_a_restart_it_has_what_the_store_has() -> Checked {
                Scene::new($plan).await?.restart().await
            }
        })+
    };
}

faults! {
    redis_that_keeps: Plan::redis_durable(),
    redis_that_forgets: Plan::redis(),
    postgres: Plan::postgres(),
    mysql: Plan::mariadb(),
    etcd: Plan::etcd(),
    zookeeper: Plan::zookeeper(),
}
