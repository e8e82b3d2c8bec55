//! The row is locked until the transaction ends: others wait for it.

use leasehold::sql::{self, Dialect, Wait};

use crate::Outcome;
use crate::shop::{GOODS, Shop, order, think};

pub(crate) async fn buy(shop: &Shop) -> Outcome<bool> {
    let mut client = shop.connect().await?;
    let tx = client.transaction().await?;
    let lock = sql::lock_row(Dialect::Postgres, "t_goods", "id", Wait::Always)?;
    let stock: i64 = tx.query_one(lock.text(), &[&GOODS]).await?.get("stock");
    if stock == 0 {
        return Ok(false); // dropped: rolled back, and the row is free
    }
    think().await;
    let write = "UPDATE t_goods SET stock = $1 WHERE id = $2";
    tx.execute(write, &[&(stock - 1), &GOODS]).await?;
    order(&tx).await?;
    tx.commit().await?;
    Ok(true)
}
