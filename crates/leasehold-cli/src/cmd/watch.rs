//! `watch`: who holds what, live.

mod changes;
mod keys;
mod screen;

use std::time::Duration;

use leasehold::engine::Status;
use leasehold::{Clock, Locks, Moment};
use rustix::process::Signal;
use tokio::time::sleep;

use self::changes::{Change, changes};
use self::screen::Screen;
use super::ls;
use crate::args::{Global, Watch};
use crate::engine;
use crate::failure::Failure;
use crate::output::{self, tell};
use crate::signals::{self, Signals};

/// Between two looks the times tick on.
const TICK: Duration = Duration::from_secs(1);

pub(crate) async fn watch(global: &Global, args: &Watch, prefix: &str) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    let locks = engine::open(global).await?;
    let scene = Scene { locks, prefix, every: args.every };
    if !global.json && output::is_terminal() {
        return view(&scene, &mut signals).await;
    }
    tokio::select! {
        biased;
        signal = signals.end_asked() => Ok(signals::end_code(signal)),
        done = report(&scene, global.json) => done.map(|()| 0),
    }
}

/// What is watched, and how often.
struct Scene<'a> {
    locks: Locks,
    prefix: &'a str,
    every: Duration,
}

impl Scene<'_> {
    async fn look(&self) -> Result<Vec<Status>, Failure> {
        engine::answer(ls::collect(&self.locks, self.prefix)).await
    }
}

/// The changes, a line each, as long as somebody reads them.
async fn report(scene: &Scene<'_>, json: bool) -> Result<(), Failure> {
    let mut known = scene.look().await?;
    for change in Change::start(&known) {
        change.print(json)?;
    }
    let mut told = false;
    while output::has_reader() {
        sleep(scene.every).await;
        let Some(found) = found_or_told(scene.look().await, &mut told) else { continue };
        changes(&known, &found).iter().try_for_each(|change| change.print(json))?;
        known = found;
    }
    Ok(())
}

/// A failure is told once, until a look succeeds again.
fn found_or_told(look: Result<Vec<Status>, Failure>, told: &mut bool) -> Option<Vec<Status>> {
    let failed = look.as_ref().err().map(|failure| failure.message().to_owned());
    let before = std::mem::replace(told, failed.is_some());
    if let Some(why) = failed.filter(|_| !before) {
        tell(&format!("{why}; trying again"));
    }
    look.ok()
}

/// The table, redrawn in place until somebody has seen enough.
async fn view(scene: &Scene<'_>, signals: &mut Signals) -> Result<u8, Failure> {
    let mut picture = Picture::new(scene.look().await?);
    let mut keys = keys::listen();
    signals.hear_suspend()?;
    let mut screen = Screen::enter();
    loop {
        screen.draw(&picture)?;
        tokio::select! {
            biased;
            signal = signals.next() => match signal {
                Signal::TSTP => screen.suspend(),
                Signal::USR1 | Signal::USR2 => {}
                signal => return Ok(signals::end_code(signal)),
            },
            () = keys.quit() => return Ok(0),
            () = picture.refresh(scene) => {}
        }
    }
}

/// What was seen at the last look, and when.
pub(crate) struct Picture {
    names: Vec<Status>,
    seen: Moment,
    looked: Moment,
    trouble: Option<String>,
}

impl Picture {
    fn new(names: Vec<Status>) -> Self {
        let now = Clock::System.now();
        Self { names, seen: now, looked: now, trouble: None }
    }

    /// Waits for the next tick; looks again when it is time to.
    async fn refresh(&mut self, scene: &Scene<'_>) {
        let due = self.looked.after(scene.every).since(Clock::System.now());
        sleep(due.min(TICK)).await;
        if due > TICK {
            return;
        }
        let found = scene.look().await;
        self.looked = Clock::System.now();
        match found {
            Ok(names) => *self = Self::new(names),
            Err(failure) => self.trouble = Some(failure.message().to_owned()),
        }
    }

    /// The busy names, with the times as they must be by now.
    fn now(&self) -> Vec<Status> {
        let age = Clock::System.now().since(self.seen);
        let busy = self.names.iter().filter(|status| status.is_busy());
        busy.map(|status| aged(status.clone(), age)).collect()
    }
}

fn aged(mut status: Status, age: Duration) -> Status {
    for held in &mut status.holders {
        held.held_for = held.held_for.map(|since| since + age);
        held.time_left = held.time_left.map(|left| left.saturating_sub(age));
    }
    for queued in &mut status.waiters {
        queued.waiting_for = queued.waiting_for.map(|since| since + age);
    }
    status.closed_for = status.closed_for.map(|left| left.saturating_sub(age));
    status
}
