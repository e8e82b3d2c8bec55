//! The names that have lines.

use std::collections::BTreeSet;

use super::Etcd;
use super::name_walk::{KeyStretch, NameWalk};
use super::proto::{RangeRequest, RangeResponse, TxnRequest};
use super::reach::RangeReach;
use super::settings::KeyNames;
use super::txn;
use crate::clock::Moment;
use crate::error::Result;
use crate::name::{Name, Namespace};

/// How many keys are read at once.
const PAGE: usize = 1000;
/// How many stretches are read at once: most have nothing in them.
const STRETCHES: usize = 16;

/// A stretch, and up to where it is read.
type AskedStretch = (KeyStretch, Vec<u8>);

impl Etcd {
    pub(super) async fn names(
        &self,
        namespace: &Namespace,
        prefix: &str,
        after: Option<Name>,
        most: usize,
    ) -> Result<(Vec<Name>, bool)> {
        if self.keys.names() == KeyNames::Raw {
            return self.raw_names(namespace, prefix, after, most).await;
        }
        let (by, mut misses) = (self.link.deadline(), 0);
        let locks = self.keys.locks(namespace);
        let mut walk = NameWalk::new(locks, prefix, after.as_ref().map(Name::as_str));
        while walk.found.len() <= most {
            let asked = self.next_stretches(&mut walk, misses);
            if asked.is_empty() {
                break;
            }
            let limit = most.saturating_add(1).min(PAGE);
            let ranges = self.read_stretches(&asked, limit, by).await?;
            misses = if self.take(&mut walk, asked, ranges) { misses + 1 } else { 0 };
        }
        let more = walk.found.len() > most;
        walk.found.truncate(most);
        let names = walk.found.into_iter().filter_map(|name| Name::new(namespace, name).ok());
        Ok((names.collect(), more))
    }

    /// What is read next: up to the first that goes far.
    fn next_stretches(&self, walk: &mut NameWalk, misses: u32) -> Vec<AskedStretch> {
        let (mut asked, reach) = (Vec::new(), self.name_reach());
        while asked.len() < STRETCHES
            && let Some(stretch) = walk.next()
        {
            let is_far = reach.end(&stretch.from, &stretch.to, 0) < stretch.to;
            let until = reach.end(&stretch.from, &stretch.to, misses);
            asked.push((stretch, until));
            if is_far {
                break;
            }
        }
        asked
    }

    async fn read_stretches(
        &self,
        asked: &[AskedStretch],
        limit: usize,
        by: Moment,
    ) -> Result<Vec<RangeResponse>> {
        let read = |(stretch, until): &AskedStretch| {
            let (key, range_end) = (stretch.from.clone(), until.clone());
            txn::read(RangeRequest { key, range_end, ..keys_only(limit) })
        };
        let success = asked.iter().map(read).collect();
        let request = TxnRequest { success, ..TxnRequest::default() };
        Ok(txn::found(self.link.ask(request, by).await?).collect())
    }

    /// Takes what was read, up to the first stretch of which something is left. Whether
    /// that is because it was not read far enough.
    fn take(
        &self,
        walk: &mut NameWalk,
        asked: Vec<AskedStretch>,
        ranges: Vec<RangeResponse>,
    ) -> bool {
        let mut read = asked.into_iter().zip(ranges);
        let (stretch, until, range) = loop {
            let Some(((stretch, until), range)) = read.next() else { return false };
            if range.more || until < stretch.to {
                break (stretch, until, range);
            }
            walk.take(stretch, keys(&range), false);
        };
        read.rev().for_each(|((later, _), _)| walk.put_back(later));
        if range.more {
            self.learn(walk, &range);
            walk.take(stretch, keys(&range), true);
            return false;
        }
        let (near, rest) = stretch.cut_at(until);
        walk.put_back(rest);
        walk.take(near, keys(&range), false);
        true
    }

    /// A line alone tells nothing of how the names lie.
    fn learn(&self, walk: &NameWalk, range: &RangeResponse) {
        if let [first, .., last] = &*range.kvs
            && walk.name_of(&first.key) != walk.name_of(&last.key)
        {
            self.name_reach().learn(&first.key, &last.key);
        }
    }

    const fn name_reach(&self) -> &RangeReach {
        &self.reaches[0]
    }

    /// Raw names lie between keys of others, and one below the other: all are gathered,
    /// then sorted and cut.
    async fn raw_names(
        &self,
        namespace: &Namespace,
        prefix: &str,
        after: Option<Name>,
        most: usize,
    ) -> Result<(Vec<Name>, bool)> {
        let all = self.all_raw_names(namespace, prefix).await?;
        let mut rest = all.into_iter().skip_while(|name| after.as_ref().is_some_and(|a| name <= a));
        let page: Vec<Name> = rest.by_ref().take(most).collect();
        let more = rest.next().is_some();
        Ok((page, more))
    }

    async fn all_raw_names(&self, namespace: &Namespace, prefix: &str) -> Result<BTreeSet<Name>> {
        let (by, mut names) = (self.link.deadline(), BTreeSet::new());
        if *namespace != Namespace::default() {
            return Ok(names);
        }
        let range_end = txn::end_of(prefix);
        let mut key = if prefix.is_empty() { vec![0] } else { prefix.into() };
        loop {
            let request = RangeRequest { key, range_end: range_end.clone(), ..keys_only(PAGE) };
            let range = self.link.ask(request, by).await?;
            let texts = keys(&range).filter_map(|key| str::from_utf8(key).ok());
            names.extend(texts.filter_map(|key| self.keys.name_of(namespace, key)));
            match range.kvs.last() {
                // Other names may lie below this one.
                Some(last) if range.more => key = [&*last.key, &[0]].concat(),
                _ => return Ok(names),
            }
        }
    }
}

fn keys(range: &RangeResponse) -> impl Iterator<Item = &[u8]> {
    range.kvs.iter().map(|kv| &*kv.key)
}

fn keys_only(limit: usize) -> RangeRequest {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    RangeRequest { limit, keys_only: true, ..RangeRequest::default() }
}
