//! No lock at all: a write is refused if someone else has written since the look.

use leasehold::sql::{self, Dialect};

use crate::Outcome;
use crate::shop::{GOODS, Shop, order, think};

pub(crate) async fn buy(shop: &Shop) -> Outcome<bool> {
    let mut client = shop.connect().await?;
    let write = sql::versioned_update(Dialect::Postgres, "t_goods", "id", "version", &["stock"])?;
    loop {
        let look = "SELECT stock, version FROM t_goods WHERE id = $1";
        let row = client.query_one(look, &[&GOODS]).await?;
        let (stock, version): (i64, i64) = (row.get(0), row.get(1));
        if stock == 0 {
            return Ok(false);
        }
        think().await;
        let tx = client.transaction().await?;
        if tx.execute(write.text(), &[&(stock - 1), &GOODS, &version]).await? == 1 {
            order(&tx).await?;
            tx.commit().await?;
            return Ok(true);
        }
        // Someone was faster; what was decided has to be decided anew.
        tx.rollback().await?;
    }
}
