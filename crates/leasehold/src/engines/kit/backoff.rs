//! Ever longer pauses between attempts.

use std::time::Duration;

use crate::clock::Clock;

/// The pause before the next attempt. Doubles each time, up to a limit.
#[derive(Clone, Debug)]
pub(in crate::engines) struct Backoff {
    first: Duration,
    longest: Duration,
    /// The pause that comes, without jitter; `None` for the first.
    next: Option<Duration>,
}

impl Backoff {
    pub(in crate::engines) const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: None }
    }

    /// The first pause, and the longest, both without jitter.
    #[cfg(feature = "redis")]
    pub(in crate::engines) const fn bounds(&self) -> (Duration, Duration) {
        (self.first, self.longest)
    }

    /// The next pause, with jitter: half of it at least, since many clients lose
    /// a server at once and must not come back at once.
    pub(in crate::engines) fn next(&mut self) -> Duration {
        let whole = self.whole();
        self.next = Some(whole.saturating_mul(2).min(self.longest));
        whole.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// The next pause, without jitter.
    fn whole(&self) -> Duration {
        self.next.unwrap_or(self.first)
    }

    pub(in crate::engines) async fn sleep(&mut self, clock: &Clock) {
        clock.sleep_until(clock.now().after(self.next())).await;
    }

    /// Sleeps after a connection that stood for `stood`. One that breaks at once
    /// is no reason for haste; one that stood for longer than it was waited for
    /// is.
    #[cfg(any(feature = "redis", feature = "postgres", feature = "mysql"))]
    pub(in crate::engines) async fn sleep_after(&mut self, stood: Duration, clock: &Clock) {
        if stood > self.whole() {
            self.reset();
        }
        self.sleep(clock).await;
    }

    /// Begins anew; ZooKeeper has a new one each time.
    #[cfg(any(test, feature = "redis", feature = "postgres", feature = "mysql", feature = "etcd"))]
    pub(in crate::engines) const fn reset(&mut self) {
        self.next = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_limit_and_begin_anew() {
        let milli = Duration::from_millis;
        let mut backoff = Backoff::new(milli(10), milli(50));
        for most in [10, 20, 40, 50, 50] {
            let pause = backoff.next();
            assert!((milli(most) / 2..=milli(most)).contains(&pause), "{pause:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= milli(10));
    }
}
