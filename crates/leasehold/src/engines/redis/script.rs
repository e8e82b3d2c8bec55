//! Scripts: sent once, then named by their digest.

use std::fmt;
use std::sync::OnceLock;

/// A script that servers keep.
pub(super) struct Script {
    text: &'static str,
    digest: OnceLock<String>,
}

impl Script {
    pub(super) const fn new(text: &'static str) -> Self {
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
pub(super) struct Call {
    pub(super) script: &'static Script,
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) args: Vec<Vec<u8>>,
}

impl Call {
    pub(super) const fn new(
        script: &'static Script,
        keys: Vec<Vec<u8>>,
        args: Vec<Vec<u8>>,
    ) -> Self {
        Self { script, keys, args }
    }

    /// By digest; `NOSCRIPT` if the server does not know it.
    pub(super) fn by_digest(&self) -> redis::Cmd {
        self.command("EVALSHA", self.script.digest())
    }

    /// With its text, which the server keeps from then on.
    pub(super) fn in_full(&self) -> redis::Cmd {
        self.command("EVAL", self.script.text())
    }

    fn command(&self, verb: &str, script: &str) -> redis::Cmd {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(self.keys.len());
        self.keys.iter().chain(&self.args).for_each(|arg| {
            command.arg(&arg[..]);
        });
        command
    }
}
