//! The marks of a line: what spares those who come and go a look at all of it.
//!
//! The *tail* names who came last. Whoever joins swaps it for itself in the same
//! transaction, and so hears behind whom it stands. The *front* says how far the
//! line has come: all who joined before that have gone, for good. A tail that is
//! missing means nothing, because it goes with the lease of who came last, and
//! because who comes alone makes none: then the line is listed.
//!
//! Both lie where earlier releases look for the permits of a name, and refuse it.

use std::sync::Arc;

use super::keys::{EtcdKeys, MARKS, lone_lease};
use super::proto::{KeyValue, RequestOp};
use super::settings::KeyNames;
use super::txn;
use crate::engines::consensus::{Departure, EntryAhead};
use crate::mutant::{self, Mutant};

/// The keys of the marks of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineMarks {
    pub(super) tail: String,
    pub(super) front: String,
}

impl LineMarks {
    /// Those of the line whose keys begin with `prefix`.
    pub(super) fn of(prefix: &str) -> Self {
        Self { tail: format!("{prefix}{MARKS}tail"), front: format!("{prefix}{MARKS}front") }
    }

    /// Reads the tail; or, where there is none, does what `list` says. Then, in both
    /// cases, what is to be done with it.
    pub(super) fn last_or(&self, list: Vec<RequestOp>, then: Vec<RequestOp>) -> RequestOp {
        let look = vec![txn::read(txn::one(&self.tail))];
        let list = list.into_iter().chain(then.clone()).collect();
        let then = then.into_iter().filter(|_| !mutant::lives(Mutant::TailStays));
        let look = look.into_iter().chain(then).collect();
        txn::either(vec![txn::absent(&self.tail)], list, look)
    }
}

/// How far a line has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LineFront {
    /// Whoever was made at an earlier revision has gone.
    pub(super) begins: i64,
    /// Who has noted that it holds.
    pub(super) holder: Option<Arc<str>>,
}

impl LineFront {
    /// Without a mark, nobody is known to have gone.
    pub(super) fn read(mark: Option<&KeyValue>) -> Self {
        let text = mark.map(|mark| String::from_utf8_lossy(&mark.value));
        let read = |text: &str| {
            let (begins, holder) = text.split_once('\n')?;
            let holder = (!holder.is_empty()).then(|| holder.into());
            Some(Self { begins: begins.parse().ok()?, holder })
        };
        text.and_then(|text| read(&text)).unwrap_or_default()
    }

    /// As `holder` writes it, which was made at `begins`; nobody, once it has gone.
    pub(super) fn written(begins: i64, holder: &str) -> Vec<u8> {
        format!("{begins}\n{holder}").into_bytes()
    }
}

/// Whom a tail names.
pub(super) fn last(tail: &KeyValue) -> Option<EntryAhead> {
    let text = str::from_utf8(&tail.value).ok()?;
    Some(match text.split_once('\n') {
        // Somebody who left has put it back.
        Some((key, order)) => EntryAhead { key: key.into(), order: order.parse().ok()? },
        None => EntryAhead { key: text.into(), order: tail.mod_revision },
    })
}

/// A tail as it is put back for who is last now.
fn put_back(ahead: &EntryAhead) -> Vec<u8> {
    format!("{}\n{}", ahead.key, ahead.order).into_bytes()
}

/// An entry that is about to leave its line, and the marks of that.
pub(super) struct Leaver {
    entry: EntryAhead,
    lease: i64,
    marks: LineMarks,
}

impl EtcdKeys {
    /// The leaver with this key, made at this revision, if its line has marks.
    pub(super) fn leaver(&self, key: &Arc<str>, order: i64) -> Option<Leaver> {
        let lease = lone_lease(key).filter(|_| self.names() == KeyNames::Escaped)?;
        let line = &key[..=key.rfind('/')?];
        let entry = EntryAhead { key: Arc::clone(key), order };
        Some(Leaver { entry, lease, marks: LineMarks::of(line) })
    }
}

impl Leaver {
    /// What becomes of the marks when it leaves like that.
    pub(super) fn leaving(&self, departure: &Departure) -> Vec<RequestOp> {
        let early = matches!(departure, Departure::Early(_));
        if early && mutant::lives(Mutant::EarlyLeaversWriteTheFront) {
            return vec![self.passed()];
        }
        let front = early.then(|| self.taken_away());
        std::iter::once(self.place(departure)).chain(front).collect()
    }

    fn place(&self, departure: &Departure) -> RequestOp {
        match departure {
            Departure::Front { .. } if mutant::lives(Mutant::NobodyWritesTheFront) => {
                self.if_last(self.empty(), Vec::new())
            }
            Departure::Front { waited } => {
                // That there is no tail does not say that nobody waits: but who has not
                // waited, and whom nobody has come behind, has been alone.
                let alone = if *waited { self.passed() } else { txn::delete(&self.marks.front) };
                let passed = self.if_last(self.empty(), vec![self.passed()]);
                txn::either(vec![txn::absent(&self.marks.tail)], vec![alone], vec![passed])
            }
            // Of another kind: the tail does not lead to it.
            Departure::Early(Some(ahead)) if lone_lease(&ahead.key).is_some() => {
                let back = vec![self.give_back(ahead)];
                let all = mutant::lives(Mutant::TailGivenBackByAll);
                let not_last = if all { back.clone() } else { Vec::new() };
                self.if_last(back, not_last)
            }
            Departure::Early(_) => self.if_last(vec![txn::delete(&self.marks.tail)], Vec::new()),
        }
    }

    /// It was taken away, perhaps while it held: then it has said so.
    fn taken_away(&self) -> RequestOp {
        let said = LineFront::written(self.entry.order, &self.entry.key);
        let said = txn::valued(&self.marks.front, said);
        txn::either(vec![said], vec![txn::delete(&self.marks.front)], Vec::new())
    }

    /// It is the last if the tail has been made with it, or put back for it.
    fn if_last(&self, last: Vec<RequestOp>, not_last: Vec<RequestOp>) -> RequestOp {
        let put_back = txn::valued(&self.marks.tail, put_back(&self.entry));
        let otherwise = txn::either(vec![put_back], last.clone(), not_last);
        txn::either(vec![self.is_last()], last, vec![otherwise])
    }

    /// What is to be done if it had gone before: somebody else has removed it, and
    /// knew nothing of marks. Whoever comes next lists the line.
    pub(super) fn left(&self) -> RequestOp {
        txn::either(vec![self.is_last()], vec![txn::delete(&self.marks.tail)], Vec::new())
    }

    /// The tail is written together with the entry that it names.
    fn is_last(&self) -> super::proto::Compare {
        txn::written_at(&self.marks.tail, self.entry.order)
    }

    fn empty(&self) -> Vec<RequestOp> {
        vec![txn::delete(&self.marks.tail), txn::delete(&self.marks.front)]
    }

    fn passed(&self) -> RequestOp {
        let front = LineFront::written(self.entry.order + 1, "");
        txn::put(&self.marks.front, front, self.lease)
    }

    /// That it holds, for whoever asks.
    pub(super) fn holds(&self) -> RequestOp {
        let front = LineFront::written(self.entry.order, &self.entry.key);
        txn::put(&self.marks.front, front, self.lease)
    }

    /// Whoever is before it is the last again, if it is there.
    fn give_back(&self, ahead: &EntryAhead) -> RequestOp {
        let back = txn::put(&self.marks.tail, put_back(ahead), self.lease);
        let gone = txn::delete(&self.marks.tail);
        txn::either(vec![txn::made_at(&ahead.key, ahead.order)], vec![back], vec![gone])
    }
}
