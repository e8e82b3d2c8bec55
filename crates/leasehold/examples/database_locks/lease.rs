//! A lease around it all: for work that is more than one transaction, such as a
//! payment in between. The fence makes a holder that comes late harmless.

use leasehold::sql::{self, Dialect};

use crate::Outcome;
use crate::shop::{GOODS, Shop, order, think};

pub(crate) async fn buy(shop: &Shop) -> Outcome<bool> {
    let guard = shop.locks().mutex(format!("goods/{GOODS}")).lock().await?;
    let mut client = shop.connect().await?;
    let look = "SELECT stock FROM t_goods WHERE id = $1";
    let stock: i64 = client.query_one(look, &[&GOODS]).await?.get(0);
    if stock == 0 {
        return Ok(false); // dropped: released
    }
    think().await; // and pay, and tell the warehouse
    let write = sql::fenced_update(Dialect::Postgres, "t_goods", "id", "fence", &["stock"])?;
    let fence = i64::try_from(guard.fence())?;
    let tx = client.transaction().await?;
    if tx.execute(write.text(), &[&(stock - 1), &fence, &GOODS]).await? == 0 {
        return Err("this buyer slept through the end of its lease; nothing was written".into());
    }
    order(&tx).await?;
    tx.commit().await?;
    guard.release().await?;
    Ok(true)
}
