//! The names that have lines.

use std::collections::BTreeSet;

use super::Etcd;
use super::keys::escape;
use super::proto::RangeRequest;
use super::settings::KeyNames;
use super::txn;
use crate::error::Result;
use crate::name::{Name, Namespace};

/// How many keys are read at once.
const PAGE: i64 = 1000;

impl Etcd {
    /// Names do not lie in their own order (`a!` before `a/..`), so all are
    /// gathered, then sorted and cut.
    pub(super) async fn names(
        &self,
        namespace: &Namespace,
        prefix: &str,
        after: Option<Name>,
        most: usize,
    ) -> Result<(Vec<Name>, bool)> {
        let all = self.all_names(namespace, prefix).await?;
        let mut rest = all.into_iter().skip_while(|name| after.as_ref().is_some_and(|a| name <= a));
        let page: Vec<Name> = rest.by_ref().take(most).collect();
        let more = rest.next().is_some();
        Ok((page, more))
    }

    async fn all_names(&self, namespace: &Namespace, prefix: &str) -> Result<BTreeSet<Name>> {
        let by = self.link.deadline();
        let mut names = BTreeSet::new();
        let start = match self.keys.names() {
            KeyNames::Escaped => self.keys.locks(namespace) + &escape(prefix),
            KeyNames::Raw if *namespace == Namespace::default() => prefix.to_owned(),
            KeyNames::Raw => return Ok(names),
        };
        let range_end = txn::end_of(&start);
        let mut key = if start.is_empty() { vec![0] } else { start.into_bytes() };
        loop {
            let request = RangeRequest { key, range_end: range_end.clone(), ..keys_only() };
            let range = self.link.ask(request, by).await?;
            let texts = range.kvs.iter().filter_map(|key| str::from_utf8(&key.key).ok());
            names.extend(texts.filter_map(|key| self.keys.name_of(namespace, key)));
            match range.kvs.last() {
                Some(last) if range.more => key = self.beyond(namespace, &last.key),
                _ => return Ok(names),
            }
        }
    }

    /// The first key that may belong to another name: a long line costs one hop.
    fn beyond(&self, namespace: &Namespace, key: &[u8]) -> Vec<u8> {
        let name = str::from_utf8(key).ok().and_then(|key| self.keys.name_of(namespace, key));
        let base = name.and_then(|name| self.keys.base(&name).ok());
        match base.filter(|_| self.keys.names() == KeyNames::Escaped) {
            Some(base) => txn::end_of(&base),
            // Other names may lie below this one.
            None => [key, &[0]].concat(),
        }
    }
}

fn keys_only() -> RangeRequest {
    RangeRequest { limit: PAGE, keys_only: true, ..RangeRequest::default() }
}
