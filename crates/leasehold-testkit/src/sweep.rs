//! Drops a future at every point where it can be dropped.
//!
//! A future may be dropped whenever it has been polled and is not done. A
//! [`Sweep`] polls a fresh one `k` times and drops it, for k = 0, 1, 2, ...
//! until one is done by itself, and asks after each what it left behind.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// When, after its last poll, the future is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// At once: its request may just be on its way.
    AtOnce,
    /// Once it was woken: the answer is there, but nobody took it.
    Woken,
}

/// One way to cancel: so many polls, and then the drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancel {
    /// How often the future was polled.
    pub polls: usize,
    /// When it was dropped after that.
    pub moment: Moment,
}

/// What a sweep did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Every cancellation of a future that was under way. Never empty.
    pub cancelled: Vec<Cancel>,
    /// After how many polls the last future was done by itself.
    pub done_after: usize,
}

/// Why a sweep failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// Something was left behind.
    Residue {
        /// How the future was cancelled; `None` if it was done by itself.
        cancel: Option<Cancel>,
        /// What the check said.
        found: String,
    },
    /// The first poll completed the future, so nothing was cancelled.
    NothingToCancel,
    /// No future was done within the limit of polls.
    NeverDone {
        /// The limit.
        polls: usize,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Residue { cancel: Some(Cancel { polls, moment }), found } => {
                write!(f, "dropped after {polls} polls ({moment:?}), it left behind: {found}")
            }
            Self::Residue { cancel: None, found } => write!(f, "done, it left behind: {found}"),
            Self::NothingToCancel => f.write_str("the first poll was the last: no point to cancel"),
            Self::NeverDone { polls } => write!(f, "not done after {polls} polls"),
        }
    }
}

impl std::error::Error for Failure {}

/// How to sweep.
#[derive(Debug, Clone, Copy)]
pub struct Sweep {
    patience: Duration,
    limit: usize,
}

impl Default for Sweep {
    /// Waits half a second for a wake-up and polls at most 1000 times.
    fn default() -> Self {
        Self { patience: Duration::from_millis(500), limit: 1000 }
    }
}

impl Sweep {
    /// How long to wait for a wake-up before polling (or dropping) anyway.
    #[must_use]
    pub const fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// How many polls must be enough for a future that is left alone.
    #[must_use]
    pub const fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Sweeps the futures that `make` makes, and checks with `verify` after each
    /// drop; the check says what it found, or nothing.
    ///
    /// Both are driven on this thread. Futures that need a runtime find it if
    /// the caller has entered one whose own threads drive it. A check that does
    /// not await is `|_| std::future::ready(..)`.
    ///
    /// # Errors
    ///
    /// When something was left behind, when there was nothing to cancel, or
    /// when no future is ever done.
    pub fn run<F, V>(
        self,
        mut make: impl FnMut() -> F,
        mut verify: impl FnMut(Option<Cancel>) -> V,
    ) -> Result<Report, Failure>
    where
        F: Future,
        V: Future<Output = Result<(), String>>,
    {
        let mut cancelled = Vec::new();
        for polls in 0..=self.limit {
            for moment in [Moment::AtOnce, Moment::Woken] {
                let cancel = self.cancel(make(), Cancel { polls, moment });
                let found = block_on(verify(cancel));
                found.map_err(|found| Failure::Residue { cancel, found })?;
                match cancel {
                    // A future that was never polled has not begun.
                    Some(cancel) => cancelled.extend((polls > 0).then_some(cancel)),
                    None => return report(cancelled, polls),
                }
            }
        }
        Err(Failure::NeverDone { polls: self.limit })
    }

    /// Polls and drops; `None` when the future was done first.
    fn cancel<F: Future>(self, future: F, cancel: Cancel) -> Option<Cancel> {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        let mut future = pin!(future);
        for poll in 0..cancel.polls {
            if poll > 0 {
                bell.wait(Some(self.patience));
            }
            if is_done(future.as_mut(), &waker) {
                return None;
            }
        }
        if cancel.polls > 0 && cancel.moment == Moment::Woken {
            bell.wait(Some(self.patience));
        }
        Some(cancel)
    }
}

fn report(cancelled: Vec<Cancel>, done_after: usize) -> Result<Report, Failure> {
    if cancelled.is_empty() {
        return Err(Failure::NothingToCancel);
    }
    Ok(Report { cancelled, done_after })
}

fn is_done<F: Future>(future: Pin<&mut F>, waker: &Waker) -> bool {
    future.poll(&mut Context::from_waker(waker)).is_ready()
}

/// Drives a future on this thread, without a runtime.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        bell.wait(None);
    }
}

/// A waker on which a thread can wait.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    ringing: Condvar,
}

impl Bell {
    /// Waits until it rings, or for `bound`, and is silent again.
    fn wait(&self, bound: Option<Duration>) {
        let end = bound.map(|bound| Instant::now() + bound);
        let mut rung = self.rung.lock().expect("nobody panics with it");
        while !*rung {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            let left = left.unwrap_or(Duration::from_secs(3600));
            rung = self.ringing.wait_timeout(rung, left).expect("nobody panics with it").0;
        }
        *rung = false;
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().expect("nobody panics with it") = true;
        self.ringing.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::future::{Future, ready};
    use std::pin::Pin;
    use std::rc::Rc;
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll};
    use std::thread;
    use std::time::Duration;

    use super::{Cancel, Failure, Moment, Sweep};

