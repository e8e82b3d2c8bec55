//! Names that many wait for.

use leasehold::Locks;
use leasehold::engine::{Finding, Page, Severity, Status};

use crate::failure::Failure;

/// So many in the line of one name wait for longer than anybody meant them to.
const LINE: usize = 1_000;
/// How many pages of names are looked at: a store may have millions.
const PAGES: usize = 10;

/// What there is to say of the first names of the namespace.
pub(super) async fn crowds(locks: &Locks) -> Result<Vec<Finding>, Failure> {
    let (mut findings, mut page) = (Vec::new(), Page::default());
    for _ in 0..PAGES {
        let found = locks.list("", page).await?;
        findings.extend(found.names.iter().filter_map(crowd));
        match found.names.into_iter().next_back() {
            Some(last) if found.more => page = Page::after(last.name),
            _ => break,
        }
    }
    Ok(findings)
}

fn crowd(status: &Status) -> Option<Finding> {
    let (name, waiters) = (&status.name, status.waiters.len());
    (waiters >= LINE).then(|| {
        Finding::new(
            Severity::Warning,
            format!("{waiters} wait for {name}: the last of them waits for all others"),
            "look whether its holder hangs (leasehold show); wait without fair(), so that one \
             task of a process stands in line for all, or divide what the name stands for",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_long_line_is_told_of() {
        let locks = Locks::memory();
        let held = locks.mutex("hot").lock().await.unwrap();
        let wait = |_| {
            let mutex = locks.mutex("hot").fair();
            tokio::spawn(async move { mutex.lock().await.map(drop) })
        };
        let waiting: Vec<_> = (0..LINE).map(wait).collect();
        while locks.status("hot").await.unwrap().waiters.len() < LINE {
            tokio::task::yield_now().await;
        }
        let findings = crowds(&locks).await.unwrap();
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.starts_with("1000 wait for "), "{findings:?}");
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
        drop(held);
    }

    #[test]
    fn a_short_line_is_nobodys_business() {
        let name = Locks::memory().name("calm").unwrap();
        assert!(crowd(&Status::new(name)).is_none());
    }
}
