//! T7: a read stalls after it has looked. What it then takes for the present is
//! later than what it has seen.

use std::time::Duration;

use leasehold_testkit::server::tell;

use super::{Checked, Database};

/// Every look of this role at the namespaces takes longer than a ttl.
const SLOW: &str = "\
CREATE ROLE slow LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO slow; \
ALTER TABLE leasehold_namespaces ENABLE ROW LEVEL SECURITY; \
CREATE POLICY stall ON leasehold_namespaces TO slow USING (pg_sleep(1.2)::text = '')";
/// Whether the clock has gone on by a ttl since the look began.
const STALLED: &str = "\
SELECT CASE WHEN clock_timestamp() - transaction_timestamp() > interval '1 s' THEN 1 ELSE 0 END \
FROM leasehold_namespaces";

/// The holder renews while the other reads; the other sees none of it.
#[tokio::test]
async fn a_look_that_stalls_takes_nothing_from_a_holder_that_renews() -> Checked {
    let db = Database::postgres(|plan| plan)?;
    let one = leasehold::open(db.server.url()).await?;
    one.record::<u32>("r").set(&1).await?;
    let held = one.mutex("n").ttl(Duration::from_secs(1)).lock().await?;
    db.tell(SLOW)?;
    let slow = db.url("timeout=8s").replace("postgres@", "slow@");
    let stalled = tell(&db.server.url().replace("postgres@", "slow@"), STALLED)?;
    assert_eq!(stalled, ["1"], "the fault did not bite");
    let two = leasehold::open(slow).await?;
    for _ in 0..4 {
        let other = two.mutex("n").ttl(Duration::from_secs(10)).try_lock().await?;
        assert!(other.is_none() || held.check().is_err(), "two hold it");
        held.check()?;
    }
    held.release().await?;
    Ok(())
}
