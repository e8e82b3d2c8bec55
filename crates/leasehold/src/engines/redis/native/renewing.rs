//! Renewals: in portions, and most of them in a call of their own.
//!
//! A name with a sole holder and nothing else is renewed by one look and one
//! write. Whatever else there may be, such as a queue, is asked for again as a
//! verb of a lease: the same renewal, which may well be told twice.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::batcher::{KeyedVerb, OpKeys};
use super::client::NativeClient;
use super::keys::Shard;
use super::pack::garbled;
use super::verb::{self, TimedAnswer};
use crate::claim::{Mode, Refresh, Renewal};
use crate::engine::state::Answer;
use crate::engine::{Event, Loss};
use crate::engines::redis::link::{RedisReply, RedisRequest};
use crate::engines::redis::script::{Script, ScriptCall};
use crate::error::{Error, ErrorKind, Result};

/// Without its clock, which a test brings itself.
#[cfg(test)]
pub(super) const RENEW_ALONE: &str = include_str!("scripts/renew.lua");

static RENEW: Script =
    Script::new(concat!(include_str!("scripts/clock.lua"), include_str!("scripts/renew.lua")));

/// The most plain renewals of one call: a server does nothing else meanwhile.
const PLAIN_PORTION: usize = 64;
/// The most that go the long way: each of them costs a server several plain ones.
const LONG_WAY_PORTION: usize = 16;
/// How many are looked through before the next thing on home has its turn.
const STRIDE: usize = 1_024;

/// Where in a round some renewals of one shard stand.
type Places = (Shard, Vec<usize>);

/// Where in a round some renewals stand, and what answers them.
type Asked<A> = (Vec<usize>, A);

/// Renewals that were asked for together, and what has become of each.
struct RenewalRound<'a> {
    client: &'a NativeClient,
    refreshes: &'a [Refresh],
    renewals: Vec<Option<Renewal>>,
}

impl NativeClient {
    pub(super) async fn renew_all(self: Arc<Self>, refreshes: Vec<Refresh>) -> Vec<Renewal> {
        let renewals = refreshes.iter().map(|_| None).collect();
        let mut round = RenewalRound { client: &self, refreshes: &refreshes, renewals };
        round.renew().await;
        round.renewals.into_iter().map(|it| it.unwrap_or_else(unanswered)).collect()
    }

    /// What may be held by one alone, and is in no queue as far as we know.
    fn is_plain(&self, refresh: &Refresh) -> bool {
        let sole = matches!(refresh.ticket.mode, Mode::Exclusive | Mode::Write);
        sole && self.waiters.rings(refresh.ticket.id).is_none()
    }

    fn renewed(&self, refresh: &Refresh, answered: &TimedAnswer) -> Result<Renewal> {
        if let Some(loss) = answered.evicted() {
            self.tell_loss(refresh, loss);
        }
        let mut renewal = answered.answer()?.into_renewal(answered.sent_at);
        match &mut renewal {
            Renewal::Queued(place) => {
                place.floor = answered.floor()?;
                self.waiters.raise(refresh.ticket.id, place.floor);
            }
            // What has gone is not released; who still waits claims again.
            Renewal::Gone => self.forget(refresh.ticket.id),
            _ => {}
        }
        Ok(renewal)
    }

    fn tell_loss(&self, refresh: &Refresh, loss: Loss) {
        self.link.bus().publish(&Event::TicketLost(refresh.ticket.id, loss));
    }
}