    /// Pending once; wakes itself, from another thread if told so.
    struct Step {
        polled: bool,
        from_afar: bool,
    }

    impl Future for Step {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            if std::mem::replace(&mut self.polled, true) {
                return Poll::Ready(());
            }
            let waker = context.waker().clone();
            if self.from_afar {
                thread::spawn(move || waker.wake());
            } else {
                waker.wake();
            }
            Poll::Pending
        }
    }

    fn step() -> Step {
        Step { polled: false, from_afar: false }
    }

    /// Something held that is given back when dropped.
    struct Held(Rc<Cell<i32>>);

    impl Held {
        fn take(count: &Rc<Cell<i32>>) -> Self {
            count.set(count.get() + 1);
            Self(Rc::clone(count))
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }

    fn nothing_held(count: &Rc<Cell<i32>>) -> Result<(), String> {
        match count.replace(0) {
            0 => Ok(()),
            left => Err(format!("{left} held")),
        }
    }

    #[test]
    fn every_point_of_a_clean_future_is_cancelled_both_ways() {
        let count = Rc::new(Cell::new(0));
        let clean = || async {
            let _held = Held::take(&count);
            step().await;
            step().await;
            Step { polled: false, from_afar: true }.await;
        };
        let report = Sweep::default().run(clean, |_| ready(nothing_held(&count))).unwrap();
        assert_eq!(report.done_after, 4);
        let expected = (1..=3).flat_map(|polls| {
            [Moment::AtOnce, Moment::Woken].map(|moment| Cancel { polls, moment })
        });
        assert_eq!(report.cancelled, expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_leak_at_exactly_one_await_point_is_caught() {
        let count = Rc::new(Cell::new(0));
        let leaky = || async {
            step().await;
            // Taken by hand and given back by hand: only a drop right here leaks.
            count.set(count.get() + 1);
            step().await;
            count.set(count.get() - 1);
            step().await;
        };
        let failure = Sweep::default().run(leaky, |_| ready(nothing_held(&count))).unwrap_err();
        let cancel = Some(Cancel { polls: 2, moment: Moment::AtOnce });
        assert_eq!(failure, Failure::Residue { cancel, found: "1 held".into() });
    }

    type Inbox = Arc<Mutex<Option<u32>>>;

    /// Asks another thread, which answers a little later, for the answer.
    fn ask(inbox: Inbox) -> impl Future<Output = u32> {
        let mut asked = false;
        std::future::poll_fn(move |context| {
            if let Some(answer) = inbox.lock().unwrap().take() {
                return Poll::Ready(answer);
            }
            if !std::mem::replace(&mut asked, true) {
                let (inbox, waker) = (Arc::clone(&inbox), context.waker().clone());
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(20));
                    *inbox.lock().unwrap() = Some(7);
                    waker.wake();
                });
            }
            Poll::Pending
        })
    }

    #[test]
    fn an_answer_that_nobody_took_is_caught_by_the_drop_after_the_wake() {
        let inbox = RefCell::new(Inbox::default());
        let make = || {
            inbox.replace(Inbox::default());
            ask(Arc::clone(&inbox.borrow()))
        };
        // The drop at once is let pass: its answer may come before or after the check.
        let verify = |cancel: Option<Cancel>| {
            let answer = inbox.borrow().lock().unwrap().take();
            let woken = cancel.is_some_and(|cancel| cancel.moment == Moment::Woken);
            ready(answer.filter(|_| woken).map_or(Ok(()), |answer| Err(format!("answer {answer}"))))
        };
        let patient = Sweep::default().patience(Duration::from_secs(20));
        let failure = patient.run(make, verify).unwrap_err();
        let cancel = Some(Cancel { polls: 1, moment: Moment::Woken });
        assert_eq!(failure, Failure::Residue { cancel, found: "answer 7".into() });
    }

    #[test]
    fn a_completed_future_is_checked_too() {
        let count = Rc::new(Cell::new(0));
        let leaky = || async {
            step().await;
            count.set(1);
        };
        let failure = Sweep::default().run(leaky, |_| ready(nothing_held(&count))).unwrap_err();
        assert_eq!(failure, Failure::Residue { cancel: None, found: "1 held".into() });
    }

    #[test]
    fn a_sweep_that_cancels_nothing_fails() {
        let failure = Sweep::default().run(|| ready(()), |_| ready(Ok(()))).unwrap_err();
        assert_eq!(failure, Failure::NothingToCancel);
    }

    #[test]
    fn a_future_that_is_never_done_ends_the_sweep() {
        let sweep = Sweep::default().patience(Duration::from_millis(1)).limit(5);
        let failure = sweep.run(std::future::pending::<()>, |_| ready(Ok(()))).unwrap_err();
        assert_eq!(failure, Failure::NeverDone { polls: 5 });
    }

    #[test]
    fn a_check_may_await() {
        let check = |_| async {
            Step { polled: false, from_afar: true }.await;
            Ok(())
        };
        assert_eq!(Sweep::default().run(step, check).unwrap().cancelled.len(), 2);
    }

    #[test]
    fn a_lost_wake_up_is_outlived_by_polling_anyway() {
        let make = || {
            let mut polls = 0;
            std::future::poll_fn(move |_| {
                polls += 1;
                if polls == 3 { Poll::Ready(()) } else { Poll::Pending }
            })
        };
        let sweep = Sweep::default().patience(Duration::from_millis(1));
        assert_eq!(sweep.run(make, |_| ready(Ok(()))).unwrap().done_after, 3);
    }
}
