//! The whole ensemble stands still, goes, or comes back.

use std::time::{Duration, Instant};

use leasehold::Standing;
use leasehold_testkit::check;
use leasehold_testkit::contest::{BOUND, Checked, Contest, is_guarded};

use super::store::Store;
use super::{BRIEF, LONG, NAME, PATIENT, is_lost, open, stands, still_waits};

/// First in doubt, then lost, and no later than the servers could end it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_all_servers_stopped_a_guard_is_in_jeopardy_and_then_lost() -> Checked {
    for store in Store::BOTH {
        let mut ensemble = store.ensemble()?;
        let (one, two) = (open(&ensemble.url()).await?, open(&ensemble.url()).await?);
        let guard = one.mutex(NAME).ttl(BRIEF).lock().await?;
        stands(&guard, Standing::Held).await?;
        ensemble.pause_all()?;
        let paused = Instant::now();
        let doubted = tokio::time::timeout(BOUND, doubt(&guard)).await?;
        is_lost(&guard).await?;
        assert!(doubted, "{store:?}: lost without a doubt before");
        // Its last sign of life left before the servers stopped.
        assert!(guard.deadline().since(leasehold::Clock::System.now()) < BRIEF / 10);
        assert!(paused.elapsed() > BRIEF / 2, "the fault did not bite");
        ensemble.resume_all()?;
        let next = two.mutex(NAME).ttl(BRIEF).lock().within(BOUND).await?;
        is_guarded(&guard, &next)?;
    }
    Ok(())
}

/// Whether the guard said Jeopardy before it was lost.
async fn doubt(guard: &leasehold::Guard) -> bool {
    loop {
        match guard.standing() {
            Standing::Held => tokio::time::sleep(Duration::from_millis(2)).await,
            standing => return standing == Standing::Jeopardy,
        }
    }
}

/// Back in time: the guard is as good as before, and nobody else got in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_is_held_again_when_the_servers_come_back_in_time() -> Checked {
    for store in Store::BOTH {
        let mut ensemble = store.ensemble()?;
        let (one, two) = (open(&ensemble.url()).await?, open(&ensemble.url()).await?);
        let guard = one.mutex(NAME).ttl(15 * BRIEF).lock().await?;
        ensemble.pause_all()?;
        stands(&guard, Standing::Jeopardy).await?;
        ensemble.resume_all()?;
        stands(&guard, Standing::Held).await?;
        assert!(two.mutex(NAME).try_lock().await?.is_none(), "two holders");
        guard.release().await?;
    }
    Ok(())
}

/// A power cut within the session: leases are on disk, and guards live on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_within_the_session_keeps_every_guard() -> Checked {
    for store in Store::BOTH {
        let mut ensemble = store.ensemble()?;
        let (one, two) = (open(&ensemble.url()).await?, open(&ensemble.url()).await?);
        let guard = one.mutex(NAME).ttl(LONG).lock().await?;
        let mut waiting =
            tokio::spawn(two.mutex(NAME).ttl(LONG).lock().within(BOUND).into_future());
        super::queued(&one, 1).await?;
        ensemble.kill_all()?;
        ensemble.start_all()?;
        guard.check()?;
        stands(&guard, Standing::Held).await?;
        still_waits(&mut waiting).await?;
        let fence = guard.fence();
        guard.release().await?;
        assert!(waiting.await??.fence() > fence);
    }
    Ok(())
}

/// A server that restarts within the session keeps guards and places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_within_the_session_keeps_every_guard() -> Checked {
    for store in Store::BOTH {
        let mut server = store.start()?;
        let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
        let guard = one.mutex(NAME).ttl(LONG).lock().await?;
        let before = store.line(&server)?;
        let mut waiting =
            tokio::spawn(two.mutex(NAME).ttl(LONG).lock().within(BOUND).into_future());
        super::queued(&one, 1).await?;
        server.kill()?;
        server.restart()?;
        stands(&guard, Standing::Held).await?;
        still_waits(&mut waiting).await?;
        assert!(store.line(&server)?.contains(&before[0]), "it holds with another node");
        let fence = guard.fence();
        guard.release().await?;
        assert!(waiting.await??.fence() > fence);
    }
    Ok(())
}

/// Leaders are killed under a contest: nobody is locked out, no register is
/// fooled, no fence goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contest_goes_on_while_leaders_are_killed() -> Checked {
    for store in Store::BOTH {
        let mut ensemble = store.ensemble()?;
        let url = ensemble.url();
        let url = format!("{url}?{}", PATIENT.replace("names=raw&", ""));
        let contest = Contest::start_with(&url, 15 * BRIEF).await?;
        for _ in 0..3 {
            contest.proceeds(2).await?;
            let leader = ensemble.kill_leader()?;
            assert_ne!(ensemble.leader()?, leader, "the fault did not bite");
            contest.proceeds(2).await?;
            ensemble.servers()[leader].restart()?;
        }
        contest.proceeds(2).await?;
        check::all(&contest.end().await?)?;
    }
    Ok(())
}
