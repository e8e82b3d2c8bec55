//! Look, think, write: between the look and the write anything can happen.

use crate::Outcome;
use crate::shop::{GOODS, Shop, order, think};

pub(crate) async fn buy(shop: &Shop) -> Outcome<bool> {
    let client = shop.connect().await?;
    let look = "SELECT stock FROM t_goods WHERE id = $1";
    let stock: i64 = client.query_one(look, &[&GOODS]).await?.get(0);
    if stock == 0 {
        return Ok(false);
    }
    think().await;
    // Whoever looked at the same moment sells the same item.
    let write = "UPDATE t_goods SET stock = $1 WHERE id = $2";
    client.execute(write, &[&(stock - 1), &GOODS]).await?;
    order(&client).await?;
    Ok(true)
}
