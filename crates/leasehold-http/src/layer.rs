//! The layer, and what can be chosen.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use leasehold::once::{Fields, OnBusy, Once};
use tower_layer::Layer;

use crate::policy::{Policy, Spelling};
use crate::service::{Idempotency, Route};

/// Requests that carry an `Idempotency-Key` run once.
///
/// | | |
/// |---|---|
/// | no key, or a bad one | 400 |
/// | the first request is still running | 409 with `Retry-After`, or wait: [`IdempotencyLayer::wait`] |
/// | the key was used for another request | 422 |
/// | done | the first response, with `Idempotency-Replayed: true` |
/// | done, but the response is not kept, or was too large | 410 |
/// | the engine does not answer | 503 with `Retry-After`, or run it all the same: [`IdempotencyLayer::fail_open`] |
///
/// Bodies of these are `application/problem+json`. The work goes on if the
/// client hangs up: its next try gets the response.
#[derive(Clone, Debug)]
pub struct IdempotencyLayer {
    once: Once,
    policy: Policy,
}

impl IdempotencyLayer {
    /// As the header draft has it: a key is required, and whatever the first
    /// request came to is the answer, errors too.
    #[must_use]
    pub fn draft(once: Once) -> Self {
        Self::new(once, Policy::draft())
    }

    /// As Stripe has it: keys are optional; what was refused before it ran (400,
    /// 401, 403, 404, 409, 422, 429) may be tried again, all else is recorded,
    /// 500 too; a key that was used for another request is a 400.
    #[must_use]
    pub fn stripe(once: Once) -> Self {
        Self::new(once, Policy::stripe())
    }

    /// As the second Stripe API has it: a success is never repeated; what failed,
    /// even with a 500, is run again under the same key, and the client gets the
    /// new response. The handler must be able to go on where it broke off.
    #[must_use]
    pub fn stripe_v2(once: Once) -> Self {
        Self::new(once, Policy::stripe_v2())
    }

    /// Only successes are recorded; everything else may be tried again.
    #[must_use]
    pub fn two_xx_only(once: Once) -> Self {
        Self::new(once, Policy::two_xx_only())
    }

    fn new(once: Once, policy: Policy) -> Self {
        // A little room for status and headers.
        let once = once.max_outcome(policy.max_response + 16 * 1024).on_busy(OnBusy::Refuse);
        Self { once, policy }
    }

    /// Who asks: keys of two callers do not meet. Give what you trust, such as the
    /// account of a session that was checked before; without it all callers
    /// share one set of keys.
    #[must_use]
    pub fn caller(mut self, caller: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.policy.caller = Arc::new(caller);
        self
    }

    /// Whether a request without a key is refused; otherwise it just runs.
    #[must_use]
    pub const fn required(mut self, required: bool) -> Self {
        self.policy.required = required;
        self
    }

    /// Which methods have keys: POST and PATCH unless set. Others pass.
    #[must_use]
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.policy.methods = methods.into_iter().collect();
        self
    }

    /// How clients write their keys.
    #[must_use]
    pub const fn spelling(mut self, spelling: Spelling) -> Self {
        self.policy.spelling = spelling;
        self
    }

    /// Which responses are recorded, by their status.
    #[must_use]
    pub fn records(mut self, records: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.policy.records = Arc::new(records);
        self
    }

    /// Which fields of a JSON body make two requests differ: all unless set.
    #[must_use]
    pub fn fields(mut self, fields: Fields) -> Self {
        self.policy.fields = fields;
        self
    }

    /// One more header that a replayed response has: by default those that
    /// describe its body, and `Location`. Never keep `Set-Cookie` lightly.
    #[must_use]
    pub fn keep_header(mut self, header: HeaderName) -> Self {
        self.policy.headers.push(header);
        self
    }

    /// The largest request body, which is read whole: 1 MiB unless set; 413.
    #[must_use]
    pub const fn max_request(mut self, bytes: usize) -> Self {
        self.policy.max_request = bytes;
        self
    }

    /// The largest response body to keep: 256 KiB unless set. A larger one is
    /// passed on as it comes, and only that it was given is remembered.
    #[must_use]
    pub fn max_response(mut self, bytes: usize) -> Self {
        self.policy.max_response = bytes;
        self.once = self.once.max_outcome(bytes + 16 * 1024);
        self
    }

    /// Waits for the first request this long, instead of a 409.
    #[must_use]
    pub fn wait(mut self, limit: Duration) -> Self {
        self.once = self.once.on_busy(OnBusy::Wait(limit));
        self.policy.wait = limit;
        self
    }

    /// How long the engine may take before it counts as away: 1 s unless set. A
    /// response that is ready waits for its record no longer than that either.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.policy.patience = patience;
        self
    }

    /// Runs requests unprotected while the engine is away: for routes where a
    /// double effect is better than none.
    #[must_use]
    pub const fn fail_open(mut self) -> Self {
        self.policy.fail_open = true;
        self
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        let (once, policy) = (self.once.clone(), self.policy.clone());
        Idempotency::new(inner, Arc::new(Route { once, policy }))
    }
}
