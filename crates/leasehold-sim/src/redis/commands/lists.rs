//! Lists.

use super::*;

pub(super) fn rpush(db: &mut Db, a: &[Bytes]) -> Answer {
    let all = db.make_list(&a[1])?;
    all.extend(a[2..].iter().cloned());
    Ok(Reply::count(all.len()))
}

pub(super) fn llen(db: &mut Db, a: &[Bytes]) -> Answer {
    Ok(Reply::count(db.list(&a[1])?.map_or(0, |all| all.len())))
}

pub(super) fn lpop(db: &mut Db, a: &[Bytes]) -> Answer {
    if a.len() > 2 {
        return Err(syntax());
    }
    let first = db.list(&a[1])?.and_then(|all| all.pop_front());
    db.tidy(&a[1]);
    Ok(first.map_or(Reply::Nil, Reply::Bulk))
}

pub(super) fn lindex(db: &mut Db, a: &[Bytes]) -> Answer {
    let Some(all) = db.list(&a[1])? else { return Ok(Reply::Nil) };
    let index = integer(&a[2])?;
    let at = if index < 0 { index + i64::try_from(all.len()).unwrap_or(0) } else { index };
    let found = usize::try_from(at).ok().and_then(|at| all.get(at));
    Ok(found.map_or(Reply::Nil, |it| Reply::Bulk(it.clone())))
}

pub(super) fn lpos(db: &mut Db, a: &[Bytes]) -> Answer {
    let at = db.list(&a[1])?.and_then(|all| all.iter().position(|it| *it == a[2]));
    Ok(at.map_or(Reply::Nil, Reply::count))
}

pub(super) fn lrange(db: &mut Db, a: &[Bytes]) -> Answer {
    let (first, last) = (integer(&a[2])?, integer(&a[3])?);
    let Some(all) = db.list(&a[1])? else { return Ok(Reply::Array(Vec::new())) };
    let part = span(first, last, all.len());
    Ok(Reply::Array(all.range(part).map(|it| Reply::Bulk(it.clone())).collect()))
}

pub(super) fn lrem(db: &mut Db, a: &[Bytes]) -> Answer {
    let count = integer(&a[2])?;
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let Some(all) = db.list(&a[1])? else { return Ok(Reply::Int(0)) };
    let mut removed = 0;
    let mut at = if count < 0 { all.len() } else { 0 };
    while removed < most && if count < 0 { at > 0 } else { at < all.len() } {
        let here = if count < 0 { at - 1 } else { at };
        if all[here] == a[3] {
            all.remove(here);
            removed += 1;
            at -= usize::from(count < 0);
        } else if count < 0 {
            at -= 1;
        } else {
            at += 1;
        }
    }
    db.tidy(&a[1]);
    Ok(Reply::Int(i64::try_from(removed).unwrap_or(i64::MAX)))
}
