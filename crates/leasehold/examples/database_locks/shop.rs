//! The shop: goods, orders, and buyers who all come at once.

use std::sync::Arc;
use std::time::Duration;

use leasehold::Locks;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_postgres::{Client, GenericClient, NoTls};

use crate::Outcome;

/// How many items there are.
pub(crate) const STOCK: i64 = 5;
pub(crate) const BUYERS: usize = 20;
/// What everybody wants.
pub(crate) const GOODS: i64 = 7;
/// How long a buyer thinks about it.
const THINKING: Duration = Duration::from_millis(5);

const TABLES: &str = "
    DROP TABLE IF EXISTS t_orders, t_goods;
    CREATE TABLE t_goods (
        id BIGINT PRIMARY KEY, name TEXT NOT NULL, stock BIGINT NOT NULL,
        version BIGINT NOT NULL DEFAULT 0, fence BIGINT NOT NULL DEFAULT 0
    );
    CREATE TABLE t_orders (
        id BIGSERIAL PRIMARY KEY, goods_id BIGINT NOT NULL REFERENCES t_goods (id)
    );";

#[derive(Clone)]
pub(crate) struct Shop {
    url: Arc<str>,
    locks: Locks,
}

impl Shop {
    pub(crate) async fn open(url: &str) -> Outcome<Self> {
        let shop = Self { url: url.into(), locks: leasehold::open(url).await? };
        shop.connect().await?.batch_execute(TABLES).await?;
        Ok(shop)
    }

    pub(crate) const fn locks(&self) -> &Locks {
        &self.locks
    }

    /// A connection for one buyer.
    pub(crate) async fn connect(&self) -> Outcome<Client> {
        let (client, driver) = tokio_postgres::connect(&self.url, NoTls).await?;
        tokio::spawn(driver);
        Ok(client)
    }

    /// Fills the shelf and lets the buyers in; how many items were sold, and how
    /// many are left.
    pub(crate) async fn sell_out(&self, way: &'static str) -> Outcome<(i64, i64)> {
        let client = self.connect().await?;
        client.batch_execute("DELETE FROM t_orders; DELETE FROM t_goods").await?;
        let fill = "INSERT INTO t_goods (id, name, stock) VALUES ($1, 'a lamp', $2)";
        client.execute(fill, &[&GOODS, &STOCK]).await?;
        let door = Arc::new(Barrier::new(BUYERS));
        let mut buyers = JoinSet::new();
        for _ in 0..BUYERS {
            let (shop, door) = (self.clone(), Arc::clone(&door));
            buyers.spawn(async move {
                door.wait().await;
                crate::buy(&shop, way).await
            });
        }
        while let Some(bought) = buyers.join_next().await {
            bought??;
        }
        let count = "SELECT (SELECT count(*) FROM t_orders), (SELECT stock FROM t_goods)";
        let row = client.query_one(count, &[]).await?;
        Ok((row.get(0), row.get(1)))
    }

    pub(crate) async fn close(self) -> Outcome<()> {
        let client = self.connect().await?;
        Ok(client.batch_execute("DROP TABLE t_orders, t_goods").await?)
    }
}

/// Puts down the order of one buyer.
pub(crate) async fn order(client: &(impl GenericClient + Sync)) -> Outcome<()> {
    client.execute("INSERT INTO t_orders (goods_id) VALUES ($1)", &[&GOODS]).await?;
    Ok(())
}

pub(crate) async fn think() {
    tokio::time::sleep(THINKING).await;
}
