//! Whom an entry stands behind, found out without a list of its line.
//!
//! An entry that joined by the tail knows who is before it. Once that one has gone
//! from the front, it is its turn. If it went early, the tail says whom it had come
//! behind: as the tail was just before it came.

use std::sync::Arc;

use super::Etcd;
use super::keys::{card_of, shown};
use super::marks::{LineFront, LineMarks, last};
use super::proto::{KeyValue, TxnRequest};
use super::queues::{QueueKeys, View};
use super::txn::{self, read};
use crate::clock::Moment;
use crate::engines::consensus::{EntryAhead, QueueEntry};
use crate::error::Result;
use crate::mutant::{self, Mutant};

/// Over how many entries that went early the way back is followed; the servers find
/// whoever is before us sooner then, by a look at all who are there.
const HOPS: usize = 8;

/// What is looked at together: an entry, the one before it, and the marks.
struct Neighbours {
    /// Whether the entry is there.
    mine: bool,
    ahead: Option<KeyValue>,
    tail: Option<KeyValue>,
    front: LineFront,
}

impl Neighbours {
    /// Whether the front says that whoever was before has gone, and all others.
    fn has_passed(&self, before: &EntryAhead) -> bool {
        let unknown = self.front == LineFront::default();
        self.front.begins > before.order || (unknown && mutant::lives(Mutant::NoFrontIsMyTurn))
    }
}

impl Etcd {
    /// As much of a line as matters to `mine`.
    pub(super) async fn near(
        &self,
        place: &QueueKeys,
        marks: &LineMarks,
        mine: &QueueEntry,
        by: Moment,
    ) -> Result<View> {
        let mut ahead = match &mine.behind {
            Some(ahead) => Some(ahead.clone()),
            None => self.came_behind(marks, mine.order, by).await,
        };
        for hop in 0..HOPS {
            let Some(before) = ahead else {
                if mutant::lives(Mutant::NoHistoryIsMyTurn) {
                    return Ok(View::of([mine.clone()]));
                }
                break;
            };
            let found = self.neighbours(marks, Some(mine), &before, by).await?;
            match found.ahead {
                _ if !found.mine => return Ok(View::default()),
                Some(_) => return self.behind(marks, Some(mine), &before, found, by).await,
                None if found.has_passed(&before) => return Ok(View::of([mine.clone()])),
                // Who wrote it has left with its lease: so have others, who knows how many.
                None if hop > 0 && found.front == LineFront::default() => break,
                None => ahead = self.came_behind(marks, before.order, by).await,
            }
        }
        self.by_a_look(place, marks, mine, by).await
    }

    /// The same where the marks do not tell.
    async fn by_a_look(
        &self,
        place: &QueueKeys,
        marks: &LineMarks,
        mine: &QueueEntry,
        by: Moment,
    ) -> Result<View> {
        while let Some(Some(seen)) = self.next_before(place, mine.order, by).await? {
            let before = EntryAhead { key: Arc::clone(&seen.key), order: seen.order };
            let found = self.neighbours(marks, Some(mine), &before, by).await?;
            match found.ahead {
                _ if !found.mine => return Ok(View::default()),
                Some(_) => return self.behind(marks, Some(mine), &before, found, by).await,
                None => {}
            }
        }
        // Nobody is, or something else lies there. Who is first is among the oldest: a
        // long line need not fit into one answer.
        let some = self.link.ask(place.some(), by).await?;
        Ok(self.whole(place, some, Some(mine), by).await?.seen_by(mine))
    }

    /// Who is in line, for somebody who has not joined: the last is there or not.
    pub(super) async fn end_of_line(
        &self,
        place: &QueueKeys,
        marks: &LineMarks,
        tail: Option<&KeyValue>,
        by: Moment,
    ) -> Result<View> {
        if let Some(before) = tail.and_then(last) {
            let found = self.neighbours(marks, None, &before, by).await?;
            if found.ahead.is_some() {
                return self.behind(marks, None, &before, found, by).await;
            }
        }
        // The last has gone; others may be there.
        let some = self.link.ask(place.some(), by).await?;
        Ok(place.view(&some.kvs))
    }

    async fn neighbours(
        &self,
        marks: &LineMarks,
        mine: Option<&QueueEntry>,
        ahead: &EntryAhead,
        by: Moment,
    ) -> Result<Neighbours> {
        let keys = [&*marks.tail, &*marks.front, &*ahead.key];
        let keys = keys.into_iter().chain(mine.map(|mine| &*mine.key));
        let success = keys.map(|key| read(txn::one(key))).collect();
        let request = TxnRequest { success, ..TxnRequest::default() };
        let mut found = txn::found(self.link.ask(request, by).await?);
        let mut next = || found.next().and_then(|mut range| range.kvs.pop());
        let (tail, front, there) = (next(), LineFront::read(next().as_ref()), next());
        // A key that was made anew is another entry.
        let is = |order: i64| move |key: &KeyValue| key.create_revision == order;
        let ahead = there.filter(is(ahead.order));
        let mine = mine.is_none_or(|mine| next().is_some_and(|key| is(mine.order)(&key)));
        Ok(Neighbours { mine, ahead, tail, front })
    }

    /// Who joined last before this revision. Unknown if there was no tail, or if the
    /// servers have forgotten it.
    async fn came_behind(&self, marks: &LineMarks, order: i64, by: Moment) -> Option<EntryAhead> {
        self.tail_at(marks, order - 1, by).await.as_ref().and_then(last)
    }

    async fn tail_at(&self, marks: &LineMarks, revision: i64, by: Moment) -> Option<KeyValue> {
        // 0 would be now.
        let then = txn::once(&marks.tail, revision.max(1));
        self.link.ask(then, by).await.ok()?.kvs.pop()
    }

    /// The line of somebody behind an entry that is there.
    async fn behind(
        &self,
        marks: &LineMarks,
        mine: Option<&QueueEntry>,
        before: &EntryAhead,
        found: Neighbours,
        by: Moment,
    ) -> Result<View> {
        let first = self.first(marks, before, &found, by).await;
        let metadata = found.ahead.as_ref().map(card_of);
        let ahead = QueueEntry { metadata, ..shown(&before.key, before.order) };
        let behind = Some(before.clone());
        let mine = mine.map(|mine| QueueEntry { behind, ..mine.clone() });
        Ok(View::of(first.into_iter().chain([ahead]).chain(mine)))
    }

    /// Who holds, as far as the marks tell, if it is not the one before.
    async fn first(
        &self,
        marks: &LineMarks,
        before: &EntryAhead,
        found: &Neighbours,
        by: Moment,
    ) -> Option<QueueEntry> {
        let (key, order) = match (&found.front.holder, &found.tail) {
            (Some(holder), _) => (Arc::clone(holder), found.front.begins),
            // Nobody has passed on yet: the one that has made the tail.
            (None, Some(tail)) if found.front.begins <= tail.create_revision => {
                let made = tail.create_revision;
                if made >= before.order {
                    return None;
                }
                let first = self.tail_at(marks, made, by).await?;
                (last(&first)?.key, made)
            }
            (None, _) => return None,
        };
        (order < before.order).then(|| shown(&key, order))
    }
}
