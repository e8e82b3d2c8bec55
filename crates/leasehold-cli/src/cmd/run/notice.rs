//! Telling people what they are waiting for, and who has it.

use std::convert::Infallible;
use std::time::Duration;

use leasehold::engine::{Held, Queued, Status};
use leasehold::{Clock, Locks, Moment};
use tokio::time::sleep;

use super::request::Request;
use crate::line::Line;
use crate::output::tell;
use crate::text::{span, visible};

/// Shorter waits are not worth a word.
const PATIENCE: Duration = Duration::from_millis(250);
/// How often the line is rewritten, which costs a request.
const REWRITE: Duration = Duration::from_secs(1);

/// Says that, for what and since when we wait.
pub(crate) struct Notice<'a> {
    locks: &'a Locks,
    request: &'a Request<'a>,
    since: Moment,
}

impl<'a> Notice<'a> {
    pub(crate) fn new(locks: &'a Locks, request: &'a Request<'a>) -> Self {
        Self { locks, request, since: Clock::System.now() }
    }

    pub(crate) async fn show(&self) -> Infallible {
        sleep(PATIENCE).await;
        match Line::on_terminal() {
            _ if self.request.job.quiet => {}
            Some(line) => self.rewrite(&line).await,
            None => tell(&self.text(false).await),
        }
        std::future::pending().await
    }

    /// One line, rewritten in place, and gone when the wait is over.
    async fn rewrite(&self, line: &Line) {
        loop {
            line.put(&self.text(true).await);
            sleep(REWRITE).await;
        }
    }

    async fn text(&self, since: bool) -> String {
        let (name, who) = self.obstacle().await;
        let waited = Clock::System.now().since(self.since);
        let waited = if since { format!(" {}", span(waited)) } else { String::new() };
        format!("waiting for {name}{waited}{who}")
    }

    /// The name that is in the way, and who has it.
    pub(crate) async fn obstacle(&self) -> (String, String) {
        let mut names: Vec<_> = self.request.names.iter().collect();
        names.sort();
        names.dedup();
        for name in &names {
            match self.locks.status(name).await {
                Ok(status) if names.len() > 1 && !self.is_in_the_way(&status) => {}
                Ok(status) => return (format!("{name:?}"), who(&status, &self.request.label)),
                Err(_) => break,
            }
        }
        (quoted(&names), String::new())
    }

    /// Of several names we may already hold some.
    fn is_in_the_way(&self, status: &Status) -> bool {
        status.is_busy() && !status.holders.iter().any(|held| *held.label == *self.request.label)
    }
}

fn quoted(names: &[&String]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// `, held by host:123 (fence 17) for 3m 2s, 4 ahead`
fn who(status: &Status, label: &str) -> String {
    let mut text = status.holders.first().map(held_by).unwrap_or_default();
    if status.holders.len() > 1 {
        text += &format!(" and {} more", status.holders.len() - 1);
    }
    if let Some(left) = status.closed_for.filter(|_| status.holders.is_empty()) {
        text += &format!(", kept closed for another {}", span(left));
    }
    text + &ahead(status, label)
}

fn held_by(held: &Held) -> String {
    let fence = held.fence.map(|fence| format!(" (fence {fence})")).unwrap_or_default();
    let since = held.held_for.map(|since| format!(" for {}", span(since))).unwrap_or_default();
    format!(", held by {}{fence}{since}", visible(&held.label))
}

/// Labels need not be unique: with two that fit, only the length is certain.
fn ahead(status: &Status, label: &str) -> String {
    let ours = |queued: &Queued| *queued.label == *label;
    let mut places = status.waiters.iter().enumerate().filter(|(_, queued)| ours(queued));
    match (places.next(), places.next(), status.waiters.len()) {
        (Some((0, _)), None, _) | (None, None, 0) => String::new(),
        (Some((before, _)), None, _) => format!(", {before} ahead"),
        (_, _, waiting) => format!(", {waiting} waiting"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn says_who_holds_it_and_how_many_are_ahead() {
        let locks = Locks::memory();
        let held = locks.mutex("x").label("host:1\u{202e}").lock().await.unwrap();
        let status = locks.status("x").await.unwrap();
        let text = who(&status, "me");
        let start = format!(", held by host:1\\u{{202e}} (fence {}) for ", held.fence());
        assert!(text.starts_with(&start), "{text}");
        assert!(!text.contains("ahead") && !text.contains("waiting"), "{text}");
    }
}
