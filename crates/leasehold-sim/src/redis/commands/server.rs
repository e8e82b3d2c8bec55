//! What a server says of itself, and what it passes on.

use super::*;

pub(super) fn time(db: &mut Db, _: &[Bytes]) -> Answer {
    let parts = [db.now / 1_000_000, db.now % 1_000_000];
    Ok(Reply::Array(parts.map(|part| Reply::bulk(part.to_string())).to_vec()))
}

pub(super) fn publish(db: &mut Db, a: &[Bytes]) -> Answer {
    let channel = (a[0].len() > "publish".len(), a[1].clone());
    let hearers = db.hearers.get(&channel).map_or(0, Vec::len);
    db.said.push((channel, a[2].clone()));
    Ok(Reply::count(hearers))
}

pub(super) fn info(db: &mut Db, _: &[Bytes]) -> Answer {
    let (id, uptime) = (&db.id, db.uptime);
    let role = if db.is_replica { "slave" } else { "master" };
    Ok(Reply::bulk(format!(
        "# Server\r\nredis_version:7.0.15\r\nrun_id:{id}\r\nuptime_in_seconds:{uptime}\r\n\
         # Memory\r\nused_memory:1\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n\
         # Persistence\r\naof_enabled:1\r\n# Replication\r\nrole:{role}\r\nconnected_slaves:0\r\n"
    )))
}

pub(super) fn ping(_: &mut Db, a: &[Bytes]) -> Answer {
    Ok(a.get(1).map_or(Reply::Status("PONG"), |word| Reply::Bulk(word.clone())))
}

pub(super) fn role(db: &mut Db, _: &[Bytes]) -> Answer {
    let rest = [Reply::Int(0), Reply::Array(Vec::new())];
    let word = Reply::bulk(if db.is_replica { "slave" } else { "master" });
    Ok(Reply::Array([word].into_iter().chain(rest).collect()))
}

pub(super) fn wait(_: &mut Db, _: &[Bytes]) -> Answer {
    Ok(Reply::Int(0))
}

pub(super) fn config(_: &mut Db, a: &[Bytes]) -> Answer {
    let value = match word(a, 2).as_str() {
        "appendonly" => "yes",
        "appendfsync" => "everysec",
        "maxmemory-policy" => "noeviction",
        _ => return Ok(Reply::Map(Vec::new())),
    };
    Ok(Reply::Map(vec![(Reply::Bulk(a[2].clone()), Reply::bulk(value))]))
}

pub(super) fn dbsize(db: &mut Db, _: &[Bytes]) -> Answer {
    Ok(Reply::count(db.alive().len()))
}

pub(super) fn flushall(db: &mut Db, _: &[Bytes]) -> Answer {
    db.clear();
    Ok(Reply::OK)
}
