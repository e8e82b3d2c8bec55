//! Scripts: sent once, then named by their digest.

use std::fmt;
use std::sync::OnceLock;

use redis::{Arg, Cmd};

/// A script that servers keep.
pub(in crate::engines) struct Script {
    text: &'static str,
    digest: OnceLock<String>,
}

impl Script {
    pub(in crate::engines) const fn new(text: &'static str) -> Self {
        Self { text, digest: OnceLock::new() }
    }

    pub(super) const fn text(&self) -> &'static str {
        self.text
    }

    pub(super) fn digest(&self) -> &str {
        self.digest.get_or_init(|| redis::Script::new(self.text).get_hash().to_owned())
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Script({})", self.digest())
    }
}

/// One call of a script. All keys are of one hash slot.
#[derive(Debug, Clone)]
pub(in crate::engines) struct ScriptCall {
    pub(super) script: &'static Script,
    by_digest: Cmd,
    /// Whether replicas have something to learn from it.
    writes: bool,
}

impl ScriptCall {
    pub(in crate::engines) fn new(
        script: &'static Script,
        keys: Vec<Vec<u8>>,
        args: Vec<Vec<u8>>,
    ) -> Self {
        Self::written(script, keys.len(), |command| {
            command.arg(keys).arg(args);
        })
    }

    /// `write` adds so many keys, and then the arguments.
    pub(super) fn written(
        script: &'static Script,
        keys: usize,
        write: impl FnOnce(&mut Cmd),
    ) -> Self {
        let mut by_digest = redis::cmd("EVALSHA");
        by_digest.arg(script.digest()).arg(keys);
        write(&mut by_digest);
        Self { script, by_digest, writes: true }
    }

    /// It writes nothing: nobody asks which replicas have it.
    pub(super) fn only_reading(self) -> Self {
        Self { writes: false, ..self }
    }

    pub(super) const fn writes(&self) -> bool {
        self.writes
    }

    /// The first key.
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.words().nth(1)
    }

    /// By digest; `NOSCRIPT` if the server does not know it.
    pub(super) fn by_digest(&self) -> Cmd {
        self.by_digest.clone()
    }

    /// With its text, which the server keeps from then on.
    pub(super) fn in_full(&self) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(self.script.text());
        self.words().for_each(|word| {
            command.arg(word);
        });
        command
    }

    /// The number of keys, the keys and the arguments.
    fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.by_digest.args_iter().skip(2).filter_map(|word| match word {
            Arg::Simple(bytes) => Some(bytes),
            _ => None,
        })
    }
}
