//! Waiting for the lock, and saying so.

use std::convert::Infallible;
use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use leasehold::engine::{Held, Status};
use leasehold::{Clock, Error, Guard, Locks, Moment, Mutex};
use tokio::time::sleep;

use crate::args::Run;
use crate::engine;
use crate::failure::{BUSY, Failure};
use crate::output::tell;
use crate::text::{cut, span, visible};

/// Shorter waits are not worth a word.
const PATIENCE: Duration = Duration::from_millis(250);
/// How often the line is rewritten, which costs a request.
const REWRITE: Duration = Duration::from_secs(1);

/// The lease, or a failure that says who has it.
pub(crate) async fn acquire(locks: &Locks, args: &Run, label: &str) -> Result<Guard, Failure> {
    let got = if args.no_wait {
        let mutex = mutex(locks, args, label);
        let got = engine::answer(async { Ok(mutex.try_lock().await?) }).await?;
        got.ok_or(Failure::silent(BUSY))
    } else {
        wait(locks, args, label).await
    };
    match got {
        Err(failure) if failure.code == BUSY => Err(busy(locks, args, label).await),
        got => got,
    }
}

fn mutex(locks: &Locks, args: &Run, label: &str) -> Mutex {
    let mut mutex = locks.mutex(&args.name).ttl(args.ttl).label(label);
    if let Some(most) = args.longest_lease() {
        mutex = mutex.max_hold(most);
    }
    if args.fair {
        mutex = mutex.fair();
    }
    if let Some(meta) = &args.meta {
        mutex = mutex.meta(meta.as_str());
    }
    let least = args.hold_at_least.unwrap_or_default();
    mutex.hold_at_least(least).lock_delay(args.lock_delay.unwrap_or_default())
}

async fn wait(locks: &Locks, args: &Run, label: &str) -> Result<Guard, Failure> {
    let mut lock = mutex(locks, args, label).lock();
    if let Some(limit) = args.wait {
        lock = lock.within(limit);
    }
    let notice = Notice { locks, args, label, since: Clock::System.now() };
    tokio::select! {
        biased;
        got = lock => Ok(got?),
        never = notice.show() => match never {},
    }
}

/// Who has the lock, now that we have given up.
async fn busy(locks: &Locks, args: &Run, label: &str) -> Failure {
    let status = locks.status(&args.name).await;
    let who = status.map_or_else(|_: Error| String::new(), |status| who(&status, label));
    let waited = args.wait.map(|limit| format!("still busy after {}", span(limit)));
    let state = waited.unwrap_or_else(|| "busy".into());
    Failure::new(args.busy_code, format!("{:?} is {state}{who}", args.name))
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
    let ours = |queued: &leasehold::engine::Queued| *queued.label == *label;
    let mut places = status.waiters.iter().enumerate().filter(|(_, queued)| ours(queued));
    match (places.next(), places.next(), status.waiters.len()) {
        (Some((0, _)), None, _) | (None, None, 0) => String::new(),
        (Some((before, _)), None, _) => format!(", {before} ahead"),
        (_, _, waiting) => format!(", {waiting} waiting"),
    }
}

/// Tells people what they are waiting for.
struct Notice<'a> {
    locks: &'a Locks,
    args: &'a Run,
    label: &'a str,
    since: Moment,
}

impl Notice<'_> {
    async fn show(&self) -> Infallible {
        sleep(PATIENCE).await;
        if self.args.quiet {
            std::future::pending().await
        } else if stderr().is_terminal() {
            self.rewrite().await
        } else {
            tell(&self.text(false).await);
            std::future::pending().await
        }
    }

    /// One line, rewritten in place, and gone when the wait is over.
    async fn rewrite(&self) -> Infallible {
        let line = Line;
        loop {
            line.put(&self.text(true).await);
            sleep(REWRITE).await;
        }
    }

    async fn text(&self, since: bool) -> String {
        let status = self.locks.status(&self.args.name).await;
        let who = status.map_or_else(|_: Error| String::new(), |found| who(&found, self.label));
        let waited = Clock::System.now().since(self.since);
        let waited = if since { format!(" {}", span(waited)) } else { String::new() };
        format!("waiting for {:?}{waited}{who}", self.args.name)
    }
}

/// A line of the terminal that can be rewritten.
struct Line;

impl Line {
    fn put(&self, text: &str) {
        let size = rustix::termios::tcgetwinsize(stderr());
        let columns = match size.map(|size| size.ws_col) {
            Ok(columns @ 2..) => usize::from(columns) - 1,
            _ => 79,
        };
        // A terminal that has gone needs no progress.
        let _ = write!(stderr(), "\r\x1b[K{}", cut(text, columns));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = write!(stderr(), "\r\x1b[K");
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
