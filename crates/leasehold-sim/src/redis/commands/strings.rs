//! Strings.

use super::super::db::{Value, no_integer};
use super::*;

pub(super) fn get(db: &mut Db, a: &[Bytes]) -> Answer {
    Ok(db.text(&a[1])?.map_or(Reply::Nil, |text| Reply::Bulk(text.clone())))
}

pub(super) fn mget(db: &mut Db, a: &[Bytes]) -> Answer {
    let mut one = |key: &Bytes| match db.text(key) {
        Ok(Some(text)) => Reply::Bulk(text.clone()),
        _ => Reply::Nil,
    };
    Ok(Reply::Array(a[1..].iter().map(&mut one).collect()))
}

pub(super) fn set(db: &mut Db, a: &[Bytes]) -> Answer {
    let (mut expires, mut keeps, mut only_new, mut only_old) = (None, false, false, false);
    let mut words = a[3..].iter();
    while let Some(option) = words.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" => only_new = true,
            b"XX" => only_old = true,
            b"KEEPTTL" => keeps = true,
            b"PX" => expires = Some(deadline(db, words.next().ok_or_else(syntax)?)?),
            _ => return Err(syntax()),
        }
    }
    let old = db.entry(&a[1]).map(|entry| entry.expires);
    if (only_new && old.is_some()) || (only_old && old.is_none()) {
        return Ok(Reply::Nil);
    }
    let expires = if keeps { old.flatten() } else { expires };
    db.put(&a[1], Value::Text(a[2].clone()), expires);
    Ok(Reply::OK)
}

fn deadline(db: &Db, span: &[u8]) -> Result<i64, Reply> {
    let invalid = || Reply::error("ERR invalid expire time in 'set' command");
    let span = integer(span)?;
    let at = db.millis().checked_add(span).ok_or_else(invalid)?;
    if span <= 0 { Err(invalid()) } else { Ok(at) }
}

pub(super) fn incr(db: &mut Db, a: &[Bytes]) -> Answer {
    add(db, &a[1], 1)
}

pub(super) fn incrby(db: &mut Db, a: &[Bytes]) -> Answer {
    add(db, &a[1], integer(&a[2])?)
}

pub(super) fn decrby(db: &mut Db, a: &[Bytes]) -> Answer {
    let less = integer(&a[2])?;
    add(db, &a[1], less.checked_neg().ok_or_else(|| Reply::error("ERR decrement would overflow"))?)
}

fn add(db: &mut Db, key: &[u8], more: i64) -> Answer {
    let old = db.text(key)?.map_or(Ok(0), |text| integer(text).map_err(|_| no_integer()))?;
    let overflow = || Reply::error("ERR increment or decrement would overflow");
    let new = old.checked_add(more).ok_or_else(overflow)?;
    let expires = db.entry(key).and_then(|entry| entry.expires);
    db.put(key, Value::Text(new.to_string().into()), expires);
    Ok(Reply::Int(new))
}
