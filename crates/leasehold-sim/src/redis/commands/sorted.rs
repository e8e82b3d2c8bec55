//! Sorted sets.

use std::ops::Bound;

use super::*;

fn score(bytes: &[u8]) -> Result<f64, Reply> {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let number = match text.as_str() {
        "inf" | "+inf" => Ok(f64::INFINITY),
        "-inf" => Ok(f64::NEG_INFINITY),
        _ => text.parse(),
    };
    number.map_err(|_| Reply::error("ERR value is not a valid float"))
}

/// A score as Redis writes it.
fn written(score: f64) -> Bytes {
    crate::redis::number::shown(score).into_bytes()
}

fn in_order(db: &mut Db, key: &[u8]) -> Result<Vec<(f64, Bytes)>, Reply> {
    let all = db.sorted(key)?.map(|all| all.clone()).unwrap_or_default();
    let mut all: Vec<_> = all.into_iter().map(|(member, score)| (score, member)).collect();
    all.sort_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1)));
    Ok(all)
}

pub(super) fn zadd(db: &mut Db, a: &[Bytes]) -> Answer {
    let only_old = a[2].eq_ignore_ascii_case(b"XX");
    let only_new = a[2].eq_ignore_ascii_case(b"NX");
    let pairs = &a[if only_old || only_new { 3 } else { 2 }..];
    if pairs.is_empty() || pairs.len() % 2 == 1 {
        return Err(syntax());
    }
    let scores = pairs.chunks(2).map(|pair| score(&pair[0])).collect::<Result<Vec<_>, _>>()?;
    let all = db.make_sorted(&a[1])?;
    let before = all.len();
    for (pair, score) in pairs.chunks(2).zip(scores) {
        let known = all.contains_key(&pair[1]);
        if !(only_old && !known || only_new && known) {
            all.insert(pair[1].clone(), score);
        }
    }
    let added = all.len() - before;
    db.tidy(&a[1]);
    Ok(Reply::count(added))
}

pub(super) fn zrem(db: &mut Db, a: &[Bytes]) -> Answer {
    let Some(all) = db.sorted(&a[1])? else { return Ok(Reply::Int(0)) };
    let removed = a[2..].iter().filter(|member| all.remove(*member).is_some()).count();
    db.tidy(&a[1]);
    Ok(Reply::count(removed))
}

pub(super) fn zcard(db: &mut Db, a: &[Bytes]) -> Answer {
    Ok(Reply::count(db.sorted(&a[1])?.map_or(0, |all| all.len())))
}

pub(super) fn zscore(db: &mut Db, a: &[Bytes]) -> Answer {
    let score = db.sorted(&a[1])?.and_then(|all| all.get(&a[2]).copied());
    Ok(score.map_or(Reply::Nil, |score| Reply::Bulk(written(score))))
}

pub(super) fn zincrby(db: &mut Db, a: &[Bytes]) -> Answer {
    let more = score(&a[2])?;
    let score = db.make_sorted(&a[1])?.entry(a[3].clone()).or_default();
    *score += more;
    Ok(Reply::Bulk(written(*score)))
}

pub(super) fn zrange(db: &mut Db, a: &[Bytes]) -> Answer {
    let scores = a.get(4).is_some_and(|option| option.eq_ignore_ascii_case(b"WITHSCORES"));
    if a.len() > 4 + usize::from(scores) {
        return Err(syntax());
    }
    let (first, last) = (integer(&a[2])?, integer(&a[3])?);
    let all = in_order(db, &a[1])?;
    let part = span(first, last, all.len());
    Ok(listed(&all[part], scores))
}

fn listed(all: &[(f64, Bytes)], scores: bool) -> Reply {
    let one = |(score, member): &(f64, Bytes)| {
        let score = scores.then(|| Reply::Bulk(written(*score)));
        [Some(Reply::Bulk(member.clone())), score].into_iter().flatten()
    };
    Reply::Array(all.iter().flat_map(one).collect())
}

