//! The one task of a client that looks and listens for all its tickets.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::client::TableClient;
use super::news::{CHANGED, TicketNews};
use super::session::channel;
use crate::clock::{Clock, Moment};
use crate::engines::database::drivers::Notice;
use crate::engines::database::pool::ChannelListener;

/// How often a holder looks whether something was taken away from it.
const LOSSES: Duration = Duration::from_secs(5);
/// How often a watcher looks for records that are over.
const TIDY: Duration = Duration::from_secs(1);
/// How long the listening connection stays when nobody waits any more.
const LISTEN: Duration = Duration::from_secs(30);
/// How often a client that works looks whether it is its turn to sweep.
const SWEEP: Duration = Duration::from_secs(20);

/// What ended a rest.
enum Rest {
    Stirred,
    Heard(Option<Notice>),
    Over,
}

/// The task.
pub(super) struct Poller {
    engine: Weak<TableClient>,
    clock: Clock,
    stir: Arc<Notify>,
    notices: Option<ChannelListener>,
    /// The last moment at which somebody had reason to listen.
    needed_at: Moment,
    pace: Duration,
    look_at: Moment,
    losses_at: Moment,
    tidy_at: Moment,
    sweep_at: Moment,
}

impl Poller {
    pub(super) fn new(inner: &Arc<TableClient>) -> Self {
        let now = inner.clock.now();
        Self {
            engine: Arc::downgrade(inner),
            clock: inner.clock.clone(),
            stir: Arc::clone(&inner.stir),
            notices: None,
            needed_at: now,
            pace: Duration::ZERO,
            look_at: now,
            losses_at: now,
            tidy_at: now,
            // Whoever comes may find what others have left, but not all at once.
            sweep_at: now.after(SWEEP.mul_f64(fastrand::f64())),
        }
    }

    /// Looks and listens for as long as the engine lives.
    pub(super) async fn watch(mut self) {
        while let Some(until) = self.plan() {
            let rest = self.rest(until).await;
            let Some(inner) = self.engine.upgrade() else { return };
            self.act(&inner, rest).await;
        }
    }

    /// When there is something to do.
    fn plan(&mut self) -> Option<Moment> {
        let inner = self.engine.upgrade()?;
        let (now, waits) = (self.clock.now(), !inner.lines.is_empty());
        let watches = !inner.watchers.is_empty();
        self.listen(&inner, waits || watches, now);
        let mut until = if inner.is_at_work(now) { self.sweep_at } else { Moment::NEVER };
        if waits || (watches && !inner.wakes.push) {
            until = until.min(self.look_at);
        }
        if watches {
            until = until.min(self.tidy_at);
        }
        if !inner.tickets.is_empty() {
            until = until.min(self.losses_at);
        }
        if self.notices.is_some() {
            until = until.min(self.needed_at.after(LISTEN));
        }
        Some(until)
    }

    /// Listens while there is reason to, and a little longer.
    fn listen(&mut self, inner: &TableClient, needed: bool, now: Moment) {
        if needed {
            self.needed_at = now;
        }
        if !inner.wakes.push {
            return;
        }
        if needed && self.notices.is_none() {
            self.notices = Some(inner.pool.listen(&channel(inner.client)));
        } else if now >= self.needed_at.after(LISTEN) {
            self.notices = None;
        }
    }

    async fn rest(&mut self, until: Moment) -> Rest {
        let notices = &mut self.notices;
        let heard = async {
            match notices {
                Some(notices) => notices.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            notice = heard => Rest::Heard(notice),
            () = self.stir.notified() => Rest::Stirred,
            () = self.clock.sleep_until(until) => Rest::Over,
        }
    }

    async fn act(&mut self, inner: &TableClient, rest: Rest) {
        match rest {
            Rest::Heard(Some(Notice::Said(said))) => hear(inner, &said),
            Rest::Heard(Some(Notice::Gap)) => {
                self.look(inner).await;
            }
            // The listener is gone: another one is started.
            Rest::Heard(None) => self.notices = None,
            Rest::Stirred => self.hurry(inner),
            Rest::Over => self.rounds(inner).await,
        }
    }

    /// Somebody has just begun to wait or to hold: what has been put off comes
    /// sooner.
    fn hurry(&mut self, inner: &TableClient) {
        let now = self.clock.now();
        self.pace = Duration::ZERO;
        self.look_at = self.look_at.min(now.after(inner.wakes.next(self.pace)));
        self.losses_at = self.losses_at.clamp(now, now.after(LOSSES));
    }

    /// Whatever is due.
    async fn rounds(&mut self, inner: &TableClient) {
        let now = self.clock.now();
        if now >= self.look_at {
            self.look(inner).await;
        }
        // What fails now is done the next time.
        if now >= self.losses_at && !inner.tickets.is_empty() {
            let _ = inner.losses().await;
            self.losses_at = self.clock.now().after(LOSSES);
        }
        if now >= self.tidy_at && !inner.watchers.is_empty() {
            let _ = inner.end_records().await;
            self.tidy_at = self.clock.now().after(TIDY);
        }
        if now >= self.sweep_at && inner.is_at_work(now) {
            self.sweep(inner);
            self.sweep_at = now.after(SWEEP.mul_f64(0.5 + fastrand::f64()));
        }
    }

    /// Apart, because nobody who waits shall wait for it as well. Two sweeps at
    /// once do no harm, and the server lets only one have its turn.
    fn sweep(&self, inner: &TableClient) {
        let engine = Weak::clone(&self.engine);
        inner.start(async move {
            if let Some(inner) = engine.upgrade() {
                let _ = inner.sweep().await;
            }
        });
    }

    /// Looks for everyone who waits or watches.
    async fn look(&mut self, inner: &TableClient) {
        inner.watchers.ring();
        let changed = matches!(inner.look_around().await, Ok(true));
        self.pace = if changed { Duration::ZERO } else { inner.wakes.next(self.pace) };
        let rest = inner.wakes.next(self.pace).mul_f64(0.5 + fastrand::f64() / 2.0);
        self.look_at = self.clock.now().after(rest);
    }
}

fn hear(inner: &TableClient, said: &str) {
    if said == CHANGED {
        inner.watchers.ring();
    } else if let Some(news) = TicketNews::read(said) {
        inner.hear(news);
    }
}
