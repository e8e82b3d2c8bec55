//! Records that go with a lease.

use leasehold_testkit::server::{Server, ask};

use super::{Checked, LONG, until};

/// R22: a record is written again and again under one lease, a heartbeat say.
/// What the lease has to know of it stays the same.
#[tokio::test]
async fn a_lease_does_not_grow_with_the_writes_of_what_goes_with_it() -> Checked {
    let server = Server::redis()?;
    let locks = leasehold::open(server.url()).await?;
    let guard = locks.mutex("leader").ttl(LONG).lock().await?;
    let size = || ask(&server, &["STRLEN", "leasehold:{default}:name:leader"]);
    let (status, other) = (locks.record::<u32>("status"), locks.record::<u32>("other"));
    let (status, other) = (status.bound_to(&guard), other.bound_to(&guard));
    status.set(&0).await?;
    other.set(&0).await?;
    let before = size()?;
    for n in 1..=500 {
        status.set(&n).await?;
    }
    assert_eq!(size()?, before);
    guard.release().await?;
    let gone = || async {
        let left = ask(&server, &["EXISTS", "leasehold:{default}:record:status"])?;
        Ok(left.contains("(0)") && locks.record::<u32>("other").get().await?.is_none())
    };
    until("both go with it", gone).await
}
