//! `doctor`: what the engine promises, what is wrong, how it does.

mod checkup;
mod crowds;
mod promises;

use std::fmt::Write;

use leasehold::engine::profile::Lists;
use leasehold::engine::{Finding, Severity};
use leasehold::{Locks, Profile};
use serde::Serialize;

use self::checkup::Checkup;
use self::promises::{Promise, promises};
use crate::args::Global;
use crate::engine;
use crate::failure::{DANGER, Failure, WARNING};
use crate::output;
use crate::table;
use crate::text::{message, place};

pub(crate) async fn doctor(global: &Global) -> Result<u8, Failure> {
    let locks = engine::open(global).await?;
    let mut findings = engine::answer(async { Ok(locks.examine().await?) }).await?;
    findings.extend(crowds_of(&locks).await);
    let checkup = checked(&locks, &mut findings).await;
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let report = Report::new(locks.profile(), &findings, checkup);
    if global.json {
        output::print_json(&report)?
    } else {
        output::print(&report.page())?
    }
    Ok(report.code())
}

/// The names that many wait for; and it is a finding, too, that nobody can tell.
async fn crowds_of(locks: &Locks) -> Vec<Finding> {
    if locks.profile().listing == Lists::ByName {
        return Vec::new();
    }
    engine::answer(crowds::crowds(locks)).await.unwrap_or_else(|failure| {
        let what = format!("the names cannot be listed: {}", failure.message());
        vec![Finding::new(Severity::Warning, what, "ls fails as well; see what it says")]
    })
}

/// The self-test; what it finds is added, and so is that it cannot be done.
async fn checked(locks: &Locks, findings: &mut Vec<Finding>) -> Option<Checkup> {
    match engine::answer(checkup::check_up(locks, findings)).await {
        Ok(checkup) => Some(checkup),
        Err(failure) => {
            let what = format!("the self-test failed: {}", failure.message());
            let advice = "locks on this engine do not work now; see what it says";
            findings.push(Finding::new(Severity::Danger, what, advice));
            None
        }
    }
}

/// What `--json` shows. Field names are a promise: add, never change.
#[derive(Serialize)]
struct Report<'a> {
    engine: &'static str,
    endpoint: &'a str,
    verdict: &'static str,
    promises: Vec<Promise>,
    findings: Vec<FindingJson<'a>>,
    self_test: Option<Checkup>,
}

#[derive(Serialize)]
struct FindingJson<'a> {
    severity: &'static str,
    message: &'a str,
    advice: &'a str,
}

impl<'a> Report<'a> {
    fn new(profile: &'a Profile, findings: &'a [Finding], self_test: Option<Checkup>) -> Self {
        let worst = findings.iter().map(|finding| finding.severity).max();
        let severity = |finding: &Finding| word(finding.severity);
        let json = |finding: &'a Finding| FindingJson {
            severity: severity(finding),
            message: &finding.message,
            advice: &finding.advice,
        };
        Self {
            engine: profile.scheme,
            endpoint: &profile.endpoint,
            verdict: worst.filter(|worst| *worst > Severity::Note).map_or("well", word),
            promises: promises(profile),
            findings: findings.iter().map(json).collect(),
            self_test,
        }
    }

    fn code(&self) -> u8 {
        match self.verdict {
            "well" => 0,
            "warning" => WARNING,
            _ => DANGER,
        }
    }

    fn page(&self) -> String {
        let mut page = format!("{}\n\n", message(&place(self.engine, self.endpoint)));
        let rows = self.promises.iter().map(|promise| {
            [promise.promise.to_owned(), promise.value.clone(), promise.meaning.clone()]
        });
        page += &table::table(["PROMISE", "VALUE", "WHICH MEANS"], rows, &[]);
        // Writing to a string cannot fail.
        let _ = write!(page, "\n{}{}\n", self.findings(), self.self_test());
        page + &format!("verdict    {}\n", self.verdict)
    }

    fn findings(&self) -> String {
        if self.findings.is_empty() {
            return "findings   none\n".into();
        }
        let line = |finding: &FindingJson<'_>| {
            let advice = message(finding.advice);
            let advice = if advice.is_empty() { advice } else { format!("           {advice}\n") };
            format!("{:<10} {}\n{advice}", finding.severity, message(finding.message))
        };
        self.findings.iter().map(line).collect()
    }

    fn self_test(&self) -> String {
        self.self_test.as_ref().map_or_else(|| "self-test  failed\n".into(), Checkup::lines)
    }
}

const fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Danger => "danger",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_decides() {
        let profile = Profile::new("test", "here");
        let code = |severities: &[Severity]| {
            let finding = |severity: &Severity| Finding::new(*severity, "what", "do this");
            let findings: Vec<_> = severities.iter().map(finding).collect();
            Report::new(&profile, &findings, None).code()
        };
        assert_eq!(code(&[]), 0);
        assert_eq!(code(&[Severity::Note]), 0);
        assert_eq!(code(&[Severity::Warning, Severity::Note]), WARNING);
        assert_eq!(code(&[Severity::Note, Severity::Danger, Severity::Warning]), DANGER);
    }

    #[test]
    fn findings_come_with_their_advice() {
        let profile = Profile::new("test", "here");
        let findings = [Finding::new(Severity::Danger, "it \x1b[31mburns", "put it out")];
        let page = Report::new(&profile, &findings, None).page();
        assert!(page.contains("danger     it \\u{1b}[31mburns\n           put it out\n"), "{page}");
        assert!(page.ends_with("self-test  failed\n\nverdict    danger\n"), "{page}");
    }
}
