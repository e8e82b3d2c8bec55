//! What an error of the driver or the server means to a caller.

use redis::{ErrorKind as Cause, RedisError};

use crate::error::{Error, ErrorKind};

/// What a server's error code means: the kind, and what to do.
type CodeRow = (&'static str, ErrorKind, &'static str);

/// What is stored was written by a release that stores it in another way.
pub(in crate::engines::redis) const OTHER_LAYOUT: &str = "what is stored there has another layout: it is of another release of Leasehold; run the same \
     release everywhere, or give this one keys of its own (?prefix= or a namespace)";

static CODES: [CodeRow; 18] = [
    ("NOAUTH", Denied, "the server wants a password; give user:password@ before the host"),
    ("WRONGPASS", Denied, "the server refuses this user or password"),
    ("NOPERM", Denied, "the server's ACL forbids this; grant what the engine's page lists"),
    ("OOM", Unavailable, "the server is out of memory; raise maxmemory or free some"),
    ("MISCONF", Unavailable, "the server cannot save to disk and takes no writes; see its log"),
    ("NOREPLICAS", Unavailable, "the server has too few replicas (min-replicas-to-write)"),
    ("LOADING", Unavailable, "the server is loading its data; try again soon"),
    ("BUSY", Unavailable, "a long script keeps the server busy; SCRIPT KILL ends it"),
    ("MASTERDOWN", Unavailable, "this replica has lost its primary; try again soon"),
    ("CLUSTERDOWN", Unavailable, "no primary serves this part of the cluster; try again soon"),
    ("TRYAGAIN", Unavailable, "this part of the cluster is on the move; try again soon"),
    ("READONLY", Unavailable, "this server is a replica; name all servers: redis://h1,h2"),
    ("MOVED", Invalid, "the server is part of a cluster; open it as redis+cluster://"),
    ("ASK", Invalid, "the server is part of a cluster; open it as redis+cluster://"),
    ("WRONGTYPE", Invalid, "a key belongs to someone else; choose another namespace"),
    ("LAYOUT", Unsupported, OTHER_LAYOUT),
    ("NOSCRIPT", Unexpected, "the server forgets scripts as soon as it has them"),
    ("CROSSSLOT", Unexpected, "keys of one script are in different parts of the cluster"),
];

use ErrorKind::{Denied, Invalid, Unavailable, Unexpected, Unsupported};

/// The code of a server's error; `None` if the server did not answer.
pub(super) fn code(error: &RedisError) -> Option<&str> {
    error.code()
}

/// The server's answer, if it is an error.
pub(super) fn refused(cause: &RedisError) -> Error {
    let code = cause.code().unwrap_or_default();
    let detail = cause.detail().unwrap_or_default();
    let (kind, message) = meaning(code, detail);
    let error = Error::new(kind, message).caused_by(said(code, detail));
    if left_half(code, detail) { error.unknown() } else { error }
}

/// What went wrong with one verb of a call, in the words of its script.
pub(in crate::engines::redis) fn failed(why: &str) -> Error {
    let mut words = why.split([' ', ':', '-']);
    let row = |code: &str| CODES.iter().find(|row| row.0 == code);
    let forbidden = why.contains("The user executing the script");
    let known = if forbidden { row("NOPERM") } else { words.find_map(row) };
    let odd = "a script failed on what it found; do other programs write our keys?";
    let (kind, message) = known.map_or((Unexpected, odd), |row| (row.1, row.2));
    let error = Error::new(kind, message).caused_by(said("", why).trim_start());
    // What is of another layout is looked at before anything is done.
    if kind == Unsupported { error } else { error.unknown() }
}

/// No answer came to a request that was sent: it may have had an effect.
pub(super) fn unanswered(cause: &RedisError) -> Error {
    let (kind, message) = match cause.kind() {
        _ if cause.is_timeout() => (Unavailable, "no answer within the command time-out"),
        Cause::Io => (Unavailable, "the connection broke before the answer came"),
        Cause::Parse => (Unexpected, "the answer is not in the protocol of Redis"),
        _ => (Unexpected, "the driver refused the request"),
    };
    Error::new(kind, message).caused_by(cause).unknown()
}

/// No connection came about, so nothing was sent.
pub(super) fn unreachable(cause: &RedisError) -> Error {
    match cause.kind() {
        Cause::RESP3NotSupported => {
            Error::new(ErrorKind::Unsupported, "the server is too old; Redis 6 or newer is needed")
        }
        Cause::AuthenticationFailed => refused_login(),
        _ if code(cause).is_some() => refused_at_door(cause),
        _ => Error::new(Unavailable, "cannot connect").caused_by(cause),
    }
}

/// There is no connection now.
pub(super) fn away(why: &str) -> Error {
    Error::new(Unavailable, why)
}

fn refused_login() -> Error {
    Error::new(Denied, "the server refuses this user or password")
}

/// A refusal while the connection is made: nothing of ours was done.
fn refused_at_door(cause: &RedisError) -> Error {
    let code = cause.code().unwrap_or_default();
    let detail = cause.detail().unwrap_or_default();
    let (kind, message) = match (code, detail) {
        ("ERR", detail) if detail.contains("DB index") || detail.contains("SELECT") => {
            (Invalid, "the server has no such database")
        }
        ("ERR", detail) if detail.contains("max number of clients") => {
            (Unavailable, "the server has no room for one more client (maxclients)")
        }
        _ => meaning(code, detail),
    };
    Error::new(kind, message).caused_by(said(code, detail))
}

