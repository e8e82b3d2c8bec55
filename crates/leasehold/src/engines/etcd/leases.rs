//! The leases of this client: what its sessions are on etcd.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::keepalive::{Keepalive, KeepaliveOrder};
use super::link::{CallFault, EtcdLink, over};
use super::live_leases::{LiveLeases, Span};
use super::proto::{LeaseGrantRequest, LeaseRevokeRequest};
use crate::clock::Moment;
use crate::engines::consensus::Session;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;

/// One lease for each ttl and lock delay, in whole seconds.
pub(super) struct Leases {
    link: Arc<EtcdLink>,
    live: Arc<LiveLeases>,
    /// Held while one is granted: one is enough for all who want it.
    granting: tokio::sync::Mutex<()>,
    keepalive: mpsc::UnboundedSender<KeepaliveOrder>,
    beating: AbortHandle,
}

impl Leases {
    pub(super) fn new(link: &Arc<EtcdLink>, home: &Handle) -> Self {
        let live = LiveLeases::new(link);
        let (keepalive, orders) = mpsc::unbounded_channel();
        let beating = home.spawn(Keepalive::new(link, &live, orders).beat()).abort_handle();
        let granting = tokio::sync::Mutex::default();
        Self { link: Arc::clone(link), live, granting, keepalive, beating }
    }

    pub(super) const fn live(&self) -> &Arc<LiveLeases> {
        &self.live
    }

    /// A session of at most `ttl`, unless the servers give none that short; they
    /// keep it for `delay` longer.
    pub(super) async fn session(&self, ttl: Duration, delay: Duration) -> Result<Arc<Session>> {
        let by = self.link.deadline();
        let ttl = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX).max(1);
        let delay = if delay.is_zero() { 0 } else { seconds(delay) };
        let span = Span { ttl, delay };
        if let Some(session) = self.fresh(span) {
            return Ok(session);
        }
        tokio::select! {
            session = self.agree(span, by) => session,
            () = self.link.overdue(by) => Err(unanswered()),
        }
    }

    async fn agree(&self, span: Span, by: Moment) -> Result<Arc<Session>> {
        let _one_at_a_time = self.granting.lock().await;
        if let Some(session) = self.fresh(span) {
            return Ok(session);
        }
        match self.live.get(span) {
            None => self.grant(span, by).await,
            // After a break: whoever stands in line on it keeps the place, if the
            // servers have kept the lease.
            Some(session) => match self.prove(&session, by).await {
                Err(_) if session.is_over() => self.grant(span, by).await,
                proven => proven.map(|()| session),
            },
        }
    }

    /// One that is known to be alive.
    fn fresh(&self, span: Span) -> Option<Arc<Session>> {
        let now = self.link.clock().now();
        self.live.get(span).filter(|session| session.deadline() > now)
    }

    async fn grant(&self, span: Span, by: Moment) -> Result<Arc<Session>> {
        let sent_at = self.link.clock().now();
        let (id, kept) = self.lease(span.ttl.saturating_add(span.delay), by).await?;
        let delay = Duration::from_secs(span.delay.unsigned_abs());
        let ttl = kept.saturating_sub(delay);
        let session = Arc::new(Session::new(id.cast_unsigned(), ttl, delay, sent_at));
        while !self.live.put(span, &session) {
            self.prove(&session, by).await?;
        }
        // Keepalives are sent for as long as we are here.
        let _ = self.keepalive.send(KeepaliveOrder::Keep(Arc::clone(&session)));
        Ok(session)
    }

    /// A lease that nobody keeps alive, and its ttl.
    pub(super) async fn lease(&self, seconds: i64, by: Moment) -> Result<(i64, Duration)> {
        let granted = self.link.ask(LeaseGrantRequest { ttl: seconds }, by).await?;
        Ok((granted.id, Duration::from_secs(granted.ttl.unsigned_abs())))
    }

    pub(super) async fn revoke(&self, id: i64, by: Moment) -> Result<()> {
        match self.link.try_ask(LeaseRevokeRequest { id }, by).await {
            Ok(_) | Err(CallFault::LeaseGone) => Ok(()),
            Err(fault) => Err(fault.into_error()),
        }
    }

    /// Renews now.
    pub(super) async fn prove(&self, session: &Arc<Session>, by: Moment) -> Result<()> {
        let (done, answer) = oneshot::channel();
        let _ = self.keepalive.send(KeepaliveOrder::Prove(Arc::clone(session), done));
        let answered = tokio::select! {
            biased;
            answer = answer => answer.is_ok(),
            () = self.link.overdue(by) => false,
        };
        match answered {
            true => Ok(()),
            false if session.is_over() => Err(over()),
            false => Err(unanswered()),
        }
    }

    /// Gives every lease back, and all that lives on it, unless that is to stay
    /// closed until it ends by itself.
    pub(super) async fn close(&self) -> Result<()> {
        let (by, now) = (self.link.deadline(), self.link.clock().now());
        self.beating.abort();
        let all = self.live.take();
        all.values().for_each(|session| session.end());
        let mut closed = Ok(());
        for session in all.values().filter(|session| session.may_end(now)) {
            let revoked = self.revoke(session.id().cast_signed(), by).await;
            closed = closed.and(revoked);
        }
        closed
    }
}

/// Whole seconds, not fewer.
pub(super) fn seconds(span: Duration) -> i64 {
    let seconds = span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0));
    i64::try_from(seconds.max(1)).unwrap_or(i64::MAX)
}

fn unanswered() -> Error {
    let message = "etcd did not renew the lease of this client in time";
    Error::new(ErrorKind::Unavailable, message).unknown()
}
