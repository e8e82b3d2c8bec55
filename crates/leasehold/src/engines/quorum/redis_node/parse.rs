//! What the scripts of a node answer.

use std::time::Duration;

use ::redis::Value;

use super::super::layout::other_layout;
use super::super::node::{Kept, LockAnswer, NodeMark, Number, hash, read};
use crate::claim::{LeaseId, Mode};
use crate::error::{Error, ErrorKind, Result};

/// The answer to a lock: a word, what goes with it, the server's clock.
pub(super) struct LockReply {
    word: String,
    text: String,
    stamp: Option<u64>,
    left: Option<Duration>,
    now: u64,
}

impl LockReply {
    pub(super) fn parse(value: Value) -> Result<Self> {
        let Value::Array(parts) = value else { return Err(strange()) };
        let mut parts = parts.into_iter().map(shown);
        let mut next = || parts.next().flatten();
        let (word, text) = (next().ok_or_else(strange)?, next().ok_or_else(strange)?);
        let stamp = next().and_then(|text| text.parse().ok());
        let left = next().and_then(|text| text.parse().ok()).map(Duration::from_millis);
        let now = next().and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(Self { word, text, stamp, left, now })
    }

    /// Microseconds by the server's clock.
    pub(super) const fn stamp(&self) -> Option<u64> {
        self.stamp
    }

    /// A vote is for `ttl` at least.
    pub(super) fn into_answer(
        self,
        mode: Mode,
        ttl: Duration,
        quarantine: u64,
    ) -> Result<LockAnswer> {
        match self.word.as_str() {
            "vote" => {
                let value = self.text.parse().map_err(|_| strange())?;
                Ok(LockAnswer::Vote(Number { value, version: 0 }, ttl))
            }
            "busy" => {
                let mark = mark(mode, self.left, self.now, &self.text);
                Ok(LockAnswer::Busy(Some(mark.holder())))
            }
            "kind" => Err(Error::invalid(format!(
                "the name is in use as a {}; kinds do not mix, choose another name",
                self.text
            ))),
            "layout" => Err(other_layout(&self.text)),
            "young" => Err(young(&self.text, quarantine)),
            _ => Err(strange()),
        }
    }
}

fn young(age: &str, quarantine: u64) -> Error {
    let text = format!(
        "the node started {age} s ago and does not vote until {quarantine} s have passed: \
         it may have forgotten leases (appendfsync always spares the wait)"
    );
    Error::new(ErrorKind::Unavailable, text)
}

/// How long a lease is kept, in milliseconds; less than none if it is not there.
pub(super) fn kept(value: &Value) -> Result<Kept> {
    match value {
        Value::Int(left) => Ok(u64::try_from(*left).ok().map(Duration::from_millis)),
        _ => Err(strange()),
    }
}

/// The leases that a look has found.
pub(super) fn marks(value: Value) -> Result<Vec<NodeMark>> {
    let Value::Array(parts) = value else { return Err(strange()) };
    let mut parts = parts.into_iter().filter_map(shown);
    let first = parts.next();
    if first.as_deref() == Some("layout") {
        return Err(other_layout(&parts.next().unwrap_or_default()));
    }
    let now = first.and_then(|text| text.parse().ok()).unwrap_or(0);
    let one = |text: String| {
        let mut fields = text.splitn(3, ':');
        let (mode, left, rest) = (fields.next()?, fields.next()?, fields.next()?);
        let mode = match mode {
            "r" => Mode::Read,
            "w" => Mode::Write,
            _ => Mode::Exclusive,
        };
        let left = left.parse().ok().map(Duration::from_millis);
        Some(mark(mode, left, now, rest))
    };
    Ok(parts.filter_map(one).collect())
}

/// `id:number:since:inscription`, or what a stranger wrote.
fn mark(mode: Mode, time_left: Option<Duration>, now: u64, text: &str) -> NodeMark {
    ours(mode, time_left, now, text).unwrap_or_else(|| NodeMark {
        id: LeaseId::from_bits(hash(text).into()),
        number: 0,
        mode,
        label: "a client of another library".into(),
        meta: None,
        held_for: None,
        time_left,
    })
}

fn ours(mode: Mode, time_left: Option<Duration>, now: u64, text: &str) -> Option<NodeMark> {
    let mut fields = text.splitn(4, ':');
    let (id, number) = (fields.next()?, fields.next()?);
    let (since, inscription) = (fields.next()?, fields.next()?);
    let id = LeaseId::from_bits(u128::from_str_radix(id, 16).ok()?);
    let held_for = since.parse().ok().map(|since| Duration::from_millis(now.saturating_sub(since)));
    let (label, meta) = read(inscription)?;
    Some(NodeMark { id, number: number.parse().ok()?, mode, label, meta, held_for, time_left })
}

fn shown(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Value::SimpleString(text) => Some(text),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

pub(super) fn strange() -> Error {
    Error::new(ErrorKind::Unexpected, "a node answered what none of its scripts can")
}