impl RenewalRound<'_> {
    /// Neither kind waits for the answers of the other; only what the short way
    /// could not tell is asked for once more.
    async fn renew(&mut self) {
        let plain = self.ask_plain().await;
        let others = self.ask_the_long_way(|it, at| !it.client.is_plain(&it.refreshes[at])).await;
        for (places, reply) in plain {
            self.take_plain(places, reply.await);
        }
        self.take(others).await;
        let again = self.ask_the_long_way(|it, at| it.renewals[at].is_none()).await;
        self.take(again).await;
    }

    async fn ask_plain(&self) -> Vec<Asked<impl Future<Output = Result<RedisReply>> + use<>>> {
        let mut asked = Vec::new();
        for places in self.strides() {
            let plain = places.filter(|at| self.client.is_plain(&self.refreshes[*at]));
            for (shard, places) in self.portions(plain, PLAIN_PORTION) {
                let request = self.plain_request(&shard, &places);
                let reply = self.client.batcher.carry_behind(&shard, request, places.len()).await;
                asked.push((places, reply));
                // Others on home have their turn, however many there are to be packed.
                tokio::task::yield_now().await;
            }
        }
        asked
    }

    async fn ask_the_long_way(
        &self,
        which: fn(&Self, usize) -> bool,
    ) -> Vec<Asked<impl Future<Output = Vec<Result<TimedAnswer>>> + use<>>> {
        let mut asked = Vec::new();
        for places in self.strides() {
            let those = places.filter(|at| which(self, *at));
            for (shard, places) in self.portions(those, LONG_WAY_PORTION) {
                let verbs = places.iter().map(|at| self.verb(*at)).collect();
                let answers = self.client.batcher.carry_verbs_behind(&shard, verbs).await;
                asked.push((places, answers));
                tokio::task::yield_now().await;
            }
        }
        asked
    }

    async fn take(&mut self, asked: Vec<Asked<impl Future<Output = Vec<Result<TimedAnswer>>>>>) {
        for (places, answers) in asked {
            for (at, answer) in places.into_iter().zip(answers.await) {
                let refresh = &self.refreshes[at];
                let renewal = answer.and_then(|answer| self.client.renewed(refresh, &answer));
                self.renewals[at] = Some(renewal.unwrap_or_else(Renewal::Unknown));
            }
        }
    }

    fn strides(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let count = self.refreshes.len();
        (0..count).step_by(STRIDE).map(move |from| from..count.min(from + STRIDE))
    }

    /// Those of one shard together, as many as one call may have.
    fn portions(&self, places: impl Iterator<Item = usize>, most: usize) -> Vec<Places> {
        let (mut portions, mut open) = (Vec::<Places>::new(), HashMap::new());
        for at in places {
            let shard = self.client.shard(&self.refreshes[at].ticket.name);
            let known = open.get(&shard).copied();
            match known.filter(|portion: &usize| portions[*portion].1.len() < most) {
                Some(portion) => portions[portion].1.push(at),
                None => {
                    open.insert(shard.clone(), portions.len());
                    portions.push((shard, vec![at]));
                }
            }
        }
        portions
    }

    fn plain_request(&self, shard: &Shard, places: &[usize]) -> RedisRequest {
        let refreshes = || places.iter().map(|at| &self.refreshes[*at]);
        let asked: Vec<u8> =
            refreshes().flat_map(|it| verb::plain_renewal(it, self.longest())).collect();
        RedisRequest::Call(ScriptCall::written(&RENEW, 1 + places.len(), |call| {
            call.arg(shard.index());
            refreshes().for_each(|it| {
                call.arg(shard.summary(it.ticket.name.as_str()));
            });
            call.arg(shard.prefix()).arg(asked);
        }))
    }

    fn verb(&self, at: usize) -> KeyedVerb {
        let refresh = &self.refreshes[at];
        let keys = OpKeys::of_lease(&refresh.ticket.name);
        KeyedVerb { keys, text: verb::renew(refresh, self.longest()) }
    }

    fn longest(&self) -> Duration {
        self.client.profile.limits.ttl_max
    }

    /// Nothing is known of those that the script has not renewed.
    fn take_plain(&mut self, places: Vec<usize>, reply: Result<RedisReply>) {
        let answers = reply.and_then(|reply| Ok((reply.sent_at, kept(reply.value, places.len())?)));
        match answers {
            Ok((sent_at, kept)) => {
                for (at, ttl) in places.into_iter().zip(kept) {
                    self.renewals[at] = ttl.map(|ttl| Answer::Held { ttl }.into_renewal(sent_at));
                }
            }
            Err(error) => {
                for at in places {
                    self.renewals[at] = Some(Renewal::Unknown(error.clone()));
                }
            }
        }
    }
}

/// For how long each is held; `None` where the script cannot tell.
fn kept(value: Value, expected: usize) -> Result<Vec<Option<Duration>>> {
    let Value::Array(values) = value else { return Err(garbled()) };
    let kept: Vec<_> = values.iter().map(left).collect::<Result<_>>()?;
    if kept.len() == expected { Ok(kept) } else { Err(garbled()) }
}

fn left(value: &Value) -> Result<Option<Duration>> {
    let Value::Int(left) = value else { return Err(garbled()) };
    let left = u64::try_from(*left).map_err(|_| garbled())?;
    Ok((left > 0).then(|| Duration::from_millis(left)))
}

fn unanswered() -> Renewal {
    Renewal::Unknown(Error::new(ErrorKind::Unexpected, "no answer to a renewal").unknown())
}