/// An end of a range of scores; `(5` leaves 5 out.
fn bound(bytes: &[u8]) -> Result<(f64, bool), Reply> {
    let wrong = |_| Reply::error("ERR min or max is not a float");
    match bytes.strip_prefix(b"(") {
        Some(rest) => score(rest).map(|score| (score, true)).map_err(wrong),
        None => score(bytes).map(|score| (score, false)).map_err(wrong),
    }
}

fn within(
    db: &mut Db,
    key: &[u8],
    (min, above): (f64, bool),
    (max, below): (f64, bool),
) -> Result<Vec<(f64, Bytes)>, Reply> {
    let mut all = in_order(db, key)?;
    let fits = |score: f64| {
        (if above { score > min } else { score >= min })
            && (if below { score < max } else { score <= max })
    };
    all.retain(|(score, _)| fits(*score));
    Ok(all)
}

pub(super) fn zrangebyscore(db: &mut Db, a: &[Bytes]) -> Answer {
    let (limit, min, max) = (limit(&a[4..])?, bound(&a[2])?, bound(&a[3])?);
    let all = within(db, &a[1], min, max)?;
    let scores = a[4..].iter().any(|option| option.eq_ignore_ascii_case(b"WITHSCORES"));
    Ok(listed(limited(&all, limit), scores))
}

pub(super) fn zremrangebyscore(db: &mut Db, a: &[Bytes]) -> Answer {
    let (min, max) = (bound(&a[2])?, bound(&a[3])?);
    let all = within(db, &a[1], min, max)?;
    if let Some(kept) = db.sorted(&a[1])? {
        kept.retain(|member, _| !all.iter().any(|(_, gone)| gone == member));
    }
    db.tidy(&a[1]);
    Ok(Reply::count(all.len()))
}

/// Offset and count of `LIMIT`; everything without it.
fn limit(options: &[Bytes]) -> Result<(i64, i64), Reply> {
    let at = options.iter().position(|option| option.eq_ignore_ascii_case(b"LIMIT"));
    let Some(at) = at else { return Ok((0, -1)) };
    match options.get(at + 1..at + 3) {
        Some([offset, count]) => Ok((integer(offset)?, integer(count)?)),
        _ => Err(syntax()),
    }
}

fn limited<T>(all: &[T], (offset, count): (i64, i64)) -> &[T] {
    let rest = all.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(rest.len());
    &rest[..count]
}

pub(super) fn zrangebylex(db: &mut Db, a: &[Bytes]) -> Answer {
    let (limit, from, to) = (limit(&a[4..])?, lex(&a[2])?, lex(&a[3])?);
    let after = |member: &Bytes| match &from {
        Edge::Least => true,
        Edge::Most => false,
        Edge::At(Bound::Included(start)) => member >= start,
        Edge::At(Bound::Excluded(start)) => member > start,
        Edge::At(Bound::Unbounded) => true,
    };
    let before = |member: &Bytes| match &to {
        Edge::Least => false,
        Edge::Most => true,
        Edge::At(Bound::Included(end)) => member <= end,
        Edge::At(Bound::Excluded(end)) => member < end,
        Edge::At(Bound::Unbounded) => true,
    };
    let mut all = in_order(db, &a[1])?;
    all.retain(|(_, member)| after(member) && before(member));
    Ok(listed(limited(&all, limit), false))
}

enum Edge {
    Least,
    Most,
    At(Bound<Bytes>),
}

fn lex(bytes: &[u8]) -> Result<Edge, Reply> {
    match bytes {
        b"-" => Ok(Edge::Least),
        b"+" => Ok(Edge::Most),
        [b'[', rest @ ..] => Ok(Edge::At(Bound::Included(rest.to_vec()))),
        [b'(', rest @ ..] => Ok(Edge::At(Bound::Excluded(rest.to_vec()))),
        _ => Err(Reply::error("ERR min or max not valid string range item")),
    }
}
