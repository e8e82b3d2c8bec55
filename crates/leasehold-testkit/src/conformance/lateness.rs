//! How late the machine is: a thread that sleeps a little, again and again, and
//! notes how much longer it took at the worst.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Long enough to cost nothing, short enough to miss nothing that matters.
const NAP: Duration = Duration::from_millis(10);

pub(super) struct Lateness {
    over: Arc<AtomicBool>,
    watcher: JoinHandle<Duration>,
}

impl Lateness {
    /// Begins to look.
    pub(super) fn watch() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        Self { over, watcher: thread::spawn(move || worst(&until)) }
    }

    /// How late it was at the worst, until now.
    pub(super) fn worst(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        self.watcher.join().unwrap_or_default()
    }
}

fn worst(over: &AtomicBool) -> Duration {
    let mut worst = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        thread::sleep(NAP);
        worst = worst.max(begun.elapsed().saturating_sub(NAP));
    }
    worst
}
