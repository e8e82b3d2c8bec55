//! Leaders of an etcd cluster that stand still or move.

use std::time::Duration;

use leasehold_testkit::check;
use leasehold_testkit::contest::{BOUND, Checked, Contest};
use leasehold_testkit::server::Ensemble;

use super::store::Store;
use super::{BRIEF, LONG, NAME, PATIENT, open};

/// E2: what was sent to a leader that stands still may have had an effect. It is
/// granted once all the same, and leaves no second key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_during_a_stopped_leader_is_granted_once() -> Checked {
    let mut ensemble = Ensemble::etcd(3)?;
    let locks = open(&ensemble.url()).await?;
    drop(locks.mutex(NAME).ttl(LONG).lock().await?);
    let leader = ensemble.leader()?;
    ensemble.servers()[leader].pause()?;
    let locking = tokio::spawn(locks.mutex(NAME).ttl(LONG).lock().within(BOUND).into_future());
    let guard = locking.await??;
    ensemble.servers()[leader].resume()?;
    let now = ensemble.leader()?;
    assert_eq!(Store::Etcd.line(&ensemble.servers()[now])?.len(), 1, "an orphan");
    guard.check()?;
    guard.release().await?;
    Ok(())
}

/// The other members as `etcdctl move-leader` wants them: ids in hex.
fn followers(ensemble: &mut Ensemble) -> Checked<(usize, Vec<String>)> {
    let leader = ensemble.leader()?;
    let status = ensemble.etcdctl()?.args(["endpoint", "status", "-w", "json"]).output()?;
    let status: serde_json::Value = serde_json::from_slice(&status.stdout)?;
    let all = status.as_array().ok_or("no status")?;
    let ids = all.iter().filter_map(|it| it["Status"]["header"]["member_id"].as_u64());
    let lead = all[0]["Status"]["leader"].as_u64().ok_or("no leader")?;
    Ok((leader, ids.filter(|id| *id != lead).map(|id| format!("{id:x}")).collect()))
}

/// E3: the leader moves again and again. Leases get their full time each time,
/// nobody loses a lock, and nobody is kept out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_moves_all_the_time_keeps_nobody_out() -> Checked {
    let mut ensemble = Ensemble::etcd(3)?;
    let url = format!("{}?{}", ensemble.url(), PATIENT.replace("names=raw&", ""));
    let contest = Contest::start_with(&url, 15 * BRIEF).await?;
    let mut moved = 0;
    let step = || {
        let (leader, followers) = followers(&mut ensemble)?;
        let asked = ensemble.servers()[leader].tell(&["move-leader", &followers[0]]);
        moved += u32::from(asked.is_ok());
        Ok(())
    };
    contest.shake(6, Duration::from_millis(500), step).await?;
    assert!(moved > 2, "the leader moved {moved} times");
    contest.proceeds(2).await?;
    Ok(check::all(&contest.end().await?)?)
}
