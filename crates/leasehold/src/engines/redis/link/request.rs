//! A request: a script to be called, or another command.

use redis::Arg;

use super::super::script::ScriptCall;

/// Something to be asked.
#[derive(Clone)]
pub(in crate::engines::redis) enum RedisRequest {
    Call(ScriptCall),
    Command(redis::Cmd),
}

impl RedisRequest {
    /// Whether it matters how many replicas have what it does.
    pub(super) const fn is_counted(&self) -> bool {
        matches!(self, Self::Call(call) if call.writes())
    }

    /// The first key, or something that may stand for it: commands without a
    /// key can be asked anywhere.
    pub(super) fn key(&self) -> Option<&[u8]> {
        let command = match self {
            Self::Call(call) => return call.key(),
            Self::Command(command) => command,
        };
        let mut args = command.args_iter().map(|arg| match arg {
            Arg::Simple(bytes) => bytes,
            _ => b"0",
        });
        let verb = args.next()?.to_ascii_uppercase();
        args.nth(if verb.starts_with(b"EVAL") || verb.starts_with(b"FCALL") { 2 } else { 0 })
    }
}
