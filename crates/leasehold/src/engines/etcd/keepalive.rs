//! Keeps the leases of this client alive: one stream for all of them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::link::{EtcdLink, Inbound, backoff};
use super::live_leases::LiveLeases;
use super::proto::{LeaseKeepAliveRequest, LeaseKeepAliveResponse};
use crate::claim::RENEW_FRACTION;
use crate::clock::Moment;
use crate::engines::consensus::Session;
use crate::engines::kit::backoff::Backoff;

/// What the keepalive is asked to do.
pub(super) enum KeepaliveOrder {
    /// Keep it alive from now on.
    Keep(Arc<Session>),
    /// Renew it now, and say so when that is done.
    Prove(Arc<Session>, oneshot::Sender<()>),
}

/// Lives as long as somebody can send it orders.
pub(super) struct Keepalive {
    link: Arc<EtcdLink>,
    live: Arc<LiveLeases>,
    orders: mpsc::UnboundedReceiver<KeepaliveOrder>,
    /// Every session, and when it is to be renewed.
    due: HashMap<u64, (Arc<Session>, Moment)>,
    backoff: Backoff,
}

/// A renewal that is under way.
struct PendingRenewal {
    session: Arc<Session>,
    sent_at: Moment,
    /// When it should have been answered.
    late: Moment,
    done: Option<oneshot::Sender<()>>,
}

/// The renewals under way on one stream. A server answers them in their order.
struct PendingRenewals {
    out: mpsc::UnboundedSender<LeaseKeepAliveRequest>,
    beats: VecDeque<PendingRenewal>,
}

impl Keepalive {
    pub(super) fn new(
        link: &Arc<EtcdLink>,
        live: &Arc<LiveLeases>,
        orders: mpsc::UnboundedReceiver<KeepaliveOrder>,
    ) -> Self {
        let (link, live) = (Arc::clone(link), Arc::clone(live));
        Self { link, live, orders, due: HashMap::new(), backoff: backoff() }
    }

    pub(super) async fn beat(mut self) {
        while let Some(beat) = self.next().await {
            let (out, outbound) = mpsc::unbounded_channel();
            let mut flight = PendingRenewals { out, beats: VecDeque::new() };
            self.send(&mut flight, beat);
            let go_on = match self.link.stream(outbound, flight.late()).await {
                Ok(inbound) => self.run(&mut flight, inbound).await,
                Err(_) => true,
            };
            if !go_on {
                return;
            }
            self.make_all_due();
            self.backoff.sleep(self.link.clock()).await;
        }
    }

    /// The next renewal to send; `None` when nobody needs us any more.
    async fn next(&mut self) -> Option<(Arc<Session>, Option<oneshot::Sender<()>>)> {
        loop {
            let (session, moment) = self.first_due();
            tokio::select! {
                biased;
                () = self.link.clock().sleep_until(moment) => return Some((session?, None)),
                order = self.orders.recv() => match order? {
                    KeepaliveOrder::Keep(session) => self.keep(session),
                    // Whoever asked has given up: after a break there may be many.
                    KeepaliveOrder::Prove(_, done) if done.is_closed() => {}
                    KeepaliveOrder::Prove(session, done) => return Some((session, Some(done))),
                }
            }
        }
    }

    /// Whether to go on with another stream.
    async fn run(
        &mut self,
        flight: &mut PendingRenewals,
        inbound: Inbound<LeaseKeepAliveResponse>,
    ) -> bool {
        let Inbound { mut answers, way } = inbound;
        loop {
            let late = flight.late();
            let clock = self.link.clock().clone();
            tokio::select! {
                biased;
                answer = answers.message() => {
                    let understood = match &answer {
                        Ok(Some(answer)) => self.answered(flight, answer),
                        _ => false,
                    };
                    if !understood {
                        self.link.broke(&way, answer.as_ref().err());
                        return true;
                    }
                }
                beat = self.next() => match beat {
                    Some(beat) => self.send(flight, beat),
                    None => return false,
                },
                () = clock.sleep_until(late) => {
                    self.link.state_publisher().unreached();
                    self.link.broke(&way, None);
                    return true;
                }
            }
        }
    }

    /// Whether it was what we expected.
    fn answered(&mut self, flight: &mut PendingRenewals, answer: &LeaseKeepAliveResponse) -> bool {
        self.backoff.reset();
        self.link.state_publisher().reached();
        let Some(PendingRenewal { session, sent_at, done, .. }) = flight.beats.pop_front() else {
            return false;
        };
        if session.id().cast_signed() != answer.id {
            return false;
        }
        if answer.ttl > 0 {
            let kept = Duration::from_secs(answer.ttl.unsigned_abs());
            session.retime(kept.saturating_sub(session.delay()), sent_at);
            session.prove(sent_at);
            // Whoever asked may have gone.
            let _ = done.map(|done| done.send(()));
        } else {
            self.due.remove(&session.id());
            self.live.over(&session);
        }
        true
    }

    fn send(
        &mut self,
        flight: &mut PendingRenewals,
        (session, done): (Arc<Session>, Option<oneshot::Sender<()>>),
    ) {
        let sent_at = self.link.clock().now();
        if let Some((_, due)) = self.due.get_mut(&session.id()) {
            *due = sent_at.after(session.ttl() / RENEW_FRACTION);
        }
        // A stream that has ended says so when it is read.
        let _ = flight.out.send(LeaseKeepAliveRequest { id: session.id().cast_signed() });
        // A lease has time for one more server.
        let late = sent_at.after(self.link.timeout().min(session.ttl() / 2));
        flight.beats.push_back(PendingRenewal { session, sent_at, late, done });
    }

    fn keep(&mut self, session: Arc<Session>) {
        let due = session.proven().after(session.ttl() / RENEW_FRACTION);
        self.due.insert(session.id(), (session, due));
    }

    fn first_due(&mut self) -> (Option<Arc<Session>>, Moment) {
        self.due.retain(|_, (session, _)| !session.is_over());
        let first = self.due.values().min_by_key(|(_, due)| *due);
        first.map_or((None, Moment::NEVER), |(session, due)| (Some(Arc::clone(session)), *due))
    }

    /// After a break all are renewed at once: what was under way is lost, and
    /// whether anybody is there should be known soon.
    fn make_all_due(&mut self) {
        let now = self.link.clock().now();
        self.due.values_mut().for_each(|(_, due)| *due = now);
    }
}

impl PendingRenewals {
    /// When the first of those under way should have been answered.
    fn late(&self) -> Moment {
        self.beats.iter().map(|beat| beat.late).min().unwrap_or(Moment::NEVER)
    }
}
