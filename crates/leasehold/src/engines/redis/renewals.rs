//! Renewals on a cluster, where each server answers for its own part.

use std::collections::BTreeMap;

use tokio::task::JoinSet;

use super::address::RedisAddress;
use crate::claim::{Refresh, Renewal};
use crate::clock::{Clock, Moment};
use crate::error::{Error, ErrorKind};
use crate::home::Handle;

/// One part of the tickets, those of one server, with where they stand in the whole.
type Part = (Vec<usize>, Vec<Refresh>);

/// The answers in the order of `refreshes`. Once a server has answered, those
/// that say nothing are not waited for until the leases of the others are in
/// danger: their part is unknown, and asked for again.
pub(super) async fn by_server<F>(
    clock: &Clock,
    refreshes: Vec<Refresh>,
    home: impl Fn(&Refresh) -> Option<RedisAddress>,
    renew: impl Fn(Vec<Refresh>) -> F,
) -> Vec<Renewal>
where
    F: Future<Output = Vec<Renewal>> + Send + 'static,
{
    let patience = refreshes.iter().map(|it| it.ttl).min().unwrap_or_default() / 6;
    let mut renewals: Vec<Renewal> = refreshes.iter().map(|_| silent()).collect();
    let mut under_way = JoinSet::new();
    for (places, part) in parts(refreshes, home) {
        let answers = renew(part);
        Handle::current().spawn_in(&mut under_way, async move { (places, answers.await) });
    }
    let mut until = Moment::NEVER;
    loop {
        let done = tokio::select! {
            biased;
            done = under_way.join_next() => done,
            () = clock.sleep_until(until) => None,
        };
        let Some(done) = done else { return renewals };
        until = until.min(clock.now().after(patience));
        let Ok((places, answers)) = done else { continue };
        places.into_iter().zip(answers).for_each(|(at, answer)| renewals[at] = answer);
    }
}

fn parts(refreshes: Vec<Refresh>, home: impl Fn(&Refresh) -> Option<RedisAddress>) -> Vec<Part> {
    let (mut parts, mut known) = (Vec::<Part>::new(), BTreeMap::new());
    for (at, refresh) in refreshes.into_iter().enumerate() {
        let part = *known.entry(home(&refresh)).or_insert_with(|| {
            parts.push(Part::default());
            parts.len() - 1
        });
        parts[part].0.push(at);
        parts[part].1.push(refresh);
    }
    parts
}

fn silent() -> Renewal {
    let text = "its server has not answered yet, while others have";
    Renewal::Unknown(Error::new(ErrorKind::Unavailable, text).unknown())
}