fn meaning(code: &str, detail: &str) -> (ErrorKind, &'static str) {
    let row = CODES.iter().find(|row| row.0 == code).or_else(|| inner(code, detail));
    row.map_or((Unexpected, "the server did not understand a request"), |row| (row.1, row.2))
}

/// An error in a script may hide its code in the text.
fn inner(code: &str, detail: &str) -> Option<&'static CodeRow> {
    if code != "ERR" || !in_script(detail) {
        return None;
    }
    // Redis 7.0 gives no code to what an ACL forbids in a script.
    if detail.starts_with("The user executing the script") {
        return CODES.iter().find(|row| row.0 == "NOPERM");
    }
    let mut words = detail.split([' ', ':', '-']);
    words.find_map(|word| CODES.iter().find(|row| row.0 == word))
}

/// Whether a script may have written before it failed. Redis refuses the first
/// write of a script for these three reasons, and never a later one; a script
/// looks at the layout of what it finds before it writes.
fn left_half(code: &str, detail: &str) -> bool {
    let refused =
        matches!(code, "READONLY" | "MISCONF" | "NOREPLICAS") || detail.contains("LAYOUT ");
    in_script(detail) && !refused
}

fn in_script(detail: &str) -> bool {
    detail.contains("script: ") || detail.contains("Error running script")
}

/// The server's words. It repeats arguments of commands it does not know, which
/// may be a password or a lease id.
fn said(code: &str, detail: &str) -> String {
    let detail = detail.split(", with args").next().unwrap_or_default();
    format!("{code} {detail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Effect;

    fn server(text: &str) -> RedisError {
        let bytes = format!("-{text}\r\n");
        redis::parse_redis_value(bytes.as_bytes()).unwrap().extract_error().unwrap_err()
    }

    fn judged(text: &str) -> (ErrorKind, Effect) {
        let error = refused(&server(text));
        (error.kind(), error.effect())
    }

    #[test]
    fn a_refusal_did_nothing() {
        for (text, kind) in [
            ("NOAUTH Authentication required.", Denied),
            ("WRONGPASS invalid username-password pair or user is disabled.", Denied),
            ("NOPERM this user has no permissions to run the 'get' command", Denied),
            ("OOM command not allowed when used memory > 'maxmemory'.", Unavailable),
            ("MISCONF Redis is configured to save RDB snapshots, but", Unavailable),
            ("NOREPLICAS Not enough good replicas to write.", Unavailable),
            ("LOADING Redis is loading the dataset in memory", Unavailable),
            ("BUSY Redis is busy running a script.", Unavailable),
            ("MASTERDOWN Link with MASTER is down", Unavailable),
            ("CLUSTERDOWN Hash slot not served", Unavailable),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Unavailable),
            ("READONLY You can't write against a read only replica.", Unavailable),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", Invalid),
            ("MOVED 3999 127.0.0.1:6381", Invalid),
            ("ERR syntax error", Unexpected),
        ] {
            assert_eq!(judged(text), (kind, Effect::NotApplied), "{text}");
        }
    }

    #[test]
    fn a_script_that_fails_half_way_may_have_written() {
        let tail = "script: 7b0, on @user_script:1.";
        let in_script = |text: &str| judged(&format!("{text} {tail}"));
        assert_eq!(in_script("OOM command not allowed"), (Unavailable, Effect::Unknown));
        assert_eq!(in_script("WRONGTYPE Operation against"), (Invalid, Effect::Unknown));
        assert_eq!(in_script("ERR wrong number of args"), (Unexpected, Effect::Unknown));
        assert_eq!(in_script("READONLY You can't write"), (Unavailable, Effect::NotApplied));
        let forbidden = "ERR The user executing the script can't run this command or subcommand";
        assert_eq!(in_script(forbidden), (Denied, Effect::Unknown));
        let old = "ERR Error running script (call to f_7b0): @user_script:1: WRONGTYPE Operation";
        assert_eq!(judged(old), (Invalid, Effect::Unknown));
    }

    #[test]
    fn what_another_release_stores_was_left_alone() {
        for text in ["LAYOUT 2", "ERR LAYOUT 2 script: 7b0, on @user_script:1."] {
            assert_eq!(judged(text), (Unsupported, Effect::NotApplied), "{text}");
        }
        let error = failed("LAYOUT 2");
        assert_eq!((error.kind(), error.effect()), (Unsupported, Effect::NotApplied));
        assert!(error.to_string().contains("run the same release"), "{error}");
    }

    #[test]
    fn a_verb_that_failed_says_why() {
        for (why, kind) in [
            ("OOM command not allowed when used memory > 'maxmemory'.", Unavailable),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", Invalid),
            ("@user_script: 12: -WRONGTYPE Operation against a key", Invalid),
            ("The user executing the script can't run this command or subcommand", Denied),
            ("user_script:12: attempt to index local 'record' (a number value)", Unexpected),
        ] {
            let error = failed(why);
            assert_eq!((error.kind(), error.effect()), (kind, Effect::Unknown), "{why}");
        }
    }

    #[test]
    fn arguments_are_not_repeated() {
        let text = "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'hunter2' ";
        for error in [refused(&server(text)), unreachable(&server(text))] {
            assert!(error.to_string().contains("HELLO"), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
