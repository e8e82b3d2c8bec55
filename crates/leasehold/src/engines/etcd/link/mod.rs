//! The way to the servers: one connection at a time, to whichever of them serves.

mod call;
mod dial;
mod fault;
mod state;
#[cfg(test)]
mod tests;
mod token_source;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Streaming};

pub(super) use self::call::EtcdCall;
pub(super) use self::dial::EtcdDialer;
pub(super) use self::fault::{CallFault, over};
pub(super) use self::state::LinkState;
use self::token_source::TokenSource;
use super::settings::EtcdSettings;
use crate::clock::{Clock, Moment};
use crate::engines::kit::backoff::Backoff;
use crate::engines::kit::request_slots::RequestSlots;
use crate::error::Result;

/// How many requests are under way: more are of no use to one client. Servers refuse
/// everybody's when 5000 wait.
const MOST: usize = 256;

/// The way to the servers.
pub(super) struct EtcdLink {
    dialers: Vec<EtcdDialer>,
    seat: Mutex<CurrentServer>,
    /// Held while a connection is made: one is enough for all who need it.
    dialing: tokio::sync::Mutex<()>,
    tokens: TokenSource,
    slots: RequestSlots,
    state_publisher: LinkState,
    clock: Clock,
    timeout: Duration,
}

/// Where we are connected.
#[derive(Default)]
struct CurrentServer {
    channel: Option<Channel>,
    /// Grows with every connection, so that a late failure does not end the next.
    number: u64,
    /// Which endpoint is tried next.
    next: usize,
}

/// A connection, and which one it is.
#[derive(Clone)]
pub(super) struct NumberedChannel {
    channel: Channel,
    number: u64,
}

/// What a server says to a stream of ours.
pub(super) struct Inbound<A> {
    pub(super) answers: Streaming<A>,
    pub(super) way: NumberedChannel,
}

/// The pauses before a stream is opened again, or a server is asked again: short beside
/// the shortest ttl.
pub(super) const fn backoff() -> Backoff {
    Backoff::new(Duration::from_millis(20), Duration::from_millis(500))
}

impl EtcdLink {
    pub(super) fn new(settings: &EtcdSettings, clock: Clock) -> Result<Self> {
        Ok(Self {
            dialers: EtcdDialer::all(settings)?,
            seat: Mutex::default(),
            dialing: tokio::sync::Mutex::default(),
            tokens: TokenSource::new(settings.login.clone()),
            slots: RequestSlots::new(MOST),
            state_publisher: LinkState::new(clock.clone()),
            clock,
            timeout: settings.timeout,
        })
    }

    pub(super) const fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(super) const fn state_publisher(&self) -> &LinkState {
        &self.state_publisher
    }

    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(super) fn dialers(&self) -> &[EtcdDialer] {
        &self.dialers
    }

    /// When a request that begins now has to end.
    pub(super) fn deadline(&self) -> Moment {
        self.clock.now().after(self.timeout)
    }

    /// Resolves once a verb that has to end `by` is late: not as long as requests of
    /// this client stand in line.
    pub(super) async fn overdue(&self, by: Moment) {
        loop {
            let until = self.slots.moved(by, self.timeout);
            if self.clock.now() >= until {
                return;
            }
            self.clock.sleep_until(until).await;
        }
    }

    #[cfg(test)]
    pub(super) fn one_is_served(&self) {
        self.slots.one_is_served(&self.clock);
    }

    /// Has all others stand in line.
    #[cfg(test)]
    pub(super) fn all_slots(&self) -> tokio::sync::OwnedSemaphorePermit {
        self.slots.take_all()
    }

    pub(super) async fn ask<C: EtcdCall>(&self, request: C, by: Moment) -> Result<C::Answer> {
        self.try_ask(request, by).await.map_err(CallFault::into_error)
    }

    /// Asks, and asks another server where that can do no harm. For those who want
    /// to know why there is no answer.
    pub(super) async fn try_ask<C: EtcdCall>(
        &self,
        request: C,
        by: Moment,
    ) -> Result<C::Answer, CallFault> {
        let has_effect = request.has_effect();
        let slot = self.slots.take(&self.clock, by, self.timeout).await;
        let (_slot, by) = slot.ok_or_else(|| fault::late(false))?;
        if self.clock.now() >= by {
            // Nobody was asked: it says nothing of the servers.
            return Err(fault::late(false));
        }
        let mut servers = self.dialers.len();
        let mut token_may_be_old = true;
        let mut backoff = backoff();
        loop {
            let way = self.way(by).await?;
            // A server that says nothing leaves time for another.
            let until = if has_effect || servers == 1 { by } else { self.half_way(by) };
            let fault = match self.send(&way, request.clone(), until).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            servers -= usize::from(matches!(fault, CallFault::Elsewhere(_)));
            match fault {
                CallFault::Token(_) if token_may_be_old && self.tokens.forget() => {
                    token_may_be_old = false
                }
                CallFault::Crowded(_) if self.pauses(&mut backoff, by).await => {}
                fault if servers > 0 && fault.is_repeatable(has_effect) => {}
                fault => return Err(self.learn(fault)),
            }
        }
    }

    /// A pause, if there is time for one. It keeps its turn meanwhile: a server that
    /// has too much to do is asked less.
    async fn pauses(&self, backoff: &mut Backoff, by: Moment) -> bool {
        let until = self.clock.now().after(backoff.next());
        if until < by {
            self.clock.sleep_until(until).await;
        }
        until < by
    }

    fn half_way(&self, by: Moment) -> Moment {
        let now = self.clock.now();
        now.after(by.since(now) / 2)
    }

