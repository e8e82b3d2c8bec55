//! Hashes.

use super::*;

fn field<'a>(all: &'a [(Bytes, Bytes)], name: &[u8]) -> Option<&'a Bytes> {
    all.iter().find(|(field, _)| field == name).map(|(_, value)| value)
}

pub(super) fn hget(db: &mut Db, a: &[Bytes]) -> Answer {
    let value = db.hash(&a[1])?.and_then(|all| field(all, &a[2]).cloned());
    Ok(value.map_or(Reply::Nil, Reply::Bulk))
}

pub(super) fn hset(db: &mut Db, a: &[Bytes]) -> Answer {
    if a.len() % 2 == 1 {
        return Err(Reply::error("ERR wrong number of arguments for 'hset' command"));
    }
    let all = db.make_hash(&a[1])?;
    let before = all.len();
    for pair in a[2..].chunks(2) {
        match all.iter_mut().find(|(field, _)| *field == pair[0]) {
            Some((_, value)) => value.clone_from(&pair[1]),
            None => all.push((pair[0].clone(), pair[1].clone())),
        }
    }
    Ok(Reply::count(all.len() - before))
}

pub(super) fn hdel(db: &mut Db, a: &[Bytes]) -> Answer {
    let Some(all) = db.hash(&a[1])? else { return Ok(Reply::Int(0)) };
    let before = all.len();
    all.retain(|(field, _)| !a[2..].contains(field));
    let removed = before - all.len();
    db.tidy(&a[1]);
    Ok(Reply::count(removed))
}

pub(super) fn hgetall(db: &mut Db, a: &[Bytes]) -> Answer {
    let all = db.hash(&a[1])?.map(|all| all.clone()).unwrap_or_default();
    let flat = all.into_iter().flat_map(|(field, value)| [Reply::Bulk(field), Reply::Bulk(value)]);
    Ok(Reply::Array(flat.collect()))
}

pub(super) fn hexists(db: &mut Db, a: &[Bytes]) -> Answer {
    Ok(Reply::flag(db.hash(&a[1])?.is_some_and(|all| field(all, &a[2]).is_some())))
}

pub(super) fn hkeys(db: &mut Db, a: &[Bytes]) -> Answer {
    let all = db.hash(&a[1])?.map(|all| all.clone()).unwrap_or_default();
    Ok(Reply::Array(all.into_iter().map(|(field, _)| Reply::Bulk(field)).collect()))
}

pub(super) fn hlen(db: &mut Db, a: &[Bytes]) -> Answer {
    Ok(Reply::count(db.hash(&a[1])?.map_or(0, |all| all.len())))
}
