//! What an operator should know of the servers.

use super::Etcd;
use super::link::EtcdDialer;
use super::proto::{AuthenticateRequest, StatusRequest, StatusResponse};
use super::version::Version;
use crate::engine::{Finding, Severity};
use crate::engines::kit::skew::SkewCheck;
use crate::error::{Error, Result};

/// How far a member may be behind before somebody should know.
const LAG: u64 = 1000;
/// What a server may store, unless it is told otherwise.
const QUOTA: i64 = 2 * 1024 * 1024 * 1024;

impl Etcd {
    pub(super) async fn examine(&self) -> Result<Vec<Finding>> {
        let mut findings = self.skew().await?;
        let mut members = Vec::new();
        for dial in self.link.dialers() {
            match self.link.ask_at(dial, StatusRequest {}).await {
                Ok(status) => {
                    findings.extend(about(dial, &status));
                    members.push(status);
                }
                Err(fault) => findings.push(silent(dial, &fault.into_error())),
            }
        }
        findings.extend(lagging(&members));
        findings.extend(self.lonely());
        findings.extend(self.open_to_all().await);
        Ok(findings)
    }

    async fn skew(&self) -> Result<Vec<Finding>> {
        let mut skew = SkewCheck::new(self.link.timeout());
        for _ in 0..SkewCheck::LOOKS {
            let asked = self.link.clock().now();
            self.ping(self.link.deadline()).await?;
            skew.add(self.link.clock().now().since(asked), None);
        }
        Ok(skew.findings())
    }

    fn lonely(&self) -> Option<Finding> {
        (self.link.dialers().len() == 1).then(|| {
            Finding::new(
                Severity::Note,
                "the URL names one endpoint; leases end if it is away for longer than their ttl",
                "run three or five members and name them all: etcd://a,b,c",
            )
        })
    }

    /// Servers that know users say something else to nobody's login.
    async fn open_to_all(&self) -> Option<Finding> {
        let nobody = AuthenticateRequest::default();
        let error = self.link.ask(nobody, self.link.deadline()).await.err()?;
        error.to_string().contains("not enabled").then(|| {
            Finding::new(
                Severity::Note,
                "etcd asks nobody who they are: whoever reaches it can take any lease away",
                "turn on authentication (etcdctl auth enable), or client certificates",
            )
        })
    }
}

fn about(dial: &EtcdDialer, status: &StatusResponse) -> Vec<Finding> {
    let host = dial.host().to_string();
    let mut all = flaws(&status.version);
    all.extend(leaderless(status));
    all.extend(learner(status));
    all.extend(alarms(status));
    all.extend(crowded(status));
    for finding in &mut all {
        finding.message = format!("{host}: {}", finding.message);
    }
    all
}

/// What is known to be wrong with leases in a version.
fn flaws(version: &str) -> Vec<Finding> {
    let Some(this) = Version::parse(version) else { return Vec::new() };
    let upgrade = "upgrade to 3.6.5, 3.5.23 or later";
    let flaw =
        |severity, what: &str| Finding::new(severity, format!("etcd {version} {what}"), upgrade);
    let mut all = Vec::new();
    if this.is_before(&[(3, 4, 31), (3, 5, 13)]) {
        let what = "can end every lease when a stalled leader wakes up";
        all.push(flaw(Severity::Warning, what));
    }
    if this.is_before(&[(3, 4, 38), (3, 5, 23), (3, 6, 5)]) {
        let what = "can answer a renewal with success although the lease was just revoked";
        all.push(flaw(Severity::Warning, what));
    }
    if this.is_before(&[(3, 5, 0)]) {
        let what = "tells users of its own lock service that they hold a lock after their lease \
                    has ended; we do not use it, others who share your locks may";
        all.push(flaw(Severity::Note, what));
    }
    all
}

fn leaderless(status: &StatusResponse) -> Option<Finding> {
    (status.leader == 0).then(|| {
        Finding::new(
            Severity::Danger,
            "the member knows no leader: nothing can be locked through it",
            "bring a majority of the members up, and look at the network between them",
        )
    })
}

fn learner(status: &StatusResponse) -> Option<Finding> {
    status.is_learner.then(|| {
        Finding::new(
            Severity::Warning,
            "the member is a learner and serves no locks",
            "leave it out of the URL until it is promoted",
        )
    })
}

fn alarms(status: &StatusResponse) -> Option<Finding> {
    let full = status.errors.iter().any(|error| error.contains("NOSPACE"));
    let corrupt = status.errors.iter().any(|error| error.contains("CORRUPT"));
    let (what, advice) = match (full, corrupt) {
        (_, true) => ("its data differs from that of other members", "replace the member"),
        (true, _) => ("it is full: nothing can be locked", "compact, defragment, disarm the alarm"),
        _ => return None,
    };
    Some(Finding::new(Severity::Danger, what, advice))
}

fn crowded(status: &StatusResponse) -> Option<Finding> {
    let told = status.db_size_quota > 0;
    let quota = if told { status.db_size_quota } else { QUOTA };
    let tight = status.db_size > quota / 5 * 4;
    let (size, free) = (status.db_size >> 20, (status.db_size - status.db_size_in_use) >> 20);
    let whose = if told { "its quota" } else { "the usual quota" };
    tight.then(|| {
        Finding::new(
            Severity::Warning,
            format!(
                "its data takes {size} MiB of {whose} of {} MiB; {free} MiB are free inside",
                quota >> 20
            ),
            "compact and defragment, or raise --quota-backend-bytes",
        )
    })
}

/// Members whose locks are older than those of others.
fn lagging(members: &[StatusResponse]) -> Option<Finding> {
    let index = members.iter().map(|status| status.raft_applied_index);
    let lag = index.clone().max()? - index.min()?;
    (lag > LAG).then(|| {
        Finding::new(
            Severity::Warning,
            format!("a member is {lag} changes behind another"),
            "look for a slow disk or network at one of the members",
        )
    })
}

fn silent(dial: &EtcdDialer, error: &Error) -> Finding {
    Finding::new(
        Severity::Warning,
        format!("{}: {error}", dial.host()),
        "start the member, or take it out of the URL",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> StatusResponse {
        StatusResponse {
            version: "3.6.5".into(),
            leader: 1,
            db_size: 1,
            ..StatusResponse::default()
        }
    }

    #[test]
    fn a_healthy_member_has_nothing_to_say() {
        assert!(flaws(&good().version).is_empty());
        assert!(leaderless(&good()).or(learner(&good())).or(alarms(&good())).is_none());
        assert!(crowded(&good()).or(lagging(&[good(), good()])).is_none());
    }

    #[test]
    fn faults_are_found() {
        assert_eq!(flaws("3.4.23").len(), 3);
        assert_eq!(flaws("3.5.13").len(), 1);
        assert!(leaderless(&StatusResponse { leader: 0, ..good() }).is_some());
        let alarm = |text: &str| alarms(&StatusResponse { errors: vec![text.into()], ..good() });
        assert!(alarm("memberID:1 alarm:NOSPACE ").unwrap().message.contains("full"));
        assert!(alarm("memberID:1 alarm:CORRUPT ").is_some() && alarm("else").is_none());
        assert!(crowded(&StatusResponse { db_size: QUOTA - 1, ..good() }).is_some());
        let limited = StatusResponse { db_size: 90, db_size_quota: 100, ..good() };
        assert!(crowded(&limited).unwrap().message.contains("its quota"));
        let behind = StatusResponse { raft_applied_index: LAG + 1, ..good() };
        assert!(lagging(&[good(), behind]).is_some());
    }
}