    /// What follows from a request that nobody could answer.
    fn learn(&self, fault: CallFault) -> CallFault {
        match fault {
            CallFault::Elsewhere(_) => self.state_publisher.unreached(),
            CallFault::Token(_) => _ = self.tokens.forget(),
            CallFault::LeaseGone | CallFault::Crowded(_) | CallFault::Refused(_) => {}
        }
        fault
    }

    /// Asks one server, over a connection of its own.
    pub(super) async fn ask_at<C: EtcdCall>(
        &self,
        dial: &EtcdDialer,
        request: C,
    ) -> Result<C::Answer, CallFault> {
        let by = self.deadline();
        let asked = async {
            let channel = dial.connect().await.map_err(fault::unreached)?;
            let request = self.request(&channel, request).await?;
            call::unary(channel, request).await.map_err(|status| CallFault::of(&status, false))
        };
        tokio::select! {
            answer = asked => answer,
            () = self.clock.sleep_until(by) => Err(fault::late(false)),
        }
    }

    /// Opens a stream. `outbound` has a first question in it already.
    pub(super) async fn stream<C: EtcdCall>(
        &self,
        outbound: mpsc::UnboundedReceiver<C>,
        by: Moment,
    ) -> Result<Inbound<C::Answer>, CallFault> {
        let way = self.way(by).await?;
        let open = async {
            let outbound = UnboundedReceiverStream::new(outbound);
            let request = self.request(&way.channel, outbound).await?;
            let open = call::stream::<C>(way.channel.clone(), request).await;
            open.map_err(|status| CallFault::of(&status, false))
        };
        let answers = self.watched(&way, open, by, false).await;
        let answers = answers.map_err(|fault| self.learn(fault))?;
        Ok(Inbound { answers, way })
    }

    /// A stream has broken, or has not been answered in time.
    pub(super) fn broke(&self, way: &NumberedChannel, status: Option<&tonic::Status>) {
        match status.map(|status| CallFault::of(status, false)) {
            Some(CallFault::Token(_)) => _ = self.tokens.forget(),
            _ => self.leave(way),
        }
    }

    async fn send<C: EtcdCall>(
        &self,
        way: &NumberedChannel,
        request: C,
        by: Moment,
    ) -> Result<C::Answer, CallFault> {
        let has_effect = request.has_effect();
        let asked = async {
            let request = self.request(&way.channel, request).await?;
            let answer = call::unary(way.channel.clone(), request).await;
            answer.map_err(|status| CallFault::of(&status, has_effect))
        };
        self.watched(way, asked, by, has_effect).await
    }

    /// Sees to it that a server which does not answer is left.
    async fn watched<T>(
        &self,
        way: &NumberedChannel,
        asked: impl Future<Output = Result<T, CallFault>>,
        by: Moment,
        has_effect: bool,
    ) -> Result<T, CallFault> {
        let answer = tokio::select! {
            biased;
            answer = asked => answer,
            () = self.clock.sleep_until(by) => Err(fault::late(has_effect)),
        };
        match &answer {
            Err(CallFault::Elsewhere(_)) => self.leave(way),
            _ => {
                self.slots.answered(&self.clock);
                self.state_publisher.reached();
            }
        }
        answer
    }

    /// A request with what all of them carry: a server without a leader shall say
    /// so at once.
    async fn request<T>(&self, channel: &Channel, message: T) -> Result<Request<T>, CallFault> {
        let mut request = Request::new(message);
        let yes = AsciiMetadataValue::from_static("true");
        request.metadata_mut().insert("hasleader", yes);
        self.tokens.show(channel, &mut request).await?;
        Ok(request)
    }

    async fn way(&self, by: Moment) -> Result<NumberedChannel, CallFault> {
        if let Some(way) = self.seat().way() {
            return Ok(way);
        }
        let way = tokio::select! {
            biased;
            way = self.dial() => way,
            () = self.clock.sleep_until(by) => Err(fault::late(false)),
        };
        way.map_err(|fault| self.learn(fault))
    }

    async fn dial(&self) -> Result<NumberedChannel, CallFault> {
        let _one_at_a_time = self.dialing.lock().await;
        if let Some(way) = self.seat().way() {
            return Ok(way);
        }
        let mut last = fault::unreached("none is named");
        for _ in &self.dialers {
            // Moved on before it is tried: who gives up waiting leaves the next
            // one to try another.
            let dial = self.seat().turn(&self.dialers);
            match dial.connect().await {
                Ok(channel) => return Ok(self.seat().sit(channel)),
                Err(cause) => last = fault::unreached(said(&cause)),
            }
        }
        Err(last)
    }

    fn leave(&self, way: &NumberedChannel) {
        let mut seat = self.seat();
        if seat.number == way.number {
            seat.channel = None;
        }
    }

    fn seat(&self) -> MutexGuard<'_, CurrentServer> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CurrentServer {
    fn way(&self) -> Option<NumberedChannel> {
        self.channel.clone().map(|channel| NumberedChannel { channel, number: self.number })
    }

    fn turn(&mut self, dialers: &[EtcdDialer]) -> EtcdDialer {
        self.next += 1;
        dialers[(self.next - 1) % dialers.len()].clone()
    }

    fn sit(&mut self, channel: Channel) -> NumberedChannel {
        self.number += 1;
        self.channel = Some(channel.clone());
        NumberedChannel { channel, number: self.number }
    }
}

/// The words of the deepest cause.
fn said(error: &tonic::transport::Error) -> String {
    let first: &dyn std::error::Error = error;
    let causes = std::iter::successors(Some(first), |cause| cause.source());
    causes.last().map_or_else(String::new, ToString::to_string)
}
