//! Recipes over records, on every engine that keeps them.

mod counter;
mod latch;

use super::check::{Check, Outcome};
use super::recipe::Client;
use super::store::Store;

pub(super) fn checks() -> Vec<Check> {
    [counter::checks(), latch::checks()].concat()
}

/// So many clients; none if the engine keeps no records, and there is nothing to
/// check.
async fn clients(store: &Store, count: usize) -> Outcome<Vec<Client>> {
    let clients = store.open_many(count).await?;
    Ok(if clients[0].engine().records().is_some() { clients } else { Vec::new() })
}
