//! Servers that agree, and servers behind TLS and passwords.

use leasehold_testkit::server::{Ensemble, Plan, Server};
use leasehold_testkit::{Znodes, narrow};
use libtest_mimic::Trial;

use super::{BOUND, Checked, eventually};

pub(super) fn trials() -> Vec<Trial> {
    let trial = |engine: &'static str, name: &str, check: fn() -> Checked| {
        Trial::test(format!("{engine}::{name}"), check).with_ignored_flag(!narrow::includes(engine))
    };
    vec![
        trial("zookeeper", "another_leads_when_the_leader_dies", || {
            another_leads(Ensemble::zookeeper(3)?)
        }),
        trial("etcd", "another_leads_when_the_leader_dies", || another_leads(Ensemble::etcd(3)?)),
        trial("zookeeper", "an_ensemble_outlives_a_power_cut", || {
            outlives(Ensemble::zookeeper(3)?)
        }),
        trial("etcd", "an_ensemble_outlives_a_power_cut", || outlives(Ensemble::etcd(3)?)),
        trial("zookeeper", "a_session_can_be_ended_by_hand", a_session_can_be_ended),
        trial("zookeeper", "answers_behind_tls", || {
            let server = Server::start(Plan::zookeeper().tls())?;
            assert!(server.answers() && server.url().starts_with("zookeepers://"));
            Ok(())
        }),
        trial("etcd", "answers_behind_tls_to_who_has_the_password", password),
    ]
}

fn another_leads(mut ensemble: Ensemble) -> Checked {
    let old = ensemble.kill_leader()?;
    let new = ensemble.leader()?;
    assert_ne!(old, new);
    ensemble.servers()[old].restart()?;
    assert!(ensemble.servers().iter().filter(|server| server.leads()).count() == 1);
    Ok(())
}

fn outlives(mut ensemble: Ensemble) -> Checked {
    let hosts = ensemble.hosts();
    ensemble.kill_all()?;
    ensemble.start_all()?;
    assert_eq!(ensemble.hosts(), hosts);
    ensemble.pause_all()?;
    assert!(!ensemble.servers().iter().any(Server::answers), "a paused server answered");
    ensemble.resume_all()?;
    eventually("all serve again", || ensemble.servers().iter().all(Server::answers))
}

fn a_session_can_be_ended() -> Checked {
    let server = Server::zookeeper()?;
    let mut znodes = Znodes::connect(server.addr())?;
    let sessions = |znodes: &mut Znodes| -> Result<Vec<i64>, std::io::Error> {
        let _ = znodes.stat("/")?;
        let dump = server.say("dump").unwrap_or_default();
        let ids = dump.lines().filter_map(|line| line.trim().strip_prefix("0x"));
        Ok(ids.filter_map(|id| i64::from_str_radix(id, 16).ok()).collect())
    };
    let mine = sessions(&mut znodes)?;
    assert_eq!(mine.len(), 1, "one session: {mine:?}");
    Znodes::end_session(server.addr(), mine[0])?;
    assert!(znodes.stat("/").is_err(), "its client goes on");
    Ok(())
}

fn password() -> Checked {
    let server = Server::start(Plan::etcd().tls().password("pw"))?;
    assert!(server.answers() && server.url().starts_with("etcds://root:pw@"));
    assert_eq!(server.tell(&["put", "k", "v"])?, "OK");
    let mut stranger = server.etcdctl()?;
    stranger.args(["--user=root:no", "get", "k"]);
    assert!(!stranger.output()?.status.success(), "a wrong password was taken within {BOUND:?}");
    Ok(())
}
