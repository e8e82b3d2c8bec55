//! The commands that our scripts and our link call, as Redis 7.0 answers them.

mod expiry;
mod hashes;
mod lists;
mod server;
mod sorted;
mod strings;

use super::db::{Db, no_integer};
use super::{Bytes, Reply};

type Answer = Result<Reply, Reply>;

struct Command {
    run: fn(&mut Db, &[Bytes]) -> Answer,
    /// Words, its name included; at least so many if negative.
    words: i32,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    /// A write that may need memory: a full server refuses it.
    Grow,
}

const fn read(words: i32, run: fn(&mut Db, &[Bytes]) -> Answer) -> Command {
    Command { run, words, kind: Kind::Read }
}

const fn write(words: i32, run: fn(&mut Db, &[Bytes]) -> Answer) -> Command {
    Command { run, words, kind: Kind::Write }
}

const fn grow(words: i32, run: fn(&mut Db, &[Bytes]) -> Answer) -> Command {
    Command { run, words, kind: Kind::Grow }
}

fn find(name: &str) -> Option<Command> {
    Some(match name {
        "GET" => read(2, strings::get),
        "MGET" => read(-2, strings::mget),
        "SET" => grow(-3, strings::set),
        "INCR" => grow(2, strings::incr),
        "INCRBY" => grow(3, strings::incrby),
        "DECRBY" => grow(3, strings::decrby),
        "DEL" => write(-2, expiry::del),
        "EXISTS" => read(-2, expiry::exists),
        "TYPE" => read(2, expiry::kind),
        "PTTL" => read(2, expiry::pttl),
        "PEXPIRE" => write(-3, expiry::pexpire),
        "PEXPIREAT" => write(-3, expiry::pexpireat),
        "HGET" => read(3, hashes::hget),
        "HSET" => grow(-4, hashes::hset),
        "HDEL" => write(-3, hashes::hdel),
        "HGETALL" => read(2, hashes::hgetall),
        "HEXISTS" => read(3, hashes::hexists),
        "HKEYS" => read(2, hashes::hkeys),
        "HLEN" => read(2, hashes::hlen),
        "LINDEX" => read(3, lists::lindex),
        "LPOP" => write(-2, lists::lpop),
        "LPOS" => read(-3, lists::lpos),
        "LRANGE" => read(4, lists::lrange),
        "LREM" => write(4, lists::lrem),
        "RPUSH" => grow(-3, lists::rpush),
        "LLEN" => read(2, lists::llen),
        "ZADD" => grow(-4, sorted::zadd),
        "ZREM" => write(-3, sorted::zrem),
        "ZCARD" => read(2, sorted::zcard),
        "ZSCORE" => read(3, sorted::zscore),
        "ZINCRBY" => grow(4, sorted::zincrby),
        "ZRANGE" => read(-4, sorted::zrange),
        "ZRANGEBYSCORE" => read(-4, sorted::zrangebyscore),
        "ZRANGEBYLEX" => read(-4, sorted::zrangebylex),
        "ZREMRANGEBYSCORE" => write(4, sorted::zremrangebyscore),
        "TIME" => read(1, server::time),
        "PUBLISH" | "SPUBLISH" => read(3, server::publish),
        "INFO" => read(-1, server::info),
        "PING" => read(-1, server::ping),
        "ROLE" => read(1, server::role),
        "WAIT" => read(3, server::wait),
        "CONFIG" => read(-2, server::config),
        "DBSIZE" => read(1, server::dbsize),
        "FLUSHALL" => write(-1, server::flushall),
        _ => return None,
    })
}

/// Carries one out.
pub(super) fn run(db: &mut Db, request: &[Bytes], in_script: bool) -> Reply {
    let name = word(request, 0).to_ascii_uppercase();
    let Some(command) = find(&name) else { return unknown(&name) };
    let count = i32::try_from(request.len()).unwrap_or(i32::MAX);
    if count != command.words && (command.words > 0 || count < -command.words) {
        let name = name.to_ascii_lowercase();
        return Reply::Error(format!("ERR wrong number of arguments for '{name}' command"));
    }
    if command.kind == Kind::Grow && db.is_full && !(in_script && db.is_dirty) {
        db.refusals += 1;
        return Reply::error("OOM command not allowed when used memory > 'maxmemory'.");
    }
    if command.kind != Kind::Read && db.is_replica {
        return Reply::error("READONLY You can't write against a read only replica.");
    }
    db.is_dirty |= command.kind != Kind::Read;
    (command.run)(db, request).unwrap_or_else(|refusal| refusal)
}

fn unknown(name: &str) -> Reply {
    Reply::Error(format!("ERR unknown command '{name}', with args beginning with: "))
}

/// A word as text; empty if there is none.
pub(super) fn word(request: &[Bytes], at: usize) -> String {
    request.get(at).map_or_else(String::new, |word| String::from_utf8_lossy(word).into_owned())
}

/// A whole number in the form that Redis takes.
fn integer(bytes: &[u8]) -> Result<i64, Reply> {
    let text = std::str::from_utf8(bytes).map_err(|_| no_integer())?;
    let number: i64 = text.parse().map_err(|_| no_integer())?;
    if number.to_string() == text { Ok(number) } else { Err(no_integer()) }
}

fn syntax() -> Reply {
    Reply::error("ERR syntax error")
}

/// The part of `size` things that two indexes name, the last included.
fn span(first: i64, last: i64, size: usize) -> std::ops::Range<usize> {
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    let at = |index: i64| if index < 0 { (size + index).max(0) } else { index };
    let (first, last) = (at(first), if last < 0 { size + last } else { last }.min(size - 1));
    if first > last {
        return 0..0;
    }
    usize::try_from(first).unwrap_or(0)..usize::try_from(last + 1).unwrap_or(0)
}
