//! Keys, whatever they hold, and how long they live.

use super::super::db::Value;
use super::*;

pub(super) fn del(db: &mut Db, a: &[Bytes]) -> Answer {
    Ok(Reply::count(a[1..].iter().filter(|key| db.remove(key)).count()))
}

pub(super) fn exists(db: &mut Db, a: &[Bytes]) -> Answer {
    Ok(Reply::count(a[1..].iter().filter(|key| db.entry(key).is_some()).count()))
}

pub(super) fn kind(db: &mut Db, a: &[Bytes]) -> Answer {
    Ok(Reply::Status(match db.entry(&a[1]).map(|entry| &entry.value) {
        None => "none",
        Some(Value::Text(_)) => "string",
        Some(Value::Hash(_)) => "hash",
        Some(Value::List(_)) => "list",
        Some(Value::Sorted(_)) => "zset",
    }))
}

pub(super) fn pttl(db: &mut Db, a: &[Bytes]) -> Answer {
    let now = db.millis();
    let left = db.entry(&a[1]).map(|entry| entry.expires.map_or(-1, |at| at - now));
    Ok(Reply::Int(left.unwrap_or(-2)))
}

pub(super) fn pexpire(db: &mut Db, a: &[Bytes]) -> Answer {
    let invalid = || Reply::error("ERR invalid expire time in 'pexpire' command");
    let at = db.millis().checked_add(integer(&a[2])?).ok_or_else(invalid)?;
    expire(db, &a[1], at)
}

pub(super) fn pexpireat(db: &mut Db, a: &[Bytes]) -> Answer {
    let at = integer(&a[2])?;
    expire(db, &a[1], at)
}

fn expire(db: &mut Db, key: &[u8], at: i64) -> Answer {
    let now = db.millis();
    let Some(entry) = db.entry(key) else { return Ok(Reply::Int(0)) };
    entry.expires = Some(at);
    if at <= now {
        db.remove(key);
    }
    Ok(Reply::Int(1))
}
